//! Configuration of segue, by priority: flag > environment > the project's file > the user's file > default.
//!
//! Every source becomes a layer of settings that record their origin. The merged layers become a [`Config`]. Settings
//! that need the user's trust are removed from a project's layer before the merge.

mod environment;
mod files;
mod key;
mod merge;
mod parse;
mod problem;
mod resolved;
mod setting;
mod suggest;
#[cfg(test)]
mod tests;
mod trust_store;
mod validate;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::agent::{PermissionPolicy, RoleRegistry};

pub use files::{ConfigOwner, ConfigSource, PROJECT_FILE_NAME};
pub use key::{ConfigKey, ConfiguredAgent, NO_AGENT};
pub use problem::{ConfigProblem, ProblemLocation};
pub use resolved::{AgentConfig, Config};
pub use setting::{
    ConfigEntry, ConfigLayer, ConfigOrigin, ConfigValue, format_toml_key, to_dollars,
};
pub use suggest::suggest_name;
pub use trust_store::{TrustStore, TrustStoreError, TrustedFile, sha256_hex};
use validate::PathBase;

/// Locations and variables that the configuration is read from.
pub struct ConfigInputs {
    /// Directory of segue's own data.
    pub home: PathBuf,
    /// Home directory of the user. `None` if it is unknown.
    pub user_home: Option<PathBuf>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Directory whose `segue.toml` applies: the top of the git work tree, or the working directory outside of git.
    pub project_root: PathBuf,
    /// Configuration file of the user. `None` if no location for it is known.
    pub user_file: Option<ConfigSource>,
    /// Function that returns a variable of the environment.
    pub env_var: fn(&str) -> Option<OsString>,
}

/// Settings from the command line.
#[derive(Debug, Clone, Default)]
pub struct ConfigFlags {
    pub permissions: Option<PermissionPolicy>,
    pub start_timeout: Option<Duration>,
}

/// A loaded configuration.
pub struct LoadedConfig {
    pub config: Config,
    /// Effective settings, each with its origin.
    pub settings: ConfigLayer,
    /// Configuration files that were searched for.
    pub files: Vec<ConfigFile>,
    /// Problems of the configuration. A file with a problem is ignored completely.
    pub problems: Vec<ConfigProblem>,
    /// Settings of the project's file that are not applied, because the user does not trust the file.
    pub withheld: Vec<ConfigKey>,
}

/// Location of a configuration file, and the result of reading it.
pub struct ConfigFile {
    pub source: ConfigSource,
    pub status: ConfigFileStatus,
}

/// Result of reading a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFileStatus {
    Absent,
    Broken,
    Read,
    /// The file was read, and some settings apply only because the user trusts it.
    Trusted,
    /// The file was read, except for the settings that need the user's trust.
    Untrusted,
}

/// Reads every source and resolves the effective settings.
pub fn load(inputs: &ConfigInputs, flags: &ConfigFlags) -> LoadedConfig {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut requested_layers = vec![resolved::default_settings()];
    let mut granted_layers = requested_layers.clone();
    let mut withheld = Vec::new();
    for source in config_sources(inputs) {
        let (status, layer) = match read_source(&source, inputs.user_home.as_deref()) {
            Ok(None) => (ConfigFileStatus::Absent, ConfigLayer::new()),
            Ok(Some((content, layer))) => {
                requested_layers.push(layer.clone());
                let mut layer = layer;
                let status = match source.owner {
                    ConfigOwner::User => ConfigFileStatus::Read,
                    ConfigOwner::Project => {
                        let trust_store = TrustStore::load(&inputs.home).unwrap_or_default();
                        let is_trusted = trust_store.is_trusted(&source.path, &content);
                        let roles =
                            resolved::resolve_roles(&merge::merge_layers(granted_layers.clone()));
                        withhold_untrusted(&mut layer, is_trusted, &roles, &mut withheld)
                    }
                };
                (status, layer)
            }
            Err(file_problems) => {
                problems.extend(file_problems);
                (ConfigFileStatus::Broken, ConfigLayer::new())
            }
        };
        granted_layers.push(layer);
        files.push(ConfigFile { source, status });
    }
    let base = PathBase {
        directory: inputs.cwd.clone(),
        home: inputs.user_home.clone(),
    };
    let (env_layer, env_problems) = environment::read_variables(inputs.env_var, &base);
    problems.extend(env_problems);
    for layer in [env_layer, resolved::flag_settings(flags)] {
        requested_layers.push(layer.clone());
        granted_layers.push(layer);
    }
    // Settings of an untrusted project count here, so that only a setting that no source provides is a problem.
    problems.extend(resolved::find_incomplete_settings(&merge::merge_layers(
        requested_layers,
    )));
    let settings = merge::merge_layers(granted_layers);
    LoadedConfig {
        config: Config::from_settings(&settings),
        settings,
        files,
        problems,
        withheld,
    }
}

