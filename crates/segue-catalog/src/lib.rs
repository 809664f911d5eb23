//! The native sessions of the agents on this machine, read in segue's own types.
//!
//! Each agent keeps its conversations in its own home, in its own format. A [`Reader`] knows one of them: where
//! the sessions are ([`Found`]), the [`Head`] of one without reading it whole, and its [`Records`] from any
//! [`Mark`] on. Everything else is the same for all: records are folded into [`NativeTurn`]s by [`Fold`], which
//! is the one place that knows what a rewind or a replaced record does to a conversation.
//!
//! [`Index`] is the one thing here that writes, and only its own file: it answers for all of them at once.
//!
//! A line that can't be read is counted in [`Skipped`] and never the end of a file; a file
//! is never in memory as a whole.

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
mod tally;

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
pub use project::project_key;
#[cfg(test)]
pub(crate) use reader::turn;
pub use reader::{ReadError, Reader, conversation, outline, replay};
pub use record::{Back, Event, Record, Records, Said, Skipped, Start};
pub use tally::{Originals, Request, Tally};
