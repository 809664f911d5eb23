//! Interface of segue for other programs: JSON shapes with their schemas, and the English text of segue's decisions.
//!
//! The command line, the MCP server and later the HTTP server share these types. Fields may be added to a shape; no
//! field is removed or changes its meaning. [`schema::SCHEMAS`] lists the shapes by name.

pub mod archive;
pub mod brief;
pub mod chat;
pub mod checkpoint;
pub mod config;
pub mod delete;
pub mod doctor;
pub mod error;
pub mod feed;
pub mod index;
pub mod mcp;
pub mod resume;
pub mod revert;
pub mod role;
pub mod schema;
pub mod search;
pub mod session;
pub mod stats;
pub mod text;
pub mod transcript;
pub mod transfer;
