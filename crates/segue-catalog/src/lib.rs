//! The native sessions of the agents on this machine, read in segue's own types.
//!
//! Each agent keeps its conversations in its own home, in its own format. A [`Reader`] knows one of them: where
//! the sessions are ([`Found`]), the [`Head`] of one without reading it whole, and its [`Records`] from any
//! [`Mark`] on. Everything else is the same for all: records are folded into [`NativeTurn`]s by [`Fold`], which
//! is the one place that knows what a rewind or a replaced record does to a conversation.
//!
//! [`Index`] answers for all of them at once; it writes only its own file. What a session consists of on the disk is
//! told by [`Keeping`]; an [`Archive`] and a [`Trash`] hold copies of it.
//!
//! No reader writes. A line that can't be read is counted in [`Skipped`] and never the end of a file; a file
//! is never in memory as a whole.

mod archive;
mod belongings;
mod catalog;
mod claude;
mod codex;
mod dialect;
mod fold;
mod found;
mod gemini;
mod head;
pub mod index;
mod injected;
mod json;
mod lines;
mod mark;
mod opencode;
mod project;
mod reader;
mod record;
pub mod retention;
mod since;
mod tally;
mod trash;

pub use archive::{
    Archive, Called, Entry, KeepError, Kept, Manifest, Packed, PutBack, Saved, Times, WentWith,
};
pub use belongings::{Belongings, Keeping, Piece, Role};
pub use catalog::{Catalog, NativeSession, Natives};
pub use claude::Claude;
pub use codex::Codex;
pub use fold::{Fold, NativeTurn};
pub use found::{Found, IdHint, Whereabouts};
pub use gemini::{Gemini, Listed, Listing, parse_listing};
pub use head::{Head, Kind};
pub use index::Index;
pub use mark::{Mark, MarkError};
pub use opencode::Opencode;
pub use project::{project_at, project_key};
#[cfg(test)]
pub(crate) use reader::turn;
pub use reader::{ReadError, Reader, conversation, in_full, outline, replay};
pub use record::{Back, Event, Record, Records, Said, Skipped, Start};
pub use since::{Since, since};
pub use tally::{Originals, Request, Tally};
pub use trash::Trash;
