//! Gemini CLI.
//!
//! Gemini CLI speaks ACP itself; without its user interface it answers in JSON lines or in one JSON object. Its own
//! cleanup destroys sessions, so every transport is [`guarded`].

mod acp;
mod answer;
mod chats;
mod entrust;
mod guarded;
mod headless;
mod keep;
mod record;
mod refusal;
mod stream;
mod tools;
mod vigil;
#[cfg(test)]
mod world;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use segue_core::id::{NativeId, ProviderId};

use self::acp::GeminiAcp;
pub use self::entrust::Entrust;
use self::guarded::{Guarded, Life};
use self::headless::{Format, Headless};
use self::keep::Keep;
use crate::provider::chosen;
use crate::{Agent, Host, Provider, Settings, Way};

/// Directory of the copies of Gemini sessions, within that of all agents.
const KEPT: &str = "gemini";

/// Creates the provider that drives Gemini CLI: over ACP, else in JSON lines, else in one JSON object per turn.
#[must_use]
pub fn gemini(settings: &Settings, host: &Host) -> Provider {
    let ways = settings.program.as_ref().map_or_else(Vec::new, |program| {
        let kept = host.kept.join(KEPT);
        let keep = Arc::new(Keep::new(settings.home.clone(), kept.clone(), host.outside));
        let guarded = |name, agent: Arc<dyn Agent>, life| Way {
            name,
            agent: Arc::new(Guarded::new(agent, Arc::clone(&keep), life)),
        };
        let headless = |format| {
            let keep = Arc::clone(&keep);
            Arc::new(Headless::new(program.clone(), settings, host, keep, format))
        };
        let acp = Arc::new(GeminiAcp::new(program.clone(), settings, host, &kept));
        vec![
            guarded("acp", acp, Life::Conversation),
            guarded("stream-json", headless(Format::Lines), Life::Turn),
            guarded("json", headless(Format::Whole), Life::Turn),
        ]
    });
    let ways = chosen(ways, &settings.transports);
    Provider::new(ProviderId::gemini(), ways, settings.defaults.clone())
}

/// Removes the copies of a native session under [`Host::kept`]. Succeeds if no copies exist.
pub fn forget(kept: &Path, id: &NativeId) -> io::Result<()> {
    keep::forget(&kept.join(KEPT), id)
}

/// Returns the variables that are added to the environment of Gemini CLI.
fn environment(settings: &Settings) -> Vec<(OsString, OsString)> {
    // A single process instead of two starts faster, and exits on SIGTERM.
    let own = [("GEMINI_CLI_NO_RELAUNCH".into(), "true".into())];
    let users = settings.env.iter();
    let users = users.map(|(name, value)| (name.into(), value.into()));
    own.into_iter().chain(users).collect()
}
