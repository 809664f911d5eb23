//! How much a sentence tells that others do not: by how rare its words are in the conversation.

use std::collections::HashMap;

use super::units::Unit;

/// How often words occur.
#[derive(Debug, Default)]
pub(super) struct Rarity<'a> {
    units: usize,
    seen: HashMap<&'a str, usize>,
}

/// How many of the rarest words of a sentence count.
const WORDS: usize = 6;

impl<'a> Rarity<'a> {
    pub(super) fn of(units: impl Iterator<Item = &'a Unit>) -> Self {
        let mut rarity = Self::default();
        for unit in units {
            rarity.units += 1;
            let mut words: Vec<&str> = unit.words().collect();
            words.sort_unstable();
            words.dedup();
            for word in words {
                *rarity.seen.entry(word).or_default() += 1;
            }
        }
        rarity
    }

    /// From 0, for a sentence like many others, to 100.
    pub(super) fn salience(&self, unit: &Unit) -> u32 {
        let most = self.units.max(2).ilog2();
        let mut rare: Vec<u32> = unit.words().map(|word| self.rarity(word)).collect();
        rare.sort_unstable_by(|a, b| b.cmp(a));
        rare.truncate(WORDS);
        let sum: u32 = rare.iter().sum();
        let most = most * u32::try_from(WORDS).unwrap_or(1);
        (sum * 100).checked_div(most).unwrap_or(0).min(100)
    }

    /// How rare a word is: how often the number of sentences can be halved until only those with it are left.
    fn rarity(&self, word: &str) -> u32 {
        let seen = self.seen.get(word).copied().unwrap_or(1).max(1);
        (self.units / seen).max(1).ilog2()
    }
}
