//! Gemini CLI over ACP.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::How;
use segue_core::id::ProviderId;

use crate::{AcpAgent, Agent, AgentError, Host, OpenRequest, Opening, Probe, Settings};

/// Settings of an empty home. Without them, Gemini CLI reports usage statistics to Google and checks for updates,
/// whatever the user's own settings are.
const QUIET: &str = r#"{
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
}
"#;

/// Gemini CLI, driven over ACP with `gemini --acp`.
pub(super) struct GeminiAcp {
    agent: AcpAgent,
    model: Option<String>,
    mode: Option<String>,
    /// Path of an empty home, for a process that only reports its version and capabilities.
    nowhere: PathBuf,
}

impl GeminiAcp {
    pub(super) fn new(program: PathBuf, settings: &Settings, host: &Host, kept: &Path) -> Self {
        let mut agent = AcpAgent::new(ProviderId::gemini(), program, settings, host);
        let mode = agent.mode.take();
        agent.env = super::environment(settings);
        agent.usage = Some(How::Protocol);
        Self {
            model: agent.model.take(),
            mode,
            agent,
            nowhere: kept.join(".nowhere"),
        }
    }

    /// Returns the agent in a mode, `default` if none is given. Sets the mode with an argument, because Gemini CLI
    /// announces a mode that is set later as if the model had written it.
    fn in_mode(&self, mode: Option<&str>) -> AcpAgent {
        let mut agent = self.agent.clone();
        let own = ["--acp", "--approval-mode", mode.unwrap_or("default")];
        let args = own.iter().map(Into::into);
        agent.args = args.chain(std::mem::take(&mut agent.args)).collect();
        agent
    }
}

#[async_trait]
impl Agent for GeminiAcp {
    fn provider(&self) -> &ProviderId {
        &self.agent.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let mut agent = self.in_mode(request.mode(self.mode.as_deref()));
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
        let mut agent = self.in_mode(self.mode.as_deref());
        furnish(&self.nowhere).map_err(|source| AgentError::NotStarted {
            program: agent.program.display().to_string(),
            source,
        })?;
        let home = self.nowhere.clone().into_os_string();
        agent.env.push(("GEMINI_CLI_HOME".into(), home));
        let probe = agent.probe(timeout).await;
        // The files of the probe are not needed any more.
        let _ = fs::remove_dir_all(&self.nowhere);
        let mut probe = probe?;
        let can = &mut probe.capabilities;
        can.list = can.list.or(Some(How::Files));
        can.models = can.models.or(Some(How::Flag));
        can.modes = can.modes.or(Some(How::Flag));
        can.delete = can.delete.or(Some(How::Flag));
        Ok(probe)
    }
}

fn furnish(home: &Path) -> io::Result<()> {
    let settings = home.join(".gemini");
    fs::create_dir_all(&settings)?;
    fs::write(settings.join("settings.json"), QUIET)
}
