//! Token counts of texts, with the o200k vocabulary that several current models share.
//!
//! The count is an estimate: agents count differently, and `segue_core::brief::calibrate` learns the difference from
//! the counts that they report. Loading the vocabulary takes time, so it is loaded at its first use, or earlier by
//! [`warm_up`]. Only this crate uses a tokenizer.

use std::sync::{Once, OnceLock};
use std::thread;

use tiktoken::CoreBpe;

static O200K_VOCABULARY: OnceLock<CoreBpe> = OnceLock::new();

fn vocabulary() -> &'static CoreBpe {
    O200K_VOCABULARY.get_or_init(tiktoken::encoding::o200k_base)
}

/// Returns the number of tokens in a text. The first call waits until the vocabulary is loaded.
#[must_use]
pub fn count(text: &str) -> u64 {
    count_with(vocabulary(), text)
}

/// Returns the number of tokens in a text; `None` if the vocabulary is not loaded yet. For a caller that cannot wait.
#[must_use]
pub fn count_if_ready(text: &str) -> Option<u64> {
    Some(count_with(O200K_VOCABULARY.get()?, text))
}

/// Loads the vocabulary on a separate thread, once. A concurrent [`count`] waits for it.
pub fn warm_up() {
    static LOAD_STARTED: Once = Once::new();
    LOAD_STARTED.call_once(|| {
        // If no thread can be started, the first count loads the vocabulary.
        let _ = thread::Builder::new()
            .name("tokens".to_owned())
            .spawn(vocabulary);
    });
}

fn count_with(vocabulary: &CoreBpe, text: &str) -> u64 {
    u64::try_from(vocabulary.count(text)).unwrap_or(u64::MAX)
}
