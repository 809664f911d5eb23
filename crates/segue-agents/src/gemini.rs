//! Gemini CLI.
//!
//! Gemini CLI speaks ACP itself; without its user interface it answers in JSON lines or in one JSON object. Its own
//! cleanup destroys sessions, so every transport is [`guarded`].

mod acp;
mod artifacts;
mod chat_dir;
mod chat_file;
mod cli_listing;
mod document;
mod failure;
mod guarded_agent;
mod headless;
mod json_output;
mod log;
mod messages;
mod process_guard;
mod reader;
mod retention;
mod schema;
mod session_guard;
mod session_head;
mod stream_json;
#[cfg(test)]
mod test_home;
mod tool_names;
mod unattended;
mod working_directory;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use segue_core::id::{NativeId, ProviderId};

use self::acp::GeminiAcpAgent;
pub use self::cli_listing::{GeminiListedSession, GeminiListing, parse_listing};
use self::guarded_agent::{GuardedAgent, ProcessLifetime};
use self::headless::{GeminiOutputFormat, HeadlessAgent};
pub use self::reader::GeminiReader;
pub(crate) use self::retention::read_retention;
use self::session_guard::SessionGuard;
pub use self::unattended::UnattendedGuard;
use crate::provider::select_transports;
use crate::{Agent, AgentHost, Provider, ProviderSettings, Transport};

/// Directory of the copies of Gemini sessions, within that of all agents.
const GEMINI_COPIES_DIR: &str = "gemini";

/// Creates the provider that drives Gemini CLI: over ACP, else in JSON lines, else in one JSON object per turn.
#[must_use]
pub fn gemini_provider(settings: &ProviderSettings, host: &AgentHost) -> Provider {
    let transports = settings.program.as_ref().map_or_else(Vec::new, |program| {
        let copies_root = host.agent_files_dir.join(GEMINI_COPIES_DIR);
        let guard = Arc::new(SessionGuard::new(
            settings.home.clone(),
            copies_root.clone(),
            host.system,
        ));
        let build_transport = |name, agent: Arc<dyn Agent>, lifetime| Transport {
            name,
            agent: Arc::new(GuardedAgent::new(agent, Arc::clone(&guard), lifetime)),
        };
        let build_headless = |format| {
            let guard = Arc::clone(&guard);
            Arc::new(HeadlessAgent::new(
                program.clone(),
                settings,
                host,
                guard,
                format,
            ))
        };
        let acp_agent = Arc::new(GeminiAcpAgent::new(
            program.clone(),
            settings,
            host,
            &copies_root,
        ));
        vec![
            build_transport("acp", acp_agent, ProcessLifetime::Connection),
            build_transport(
                "stream-json",
                build_headless(GeminiOutputFormat::JsonLines),
                ProcessLifetime::Turn,
            ),
            build_transport(
                "json",
                build_headless(GeminiOutputFormat::SingleObject),
                ProcessLifetime::Turn,
            ),
        ]
    });
    let transports = select_transports(transports, &settings.transports);
    Provider::new(ProviderId::gemini(), transports, settings.defaults.clone())
}

/// Removes the copies of a native session under [`AgentHost::agent_files_dir`]. Succeeds if no copies exist.
pub fn remove_session_copies(agent_files_dir: &Path, id: &NativeId) -> io::Result<()> {
    session_guard::remove_copies(&agent_files_dir.join(GEMINI_COPIES_DIR), id)
}

/// Returns the variables that are added to the environment of Gemini CLI.
fn build_env(settings: &ProviderSettings) -> Vec<(OsString, OsString)> {
    // A single process instead of two starts faster, and exits on SIGTERM.
    let own_vars = [("GEMINI_CLI_NO_RELAUNCH".into(), "true".into())];
    let user_vars = settings.env.iter();
    let user_vars = user_vars.map(|(name, value)| (name.into(), value.into()));
    own_vars.into_iter().chain(user_vars).collect()
}
