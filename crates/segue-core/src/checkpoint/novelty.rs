//! How much a sentence speaks of something else than the rest of the conversation: by how rare its words are in it.

use std::collections::HashMap;

use super::common::is_common;
use super::units::Unit;

/// In how many sentences words occur.
#[derive(Debug, Default)]
pub(super) struct Words<'a> {
    sentences: usize,
    seen: HashMap<&'a str, usize>,
}

/// How many of the rarest words of a sentence count.
const RAREST: usize = 4;

impl<'a> Words<'a> {
    pub(super) fn of(units: impl Iterator<Item = &'a Unit>) -> Self {
        let mut words = Self::default();
        for unit in units {
            words.sentences += 1;
            let mut of_unit: Vec<&str> = telling(unit).collect();
            of_unit.sort_unstable();
            of_unit.dedup();
            for word in of_unit {
                *words.seen.entry(word).or_default() += 1;
            }
        }
        words
    }

    /// From 0, for a sentence like many others, to 40.
    pub(super) fn novelty(&self, unit: &Unit) -> u32 {
        let most = self.sentences.max(2).ilog2();
        let mut rare: Vec<u32> = telling(unit).map(|word| self.rarity(word)).collect();
        rare.sort_unstable_by(|a, b| b.cmp(a));
        rare.truncate(RAREST);
        let sum: u32 = rare.iter().sum();
        (sum * 40 / (most * 4)).min(40)
    }

    /// How often the number of sentences can be halved until only those with a word are left.
    fn rarity(&self, word: &str) -> u32 {
        let seen = self.seen.get(word).copied().unwrap_or(1).max(1);
        (self.sentences / seen).max(1).ilog2()
    }
}

/// The words of a sentence but for names, which are rare wherever they stand, and for what is said everywhere.
fn telling(unit: &Unit) -> impl Iterator<Item = &str> {
    unit.words().filter(|word| {
        word.chars().count() > 2
            && word
                .chars()
                .all(|c| c.is_alphabetic() || matches!(c, '\'' | '-'))
            && !is_common(word)
    })
}
