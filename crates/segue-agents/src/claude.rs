//! Claude Code.

use segue_core::ProviderId;

use crate::{Host, Provider, Settings};

/// How to drive Claude Code.
#[must_use]
pub fn claude(settings: &Settings, _host: &Host) -> Provider {
    Provider::new(ProviderId::claude(), Vec::new(), settings.defaults.clone())
}
