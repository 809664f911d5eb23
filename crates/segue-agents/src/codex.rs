//! Codex, driven over `codex app-server`, by `codex exec` or through an ACP adapter.

mod acp;
mod app_server;
mod exec;
mod failure;
mod items;
mod overrides;
mod program;
mod race;
mod reads;
mod rollout;
mod trust;
mod usage;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use segue_core::agent::{Capabilities, How};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::FailureClass;

use self::acp::Adapter;
use self::app_server::AppServer;
use self::exec::Exec;
use self::program::Version;
use self::rollout::Rollout;
use crate::classify::Refusal;
use crate::process::Leash;
use crate::provider::{Way, chosen};
use crate::{AgentError, Host, Probe, Provider, Settings, known, uuid};

/// Creates the provider that drives Codex.
#[must_use]
pub fn codex(settings: &Settings, host: &Host) -> Provider {
    let mut ways = Vec::new();
    if let Some(program) = &settings.program {
        let codex = Codex::new(program::real(program), settings, host);
        ways.push(Way {
            name: "app-server",
            agent: Arc::new(AppServer::new(codex.clone())),
        });
        ways.push(Way {
            name: "exec",
            agent: Arc::new(Exec::new(codex)),
        });
    }
    let adapter = settings.adapter.clone();
    if let Some(adapter) = adapter.or_else(|| known::find("codex-acp", &host.path)) {
        ways.push(Way {
            name: "acp",
            agent: Arc::new(Adapter::new(&adapter, settings, host)),
        });
    }
    Provider::new(
        ProviderId::codex(),
        chosen(ways, &settings.transports),
        settings.defaults.clone(),
    )
}

/// The Codex program and its settings.
#[derive(Debug, Clone)]
struct Codex {
    id: ProviderId,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    home: PathBuf,
    model: Option<String>,
    mode: Option<String>,
    leash: Leash,
    version: &'static str,
    now: fn() -> Timestamp,
}

impl Codex {
    fn new(program: PathBuf, settings: &Settings, host: &Host) -> Self {
        Self {
            id: ProviderId::codex(),
            program,
            args: settings.args.iter().map(Into::into).collect(),
            env: environment(settings),
            home: settings.home.clone(),
            model: settings.model.clone(),
            mode: settings.mode.clone(),
            leash: host.leash.clone(),
            version: host.version,
            now: host.outside.now,
        }
    }

    /// Queries the version of the program. Returns an error if the program reports none.
    async fn probe(
        &self,
        capabilities: Capabilities,
        timeout: Duration,
    ) -> Result<Probe, AgentError> {
        let said = program::version(&self.program, &self.env, &self.leash, timeout).await;
        let Some(said) = said else {
            return Err(AgentError::NotStarted {
                program: self.program.display().to_string(),
                source: std::io::Error::other("it did not say which version it is"),
            });
        };
        let version = Version::find(&said).map_or(said, |version| version.to_string());
        Ok(Probe {
            version: Some(version),
            capabilities,
        })
    }

    fn config(&self) -> String {
        config(&self.home)
    }
}

/// Returns the user's configuration file; empty if it cannot be read.
fn config(home: &Path) -> String {
    std::fs::read_to_string(home.join("config.toml")).unwrap_or_default()
}

fn environment(settings: &Settings) -> Vec<(OsString, OsString)> {
    let pairs = settings.env.iter();
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Capabilities of Codex over `app-server`; `exec` overrides some of them.
const CAPABILITIES: Capabilities = Capabilities {
    list: Some(How::Files),
    load: None,
    resume: Some(How::Protocol),
    continue_last: None,
    fork: Some(How::Protocol),
    delete: Some(How::Protocol),
    cancel: Some(How::Protocol),
    modes: Some(How::Protocol),
    models: Some(How::Protocol),
    usage: Some(How::Protocol),
    mcp: Some(How::Protocol),
};

/// Creates the error for a thread that cannot be resumed.
fn unknown(doing: &'static str, why: impl Into<String>) -> AgentError {
    AgentError::refused(doing, Refusal::new(FailureClass::SessionUnknown, why))
}

/// Returns the thread's files, or the reason why this version of Codex must not resume the thread. `Ok(None)` if the
/// thread has no files.
async fn checked(
    home: &Path,
    id: &NativeId,
    ours: impl Future<Output = Option<Version>>,
) -> Result<Option<Rollout>, String> {
    // `exec resume` silently starts a new thread for any other text.
    if !uuid::is_one(id.as_str()) {
        return Err(format!("{id} is not the id of a Codex thread"));
    }
    let Some(rollout) = Rollout::of(home, id).await else {
        return Ok(None);
    };
    // Every version can resume an old thread, so the version is not queried for one.
    if rollout.open_to(None).is_err() {
        rollout.open_to(ours.await)?;
    }
    Ok(Some(rollout))
}
