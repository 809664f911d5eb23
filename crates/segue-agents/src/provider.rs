//! A provider: a program with one or more transports, which are tried in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::id::ProviderId;

use crate::{Agent, AgentError, Defaults, Leash, Listed, OpenRequest, Opening, Probe};

/// Environment that segue provides to agents.
#[derive(Debug, Clone)]
pub struct Host {
    /// Command that starts the leash.
    pub leash: Leash,
    /// Version of segue that the handshake reports to agents.
    pub version: &'static str,
    /// Directory for copies of native sessions that need protection.
    pub kept: PathBuf,
    /// Value of `PATH` with which programs are found.
    pub path: std::ffi::OsString,
    /// Clock and randomness.
    pub outside: Outside,
}

/// Clock and randomness, which the caller provides because this library has none of its own.
#[derive(Debug, Clone, Copy)]
pub struct Outside {
    /// Function that returns the current time.
    pub now: fn() -> Timestamp,
    /// Function that returns a random number.
    pub random: fn() -> u32,
}

#[cfg(test)]
pub(crate) const OUTSIDE: Outside = Outside {
    now: || Timestamp::UNIX_EPOCH,
    random: || 7,
};

/// Configuration of a provider by the user.
#[derive(Debug, Clone, Default)]
pub struct Settings {
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
    pub defaults: Defaults,
}

/// A transport to a program.
#[derive(Clone)]
pub struct Way {
    /// Name of the transport in the configuration.
    pub name: &'static str,
    /// Agent that uses this transport.
    pub agent: Arc<dyn Agent>,
}

/// A program with all its transports.
pub struct Provider {
    id: ProviderId,
    ways: Vec<Way>,
    defaults: Defaults,
    program: Option<PathBuf>,
}

impl Provider {
    /// Creates a provider with these transports, the preferred ones first.
    #[must_use]
    pub fn new(id: ProviderId, ways: Vec<Way>, defaults: Defaults) -> Self {
        Self {
            id,
            ways,
            defaults,
            program: None,
        }
    }

    /// Sets the path of the provider's program; `None` if unknown.
    #[must_use]
    pub fn at(mut self, program: Option<&PathBuf>) -> Self {
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
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }
}

/// Returns the transports in `all` that `wanted` names, in the order of `wanted`; all of them if it names none.
pub(crate) fn chosen(all: Vec<Way>, wanted: &[String]) -> Vec<Way> {
    if wanted.is_empty() {
        return all;
    }
    wanted
        .iter()
        .filter_map(|name| all.iter().find(|way| way.name == name).cloned())
        .collect()
}

#[async_trait]
impl Agent for Provider {
    fn provider(&self) -> &ProviderId {
        &self.id
    }

    /// Opens a connection over the first transport that works. Tries the next one only if the program cannot be started
    /// or does not complete the handshake.
    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let mut first_error = None;
        for way in &self.ways {
            match way.agent.open(request).await {
                Err(error) if error.is_about_the_way() => {
                    first_error.get_or_insert((way.name, error));
                }
                Ok(opening) => {
                    let fell_back = first_error.map(|(name, error)| {
                        format!(
                            "talking to {} by {}, since {name} does not work: {error}",
                            self.id, way.name
                        )
                    });
                    return Ok(Opening {
                        fell_back,
                        ..opening
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Err(first_error.map_or_else(|| self.nowhere(), |(_, error)| error))
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        match self.ways.first() {
            Some(way) => way.agent.probe(timeout).await,
            None => Err(self.nowhere()),
        }
    }

    async fn list(&self, cwd: &Path, timeout: Duration) -> Result<Option<Vec<Listed>>, AgentError> {
        for way in &self.ways {
            match way.agent.list(cwd, timeout).await {
                Ok(None) => {}
                Err(error) if error.is_about_the_way() => {}
                outcome => return outcome,
            }
        }
        Ok(None)
    }

    fn branches(&self) -> bool {
        self.ways.first().is_some_and(|way| way.agent.branches())
    }

    fn takes_tools(&self) -> bool {
        self.ways.first().is_some_and(|way| way.agent.takes_tools())
    }

    fn defaults(&self) -> Defaults {
        self.defaults.clone()
    }

    fn is_there(&self) -> bool {
        let program = self.program.as_ref();
        program.is_none_or(|program| program.is_file())
    }
}

impl Provider {
    fn nowhere(&self) -> AgentError {
        AgentError::NotStarted {
            program: self.id.to_string(),
            source: std::io::Error::other("it was not found on this machine"),
        }
    }
}
