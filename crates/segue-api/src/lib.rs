//! Interface of segue for other programs: JSON shapes with their schemas, and the English text of segue's decisions.
//!
//! The command line, the MCP server and later the HTTP server share these types. Fields may be added to a shape; no
//! field is removed or changes its meaning.

pub mod text;
