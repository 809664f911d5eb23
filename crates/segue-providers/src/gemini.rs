//! Gemini CLI.
//!
//! Gemini CLI speaks ACP itself; without its user interface it answers in JSON lines or in one JSON object. Its own
//! cleanup destroys sessions, so every transport is guarded ([`guarded_agent`]).

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

use segue_core::id::NativeId;
use segue_core::session::FailureClass;

use self::acp::GeminiAcpAgent;
pub use self::cli_listing::{GeminiListedSession, GeminiListing, parse_listing};
use self::guarded_agent::{GuardedAgent, ProcessLifetime};
use self::headless::{GeminiOutputFormat, HeadlessAgent};
pub use self::reader::GeminiReader;
use self::session_guard::SessionGuard;
pub use self::unattended::UnattendedGuard;
use crate::descriptor::{NativeHome, ProviderDescriptor, ProviderDriver, SessionCommands};
use crate::provider::select_transports;
use crate::{Agent, AgentHost, Provider, ProviderSettings, Transport};

/// Gemini CLI.
pub(crate) static GEMINI_PROVIDER: ProviderDescriptor = ProviderDescriptor {
    name: "gemini",
    program: "gemini",
    driver: Some(ProviderDriver {
        transports: &["acp", "stream-json", "json"],
        acp_adapters: &[],
        build: gemini_provider,
    }),
    home: NativeHome::ParentVariable("GEMINI_CLI_HOME", ".gemini"),
    new_reader: |home, known_directory| {
        let known_directory = known_directory.to_str().map(str::to_owned);
        Arc::new(GeminiReader::new(home).with_known_directories(known_directory))
    },
    read_retention: retention::read_retention,
    session_commands: SessionCommands {
        resume: &["--resume"],
        // Every start of Gemini CLI may delete other sessions, and it exits successfully even if it deleted nothing.
        delete: None,
        import: None,
        unarchive: None,
    },
    has_file_open_while_in_use: false,
    injected_prefixes: &["<session_context>", "<hook_context>"],
    failure_patterns: &[
        (
            FailureClass::UntrustedFolder,
            &["not running in a trusted directory"],
        ),
        (FailureClass::NotLoggedIn, &["invalid auth method"]),
        (FailureClass::NotLoggedIn, &["please set an auth method"]),
        (FailureClass::SessionUnknown, &["no previous sessions"]),
        (
            FailureClass::SessionUnknown,
            &["invalid session identifier"],
        ),
    ],
};

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
            Arc::new(HeadlessAgent::new(program, settings, host, guard, format))
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
    Provider::new(GEMINI_PROVIDER.id(), transports, settings.defaults.clone())
}

/// Removes the copies of a native session under [`AgentHost::agent_files_dir`]. Succeeds if no copies exist.
pub fn remove_session_copies(agent_files_dir: &Path, id: &NativeId) -> io::Result<()> {
    session_guard::remove_copies(&agent_files_dir.join(GEMINI_COPIES_DIR), id)
}

/// Returns the variables that are added to the environment of Gemini CLI.
fn build_env(settings: &ProviderSettings) -> Vec<(OsString, OsString)> {
    // A single process instead of two starts faster, and exits on SIGTERM.
    let mut env = vec![("GEMINI_CLI_NO_RELAUNCH".into(), "true".into())];
    env.extend(settings.environment());
    env
}
