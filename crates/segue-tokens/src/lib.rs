//! How many tokens a text has, by the vocabulary that several current models have in common (o200k).
//!
//! It is an estimate: agents count in their own ways, which `segue_core::calibrate` learns from what they report.
//! The vocabulary takes a while to load, so it is loaded when it is first needed, or by [`warm_up`] before that. The
//! only crate that sees a tokenizer.

use std::sync::{Once, OnceLock};
use std::thread;

use tiktoken::CoreBpe;

static VOCABULARY: OnceLock<CoreBpe> = OnceLock::new();

fn vocabulary() -> &'static CoreBpe {
    VOCABULARY.get_or_init(tiktoken::encoding::o200k_base)
}

/// How many tokens a text has. The first call waits until the vocabulary is loaded.
#[must_use]
pub fn count(text: &str) -> u64 {
    counted(vocabulary(), text)
}

/// How many tokens a text has, or none if the vocabulary is not loaded yet: for whoever can't wait.
#[must_use]
pub fn count_if_ready(text: &str) -> Option<u64> {
    Some(counted(VOCABULARY.get()?, text))
}

/// Loads the vocabulary on a thread of its own, once. Whoever counts meanwhile waits for it.
pub fn warm_up() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // Where no thread can be had, whoever counts first loads it.
        let _ = thread::Builder::new()
            .name("tokens".to_owned())
            .spawn(vocabulary);
    });
}

fn counted(vocabulary: &CoreBpe, text: &str) -> u64 {
    u64::try_from(vocabulary.count(text)).unwrap_or(u64::MAX)
}
