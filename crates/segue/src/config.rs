//! What the user configured: flag > environment > the project's file > the user's file > default.
//!
//! Every source becomes a layer of settings that know where they come from; the layers are put on top of each other,
//! and what is left becomes a [`Config`]. What needs the user's trust is taken out of a project's layer before.

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

use segue_core::{PermissionPolicy, Roles};

use crate::error::CliError;
use accept::Base;
pub(crate) use files::{Owner, PROJECT_FILE, Source, project_root};
pub(crate) use key::{Key, NOBODY, Who};
pub(crate) use nearest::nearest;
pub(crate) use problem::{Place, Problem};
pub(crate) use resolved::{AgentConfig, Config};
pub(crate) use trusted::{Trusted, TrustedFile, fingerprint};
pub(crate) use value::{Entry, Layer, Origin, Value, bare};

/// Where the configuration is looked for.
pub(crate) struct Surroundings {
    /// segue's own data.
    pub(crate) home: PathBuf,
    /// The user's home directory.
    pub(crate) user_home: Option<PathBuf>,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// The user's file; none where there is no place for one.
    pub(crate) user_file: Option<Source>,
    /// A variable of the environment.
    pub(crate) variable: fn(&str) -> Option<OsString>,
}

/// What was typed for one command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) permissions: Option<PermissionPolicy>,
    pub(crate) start: Option<Duration>,
}

/// A configuration as it was found.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The settings in force, with where each comes from.
    pub(crate) settings: Layer,
    /// The files that were looked for.
    pub(crate) files: Vec<Found>,
    /// What is wrong; a file with a problem is left out as a whole.
    pub(crate) problems: Vec<Problem>,
    /// What the project's file asks for and does not get without the user's trust.
    pub(crate) withheld: Vec<Key>,
}

/// A file that was looked for.
pub(crate) struct Found {
    pub(crate) source: Source,
    pub(crate) state: State,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Broken,
    Read,
    /// Read, and some of it only because the user trusts it.
    Trusted,
    /// Read, but for what needs the user's trust.
    Untrusted,
}

/// Reads every source and resolves what is in force.
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
    // What an untrusted project asks for may complete what others say: only what nobody says is missing.
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

/// Leaves in a project's layer what it may set.
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

/// The project's file, as far as it is one: the user's own file needs no trust, wherever it lies.
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

/// The files that are looked for, the farther ones first.
fn sources(at: &Surroundings) -> Vec<Source> {
    let user = at.user_file.clone();
    user.into_iter().chain(project_file(at)).collect()
}

/// A file's bytes and what they set; none if there is no file.
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

/// The roles there are without any project: what a project may only narrow by itself.
pub(crate) fn users_roles(at: &Surroundings) -> Roles {
    let user = at.user_file.as_ref();
    let read = user.and_then(|user| read_source(user, at.user_home.as_deref()).ok().flatten());
    resolved::roles(&read.map_or_else(Layer::new, |(_, layer)| layer))
}

/// The bytes of a project's file, if it is there and can be read.
pub(crate) fn content(path: &Path) -> Option<Vec<u8>> {
    let source = Source {
        owner: Owner::Project,
        path: path.to_owned(),
        named: false,
    };
    files::bytes(&source).ok().flatten()
}

impl Loaded {
    /// The first problem, as the error of a command that can't do without a good configuration.
    pub(crate) fn refusal(&self) -> Option<CliError> {
        let first = self.problems.first()?;
        let error = CliError::from(first);
        Some(match self.problems.len() - 1 {
            0 => error,
            more => error.hint(format!("{more} more: `segue config check` lists them all")),
        })
    }
}

/// What a project asks for, shortened to what a person wants to know: `claude.path, mcp.x`.
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

/// Line and column of a place in a text, counted from 1, columns in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
