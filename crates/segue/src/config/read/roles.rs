//! Parser of the `roles` tables.

use segue_core::scope::RoleName;

use super::{Item, Reading};
use crate::config::bare;
use crate::config::key::{Key, RoleKey};
use crate::config::problem::Wrong;

/// Checks the name of a role in `[roles.NAME]`.
pub(super) fn name(name: &str) -> Result<(), Wrong> {
    let parsed = RoleName::parse(name);
    parsed
        .map(drop)
        .map_err(|error| Wrong::new(error.to_string()))
}

impl Reading<'_> {
    pub(super) fn role(&mut self, role: &str, (_, value): Item<'_, '_>) {
        let Ok(role) = RoleName::parse(role) else {
            return;
        };
        let section = format!("roles.{}", bare(role.as_str()));
        let known = RoleKey::ALL.map(RoleKey::name);
        for item @ (name, _) in self.table(&section, value).into_iter().flatten() {
            let mut keys = RoleKey::ALL.into_iter();
            match keys.find(|key| key.name() == name.get_ref()) {
                Some(key) => self.set(Key::Role(role.clone(), key), item),
                None => self.unknown(item, Some(&section), &known),
            }
        }
    }
}
