//! Native sessions of the agents on this machine, read into segue's own types.
//!
//! Each agent stores its conversations in its own home, in its own format. A [`Reader`] implements one format: it finds
//! the sessions ([`Found`]), reads the [`Head`] of a session without reading the complete session, and reads its
//! [`Records`] after any [`Mark`]. The remaining code is shared by all agents: [`Fold`] converts records to
//! [`NativeTurn`]s. Only it implements the effect of a rewind or a replaced record on a conversation.
//!
//! [`Index`] lists and searches the sessions of all agents. It writes only its own file. [`Keeping`] returns the
//! artifacts of a session on disk; an [`Archive`] and a [`Trash`] contain copies of them.
//!
//! Readers never write. A line that can't be read is counted in [`Skipped`] and does not end the read. A file is never
//! in memory completely.

mod archive;
mod belongings;
mod catalog;
mod claude;
mod codex;
mod compression;
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
pub use project::{is_work_tree_root, project_at, project_key, work_tree_root};
#[cfg(test)]
pub(crate) use reader::turn;
pub use reader::{ReadError, Reader, conversation, in_full, outline, replay};
pub use record::{Back, Event, Record, Records, Said, Skipped, Start};
pub use since::{Since, since};
pub use tally::{Originals, Request, Tally};
pub use trash::Trash;