/// Moves the settings that need trust from a project's layer to `withheld`, unless the file is trusted. Returns the
/// status of the file.
fn withhold_untrusted(
    layer: &mut ConfigLayer,
    is_trusted: bool,
    roles: &RoleRegistry,
    withheld: &mut Vec<ConfigKey>,
) -> ConfigFileStatus {
    let mut restricted_layer = layer.clone();
    let removed_keys = merge::remove_keys_needing_trust(&mut restricted_layer, roles);
    match (removed_keys.is_empty(), is_trusted) {
        (true, _) => ConfigFileStatus::Read,
        (false, true) => ConfigFileStatus::Trusted,
        (false, false) => {
            *layer = restricted_layer;
            *withheld = removed_keys;
            ConfigFileStatus::Untrusted
        }
    }
}

/// Returns the location of the project's file. `None` if it is the same file as the user's own, which needs no trust
/// and is read only once.
pub fn project_file(inputs: &ConfigInputs) -> Option<ConfigSource> {
    let path = inputs.project_root.join(PROJECT_FILE_NAME);
    let is_same_file = |user: &ConfigSource| match (user.path.canonicalize(), path.canonicalize()) {
        (Ok(user_path), Ok(project_path)) => user_path == project_path,
        _ => false,
    };
    if inputs.user_file.as_ref().is_some_and(is_same_file) {
        return None;
    }
    Some(ConfigSource {
        owner: ConfigOwner::Project,
        path,
        is_required: false,
    })
}

/// Returns the files to read, in ascending priority.
fn config_sources(inputs: &ConfigInputs) -> Vec<ConfigSource> {
    let user = inputs.user_file.clone();
    user.into_iter().chain(project_file(inputs)).collect()
}

/// Reads a file and parses its settings. Returns both. `None` if the file does not exist.
pub fn read_source(
    source: &ConfigSource,
    user_home: Option<&Path>,
) -> Result<Option<(Vec<u8>, ConfigLayer)>, Vec<ConfigProblem>> {
    let Some(content) = files::read_bytes(source).map_err(|problem| vec![problem])? else {
        return Ok(None);
    };
    let text = files::decode_text(&content, &source.path).map_err(|problem| vec![problem])?;
    let layer = parse::parse_file(text, &source.path, user_home)?;
    Ok(Some((content, layer)))
}

/// Returns the roles without the project's file. The project's file needs trust to give a role more tools than it has
/// here.
pub fn user_roles(inputs: &ConfigInputs) -> RoleRegistry {
    let user = inputs.user_file.as_ref();
    let loaded = user.and_then(|user| {
        read_source(user, inputs.user_home.as_deref())
            .ok()
            .flatten()
    });
    resolved::resolve_roles(&loaded.map_or_else(ConfigLayer::new, |(_, layer)| layer))
}

/// Returns the content of a project's file. `None` if it does not exist or cannot be read.
pub fn read_project_file(path: &Path) -> Option<Vec<u8>> {
    let source = ConfigSource {
        owner: ConfigOwner::Project,
        path: path.to_owned(),
        is_required: false,
    };
    files::read_bytes(&source).ok().flatten()
}

/// Formats a list of settings, with one name per MCP server and ACP agent: `claude.path, mcp.x`.
pub fn format_key_summary(keys: &[ConfigKey]) -> String {
    let mut names: Vec<String> = Vec::new();
    for key in keys {
        let path = key.toml_path();
        let segments = if matches!(path.first(), Some(&("mcp" | "acp"))) {
            2
        } else {
            path.len()
        };
        let name: Vec<String> = path
            .into_iter()
            .take(segments)
            .map(format_toml_key)
            .collect();
        let name = name.join(".");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Returns line and column of a byte offset, counted from 1, columns in characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
