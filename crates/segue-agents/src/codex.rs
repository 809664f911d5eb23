//! Codex.

use segue_core::ProviderId;

use crate::{Host, Provider, Settings};

/// How to drive Codex.
#[must_use]
pub fn codex(settings: &Settings, _host: &Host) -> Provider {
    Provider::new(ProviderId::codex(), Vec::new(), settings.defaults.clone())
}
