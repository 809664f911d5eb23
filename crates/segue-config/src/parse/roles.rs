//! Parser of the `roles` tables.

use segue_core::scope::RoleName;

use super::{ConfigParser, TableItem};
use crate::format_toml_key;
use crate::key::{ConfigKey, RoleKey};
use crate::problem::ValueError;

/// Checks the name of a role in `[roles.NAME]`.
pub(crate) fn check_role_name(name: &str) -> Result<(), ValueError> {
    let parsed = RoleName::parse(name);
    parsed
        .map(drop)
        .map_err(|error| ValueError::new(error.to_string()))
}

impl ConfigParser<'_> {
    pub(crate) fn parse_role(&mut self, role: &str, (_, value): TableItem<'_, '_>) {
        let Ok(role) = RoleName::parse(role) else {
            return;
        };
        let section = format!("roles.{}", format_toml_key(role.as_str()));
        let allowed = RoleKey::ALL.map(RoleKey::name);
        for item @ (name, _) in self.expect_table(&section, value).into_iter().flatten() {
            let mut keys = RoleKey::ALL.into_iter();
            match keys.find(|key| key.name() == name.get_ref()) {
                Some(key) => self.add_setting(ConfigKey::Role(role.clone(), key), item),
                None => self.report_unknown_key(item, Some(&section), &allowed),
            }
        }
    }
}
