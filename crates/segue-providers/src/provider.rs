//! A provider: a program with one or more transports, which are tried in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::FailureClass;
use tracing::Instrument;
use tracing::field::Empty;

use crate::descriptor::ProviderDescriptor;
use crate::process::{ProgramSpec, program};
use crate::{
    Agent, AgentDefaults, AgentError, LeashCommand, ListedNativeSession, OpenRequest,
    OpenedConnection, Probe, TransportFallback, acp_provider, find_provider,
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
    pub search_path: OsString,
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

/// Returns a host for tests that start no program.
#[cfg(test)]
pub(crate) fn test_host() -> AgentHost {
    AgentHost {
        leash: LeashCommand {
            program: PathBuf::new(),
            args: Vec::new(),
        },
        version: "0",
        agent_files_dir: PathBuf::new(),
        search_path: OsString::new(),
        system: TEST_SYSTEM_FNS,
    }
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

impl ProviderSettings {
    /// Returns the ACP adapter: the configured one, else one that is installed. `None` if there is none.
    pub(crate) fn find_adapter(
        &self,
        descriptor: &ProviderDescriptor,
        host: &AgentHost,
    ) -> Option<PathBuf> {
        let adapters = descriptor.driver.as_ref()?.acp_adapters;
        let mut installed = adapters
            .iter()
            .filter_map(|name| program::find_program(name, &host.search_path));
        self.adapter.clone().or_else(|| installed.next())
    }

    /// Returns the additional environment variables in the form in which a program is started.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let pairs = self.env.iter();
        pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }
}

/// A provider's program, with the settings with which a driver starts it.
#[derive(Debug, Clone)]
pub(crate) struct AgentProgram {
    pub(crate) id: ProviderId,
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) home: PathBuf,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) leash: LeashCommand,
    /// Version of segue.
    pub(crate) client_version: &'static str,
    pub(crate) system: SystemFns,
}

impl AgentProgram {
    pub(crate) fn new(
        descriptor: &ProviderDescriptor,
        path: &Path,
        settings: &ProviderSettings,
        host: &AgentHost,
    ) -> Self {
        Self {
            id: descriptor.id(),
            path: path.to_owned(),
            args: settings.args.iter().map(Into::into).collect(),
            env: settings.environment(),
            home: settings.home.clone(),
            model: settings.model.clone(),
            mode: settings.mode.clone(),
            leash: host.leash.clone(),
            client_version: host.version,
            system: host.system,
        }
    }

    /// Returns the program with its environment, ready to start.
    pub(crate) fn spec<'a>(&'a self, args: &'a [OsString], cwd: &'a Path) -> ProgramSpec<'a> {
        ProgramSpec {
            path: &self.path,
            args,
            env: &self.env,
            cwd,
        }
    }

    /// Returns the requested model, else the configured one.
    pub(crate) fn model<'a>(&'a self, request: &'a OpenRequest) -> Option<&'a str> {
        request.model.as_deref().or(self.model.as_deref())
    }

    /// Returns the line that the program prints for `--version`. Fails if it prints none in time.
    pub(crate) async fn query_version(&self, timeout: Duration) -> Result<String, AgentError> {
        let version = program::query_version(&self.path, &self.env, &self.leash, timeout).await;
        version.ok_or_else(|| {
            let source = std::io::Error::other("the program did not report its version");
            AgentError::not_started(&self.path, source)
        })
    }
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

/// Builds the provider `id`: one that segue knows, or any other agent that speaks ACP (`acp:NAME`).
#[must_use]
pub fn build_provider(id: &ProviderId, settings: &ProviderSettings, host: &AgentHost) -> Provider {
    let descriptor = find_provider(id.as_str());
    match descriptor.and_then(|descriptor| descriptor.driver.as_ref()) {
        Some(driver) => (driver.build)(settings, host),
        None => acp_provider(id, settings, host),
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
