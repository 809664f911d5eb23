//! A provider: a program with one or more transports, which are tried in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::FailureClass;
use tracing::Instrument;
use tracing::field::Empty;

use crate::{
    Agent, AgentDefaults, AgentError, LeashCommand, ListedNativeSession, OpenRequest,
    OpenedConnection, Probe, TransportFallback,
};

/// Environment that segue provides to agents.
#[derive(Debug, Clone)]
pub struct AgentHost {
    /// Command that starts the leash.
    pub leash: LeashCommand,
    /// Version of segue that the handshake reports to agents.
    pub version: &'static str,
    /// Directory for copies of native sessions that need protection.
    pub agent_files_dir: PathBuf,
    /// Value of `PATH` with which programs are found.
    pub search_path: std::ffi::OsString,
    /// Clock and randomness.
    pub system: SystemFns,
}

/// Clock and randomness, which the caller provides because this library has none of its own.
#[derive(Debug, Clone, Copy)]
pub struct SystemFns {
    /// Function that returns the current time.
    pub now: fn() -> Timestamp,
    /// Function that returns a random number.
    pub random: fn() -> u32,
}

#[cfg(test)]
pub(crate) const TEST_SYSTEM_FNS: SystemFns = SystemFns {
    now: || Timestamp::UNIX_EPOCH,
    random: || 7,
};

/// Configuration of a provider by the user.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// Path of the program; `None` if it was not found.
    pub program: Option<PathBuf>,
    /// Path of the ACP adapter, if it is a separate program.
    pub adapter: Option<PathBuf>,
    /// Names of the transports, in the order in which they are tried; empty for all of them in the default order.
    pub transports: Vec<String>,
    /// Model, by the agent's own name.
    pub model: Option<String>,
    /// Mode, by the agent's own name, which replaces the mode in which the agent sends permission requests.
    pub mode: Option<String>,
    /// Additional arguments of the program.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Directory in which the program stores its sessions.
    pub home: PathBuf,
    /// Values that apply if the caller gives none.
    pub defaults: AgentDefaults,
}

/// A transport to a program.
#[derive(Clone)]
pub struct Transport {
    /// Name of the transport in the configuration.
    pub name: &'static str,
    /// Agent that uses this transport.
    pub agent: Arc<dyn Agent>,
}

/// A program with all its transports.
pub struct Provider {
    id: ProviderId,
    transports: Vec<Transport>,
    defaults: AgentDefaults,
    program: Option<PathBuf>,
}

impl Provider {
    /// Creates a provider with these transports, the preferred ones first.
    #[must_use]
    pub fn new(id: ProviderId, transports: Vec<Transport>, defaults: AgentDefaults) -> Self {
        Self {
            id,
            transports,
            defaults,
            program: None,
        }
    }

    /// Sets the path of the provider's program; `None` if unknown.
    #[must_use]
    pub fn with_program(mut self, program: Option<&PathBuf>) -> Self {
        self.program = program.cloned();
        self
    }

    /// Returns the path of the program; `None` if unknown.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Returns the transports, the preferred ones first.
    #[must_use]
    pub fn transports(&self) -> &[Transport] {
        &self.transports
    }
}

/// Logs why an agent starts a new native session instead of the requested one. The text of the reason is not logged,
/// because it is the agent's.
pub(crate) fn log_new_session_instead(class: FailureClass) {
    let class = class.as_str();
    tracing::warn!(class, "native session not resumed: starting a new one");
}

/// Returns the transports in `available` that `requested` names, in the order of `requested`; all of them if it is
/// empty.
pub(crate) fn select_transports(available: Vec<Transport>, requested: &[String]) -> Vec<Transport> {
    if requested.is_empty() {
        return available;
    }
    requested
        .iter()
        .filter_map(|name| {
            available
                .iter()
                .find(|transport| transport.name == name)
                .cloned()
        })
        .collect()
}

#[async_trait]
impl Agent for Provider {
    fn provider(&self) -> &ProviderId {
        &self.id
    }

    /// Opens a connection over the first transport that works. Tries the next one only if the program cannot be started
    /// or does not complete the handshake.
    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let mut first_error = None;
        for transport in &self.transports {
            match self.open_transport(transport, request).await {
                Err(error) if error.is_transport_failure() => {
                    first_error.get_or_insert((transport.name, error));
                }
                Ok(opened) => {
                    let transport_fallback = first_error.map(|(name, error)| TransportFallback {
                        transport: transport.name,
                        failed_transport: name,
                        error: error.to_string(),
                    });
                    return Ok(OpenedConnection {
                        transport_fallback,
                        ..opened
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Err(first_error.map_or_else(|| self.not_found_error(), |(_, error)| error))
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        match self.transports.first() {
            Some(transport) => transport.agent.probe(timeout).await,
            None => Err(self.not_found_error()),
        }
    }

    async fn list_sessions(
        &self,
        cwd: &Path,
        timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        for transport in &self.transports {
            match transport.agent.list_sessions(cwd, timeout).await {
                Ok(None) => {}
                Err(error) if error.is_transport_failure() => {}
                outcome => return outcome,
            }
        }
        Ok(None)
    }

    fn can_branch(&self) -> bool {
        self.transports
            .first()
            .is_some_and(|transport| transport.agent.can_branch())
    }

    fn accepts_mcp_servers(&self) -> bool {
        self.transports
            .first()
            .is_some_and(|transport| transport.agent.accepts_mcp_servers())
    }

    fn defaults(&self) -> AgentDefaults {
        self.defaults.clone()
    }

    fn is_installed(&self) -> bool {
        let program = self.program.as_ref();
        program.is_none_or(|program| program.is_file())
    }
}

impl Provider {
    /// Opens a connection over one transport, in a span for the log.
    async fn open_transport(
        &self,
        transport: &Transport,
        request: &OpenRequest,
    ) -> Result<OpenedConnection, AgentError> {
        let span = tracing::info_span!(
            "provider",
            provider = %self.id,
            transport = transport.name,
            pid = Empty,
            native_id = Empty,
        );
        let result = transport.agent.open(request).instrument(span.clone()).await;
        let requested_id = request.native_id.as_ref().map(NativeId::as_str);
        match &result {
            Ok(opened) if !span.is_disabled() => {
                let connection = &opened.connection;
                let process = connection.process_identity();
                span.record("pid", process.map(|process| process.pid));
                span.record("native_id", connection.native_id().map(NativeId::as_str));
                tracing::info!(
                    parent: &span,
                    mode = opened.open_mode.as_str(),
                    requested_id,
                    is_unavailable = opened.session_unavailable,
                    "agent opened"
                );
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(
                parent: &span,
                // The span is missing at the level `warn`.
                provider = %self.id,
                transport = transport.name,
                class = error.class().as_str(),
                requested_id,
                "agent not opened"
            ),
        }
        result
    }

    fn not_found_error(&self) -> AgentError {
        AgentError::NotStarted {
            program: self.id.to_string(),
            source: std::io::Error::other("program not found"),
        }
    }
}
