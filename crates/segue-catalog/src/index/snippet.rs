//! Excerpt of a text around the words that a search found, on one line.

use std::ops::Range;

use segue_core::session::Role;

use super::QueryWords;
use super::text_folding::{fold_letters, split_words};
use super::turn_text::SearchableText;

/// An excerpt of a text around the words that a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// Role of the message.
    pub role: Option<Role>,
    /// Excerpt on one line.
    pub text: String,
    /// Byte ranges of the words in the excerpt.
    pub highlights: Vec<Range<usize>>,
}

/// Number of characters of an excerpt, and of those before the first word that was found.
const MAX_SNIPPET_CHARS: usize = 160;
const MAX_LEADING_CHARS: usize = 48;

/// Returns the excerpt of a turn around the words of a search, or the beginning of the turn if the words are not found
/// as typed.
#[must_use]
pub fn build_snippet(turn_text: &SearchableText, words: &QueryWords) -> Snippet {
    let [prompt, answer, call, output] = turn_text.columns();
    let texts_by_role = [
        (Role::User, prompt),
        (Role::Assistant, answer),
        (Role::Tool, call),
        (Role::Tool, output),
    ];
    let should_search = |role: Role| words.should_search_role(role);
    let mut best: Option<(usize, Role, &str, usize)> = None;
    for (role, text) in texts_by_role
        .into_iter()
        .filter(|(role, _)| should_search(*role))
    {
        if let Some((word_count, position)) = find_densest_position(text, words)
            && best.is_none_or(|(best_count, ..)| word_count > best_count)
        {
            best = Some((word_count, role, text, position));
        }
    }
    if let Some((_, role, text, position)) = best {
        return excerpt_around(text, position, words, role);
    }
    let first_text = texts_by_role
        .iter()
        .find(|(role, text)| should_search(*role) && !text.is_empty());
    let (role, text) = first_text.copied().unwrap_or((Role::User, ""));
    excerpt_around(text, 0, words, role)
}

/// Maximum number of occurrences of a word that are searched in a text.
const MAX_OCCURRENCES_PER_WORD: usize = 50;

/// Returns how many of the words occur close together at the densest position of a text, and that position.
fn find_densest_position(text: &str, words: &QueryWords) -> Option<(usize, usize)> {
    let mut positions: Vec<(usize, usize)> = Vec::new();
    for (word_index, (word, prefix)) in words.required_terms().enumerate() {
        let occurrences = find_all(text, word, prefix).take(MAX_OCCURRENCES_PER_WORD);
        positions.extend(occurrences.map(|occurrence| (occurrence.start, word_index)));
    }
    positions.sort_unstable();
    let count_words_from = |from: usize| {
        let (begin, _) = positions.get(from).copied().unwrap_or_default();
        let following = positions.iter().skip(from);
        let nearby = following
            .take_while(|(position, _)| *position < begin + MAX_SNIPPET_CHARS - MAX_LEADING_CHARS);
        let mut word_indices: Vec<usize> = nearby.map(|(_, word_index)| *word_index).collect();
        word_indices.sort_unstable();
        word_indices.dedup();
        word_indices.len()
    };
    // The reversed order selects the first of equal positions.
    let best = (0..positions.len())
        .rev()
        .max_by_key(|&from| count_words_from(from))?;
    Some((count_words_from(best), positions.get(best)?.0))
}

/// Returns all ranges of a word in a text.
fn find_all<'a>(
    text: &'a str,
    word: &'a str,
    prefix: bool,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let range = find_word(text.get(from..)?, word, prefix)?;
        let range = from + range.start..from + range.end;
        from = range.end;
        Some(range)
    })
}

