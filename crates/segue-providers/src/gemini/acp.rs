//! Gemini CLI over ACP.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::CapabilitySource;
use segue_core::id::ProviderId;

use crate::{
    AcpAgent, Agent, AgentError, AgentHost, OpenRequest, OpenedConnection, Probe, ProviderSettings,
};

/// Settings of an empty home. Without them, Gemini CLI reports usage statistics to Google and checks for updates,
/// whatever the user's own settings are.
const PROBE_SETTINGS_JSON: &str = r#"{
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
}
"#;

/// Gemini CLI, driven over ACP with `gemini --acp`.
pub(super) struct GeminiAcpAgent {
    agent: AcpAgent,
    model: Option<String>,
    mode: Option<String>,
    /// Path of an empty home, for a process that only reports its version and capabilities.
    probe_home: PathBuf,
}

impl GeminiAcpAgent {
    pub(super) fn new(
        program: PathBuf,
        settings: &ProviderSettings,
        host: &AgentHost,
        copies_root: &Path,
    ) -> Self {
        let mut agent = AcpAgent::new(super::GEMINI_PROVIDER.id(), program, settings, host);
        let mode = agent.mode.take();
        agent.env = super::build_env(settings);
        agent.usage_source = Some(CapabilitySource::Protocol);
        Self {
            model: agent.model.take(),
            mode,
            agent,
            probe_home: copies_root.join(".nowhere"),
        }
    }

    /// Returns the agent in a mode, `default` if none is given. Sets the mode with an argument, because Gemini CLI
    /// announces a mode that is set later as if the model had written it.
    fn agent_with_mode(&self, mode: Option<&str>) -> AcpAgent {
        let mut agent = self.agent.clone();
        let mode_args = ["--acp", "--approval-mode", mode.unwrap_or("default")];
        let args = mode_args.iter().map(Into::into);
        agent.args = args.chain(std::mem::take(&mut agent.args)).collect();
        agent
    }
}

#[async_trait]
impl Agent for GeminiAcpAgent {
    fn provider(&self) -> &ProviderId {
        &self.agent.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let mut agent = self.agent_with_mode(request.permitted_mode(self.mode.as_deref()));
        if let Some(model) = request.model.as_ref().or(self.model.as_ref()) {
            agent.args.extend(["-m".into(), model.into()]);
        }
        let request = OpenRequest {
            model: None,
            ..request.clone()
        };
        agent.open(&request).await
    }

    /// Probes in an empty home, because every start of Gemini CLI cleans up in its home.
    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let mut agent = self.agent_with_mode(self.mode.as_deref());
        create_probe_home(&self.probe_home)
            .map_err(|source| AgentError::not_started(&agent.program, source))?;
        let home = self.probe_home.clone().into_os_string();
        agent.env.push(("GEMINI_CLI_HOME".into(), home));
        let probe = agent.probe(timeout).await;
        // The files of the probe are no longer needed.
        let _ = fs::remove_dir_all(&self.probe_home);
        let mut probe = probe?;
        let capabilities = &mut probe.capabilities;
        capabilities.list = capabilities.list.or(Some(CapabilitySource::Files));
        capabilities.models = capabilities.models.or(Some(CapabilitySource::Flag));
        capabilities.modes = capabilities.modes.or(Some(CapabilitySource::Flag));
        capabilities.delete = capabilities.delete.or(Some(CapabilitySource::Flag));
        Ok(probe)
    }
}

fn create_probe_home(home: &Path) -> io::Result<()> {
    let settings_dir = home.join(".gemini");
    fs::create_dir_all(&settings_dir)?;
    fs::write(settings_dir.join("settings.json"), PROBE_SETTINGS_JSON)
}
