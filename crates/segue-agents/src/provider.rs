//! A provider: one or more ways to talk to the same program, tried in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::ProviderId;

use crate::{Agent, AgentError, Defaults, Leash, Listed, OpenRequest, Opening, Probe};

/// Where segue runs, as far as agents care.
#[derive(Debug, Clone)]
pub struct Host {
    /// How programs are put on the leash.
    pub leash: Leash,
    /// Our own version, as we introduce ourselves.
    pub version: &'static str,
    /// Where copies of native sessions are kept, for those that need protection.
    pub kept: PathBuf,
    /// The `PATH` that programs are looked for on.
    pub path: std::ffi::OsString,
    /// Time and chance.
    pub outside: Outside,
}

/// Time and chance, which a library does not have by itself.
#[derive(Debug, Clone, Copy)]
pub struct Outside {
    /// What time it is.
    pub now: fn() -> Timestamp,
    /// Draws a number.
    pub random: fn() -> u32,
}

#[cfg(test)]
pub(crate) const OUTSIDE: Outside = Outside {
    now: || Timestamp::UNIX_EPOCH,
    random: || 7,
};

/// How a provider is to be driven, as the user configured it.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The program; none where it was not found.
    pub program: Option<PathBuf>,
    /// The program that speaks ACP for it, where that is another one.
    pub adapter: Option<PathBuf>,
    /// The ways to talk to it, by name, in the order to be tried; all of them in the usual order if empty.
    pub transports: Vec<String>,
    /// The model.
    pub model: Option<String>,
    /// The mode it is to work in, by its own name, instead of the one that has it ask.
    pub mode: Option<String>,
    /// More arguments.
    pub args: Vec<String>,
    /// More environment.
    pub env: Vec<(String, String)>,
    /// Where the program keeps its sessions.
    pub home: PathBuf,
    /// What applies where the caller says nothing.
    pub defaults: Defaults,
}

/// One way to talk to a program.
#[derive(Clone)]
pub struct Way {
    /// Its name in the configuration.
    pub name: &'static str,
    /// The agent that talks so.
    pub agent: Arc<dyn Agent>,
}

/// A program with all the ways to talk to it.
pub struct Provider {
    id: ProviderId,
    ways: Vec<Way>,
    defaults: Defaults,
    program: Option<PathBuf>,
}

impl Provider {
    /// A provider that is talked to in these ways, the preferred ones first.
    #[must_use]
    pub fn new(id: ProviderId, ways: Vec<Way>, defaults: Defaults) -> Self {
        Self {
            id,
            ways,
            defaults,
            program: None,
        }
    }

    /// The same provider, of which it is known where its program is.
    #[must_use]
    pub fn at(mut self, program: Option<&PathBuf>) -> Self {
        self.program = program.cloned();
        self
    }

    /// Where its program is, if that is known.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// The ways to talk to it.
    #[must_use]
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }
}

/// Those of `all` ways that `wanted` names, in its order; all of them if it names none.
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

    /// Opens a conversation by the first way that works at all: only a program that can't be started, or that does
    /// not know the way, is a reason to try the next one.
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
