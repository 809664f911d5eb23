//! Gemini CLI.

mod chats;
mod keep;
mod record;

use segue_core::ProviderId;

use crate::{Host, Provider, Settings};

/// How to drive Gemini CLI.
#[must_use]
pub fn gemini(settings: &Settings, _host: &Host) -> Provider {
    Provider::new(ProviderId::gemini(), Vec::new(), settings.defaults.clone())
}
