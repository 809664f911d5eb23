//! Codex through an ACP adapter, guarded against threads that the adapter's Codex would damage.

mod doubt;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::{How, PermissionPolicy};
use segue_core::id::ProviderId;
use segue_core::session::FailureClass;

use self::doubt::Doubted;
use super::program::{self, Version};
use super::{checked, config, environment, race, trust, unknown};
use crate::classify::Refusal;
use crate::{AcpAgent, Agent, AgentError, Host, Listed, OpenRequest, Opening, Probe, Settings};

/// Mode in which the adapter sends permission requests: for changes, and for commands that the model declares to need
/// more than read access. Other commands run in a sandbox without a request, and fail if they write. In the adapter's
/// default mode, a model decides.
const ASKING: &str = "read-only";

/// Mode without restrictions, and its name in the older adapter (0.16).
const UNBOUND: [&str; 2] = ["agent-full-access", "full-access"];

/// An ACP adapter for Codex.
pub(super) struct Adapter {
    agent: AcpAgent,
    /// Whether the user chose the mode.
    mode_is_chosen: bool,
    /// Version of the Codex that the adapter bundles; `None` if it cannot be determined.
    brings: Option<Version>,
    /// Codex that the adapter is configured to use instead.
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
        agent.fails_silently = fails_silently;
        let uses = settings.env.iter().find(|(name, _)| name == "CODEX_PATH");
        Self {
            agent,
            mode_is_chosen: settings.mode.is_some(),
            brings: program::carried(&program).filter(|_| !sealed),
            uses: uses.map(|(_, path)| path.into()),
            env: environment(settings),
            home: settings.home.clone(),
        }
    }

    /// Returns the adapter's settings for a permission policy. `AllowAll` needs the unrestricted mode: in the asking
    /// mode, segue cannot allow what the adapter blocks without a request.
    fn under(&self, policy: PermissionPolicy, decided: bool) -> AcpAgent {
        let mut agent = self.agent.clone();
        if policy == PermissionPolicy::AllowAll && !self.mode_is_chosen {
            let [mode, older] = UNBOUND;
            agent.mode = Some(mode.to_owned());
            // Codex records the folder as trusted when this older mode is selected.
            let otherwise = if decided { older } else { ASKING };
            agent.mode_otherwise = Some(otherwise.to_owned());
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

async fn try_to_open(agent: &AcpAgent, request: &OpenRequest) -> Result<Opening, AgentError> {
    let opening = race::until_won(|| agent.open(request)).await?;
    Ok(Opening {
        conversation: Box::new(Doubted(opening.conversation)),
        ..opening
    })
}

/// Returns `true` if an adapter of this version reports a failure as a normal answer without token counts. Older
/// adapters never report token counts, but do report failures.
fn fails_silently(version: Option<&str>) -> bool {
    let version = version.and_then(Version::find);
    version.is_some_and(|version| version.major() >= 2)
}

/// Returns a refusal if the adapter would mark the folder as trusted. Besides the requested thread, the adapter opens
/// one to generate a title, and only the user's configuration limits what that thread may do. If it may write, Codex
/// records the folder as trusted, and no setting of the adapter prevents that (observed with 2.6).
fn would_be_trusted(config: &str, cwd: &Path, decided: bool) -> Option<Refusal> {
    let sandbox = trust::sandbox(config).filter(|sandbox| sandbox != ASKING)?;
    let message = format!(
        "your configuration of Codex says sandbox_mode = {sandbox:?}, with which its ACP adapter would note down that \
         you trust {}: decide about the folder first, or let segue talk to Codex by `app-server`",
        cwd.display()
    );
    (!decided).then(|| Refusal::new(FailureClass::UntrustedFolder, message))
}

#[async_trait]
impl Agent for Adapter {
    fn provider(&self) -> &ProviderId {
        self.agent.provider()
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let config = config(&self.home);
        let decided = trust::is_decided(&request.cwd, &config);
        if let Some(refusal) = would_be_trusted(&config, &request.cwd, decided) {
            return Err(AgentError::refused("session/new", refusal));
        }
        let mut agent = self.under(request.permissions, decided);
        if request.mode(agent.mode.as_deref()).is_none() {
            agent.mode = Some(ASKING.to_owned());
        }
        let Some(id) = &request.native_id else {
            return try_to_open(&agent, request).await;
        };
        let Err(why) = checked(&self.home, id, self.version(request.timeout)).await else {
            return try_to_open(&agent, request).await;
        };
        if request.strict {
            return Err(unknown("session/load", why));
        }
        let anew = OpenRequest {
            native_id: None,
            ..request.clone()
        };
        let mut opening = try_to_open(&agent, &anew).await?;
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
        for (mode, policy, decided, expected, otherwise) in cases {
            let agent = adapter(mode).under(policy, decided);
            assert_eq!(agent.mode.as_deref(), Some(expected), "{mode:?} {policy:?}");
            assert_eq!(
                agent.mode_otherwise.as_deref(),
                otherwise,
                "{mode:?} {policy:?}"
            );
        }
    }

    #[test]
    fn only_the_versions_that_give_figures_are_doubted_without_them() {
        let cases = [
            (None, false),
            (Some("0.16.0"), false),
            (Some("1.13.1"), false),
            (Some("2.0.0"), true),
            (Some("2.6.0"), true),
            (Some("new"), false),
        ];
        for (version, expected) in cases {
            assert_eq!(fails_silently(version), expected, "{version:?}");
        }
    }

    #[test]
    fn a_folder_that_would_be_trusted_is_not_worked_in() {
        let cases = [
            ("", false, false),
            ("sandbox_mode = \"read-only\"\n", false, false),
            ("sandbox_mode = \"workspace-write\"\n", false, true),
            ("sandbox_mode = \"danger-full-access\"\n", false, true),
            ("sandbox_mode = \"danger-full-access\"\n", true, false),
        ];
        for (config, decided, expected) in cases {
            let refusal = would_be_trusted(config, Path::new("/p"), decided);
            assert_eq!(refusal.is_some(), expected, "{config}");
            if let Some(refusal) = refusal {
                assert_eq!(refusal.class, FailureClass::UntrustedFolder);
            }
        }
    }
}
