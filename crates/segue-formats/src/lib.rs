//! Sessions in the files of other programs: read from texts and written to texts, as plain data.
//!
//! Nothing here touches a disk: whoever calls brings the files, and takes them. A session on its way is a [`Portable`].
//! What a file says that has no place in it is kept aside ([`Kept`]) and written again; what can't be read is told, and
//! never an error for what is beside it.

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
