//! The Codex program, its settings, and the checks that all its transports share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segue_core::agent::{Capabilities, CapabilitySource};
use segue_core::id::NativeId;
use segue_core::session::FailureClass;

use super::acp::CodexAcpAgent;
use super::app_server::AppServerAgent;
use super::exec::ExecAgent;
use super::executable::{self, CodexVersion};
use super::rollout::Rollout;
use crate::error_class::AgentRefusal;
use crate::provider::{AgentProgram, Transport, select_transports};
use crate::wire::uuid;
use crate::{AgentError, AgentHost, Probe, Provider, ProviderSettings};

/// Creates the provider that drives Codex.
#[must_use]
pub fn codex_provider(settings: &ProviderSettings, host: &AgentHost) -> Provider {
    let mut transports = Vec::new();
    if let Some(program) = &settings.program {
        let path = executable::resolve_program(program);
        let codex = AgentProgram::new(&super::CODEX_PROVIDER, &path, settings, host);
        transports.push(Transport {
            name: "app-server",
            agent: Arc::new(AppServerAgent::new(codex.clone())),
        });
        transports.push(Transport {
            name: "exec",
            agent: Arc::new(ExecAgent::new(codex)),
        });
    }
    if let Some(adapter) = settings.find_adapter(&super::CODEX_PROVIDER, host) {
        transports.push(Transport {
            name: "acp",
            agent: Arc::new(CodexAcpAgent::new(&adapter, settings, host)),
        });
    }
    Provider::new(
        super::CODEX_PROVIDER.id(),
        select_transports(transports, &settings.transports),
        settings.defaults.clone(),
    )
}

/// Queries the version of the program. Returns an error if the program reports none.
pub(super) async fn probe_program(
    program: &AgentProgram,
    capabilities: Capabilities,
    timeout: Duration,
) -> Result<Probe, AgentError> {
    let version_output = program.query_version(timeout).await?;
    let version =
        CodexVersion::find(&version_output).map_or(version_output, |version| version.to_string());
    Ok(Probe {
        version: Some(version),
        capabilities,
    })
}

/// Returns the user's configuration file; empty if it cannot be read.
pub(super) fn read_config(home: &Path) -> String {
    std::fs::read_to_string(home.join("config.toml")).unwrap_or_default()
}

/// Capabilities of Codex over `app-server`; `exec` overrides some of them.
pub(super) const APP_SERVER_CAPABILITIES: Capabilities = Capabilities {
    list: Some(CapabilitySource::Files),
    load: None,
    resume: Some(CapabilitySource::Protocol),
    continue_last: None,
    fork: Some(CapabilitySource::Protocol),
    delete: Some(CapabilitySource::Protocol),
    cancel: Some(CapabilitySource::Protocol),
    modes: Some(CapabilitySource::Protocol),
    models: Some(CapabilitySource::Protocol),
    usage: Some(CapabilitySource::Protocol),
    mcp: Some(CapabilitySource::Protocol),
};

/// Creates the refusal for a thread that cannot be resumed.
pub(super) fn unknown_thread_refusal(reason: impl Into<String>) -> AgentRefusal {
    AgentRefusal::new(FailureClass::SessionUnknown, reason)
}

/// Creates the error for a thread that cannot be resumed.
pub(super) fn unknown_thread_error(
    operation: &'static str,
    reason: impl Into<String>,
) -> AgentError {
    AgentError::from_refusal(operation, unknown_thread_refusal(reason))
}

/// Returns the thread's files, or the reason why this version of Codex must not resume the thread. `Ok(None)` if the
/// thread has no files.
pub(super) async fn load_resumable_rollout(
    home: &Path,
    id: &NativeId,
    codex_version: impl Future<Output = Option<CodexVersion>>,
) -> Result<Option<Rollout>, String> {
    // `exec resume` silently starts a new thread for any other text.
    if !uuid::is_uuid(id.as_str()) {
        return Err(format!("{id} is not a Codex thread id"));
    }
    let Some(rollout) = Rollout::load(home, id).await else {
        return Ok(None);
    };
    // Every version can resume an old thread, so the version is not queried for one.
    if rollout.check_resumable_by(None).is_err() {
        rollout.check_resumable_by(codex_version.await)?;
    }
    Ok(Some(rollout))
}
