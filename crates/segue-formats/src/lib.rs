//! Sessions in the files of other programs: parsed from texts and rendered to texts, as plain data.
//!
//! This crate does not access the disk: the caller reads and writes the files. A session in transfer is a [`Portable`].
//! Fields of a file that segue has no equivalent for are stored in [`Kept`] and written again on export. A value that
//! cannot be read adds a remark, and never prevents reading the others.

pub mod dagent;
mod fields;
mod kept;
pub mod markdown;
pub mod old;
mod overlap;
mod portable;

pub use kept::Kept;
pub use overlap::{Lack, There};
pub use portable::{Line, Portable, Read, Recap};
