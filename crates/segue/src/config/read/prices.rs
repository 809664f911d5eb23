//! Parser of the `prices` tables.

use super::{Item, Reading};
use crate::config::bare;
use crate::config::key::{Key, PriceKey};
use crate::config::problem::Wrong;

const PRICE: [&str; 3] = ["input", "output", "cached"];

impl Reading<'_> {
    pub(super) fn price(&mut self, model: &str, (name, value): Item<'_, '_>) {
        let section = format!("prices.{}", bare(model));
        let problems_before = self.problems.len();
        for item @ (name, _) in self.table(&section, value).into_iter().flatten() {
            let mut known = PriceKey::ALL.into_iter();
            match known.find(|key| key.name() == name.get_ref()) {
                Some(key) => self.set(Key::Price(model.to_owned(), key), item),
                None => self.unknown(item, Some(&section), &PRICE),
            }
        }
        let has = |key| self.layer.contains_key(&Key::Price(model.to_owned(), key));
        let whole = has(PriceKey::Input) && has(PriceKey::Output);
        if self.problems.len() == problems_before && !whole {
            let message = format!("{section} needs both `input` and `output`");
            let hint = "in dollars for a million tokens; `cached` is the same as `input` if it is left out";
            self.problem(&name.span(), Wrong::new(message).hint(hint));
        }
    }
}
