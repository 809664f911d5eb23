//! Definitions of settings and of the tables that contain them, and the places of both in a file.

use std::sync::LazyLock;

use crate::problem::ValueError;
use crate::providers::{CONFIGURABLE_PROVIDERS, ConfigurableProvider};
use crate::settings::SETTING_TABLES;
use crate::table_check::{TableContent, TableError};

/// Definition of a setting.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// Key below its table. A word in upper case stands for a name that the user chooses.
    pub(crate) key: &'static str,
    pub(crate) kind: ValueKind,
    /// Description in Markdown, for the reference and the example file.
    pub(crate) help: &'static str,
    /// Default in TOML. `None` if the setting is not set by default.
    pub(crate) default: Option<&'static str>,
    /// Line of the example file. `None` for the line that sets the default.
    pub(crate) example: Option<&'static str>,
    /// Environment variable, in which `AGENT` stands for the name of the agent.
    pub(crate) variable: Option<&'static str>,
    /// Flag of the command line.
    pub(crate) flag: Option<&'static str>,
    pub(crate) project_access: ProjectAccess,
    /// Setting for all agents or models that replaces this one from a source of lower priority.
    pub(crate) replaced_by: Option<&'static str>,
}

/// Type of a value, with the limits of the setting.
#[derive(Clone, Copy)]
pub(crate) enum ValueKind {
    Bool,
    /// An integer with its minimum and maximum.
    Count(&'static str, u64, u64),
    /// A time in seconds, 0 for no limit.
    Seconds,
    /// A time in seconds, greater than 0.
    PositiveSeconds,
    /// Dollars per million tokens.
    Price,
    Text(fn(&str) -> Result<(), ValueError>),
    TextList(fn(&str) -> Result<(), ValueError>),
    /// A provider, or [`NO_AGENT`](crate::NO_AGENT).
    Agent,
    /// A list of providers.
    Agents,
    /// A program: a name on `PATH` or a path.
    Program,
    /// Transports of the agent that the table configures.
    Transports,
}

/// Rule for a setting in the file of a project that the user does not trust.
#[derive(Clone, Copy)]
pub(crate) enum ProjectAccess {
    /// The setting applies.
    Free,
    /// The setting needs trust, for this reason.
    Trusted(&'static str),
    /// The setting needs trust, for this reason, unless it has a harmless value, in TOML.
    TrustedUnless(&'static str, &'static str),
    /// The setting needs trust if it gives an existing role more tools.
    TrustedIfMoreTools,
}

/// Table of a configuration file, or a set of tables whose names the user chooses.
pub(crate) struct SettingTable {
    /// Path, empty for the top level. `NAME` stands for a name that the user chooses, and [`AGENT_TABLE`] for the
    /// tables of all providers.
    pub(crate) path: &'static str,
    /// Heading in the reference.
    pub(crate) title: &'static str,
    /// Description in Markdown, for the reference and the example file.
    pub(crate) help: &'static str,
    /// Path in the example file.
    pub(crate) example: &'static str,
    pub(crate) settings: &'static [Setting],
    pub(crate) check_name: fn(&str) -> Result<(), ValueError>,
    /// Check of the settings of one table together.
    pub(crate) check_content: fn(&TableContent<'_>) -> Result<(), TableError>,
    /// Part of the table whose settings a source of higher priority replaces together: a table below it, or all of it
    /// if empty.
    pub(crate) unit: Option<&'static str>,
    /// Reason for which a project needs trust for every setting of the table.
    pub(crate) trust_reason: Option<&'static str>,
}

/// Path that stands for the tables of all providers.
pub(crate) const AGENT_TABLE: &str = "AGENT";

impl Setting {
    pub(crate) const fn new(key: &'static str, kind: ValueKind) -> Self {
        Self {
            key,
            kind,
            help: "",
            default: None,
            example: None,
            variable: None,
            flag: None,
            project_access: ProjectAccess::Free,
            replaced_by: None,
        }
    }

    pub(crate) const fn with_help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    pub(crate) const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(crate) const fn with_example(mut self, example: &'static str) -> Self {
        self.example = Some(example);
        self
    }

    pub(crate) const fn with_variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    pub(crate) const fn with_flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    pub(crate) const fn with_access(mut self, project_access: ProjectAccess) -> Self {
        self.project_access = project_access;
        self
    }

    pub(crate) const fn with_replacement(mut self, general_key: &'static str) -> Self {
        self.replaced_by = Some(general_key);
        self
    }

    /// Returns the definition of the same setting for one agent.
    pub(crate) const fn for_agent(self, example: &'static str) -> Self {
        Self::new(self.key, self.kind)
            .with_help("As the general setting, for this agent.")
            .with_example(example)
            .with_access(self.project_access)
            .with_replacement(self.key)
    }
}

/// Place of a setting in a file.
pub(crate) struct SettingPlace {
    /// Names from the outermost table to the setting. A word in upper case stands for a name that the user chooses.
    pub(crate) path: Vec<&'static str>,
    /// Number of names in `path` that lead to the table.
    pub(crate) table_depth: usize,
    pub(crate) table: &'static SettingTable,
    pub(crate) setting: &'static Setting,
    /// Provider that the table configures.
    pub(crate) provider: Option<&'static ConfigurableProvider>,
}

/// Places of all settings, in the order of the output.
pub(crate) static SETTING_PLACES: LazyLock<Vec<SettingPlace>> = LazyLock::new(|| {
    let places = SETTING_TABLES.iter().flat_map(|table| match table.path {
        AGENT_TABLE => CONFIGURABLE_PROVIDERS
            .iter()
            .flat_map(|provider| places_in(table, provider.table, Some(provider)))
            .collect(),
        path => places_in(table, path, None),
    });
    places.collect()
});

fn places_in(
    table: &'static SettingTable,
    path: &'static str,
    provider: Option<&'static ConfigurableProvider>,
) -> Vec<SettingPlace> {
    let table_path: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
    let settings = table.settings.iter().filter(|setting| {
        setting.key != "acp_path" || provider.is_some_and(|provider| provider.has_acp_adapter)
    });
    let places = settings.map(|setting| SettingPlace {
        path: table_path
            .iter()
            .copied()
            .chain(setting.key.split('.'))
            .collect(),
        table_depth: table_path.len(),
        table,
        setting,
        provider,
    });
    places.collect()
}

/// Returns `true` if a word of a path stands for a name that the user chooses.
pub(crate) fn is_placeholder(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

impl SettingPlace {
    /// Returns the reason for which a project needs trust for every setting of the table.
    pub(crate) fn table_trust_reason(&self) -> Option<&'static str> {
        match self.provider {
            Some(provider) if !provider.is_built_in() => Some("an additional agent"),
            _ => self.table.trust_reason,
        }
    }

    /// Returns the environment variable of the setting. A table whose name the user chooses has none.
    pub(crate) fn variable(&self) -> Option<String> {
        let name = self.provider.map_or("", |provider| provider.name);
        let is_fixed = !self.path.iter().any(|word| is_placeholder(word));
        let variable = self.setting.variable.filter(|_| is_fixed)?;
        Some(variable.replace(AGENT_TABLE, &name.to_uppercase()))
    }
}
