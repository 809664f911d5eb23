//! Synthetic native sessions in the formats of the real CLIs, identical in every run.
//!
//! [`Corpus`] writes a home directory with thousands of sessions for the benchmarks of the catalog. The functions that
//! write a single session ([`claude`], [`codex`], [`gemini`]) are also used directly, to create a session of a given
//! size.

pub mod claude;
pub mod codex;
mod file_writer;
pub mod gemini;
mod home;
pub(crate) mod prng;
mod session;
mod texts;
mod vocabulary;

pub use home::{Corpus, CorpusCounts};
pub use prng::splitmix64;
pub use session::{CorpusFormat, CorpusSession, CorpusSize, uuid};
pub use texts::CorpusTexts;
pub use vocabulary::Vocabulary;
