//! The user's configuration, by priority: flag > environment > the project's file > the user's file > default.
//!
//! Every source becomes a layer of settings that record their origin. The merged layers become a [`Config`]. Settings
//! that need the user's trust are removed from a project's layer before the merge.

mod accept;
mod environment;
mod files;
mod key;
mod merge;
mod nearest;
mod problem;
mod read;
mod resolved;
#[cfg(test)]
mod tests;
mod trusted;
mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::agent::{PermissionPolicy, Roles};

use crate::error::CliError;
use accept::Base;
pub(crate) use files::{Owner, PROJECT_FILE, Source, project_root};
pub(crate) use key::{Key, NOBODY, Who};
pub(crate) use nearest::nearest;
pub(crate) use problem::{Place, Problem};
pub(crate) use resolved::{AgentConfig, Config};
pub(crate) use trusted::{Trusted, TrustedFile, fingerprint};
pub(crate) use value::{Entry, Layer, Origin, Value, bare};

/// Locations and variables that the configuration is read from.
pub(crate) struct Surroundings {
    /// Directory of segue's own data.
    pub(crate) home: PathBuf,
    /// Home directory of the user. `None` if it is unknown.
    pub(crate) user_home: Option<PathBuf>,
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// Configuration file of the user. `None` if no location for it is known.
    pub(crate) user_file: Option<Source>,
    /// Function that returns a variable of the environment.
    pub(crate) variable: fn(&str) -> Option<OsString>,
}

/// Settings from the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) permissions: Option<PermissionPolicy>,
    pub(crate) start: Option<Duration>,
}

/// A loaded configuration.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Effective settings, each with its origin.
    pub(crate) settings: Layer,
    /// Configuration files that were searched for.
    pub(crate) files: Vec<Found>,
    /// Problems of the configuration. A file with a problem is ignored completely.
    pub(crate) problems: Vec<Problem>,
    /// Settings of the project's file that are not applied, because the user does not trust the file.
    pub(crate) withheld: Vec<Key>,
}

/// A configuration file that was searched for.
pub(crate) struct Found {
    pub(crate) source: Source,
    pub(crate) state: State,
}

/// Status of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Broken,
    Read,
    /// The file was read, and some settings apply only because the user trusts it.
    Trusted,
    /// The file was read, except for the settings that need the user's trust.
    Untrusted,
}

/// Reads every source and resolves the effective settings.
pub(crate) fn load(at: &Surroundings, flags: &Flags) -> Loaded {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut asked = vec![resolved::defaults()];
    let mut granted = asked.clone();
    let mut withheld = Vec::new();
    for source in sources(at) {
        let (state, layer) = match read_source(&source, at.user_home.as_deref()) {
            Ok(None) => (State::Absent, Layer::new()),
            Ok(Some((content, layer))) => {
                asked.push(layer.clone());
                let mut layer = layer;
                let state = match source.owner {
                    Owner::User => State::Read,
                    Owner::Project => {
                        let trusted = Trusted::read(&at.home).unwrap_or_default();
                        let trusts = trusted.holds(&source.path, &content);
                        let roles = resolved::roles(&merge::merge(granted.clone()));
                        grant(&mut layer, trusts, &roles, &mut withheld)
                    }
                };
                (state, layer)
            }
            Err(found) => {
                problems.extend(found);
                (State::Broken, Layer::new())
            }
        };
        granted.push(layer);
        files.push(Found { source, state });
    }
    let base = Base {
        directory: at.cwd.clone(),
        home: at.user_home.clone(),
    };
    let (variables, found) = environment::read(at.variable, &base);
    problems.extend(found);
    for layer in [variables, resolved::typed(flags)] {
        asked.push(layer.clone());
        granted.push(layer);
    }
    // Settings of an untrusted project count here, so that only a setting that no source provides is a problem.
    problems.extend(resolved::gaps(&merge::merge(asked)));
    let settings = merge::merge(granted);
    Loaded {
        config: Config::of(&settings),
        settings,
        files,
        problems,
        withheld,
    }
}

/// Removes the settings that need trust from the layer of an untrusted project. Returns the status of the file.
fn grant(layer: &mut Layer, trusted: bool, roles: &Roles, withheld: &mut Vec<Key>) -> State {
    let mut rest = layer.clone();
    let asks = merge::withhold(&mut rest, roles);
    match (asks.is_empty(), trusted) {
        (true, _) => State::Read,
        (false, true) => State::Trusted,
        (false, false) => {
            *layer = rest;
            *withheld = asks;
            State::Untrusted
        }
    }
}

/// Returns the project's file. `None` if that is the user's own file, which needs no trust wherever it is located.
pub(crate) fn project_file(at: &Surroundings) -> Option<Source> {
    let path = project_root(&at.cwd).join(PROJECT_FILE);
    let same = |user: &Source| match (user.path.canonicalize(), path.canonicalize()) {
        (Ok(user), Ok(project)) => user == project,
        _ => false,
    };
    if at.user_file.as_ref().is_some_and(same) {
        return None;
    }
    Some(Source {
        owner: Owner::Project,
        path,
        named: false,
    })
}

/// Returns the files to read, in ascending priority.
fn sources(at: &Surroundings) -> Vec<Source> {
    let user = at.user_file.clone();
    user.into_iter().chain(project_file(at)).collect()
}

/// Reads a file and parses its settings. `None` if the file does not exist.
pub(crate) fn read_source(
    source: &Source,
    user_home: Option<&Path>,
) -> Result<Option<(Vec<u8>, Layer)>, Vec<Problem>> {
    let Some(content) = files::bytes(source).map_err(|problem| vec![problem])? else {
        return Ok(None);
    };
    let text = files::text(&content, &source.path).map_err(|problem| vec![problem])?;
    let layer = read::read(text, &source.path, user_home)?;
    Ok(Some((content, layer)))
}

/// Returns the roles without any project. A project can only narrow them unless the user trusts it.
pub(crate) fn users_roles(at: &Surroundings) -> Roles {
    let user = at.user_file.as_ref();
    let read = user.and_then(|user| read_source(user, at.user_home.as_deref()).ok().flatten());
    resolved::roles(&read.map_or_else(Layer::new, |(_, layer)| layer))
}

/// Reads a project's file. `None` if it does not exist or cannot be read.
pub(crate) fn content(path: &Path) -> Option<Vec<u8>> {
    let source = Source {
        owner: Owner::Project,
        path: path.to_owned(),
        named: false,
    };
    files::bytes(&source).ok().flatten()
}

impl Loaded {
    /// Returns the first problem, as the error of a command that needs a valid configuration.
    pub(crate) fn refusal(&self) -> Option<CliError> {
        let first = self.problems.first()?;
        let error = CliError::from(first);
        Some(match self.problems.len() - 1 {
            0 => error,
            more => error.hint(format!("{more} more: `segue config check` lists them all")),
        })
    }
}

/// Lists the settings that a project asks for, with one name per MCP server and ACP agent: `claude.path, mcp.x`.
pub(crate) fn in_short(keys: &[Key]) -> String {
    let mut names: Vec<String> = Vec::new();
    for key in keys {
        let path = key.path();
        let length = if matches!(path.first(), Some(&("mcp" | "acp"))) {
            2
        } else {
            path.len()
        };
        let name: Vec<String> = path.into_iter().take(length).map(bare).collect();
        let name = name.join(".");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Returns line and column of a byte offset, counted from 1, columns in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
