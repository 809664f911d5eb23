//! Configuration of segue, by priority: flag > environment > the project's file > the user's file > default.
//!
//! One table defines every setting (`settings.rs`). Every source becomes a layer of settings that record their origin.
//! The merged layers become a [`Config`]. Settings that need the user's trust are removed from a project's layer before
//! the merge. The caller passes the directories and the environment in; this crate only reads the files.

mod definition;
mod files;
mod key;
mod layer;
mod parse;
mod problem;
mod providers;
mod reference;
mod resolve;
mod settings;
mod suggest;
mod table_check;
#[cfg(test)]
mod tests;
mod text_sources;
mod trust_store;
mod validate;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use segue_core::agent::RoleRegistry;

pub use files::{ConfigOwner, ConfigSource, PROJECT_FILE_NAME};
pub use key::{ConfigKey, NO_AGENT, format_key_summary};
pub use layer::{ConfigEntry, ConfigLayer, ConfigOrigin, ConfigValue, format_toml_key};
pub use problem::{ConfigProblem, ProblemLocation};
pub use providers::ConfiguredAgent;
pub use reference::{render_example, render_reference};
pub use resolve::{AgentConfig, Config};
pub use suggest::suggest_name;
pub use text_sources::ConfigFlags;
pub use trust_store::{TrustStore, TrustStoreError, TrustedFile, sha256_hex};

use definition::SETTING_PLACES;
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

/// A loaded configuration.
pub struct LoadedConfig {
    /// Effective configuration.
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
    /// Location of the file.
    pub source: ConfigSource,
    /// Result of reading it.
    pub status: ConfigFileStatus,
}

/// Result of reading a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFileStatus {
    /// The file does not exist.
    Absent,
    /// The file is not valid.
    Broken,
    /// The file was read.
    Read,
    /// The file was read, and some settings apply only because the user trusts it.
    Trusted,
    /// The file was read, except for the settings that need the user's trust.
    Untrusted,
}

/// Reads every source and resolves the effective settings.
#[must_use]
pub fn load(inputs: &ConfigInputs, flags: &ConfigFlags) -> LoadedConfig {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut withheld = ConfigLayer::new();
    let mut requested_layers = vec![default_settings()];
    let mut granted_layers = requested_layers.clone();
    for source in config_sources(inputs) {
        let status = match read_source(&source, inputs.user_home.as_deref()) {
            Ok(None) => ConfigFileStatus::Absent,
            Ok(Some((content, layer))) => {
                requested_layers.push(layer.clone());
                let (status, granted_layer) = match source.owner {
                    ConfigOwner::User => (ConfigFileStatus::Read, layer),
                    ConfigOwner::Project => {
                        let trust_store = TrustStore::load(&inputs.home).unwrap_or_default();
                        let is_trusted = trust_store.is_trusted(&source.path, &content);
                        let roles = resolve::resolve_roles(&layer::merge_layers(&granted_layers));
                        let (free, restricted) = layer::split_by_trust(layer.clone(), &roles);
                        match (restricted.is_empty(), is_trusted) {
                            (true, _) => (ConfigFileStatus::Read, layer),
                            (false, true) => (ConfigFileStatus::Trusted, layer),
                            (false, false) => {
                                withheld = restricted;
                                (ConfigFileStatus::Untrusted, free)
                            }
                        }
                    }
                };
                granted_layers.push(granted_layer);
                status
            }
            Err(file_problems) => {
                problems.extend(file_problems);
                ConfigFileStatus::Broken
            }
        };
        files.push(ConfigFile { source, status });
    }
    let base = PathBase {
        directory: inputs.cwd.clone(),
        home: inputs.user_home.clone(),
    };
    for (layer, text_problems) in [
        text_sources::read_variables(inputs.env_var, &base),
        text_sources::read_flags(flags, &base),
    ] {
        problems.extend(text_problems);
        requested_layers.push(layer.clone());
        granted_layers.push(layer);
    }
    // Settings of an untrusted project count here, so that only a setting that no source provides is a problem.
    let requested_settings = layer::merge_layers(&requested_layers);
    problems.extend(table_check::find_incomplete_settings(&requested_settings));
    let settings = layer::merge_layers(&granted_layers);
    LoadedConfig {
        config: Config::from_settings(&settings),
        settings,
        files,
        problems,
        withheld: withheld.into_keys().collect(),
    }
}

/// Returns the default settings.
fn default_settings() -> ConfigLayer {
    let lines = SETTING_PLACES.iter().filter_map(|place| {
        let default = place.setting.default?;
        Some(format!("{} = {default}\n", place.setting.key))
    });
    let text: String = lines.collect();
    let mut settings = parse::parse_file(&text, Path::new("defaults"), None).unwrap_or_default();
    for entry in settings.values_mut() {
        entry.origin = ConfigOrigin::Default;
    }
    settings
}

/// Returns the location of the project's file. `None` if it is the same file as the user's own, which needs no trust
/// and is read only once.
#[must_use]
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
    let content = files::read_bytes(&source.path, source.is_required);
    let Some(content) = content.map_err(|problem| vec![problem])? else {
        return Ok(None);
    };
    let text = files::decode_text(&content, &source.path).map_err(|problem| vec![problem])?;
    let layer = parse::parse_file(text, &source.path, user_home)?;
    Ok(Some((content, layer)))
}

/// Returns the roles without the project's file. The project's file needs trust to give a role more tools than it has
/// here.
#[must_use]
pub fn user_roles(inputs: &ConfigInputs) -> RoleRegistry {
    let user = inputs.user_file.as_ref();
    let loaded = user.and_then(|user| read_source(user, inputs.user_home.as_deref()).ok()?);
    resolve::resolve_roles(&loaded.map(|(_, layer)| layer).unwrap_or_default())
}

/// Returns the content of a project's file. `None` if it does not exist or cannot be read.
#[must_use]
pub fn read_project_file(path: &Path) -> Option<Vec<u8>> {
    files::read_bytes(path, false).ok().flatten()
}
