//! Codex through an ACP adapter, guarded against threads that the adapter's Codex would damage.

mod command_kind;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{CapabilitySource, PermissionPolicy};
use segue_core::id::ProviderId;
use segue_core::session::FailureClass;

use self::command_kind::ReclassifiedConnection;
use super::driver::{load_resumable_rollout, read_config, unknown_thread_refusal};
use super::executable::{self, CodexVersion};
use super::{folder_trust, startup_retry};
use crate::error_class::AgentRefusal;
use crate::process::program;
use crate::{
    AcpAgent, Agent, AgentError, AgentHost, ListedNativeSession, OpenRequest, OpenedConnection,
    Probe, ProviderSettings,
};

/// Mode in which the adapter sends permission requests: for changes, and for commands that the model declares to need
/// more than read access. Other commands run in a sandbox without a request, and fail if they write. In the adapter's
/// default mode, a model decides.
const READ_ONLY_MODE: &str = "read-only";

/// Mode without restrictions, and its name in the older adapter (0.16).
const FULL_ACCESS_MODES: [&str; 2] = ["agent-full-access", "full-access"];

/// An ACP adapter for Codex.
pub(super) struct CodexAcpAgent {
    agent: AcpAgent,
    /// Whether the user chose the mode.
    has_configured_mode: bool,
    /// Version of the Codex that the adapter bundles; `None` if it cannot be determined.
    bundled_version: Option<CodexVersion>,
    /// Codex that the adapter is configured to use instead.
    codex_path: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    home: PathBuf,
}

impl CodexAcpAgent {
    pub(super) fn new(adapter: &Path, settings: &ProviderSettings, host: &AgentHost) -> Self {
        let path = executable::resolve_program(adapter);
        let has_embedded_codex = executable::has_embedded_codex(&path);
        let mut agent = AcpAgent::new(super::CODEX_PROVIDER.id(), path.clone(), settings, host);
        agent.mode.get_or_insert_with(|| READ_ONLY_MODE.to_owned());
        agent.usage_source = Some(CapabilitySource::Protocol);
        agent.can_fail_silently = can_fail_silently;
        let codex_path = settings.env.iter().find(|(name, _)| name == "CODEX_PATH");
        Self {
            agent,
            has_configured_mode: settings.mode.is_some(),
            bundled_version: executable::find_bundled_version(&path)
                .filter(|_| !has_embedded_codex),
            codex_path: codex_path.map(|(_, path)| path.into()),
            env: settings.environment(),
            home: settings.home.clone(),
        }
    }

    /// Returns the adapter's settings for a permission policy. `AllowAll` needs the unrestricted mode: in the asking
    /// mode, segue cannot allow what the adapter blocks without a request.
    fn agent_for_policy(&self, policy: PermissionPolicy, trust_decided: bool) -> AcpAgent {
        let mut agent = self.agent.clone();
        if policy == PermissionPolicy::AllowAll && !self.has_configured_mode {
            let [mode, older] = FULL_ACCESS_MODES;
            agent.mode = Some(mode.to_owned());
            // Codex records the folder as trusted when this older mode is selected.
            let fallback_mode = if trust_decided { older } else { READ_ONLY_MODE };
            agent.fallback_mode = Some(fallback_mode.to_owned());
        }
        agent
    }

    async fn codex_version(&self, timeout: Duration) -> Option<CodexVersion> {
        let Some(codex_path) = &self.codex_path else {
            return self.bundled_version;
        };
        let version_output =
            program::query_version(codex_path, &self.env, &self.agent.leash, timeout).await;
        CodexVersion::find(&version_output?)
    }
}

async fn open_reclassified(
    agent: &AcpAgent,
    request: &OpenRequest,
) -> Result<OpenedConnection, AgentError> {
    let opened = startup_retry::open_with_retries(|| agent.open(request)).await?;
    Ok(OpenedConnection {
        connection: Box::new(ReclassifiedConnection(opened.connection)),
        ..opened
    })
}

/// Returns `true` if an adapter of this version reports a failure as a normal answer without token counts. Older
/// adapters never report token counts, but do report failures.
fn can_fail_silently(version: Option<&str>) -> bool {
    let version = version.and_then(CodexVersion::find);
    version.is_some_and(|version| version.major() >= 2)
}

