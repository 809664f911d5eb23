//! Novelty of a sentence: a measure of how rare its words are in the conversation.

use std::collections::HashMap;

use super::everyday::is_common;
use super::text_units::Unit;

/// Number of words that are scored in a sentence: its rarest ones.
const RAREST: usize = 4;

/// Returns the novelty of each sentence among all sentences, from 0 for common words to 40 for rare ones.
pub(super) fn novelty<'a>(units: impl Iterator<Item = &'a Unit>) -> Vec<u32> {
    // Index of each scored word in `seen`; `None` for words that are not scored.
    let mut numbers: HashMap<&str, Option<usize>> = HashMap::new();
    let mut seen: Vec<u32> = Vec::new();
    let sentences: Vec<Vec<usize>> = units
        .map(|unit| {
            let number = |word| {
                *numbers.entry(word).or_insert_with(|| {
                    is_telling(word).then(|| {
                        seen.push(0);
                        seen.len() - 1
                    })
                })
            };
            let mut words: Vec<usize> = unit.words().filter_map(number).collect();
            words.sort_unstable();
            words.dedup();
            for word in &words {
                if let Some(seen) = seen.get_mut(*word) {
                    *seen += 1;
                }
            }
            words
        })
        .collect();
    let all = u32::try_from(sentences.len()).unwrap_or(u32::MAX);
    let most = all.max(2).ilog2();
    // Base-2 logarithm of the number of all sentences divided by the number of those with the word.
    let rarity = |word: &usize| {
        let seen = seen.get(*word).copied().unwrap_or(1).max(1);
        (all / seen).max(1).ilog2()
    };
    let novelty = |words: &Vec<usize>| {
        let mut rare: Vec<u32> = words.iter().map(rarity).collect();
        rare.sort_unstable_by(|a, b| b.cmp(a));
        rare.truncate(RAREST);
        let sum: u32 = rare.iter().sum();
        (sum * 40 / (most * 4)).min(40)
    };
    sentences.iter().map(novelty).collect()
}

/// Returns `true` if a word is scored. Names with digits or marks are not, because they are rare in any conversation,
/// and common words are not either.
fn is_telling(word: &str) -> bool {
    word.chars().count() > 2
        && word
            .chars()
            .all(|c| c.is_alphabetic() || matches!(c, '\'' | '-'))
        && !is_common(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_and_again_is_not_new() {
        let mut units = vec![Unit::new("I look at the loader."); 30];
        units.push(Unit::new("Kerosene lamps flicker in Lisbon."));
        units.push(Unit::new("It does, and that is it."));
        let found = novelty(units.iter());
        assert_eq!((found[0], found[30], found[31]), (0, 40, 0));
    }
}
