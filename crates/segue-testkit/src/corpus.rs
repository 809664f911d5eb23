//! Native sessions that nobody had: made up, in the formats of the real CLIs, the same in every run.
//!
//! [`Corpus`] writes a home with thousands of them for the benchmarks of the catalog. The writers of one session
//! each ([`claude`], [`codex`], [`gemini`]) are also used alone, to make one that is as large as is wanted.

pub mod claude;
pub mod codex;
pub(crate) mod draw;
pub mod gemini;
mod home;
mod session;
mod texts;
mod vocabulary;
mod written;

pub use draw::mixed;
pub use home::{Corpus, Counts};
pub use session::{Age, Extent, Session, uuid};
pub use texts::Texts;
pub use vocabulary::Vocabulary;
