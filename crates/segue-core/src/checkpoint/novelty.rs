//! Novelty of a sentence: a measure of how rare its words are in the conversation.

use std::collections::HashMap;

use super::everyday::is_common;
use super::text_units::TextUnit;

/// Number of words that are scored in a sentence: its rarest ones.
const MAX_SCORED_WORDS: usize = 4;

/// Returns the novelty of each sentence among all sentences, from 0 for common words to 40 for rare ones.
pub(super) fn score_novelty<'a>(units: impl Iterator<Item = &'a TextUnit>) -> Vec<u32> {
    // Index of each scored word in `sentence_counts`; `None` for words that are not scored.
    let mut word_indices: HashMap<&str, Option<usize>> = HashMap::new();
    let mut sentence_counts: Vec<u32> = Vec::new();
    let sentences: Vec<Vec<usize>> = units
        .map(|unit| {
            let word_index = |word| {
                *word_indices.entry(word).or_insert_with(|| {
                    is_scored_word(word).then(|| {
                        sentence_counts.push(0);
                        sentence_counts.len() - 1
                    })
                })
            };
            let mut words: Vec<usize> = unit.words().filter_map(word_index).collect();
            words.sort_unstable();
            words.dedup();
            for word in &words {
                if let Some(sentence_count) = sentence_counts.get_mut(*word) {
                    *sentence_count += 1;
                }
            }
            words
        })
        .collect();
    let total = u32::try_from(sentences.len()).unwrap_or(u32::MAX);
    let max_rarity = total.max(2).ilog2();
    // Base-2 logarithm of the number of all sentences divided by the number of those with the word.
    let rarity = |word: &usize| {
        let sentence_count = sentence_counts.get(*word).copied().unwrap_or(1).max(1);
        (total / sentence_count).max(1).ilog2()
    };
    let sentence_novelty = |words: &Vec<usize>| {
        let mut rarities: Vec<u32> = words.iter().map(rarity).collect();
        rarities.sort_unstable_by(|a, b| b.cmp(a));
        rarities.truncate(MAX_SCORED_WORDS);
        let rarity_sum: u32 = rarities.iter().sum();
        (rarity_sum * 40 / (max_rarity * 4)).min(40)
    };
    sentences.iter().map(sentence_novelty).collect()
}

/// Returns `true` if a word is scored. Names with digits or marks are not, because they are rare in any conversation,
/// and common words are not either.
fn is_scored_word(word: &str) -> bool {
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
    fn repeated_sentences_have_no_novelty() {
        let mut units = vec![TextUnit::new("I look at the loader."); 30];
        units.push(TextUnit::new("Kerosene lamps flicker in Lisbon."));
        units.push(TextUnit::new("It does, and that is it."));
        let novelties = score_novelty(units.iter());
        assert_eq!((novelties[0], novelties[30], novelties[31]), (0, 40, 0));
    }
}
