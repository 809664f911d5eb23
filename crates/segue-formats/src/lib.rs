//! Sessions in the files of other programs: parsed from texts and rendered to texts, as plain data.
//!
//! This crate does not access the disk: the caller reads and writes the files. A session in transfer is a
//! [`PortableSession`]. Fields of a file that segue has no equivalent for are stored in [`ExtraFields`] and written
//! again on export. A value that cannot be read adds a remark, and never prevents reading the others.

pub mod dagent;
mod extra_fields;
mod import_match;
mod json_fields;
pub mod legacy;
pub mod markdown;
mod message_entries;
mod portable;

pub use extra_fields::ExtraFields;
pub use import_match::{ExistingSession, ImportDifference};
pub use portable::{ParsedSession, PortableCheckpoint, PortableMessage, PortableSession};