fn excerpt_around(text: &str, position: usize, words: &QueryWords, role: Role) -> Snippet {
    let before = text.get(..position).unwrap_or_default();
    let start = before
        .char_indices()
        .rev()
        .nth(MAX_LEADING_CHARS - 1)
        .map_or(0, |(at, _)| at);
    // The excerpt begins between two words if possible.
    let start = match before
        .get(start..)
        .and_then(|leading| leading.find(char::is_whitespace))
    {
        Some(blank) if start > 0 => start + blank,
        _ => start,
    };
    let remaining = text.get(start..).unwrap_or_default();
    let end = remaining
        .char_indices()
        .nth(MAX_SNIPPET_CHARS)
        .map_or(remaining.len(), |(at, _)| at);
    let excerpt = remaining.get(..end).unwrap_or(remaining);
    let mut line = String::with_capacity(excerpt.len() + 6);
    if start > 0 {
        line.push('…');
    }
    for word in excerpt.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() {
            if !line.is_empty() && line != "…" {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    if end < remaining.trim_end().len() {
        line.push('…');
    }
    let mut highlights: Vec<Range<usize>> = Vec::new();
    for (word, prefix) in words.required_terms() {
        highlights.extend(find_all(&line, word, prefix));
    }
    highlights.sort_by_key(|range| range.start);
    Snippet {
        role: Some(role),
        text: line,
        highlights,
    }
}

/// Returns the range of a word in a text, or of a word that begins with it if `prefix` is set. Ignores case and
/// diacritics, as the index does, and the characters between words.
fn find_word(text: &str, word: &str, prefix: bool) -> Option<Range<usize>> {
    let wanted: Vec<&str> = split_words(word).map(|(_, run)| run).collect();
    let last = wanted.len().checked_sub(1)?;
    let mut window: Vec<(usize, &str)> = Vec::with_capacity(wanted.len());
    for run in split_words(text) {
        if window.len() == wanted.len() {
            window.remove(0);
        }
        window.push(run);
        let is_match = |(index, (_, run)): (usize, &(usize, &str))| {
            let wanted = wanted.get(index).copied().unwrap_or_default();
            is_same_word(run, wanted, prefix && index == last)
        };
        if window.len() == wanted.len() && window.iter().enumerate().all(is_match) {
            let (start, _) = window.first()?;
            let (end, run) = window.last()?;
            return Some(*start..end + run.len());
        }
    }
    None
}

fn is_same_word(run: &str, wanted: &str, prefix: bool) -> bool {
    let mut run = fold_letters(run);
    for wanted in fold_letters(wanted) {
        if run.next() != Some(wanted) {
            return false;
        }
    }
    prefix || run.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::SearchQuery;

    fn parse_words(text: &str) -> QueryWords {
        let query = SearchQuery::parse(text, &|_| Err(String::new()));
        query.unwrap().words
    }

    #[test]
    fn a_word_matches_completely_and_a_prefix_matches_longer_words() {
        let cases = [
            ("the login form", "login", false, Some("login")),
            ("The LogIn form", "login", false, Some("LogIn")),
            ("the logins", "login", false, None),
            ("the logins", "login", true, Some("logins")),
            ("call fix_login(now)", "fix login", false, Some("fix_login")),
            (
                "call fix_login(now)",
                "fix_login()",
                false,
                Some("fix_login"),
            ),
            ("Größe", "größe", false, Some("Größe")),
            ("a naïve café", "cafe", false, Some("café")),
            ("a naïve cafe", "café", false, Some("cafe")),
            ("好的解析器 ok", "解析", false, Some("解析")),
            ("the解析", "解", false, Some("解")),
            ("", "a", false, None),
        ];
        for (text, word, prefix, expected) in cases {
            let found = find_word(text, word, prefix).map(|range| &text[range]);
            assert_eq!(found, expected, "{word} in {text}");
        }
    }

    #[test]
    fn a_snippet_is_one_line_around_the_matches() {
        let turn_text = SearchableText {
            prompt: "hello".into(),
            answer: format!(
                "{} The parser\n\tloses the mark {}",
                "so ".repeat(50),
                "on ".repeat(99)
            ),
            ..SearchableText::default()
        };
        let snippet = build_snippet(&turn_text, &parse_words("parser mark"));
        assert_eq!(snippet.role, Some(Role::Assistant));
        assert!(snippet.text.starts_with("…so so"), "{}", snippet.text);
        assert!(
            snippet.text.contains("The parser loses the mark on"),
            "{}",
            snippet.text
        );
        assert!(snippet.text.ends_with('…'));
        let highlighted: Vec<&str> = snippet
            .highlights
            .iter()
            .map(|range| &snippet.text[range.clone()])
            .collect();
        assert_eq!(highlighted, ["parser", "mark"]);
    }

    #[test]
    fn a_snippet_has_the_role_of_its_match_regardless_of_spelling() {
        let turn_text = SearchableText {
            prompt: "add a retry".into(),
            answer: "a naïve café 解析器 ok".into(),
            ..SearchableText::default()
        };
        for (typed, expected) in [("cafe", "café"), ("NAIVE", "naïve"), ("解析", "解析")] {
            let snippet = build_snippet(&turn_text, &parse_words(typed));
            assert_eq!(snippet.role, Some(Role::Assistant), "{typed}");
            let range = snippet.highlights.first().cloned().unwrap();
            assert_eq!(&snippet.text[range], expected);
        }
    }

    #[test]
    fn a_snippet_has_one_of_the_requested_roles() {
        let turn_text = SearchableText {
            prompt: "a word".into(),
            answer: "a word".into(),
            output: "a word".into(),
            ..SearchableText::default()
        };
        for (typed, role) in [
            ("word", Role::User),
            ("role:assistant,tool word", Role::Assistant),
            ("role:tool word", Role::Tool),
        ] {
            assert_eq!(
                build_snippet(&turn_text, &parse_words(typed)).role,
                Some(role),
                "{typed}"
            );
        }
    }

    #[test]
    fn a_snippet_without_an_exact_match_shows_the_beginning_of_the_turn() {
        let turn_text = SearchableText {
            prompt: "hello there".into(),
            ..SearchableText::default()
        };
        let snippet = build_snippet(&turn_text, &parse_words("elsewhere"));
        assert_eq!(
            (snippet.text.as_str(), snippet.highlights.len()),
            ("hello there", 0)
        );
    }
}
