//! Parser of the `prices` tables.

use super::{ConfigParser, TableItem};
use crate::format_toml_key;
use crate::key::{ConfigKey, PriceKey};
use crate::problem::ValueError;

const PRICE_KEYS: [&str; 3] = ["input", "output", "cached"];

impl ConfigParser<'_> {
    pub(crate) fn parse_price(&mut self, model: &str, (name, value): TableItem<'_, '_>) {
        let section = format!("prices.{}", format_toml_key(model));
        let problems_before = self.problems.len();
        for item @ (name, _) in self.expect_table(&section, value).into_iter().flatten() {
            let mut keys = PriceKey::ALL.into_iter();
            match keys.find(|key| key.name() == name.get_ref()) {
                Some(key) => self.add_setting(ConfigKey::Price(model.to_owned(), key), item),
                None => self.report_unknown_key(item, Some(&section), &PRICE_KEYS),
            }
        }
        let has_key = |key| {
            self.layer
                .contains_key(&ConfigKey::Price(model.to_owned(), key))
        };
        let is_complete = has_key(PriceKey::Input) && has_key(PriceKey::Output);
        if self.problems.len() == problems_before && !is_complete {
            let message = format!("{section} needs both `input` and `output`");
            let hint = "set them in dollars per million tokens; `cached` defaults to `input`";
            self.report_problem(&name.span(), ValueError::new(message).with_hint(hint));
        }
    }
}
