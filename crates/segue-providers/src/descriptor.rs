//! Descriptions of the providers that segue knows, and the table of all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use segue_core::id::ProviderId;
use segue_core::session::FailureClass;

use crate::reader::retention::{Retention, SettingsDirs};
use crate::{AgentHost, Provider, ProviderSettings, Reader, claude, codex, gemini, opencode};

/// All providers that segue knows, in order of preference. Every list of providers in segue follows from this table.
pub static PROVIDERS: [&ProviderDescriptor; 4] = [
    &claude::CLAUDE_PROVIDER,
    &codex::CODEX_PROVIDER,
    &gemini::GEMINI_PROVIDER,
    &opencode::OPENCODE_PROVIDER,
];

/// Returns the provider of this name. `None` for rehearsal, and for agents that segue drives only over ACP.
#[must_use]
pub fn find_provider(name: &str) -> Option<&'static ProviderDescriptor> {
    PROVIDERS
        .into_iter()
        .find(|descriptor| descriptor.name == name)
}

/// Description of a provider: the facts about it on which shared code depends.
#[derive(Debug)]
pub struct ProviderDescriptor {
    /// Name of the provider, under which its native sessions are stored.
    pub name: &'static str,
    /// Name of its program.
    pub program: &'static str,
    /// Driver of the program. `None` if segue drives it like any other agent that speaks ACP, as `acp:NAME`.
    pub driver: Option<ProviderDriver>,
    /// Directory in which the program stores its sessions.
    pub home: NativeHome,
    /// Constructor of the reader of its sessions, given the home and a directory in which sessions may have been
    /// created, for formats that contain only the hash of the directory.
    pub new_reader: fn(PathBuf, &Path) -> Arc<dyn Reader>,
    /// Reader of the settings by which the program deletes sessions automatically.
    pub read_retention: fn(&SettingsDirs) -> Retention,
    /// Commands of the program for its own sessions.
    pub session_commands: SessionCommands,
    /// Whether the program has the file of a session open for as long as it uses the session.
    pub has_file_open_while_in_use: bool,
    /// Beginnings of texts that the program adds to a conversation in the user's name.
    pub(crate) injected_prefixes: &'static [&'static str],
    /// Texts with which the program reports an error, in addition to those that several agents use. A text matches if
    /// it contains all substrings of a pattern, in lower case.
    pub(crate) failure_patterns: &'static [(FailureClass, &'static [&'static str])],
}

/// Driver of a provider's program.
#[derive(Debug)]
pub struct ProviderDriver {
    /// Names of the transports, in the order in which they are tried.
    pub transports: &'static [&'static str],
    /// Programs that provide ACP for the agent, the preferred one first. Empty if its own program does, or none does.
    pub acp_adapters: &'static [&'static str],
    /// Constructor of the provider.
    pub build: fn(&ProviderSettings, &AgentHost) -> Provider,
}

/// Commands of a program for its own sessions: the arguments before the id or the file of a session.
#[derive(Debug)]
pub struct SessionCommands {
    /// Arguments that resume a session.
    pub resume: &'static [&'static str],
    /// Arguments that delete a session. `None` if the program has no command that is safe to use.
    pub delete: Option<&'static [&'static str]>,
    /// Arguments that import an exported session.
    pub import: Option<&'static [&'static str]>,
    /// Arguments that restore a session that the program archived.
    pub unarchive: Option<&'static [&'static str]>,
}

/// Location of the directory in which a program stores its sessions.
#[derive(Debug)]
pub enum NativeHome {
    /// The directory that a variable names, else a directory in the user's home directory.
    Variable(&'static str, &'static str),
    /// A directory in the directory that a variable names, else in the user's home directory.
    ParentVariable(&'static str, &'static str),
    /// A directory in the user's data directory.
    DataDir(&'static str),
}

impl NativeHome {
    /// Returns the path of the directory. `read_variable` returns the value of an environment variable.
    pub fn resolve(
        &self,
        read_variable: impl Fn(&str) -> Option<PathBuf>,
        user_home: &Path,
        data_dir: &Path,
    ) -> PathBuf {
        match self {
            Self::Variable(variable, directory) => {
                read_variable(variable).unwrap_or_else(|| user_home.join(directory))
            }
            Self::ParentVariable(variable, directory) => read_variable(variable)
                .unwrap_or_else(|| user_home.to_owned())
                .join(directory),
            Self::DataDir(directory) => data_dir.join(directory),
        }
    }
}

impl ProviderDescriptor {
    /// Returns the id of the provider.
    #[must_use]
    pub fn id(&self) -> ProviderId {
        ProviderId::from_static(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_unique_and_valid_name() {
        for (index, descriptor) in PROVIDERS.iter().enumerate() {
            assert_eq!(ProviderId::parse(descriptor.name), Ok(descriptor.id()));
            let position = PROVIDERS
                .iter()
                .position(|other| other.name == descriptor.name);
            assert_eq!(position, Some(index), "{}", descriptor.name);
        }
    }

    #[test]
    fn every_reader_belongs_to_its_provider() {
        for descriptor in PROVIDERS {
            let reader = (descriptor.new_reader)("/nonexistent".into(), Path::new("/"));
            assert_eq!(reader.provider(), descriptor.name);
        }
    }

    #[test]
    fn every_driver_builds_the_transports_that_it_names() {
        for descriptor in PROVIDERS {
            let Some(driver) = &descriptor.driver else {
                continue;
            };
            let settings = ProviderSettings {
                program: Some("/nonexistent/program".into()),
                adapter: Some("/nonexistent/adapter".into()),
                ..ProviderSettings::default()
            };
            let provider = (driver.build)(&settings, &crate::provider::test_host());
            let names = provider.transports().iter().map(|transport| transport.name);
            assert_eq!(names.collect::<Vec<_>>(), driver.transports);
        }
    }

    #[test]
    fn a_native_home_follows_its_variable() {
        let variables = |name: &str| (name == "SET").then(|| PathBuf::from("/set"));
        let cases = [
            (NativeHome::Variable("SET", ".x"), "/set"),
            (NativeHome::Variable("UNSET", ".x"), "/home/me/.x"),
            (NativeHome::ParentVariable("SET", ".x"), "/set/.x"),
            (NativeHome::ParentVariable("UNSET", ".x"), "/home/me/.x"),
            (NativeHome::DataDir("x"), "/data/x"),
        ];
        for (home, expected) in cases {
            let resolved = home.resolve(variables, Path::new("/home/me"), Path::new("/data"));
            assert_eq!(resolved, Path::new(expected));
        }
    }
}