/// Returns a refusal if the adapter would mark the folder as trusted. Besides the requested thread, the adapter opens
/// one to generate a title, and only the user's configuration limits what that thread may do. If it may write, Codex
/// records the folder as trusted, and no setting of the adapter prevents that (observed with 2.6).
fn automatic_trust_refusal(config: &str, cwd: &Path, trust_decided: bool) -> Option<AgentRefusal> {
    let sandbox =
        folder_trust::configured_sandbox(config).filter(|sandbox| sandbox != READ_ONLY_MODE)?;
    let message = format!(
        "the Codex configuration sets sandbox_mode = {sandbox:?}, so the ACP adapter would record {} as trusted \
         without asking: decide in Codex whether to trust the directory, or use the `app-server` transport",
        cwd.display()
    );
    (!trust_decided).then(|| AgentRefusal::new(FailureClass::UntrustedFolder, message))
}

#[async_trait]
impl Agent for CodexAcpAgent {
    fn provider(&self) -> &ProviderId {
        self.agent.provider()
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let config = read_config(&self.home);
        let trust_decided = folder_trust::is_trust_decided(&request.cwd, &config);
        if let Some(refusal) = automatic_trust_refusal(&config, &request.cwd, trust_decided) {
            return Err(AgentError::from_refusal("session/new", refusal));
        }
        let mut agent = self.agent_for_policy(request.permissions, trust_decided);
        if request.permitted_mode(agent.mode.as_deref()).is_none() {
            agent.mode = Some(READ_ONLY_MODE.to_owned());
        }
        let Some(id) = &request.native_id else {
            return open_reclassified(&agent, request).await;
        };
        let Err(reason) =
            load_resumable_rollout(&self.home, id, self.codex_version(request.timeout)).await
        else {
            return open_reclassified(&agent, request).await;
        };
        let reason = request.accept_new_session("session/load", unknown_thread_refusal(reason))?;
        let fresh_request = OpenRequest {
            native_id: None,
            ..request.clone()
        };
        let mut opened = open_reclassified(&agent, &fresh_request).await?;
        opened.fallback_reason = Some(reason);
        Ok(opened)
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        self.agent.probe(timeout).await
    }

    async fn list_sessions(
        &self,
        cwd: &Path,
        timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        self.agent.list_sessions(cwd, timeout).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent_with_mode(mode: Option<&str>) -> CodexAcpAgent {
        let settings = ProviderSettings {
            mode: mode.map(str::to_owned),
            ..ProviderSettings::default()
        };
        CodexAcpAgent::new(
            Path::new("/nonexistent/codex-acp"),
            &settings,
            &crate::provider::test_host(),
        )
    }

    #[test]
    fn the_adapter_asks_unless_the_policy_allows_everything() {
        use PermissionPolicy::{AllowAll, AllowEdits, Ask, Deny};
        let cases = [
            (None, Ask, true, "read-only", None),
            (None, Deny, true, "read-only", None),
            (None, AllowEdits, true, "read-only", None),
            (
                None,
                AllowAll,
                true,
                "agent-full-access",
                Some("full-access"),
            ),
            (
                None,
                AllowAll,
                false,
                "agent-full-access",
                Some("read-only"),
            ),
            (Some("workspace-write"), Ask, true, "workspace-write", None),
            (
                Some("workspace-write"),
                AllowAll,
                true,
                "workspace-write",
                None,
            ),
        ];
        for (mode, policy, trust_decided, expected, fallback_mode) in cases {
            let agent = agent_with_mode(mode).agent_for_policy(policy, trust_decided);
            assert_eq!(agent.mode.as_deref(), Some(expected), "{mode:?} {policy:?}");
            assert_eq!(
                agent.fallback_mode.as_deref(),
                fallback_mode,
                "{mode:?} {policy:?}"
            );
        }
    }

    #[test]
    fn only_versions_that_report_token_counts_can_fail_silently() {
        let cases = [
            (None, false),
            (Some("0.16.0"), false),
            (Some("1.13.1"), false),
            (Some("2.0.0"), true),
            (Some("2.6.0"), true),
            (Some("new"), false),
        ];
        for (version, expected) in cases {
            assert_eq!(can_fail_silently(version), expected, "{version:?}");
        }
    }

    #[test]
    fn a_folder_that_would_become_trusted_is_refused() {
        let cases = [
            ("", false, false),
            ("sandbox_mode = \"read-only\"\n", false, false),
            ("sandbox_mode = \"workspace-write\"\n", false, true),
            ("sandbox_mode = \"danger-full-access\"\n", false, true),
            ("sandbox_mode = \"danger-full-access\"\n", true, false),
        ];
        for (config, trust_decided, expected) in cases {
            let refusal = automatic_trust_refusal(config, Path::new("/p"), trust_decided);
            assert_eq!(refusal.is_some(), expected, "{config}");
            if let Some(refusal) = refusal {
                assert_eq!(refusal.class, FailureClass::UntrustedFolder);
            }
        }
    }
}
