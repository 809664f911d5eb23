//! Words of users and tools: a few are very frequent, most are rare.
//!
//! An index of a few dozen repeated words would be unrealistic in a benchmark: its lists would be long and its tables
//! short. So the vocabulary has [`VOCABULARY_SIZE`] words, and the word of rank *n* occurs about 1/*n* as often as the
//! first.

use std::collections::HashSet;

use super::prng::Prng;

/// Number of words.
const VOCABULARY_SIZE: usize = 50_000;

/// The most frequent words, escaped for JSON.
const COMMON_WORDS: &str = "the to a and of in is it that for we on this with be not as are i if file so but can you from \
    test at by an when have error or code was use has all which will no line run should there new only one add same \
    then does what it's now set see get function name path your them read more into each call value type after before \
    because my fix first also just any data out up make don't string write how where would change still check return \
    default were config than two other need version tests build already key list user been let's done some method state \
    module time output look both while argument class commit server could missing index request field server's message \
    field's \\\"strict\\\" parser buffer branch – → “quoted” session memory cache naïve größer 函数 ✓ für über não où";

const SYLLABLE_ONSETS: [&str; 24] = [
    "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "pr",
    "cl", "br", "ch", "sh", "pl", "gr",
];
const SYLLABLE_VOWELS: [&str; 10] = ["a", "e", "i", "o", "u", "ea", "io", "ou", "ai", "ee"];
const SYLLABLE_CODAS: [&str; 14] = [
    "", "", "", "", "", "", "n", "r", "s", "t", "l", "m", "nd", "x",
];
const WORD_ENDINGS: [&str; 12] = [
    "", "", "", "s", "ed", "ing", "er", "ion", "ly", "able", "ment", "al",
];

/// List of distinct words, the most frequent one first.
pub struct Vocabulary(Vec<String>);

impl Default for Vocabulary {
    fn default() -> Self {
        let mut words: Vec<String> = Vec::with_capacity(VOCABULARY_SIZE);
        let mut used_words = HashSet::new();
        for word in COMMON_WORDS.split_ascii_whitespace() {
            if used_words.insert(word.to_owned()) {
                words.push(word.to_owned());
            }
        }
        let mut prng = Prng::new(7);
        while words.len() < VOCABULARY_SIZE {
            // Rare words are longer.
            let syllables = 1 + usize::from(words.len() > 1000) + prng.next_below(2);
            let word = generate_word(&mut prng, syllables);
            if used_words.insert(word.clone()) {
                words.push(word);
            }
        }
        Self(words)
    }
}

fn generate_word(prng: &mut Prng, syllables: usize) -> String {
    let mut word = String::new();
    for _ in 0..syllables {
        word.push_str(SYLLABLE_ONSETS[prng.next_below(SYLLABLE_ONSETS.len())]);
        word.push_str(match prng.next_below(60) {
            0 => "ä",
            1 => "é",
            _ => SYLLABLE_VOWELS[prng.next_below(SYLLABLE_VOWELS.len())],
        });
        word.push_str(SYLLABLE_CODAS[prng.next_below(SYLLABLE_CODAS.len())]);
    }
    word.push_str(WORD_ENDINGS[prng.next_below(WORD_ENDINGS.len())]);
    word
}

impl Vocabulary {
    /// Returns the word of a rank, counted from 0. A rank beyond the last word results in the last word.
    pub fn word(&self, rank: usize) -> &str {
        &self.0[rank.min(self.0.len() - 1)]
    }

    /// Returns a random word, according to the frequency of its rank.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rank"
    )]
    pub(crate) fn random_word(&self, prng: &mut Prng) -> &str {
        let rank = (self.0.len() as f64).powf(prng.next_fraction()) - 1.0;
        self.word(rank as usize)
    }

    /// Returns a random word that can be part of a name: more than three letters, all of them ASCII and lower-case.
    pub(crate) fn random_name_word(&self, prng: &mut Prng) -> &str {
        loop {
            let word = self.random_word(prng);
            if word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_lowercase()) {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_words_are_frequent_and_most_are_rare() {
        let vocabulary = Vocabulary::default();
        let mut prng = Prng::new(3);
        let mut words: Vec<&str> = (0..100_000)
            .map(|_| vocabulary.random_word(&mut prng))
            .collect();
        let most_frequent = words.iter().filter(|word| **word == "the").count();
        words.sort_unstable();
        words.dedup();
        assert!((5000..8000).contains(&most_frequent), "{most_frequent}");
        assert!(words.len() > 15_000, "{}", words.len());
    }
}
