//! Sessions in the files of other programs: parsed from texts and rendered to texts, as plain data.
//!
//! This crate does not access the disk: the caller reads and writes the files. A session in transfer is a [`Portable`].
//! Fields of a file that segue has no equivalent for are stored in [`Kept`] and written again on export. A value that
//! cannot be read adds a remark, and never prevents reading the others.

pub mod dagent;
mod extra_fields;
mod import_match;
mod json_fields;
pub mod legacy;
pub mod markdown;
mod portable;

pub use extra_fields::Kept;
pub use import_match::{Lack, There};
pub use portable::{Line, Portable, Read, Recap};
