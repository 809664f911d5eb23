//! Codex through an adapter that speaks ACP, kept from threads that its Codex would ruin.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use segue_core::{How, PermissionPolicy, ProviderId};

use super::program::{self, Version};
use super::{checked, environment, race, unknown};
use crate::{AcpAgent, Agent, AgentError, Host, Listed, OpenRequest, Opening, Probe, Settings};

/// The mode in which the adapter asks its client: for changes, and for commands that the model says need more than
/// to read. Other commands run in a sandbox, unasked, and fail if they write. In its usual mode a model decides.
const ASKING: &str = "read-only";

/// An adapter.
pub(super) struct Adapter {
    agent: AcpAgent,
    /// The mode in which it may do everything, where the user did not choose one.
    unbound: Option<&'static str>,
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
        let unbound = match (&settings.mode, sealed) {
            (Some(_), _) => None,
            (None, true) => Some("full-access"),
            (None, false) => Some("agent-full-access"),
        };
        agent.mode.get_or_insert_with(|| ASKING.to_owned());
        agent.usage = Some(How::Protocol);
        // The older adapter gives no figures, and says when it fails.
        agent.fails_silently = !sealed;
        let uses = settings.env.iter().find(|(name, _)| name == "CODEX_PATH");
        Self {
            agent,
            unbound,
            brings: program::carried(&program).filter(|_| !sealed),
            uses: uses.map(|(_, path)| path.into()),
            env: environment(settings),
            home: settings.home.clone(),
        }
    }

    /// The adapter as it is to work under this policy: in the mode that asks, what nobody asks for can't be allowed.
    fn under(&self, policy: PermissionPolicy) -> AcpAgent {
        let mut agent = self.agent.clone();
        if let (PermissionPolicy::AllowAll, Some(mode)) = (policy, self.unbound) {
            agent.mode = Some(mode.to_owned());
        }
        agent
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
        let agent = self.under(request.permissions);
        let Some(id) = &request.native_id else {
            return race::until_won(|| agent.open(request)).await;
        };
        let Err(why) = checked(&self.home, id, self.version(request.timeout)).await else {
            return race::until_won(|| agent.open(request)).await;
        };
        if request.strict {
            return Err(unknown("session/load", why));
        }
        let anew = OpenRequest {
            native_id: None,
            ..request.clone()
        };
        let mut opening = race::until_won(|| agent.open(&anew)).await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Leash;

    fn adapter(mode: Option<&str>) -> Adapter {
        let settings = Settings {
            mode: mode.map(str::to_owned),
            ..Settings::default()
        };
        let host = Host {
            leash: Leash {
                program: PathBuf::new(),
                args: Vec::new(),
            },
            version: "0",
            kept: PathBuf::new(),
            path: OsString::new(),
            outside: crate::provider::OUTSIDE,
        };
        Adapter::new(Path::new("/nowhere/codex-acp"), &settings, &host)
    }

    #[test]
    fn it_asks_unless_everything_is_allowed() {
        use PermissionPolicy::{AllowAll, AllowEdits, Ask, Deny};
        let cases = [
            (None, Ask, "read-only"),
            (None, Deny, "read-only"),
            (None, AllowEdits, "read-only"),
            (None, AllowAll, "agent-full-access"),
            (Some("workspace-write"), Ask, "workspace-write"),
            (Some("workspace-write"), AllowAll, "workspace-write"),
        ];
        for (mode, policy, expected) in cases {
            let agent = adapter(mode).under(policy);
            assert_eq!(agent.mode.as_deref(), Some(expected), "{mode:?} {policy:?}");
        }
    }
}
