//! Keys of settings.

use std::cmp::Ordering;
use std::fmt;

use segue_core::agent::RoleRegistry;
use segue_core::scope::RoleName;

use crate::definition::{ProjectAccess, SETTING_PLACES, SettingPlace};
use crate::layer::{ConfigValue, format_toml_path};

/// Value that selects no agent at all.
pub const NO_AGENT: &str = "none";

/// Key of a setting: its place, with the names that the user chose. Keys have the order of the output.
#[derive(Clone)]
pub struct ConfigKey {
    place: &'static SettingPlace,
    /// Names from the outermost table to the setting, each with its position in the order of the output.
    names: Vec<(usize, String)>,
}

impl ConfigKey {
    /// Creates the key of a place with the names of its path.
    pub(crate) fn new(place: &'static SettingPlace, path: &[&str]) -> Self {
        // Names at the same place have the same position, and are sorted alphabetically.
        let position = |depth: usize| {
            let is_same =
                |other: &SettingPlace| other.path.get(..=depth) == place.path.get(..=depth);
            SETTING_PLACES.iter().position(is_same).unwrap_or_default()
        };
        let names = path.iter().enumerate();
        let names = names.map(|(depth, name)| (position(depth), (*name).to_owned()));
        Self {
            place,
            names: names.collect(),
        }
    }

    pub(crate) fn setting_place(&self) -> &'static SettingPlace {
        self.place
    }

    /// Returns the names from the outermost table to the setting.
    #[must_use]
    pub fn toml_path(&self) -> Vec<&str> {
        self.names.iter().map(|(_, name)| name.as_str()).collect()
    }

    /// Returns the reason why a project needs the user's trust to set this value, given the roles without the project.
    /// `None` if it needs none.
    #[must_use]
    pub fn trust_reason(&self, value: &ConfigValue, roles: &RoleRegistry) -> Option<&'static str> {
        match self.place.setting.project_access {
            ProjectAccess::Free => self.place.table_trust_reason(),
            ProjectAccess::Trusted(reason) => Some(reason),
            ProjectAccess::TrustedUnless(harmless, reason) => {
                (value.to_toml() != harmless).then_some(reason)
            }
            ProjectAccess::TrustedIfMoreTools => {
                let role = RoleName::parse(self.toml_path().get(1)?).ok()?;
                let ConfigValue::TextList(tools) = value else {
                    return None;
                };
                let is_expansion = roles.is_tool_expansion(&role, tools);
                is_expansion.then_some("additional tools for the role")
            }
        }
    }

    /// Returns `true` if the value must not be printed.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION"];
        let name = match (self.place.path.last(), self.names.last()) {
            (Some(&("VARIABLE" | "HEADER")), Some((_, name))) => name.to_ascii_uppercase(),
            _ => return false,
        };
        SECRET_WORDS.iter().any(|word| name.contains(word))
    }

    /// Returns the path of the settings that a source of higher priority replaces together with this one, which is the
    /// path of the setting itself unless its table says otherwise.
    fn unit(&self) -> Vec<&str> {
        let mut path = self.toml_path();
        let depth = self.place.table_depth;
        match self.place.table.unit {
            Some("") => path.truncate(depth),
            Some(unit) if path.get(depth) == Some(&unit) => path.truncate(depth + 1),
            Some(_) | None => {}
        }
        path
    }

    /// Returns `true` if this key, from a source of higher priority, discards `lower`.
    pub(crate) fn replaces(&self, lower: &Self) -> bool {
        let is_general = self.place.table_depth == 0;
        let general_key = lower.place.setting.replaced_by;
        self.unit() == lower.unit() || (is_general && general_key == Some(self.place.setting.key))
    }
}

impl PartialEq for ConfigKey {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for ConfigKey {}

impl PartialOrd for ConfigKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ConfigKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names.cmp(&other.names)
    }
}

impl fmt::Debug for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes the path with dots, as in TOML.
impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_toml_path(&self.toml_path()))
    }
}

/// Formats a list of settings, with one name for all settings of a table that needs trust as a whole: `claude.path,
/// mcp.x`.
#[must_use]
pub fn format_key_summary(keys: &[ConfigKey]) -> String {
    let mut names: Vec<String> = Vec::new();
    for key in keys {
        let mut path = key.toml_path();
        if key.place.table_trust_reason().is_some() {
            path.truncate(key.place.table_depth);
        }
        let name = format_toml_path(&path);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
