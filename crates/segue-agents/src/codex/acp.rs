//! Codex through an adapter that speaks ACP, kept from threads that its Codex would ruin.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use segue_core::{How, ProviderId};

use super::program::{self, Version};
use super::{checked, environment, unknown};
use crate::{AcpAgent, Agent, AgentError, Host, Listed, OpenRequest, Opening, Probe, Settings};

/// The mode in which the adapter asks its client. In its usual one it has a model decide.
const ASKING: &str = "read-only";

/// An adapter.
pub(super) struct Adapter {
    agent: AcpAgent,
    /// The version of the Codex that it brings, where that can be seen.
    brings: Option<Version>,
    /// The Codex that it is told to use instead.
    uses: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    home: PathBuf,
}

impl Adapter {
    pub(super) fn new(adapter: &Path, settings: &Settings, host: &Host) -> Self {
        let program = program::real(adapter);
        let sealed = program::is_sealed(&program);
        let mut agent = AcpAgent::new(ProviderId::codex(), program.clone(), settings, host);
        agent.mode.get_or_insert_with(|| ASKING.to_owned());
        agent.usage = Some(How::Protocol);
        // The older adapter gives no figures, and says when it fails.
        agent.fails_silently = !sealed;
        let uses = settings.env.iter().find(|(name, _)| name == "CODEX_PATH");
        Self {
            agent,
            brings: program::carried(&program).filter(|_| !sealed),
            uses: uses.map(|(_, path)| path.into()),
            env: environment(settings),
            home: settings.home.clone(),
        }
    }

    async fn version(&self, timeout: Duration) -> Option<Version> {
        let Some(used) = &self.uses else {
            return self.brings;
        };
        let said = program::version(used, &self.env, &self.agent.leash, timeout).await;
        Version::find(&said?)
    }
}

#[async_trait]
impl Agent for Adapter {
    fn provider(&self) -> &ProviderId {
        self.agent.provider()
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let Some(id) = &request.native_id else {
            return self.agent.open(request).await;
        };
        let Err(why) = checked(&self.home, id, self.version(request.timeout)).await else {
            return self.agent.open(request).await;
        };
        if request.strict {
            return Err(unknown("session/load", why));
        }
        let anew = OpenRequest {
            native_id: None,
            ..request.clone()
        };
        let mut opening = self.agent.open(&anew).await?;
        opening.why_not = Some(why);
        Ok(opening)
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        self.agent.probe(timeout).await
    }

    async fn list(&self, cwd: &Path, timeout: Duration) -> Result<Option<Vec<Listed>>, AgentError> {
        self.agent.list(cwd, timeout).await
    }
}
