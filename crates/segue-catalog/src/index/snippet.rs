//! Excerpt of a text around the words that a search found, on one line.

use std::ops::Range;

use segue_core::session::Role;

use super::Words;
use super::fold::{folded, runs};
use super::texts::Texts;

/// An excerpt of a text around the words that a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// Role of the message.
    pub role: Option<Role>,
    /// Excerpt on one line.
    pub text: String,
    /// Byte ranges of the words in the excerpt.
    pub marks: Vec<Range<usize>>,
}

/// Number of characters of an excerpt, and of those before the first word that was found.
const LENGTH: usize = 160;
const BEFORE: usize = 48;

/// Returns the excerpt of a turn around the words of a search, or the beginning of the turn if the words are not found
/// as typed.
#[must_use]
pub fn snippet(texts: &Texts, words: &Words) -> Snippet {
    let [prompt, answer, call, output] = texts.columns();
    let spoken = [
        (Role::User, prompt),
        (Role::Assistant, answer),
        (Role::Tool, call),
        (Role::Tool, output),
    ];
    let asked = |role: Role| words.may_be_said_by(role);
    let mut best: Option<(usize, Role, &str, usize)> = None;
    for (role, text) in spoken.into_iter().filter(|(role, _)| asked(*role)) {
        if let Some((found, place)) = densest(text, words)
            && best.is_none_or(|(most, ..)| found > most)
        {
            best = Some((found, role, text, place));
        }
    }
    if let Some((_, role, text, place)) = best {
        return around(text, place, words, role);
    }
    let said = spoken
        .iter()
        .find(|(role, text)| asked(*role) && !text.is_empty());
    let (role, text) = said.copied().unwrap_or((Role::User, ""));
    around(text, 0, words, role)
}

/// Maximum number of occurrences of a word that are searched in a text.
const OFTEN: usize = 50;

/// Returns how many of the words occur close together at the densest position of a text, and that position.
fn densest(text: &str, words: &Words) -> Option<(usize, usize)> {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (which, (word, prefix)) in words.wanted().enumerate() {
        let found = all(text, word, prefix).take(OFTEN);
        places.extend(found.map(|found| (found.start, which)));
    }
    places.sort_unstable();
    let near = |from: usize| {
        let (begin, _) = places.get(from).copied().unwrap_or_default();
        let rest = places.iter().skip(from);
        let near = rest.take_while(|(place, _)| *place < begin + LENGTH - BEFORE);
        let mut which: Vec<usize> = near.map(|(_, which)| *which).collect();
        which.sort_unstable();
        which.dedup();
        which.len()
    };
    // The reversed order selects the first of equal positions.
    let best = (0..places.len()).rev().max_by_key(|&from| near(from))?;
    Some((near(best), places.get(best)?.0))
}

/// Returns all ranges of a word in a text.
fn all<'a>(text: &'a str, word: &'a str, prefix: bool) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = find(text.get(from..)?, word, prefix)?;
        let found = from + found.start..from + found.end;
        from = found.end;
        Some(found)
    })
}

fn around(text: &str, place: usize, words: &Words, role: Role) -> Snippet {
    let before = text.get(..place).unwrap_or_default();
    let start = before
        .char_indices()
        .rev()
        .nth(BEFORE - 1)
        .map_or(0, |(at, _)| at);
    // The excerpt begins between two words if possible.
    let start = match before
        .get(start..)
        .and_then(|piece| piece.find(char::is_whitespace))
    {
        Some(blank) if start > 0 => start + blank,
        _ => start,
    };
    let rest = text.get(start..).unwrap_or_default();
    let end = rest
        .char_indices()
        .nth(LENGTH)
        .map_or(rest.len(), |(at, _)| at);
    let piece = rest.get(..end).unwrap_or(rest);
    let mut line = String::with_capacity(piece.len() + 6);
    if start > 0 {
        line.push('…');
    }
    for word in piece.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() {
            if !line.is_empty() && line != "…" {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    if end < rest.trim_end().len() {
        line.push('…');
    }
    let mut marks: Vec<Range<usize>> = Vec::new();
    for (word, prefix) in words.wanted() {
        marks.extend(all(&line, word, prefix));
    }
    marks.sort_by_key(|mark| mark.start);
    Snippet {
        role: Some(role),
        text: line,
        marks,
    }
}

/// Returns the range of a word in a text, or of a word that begins with it if `prefix` is set. Ignores case and
/// diacritics, as the index does, and the characters between words.
fn find(text: &str, word: &str, prefix: bool) -> Option<Range<usize>> {
    let wanted: Vec<&str> = runs(word).map(|(_, run)| run).collect();
    let last = wanted.len().checked_sub(1)?;
    let mut heard: Vec<(usize, &str)> = Vec::with_capacity(wanted.len());
    for run in runs(text) {
        if heard.len() == wanted.len() {
            heard.remove(0);
        }
        heard.push(run);
        let fits = |(index, (_, run)): (usize, &(usize, &str))| {
            let wanted = wanted.get(index).copied().unwrap_or_default();
            same(run, wanted, prefix && index == last)
        };
        if heard.len() == wanted.len() && heard.iter().enumerate().all(fits) {
            let (start, _) = heard.first()?;
            let (end, run) = heard.last()?;
            return Some(*start..end + run.len());
        }
    }
    None
}

fn same(run: &str, wanted: &str, prefix: bool) -> bool {
    let mut run = folded(run);
    for wanted in folded(wanted) {
        if run.next() != Some(wanted) {
            return false;
        }
    }
    prefix || run.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Query;

    fn words(text: &str) -> Words {
        let query = Query::parse(text, &|_| Err(String::new()));
        query.unwrap().words
    }

    #[test]
    fn a_word_is_found_by_itself_and_a_beginning_where_it_may_go_on() {
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
            let found = find(text, word, prefix).map(|range| &text[range]);
            assert_eq!(found, expected, "{word} in {text}");
        }
    }

    #[test]
    fn a_snippet_is_one_line_around_what_was_found() {
        let texts = Texts {
            prompt: "hello".into(),
            answer: format!(
                "{} The parser\n\tloses the mark {}",
                "so ".repeat(50),
                "on ".repeat(99)
            ),
            ..Texts::default()
        };
        let found = snippet(&texts, &words("parser mark"));
        assert_eq!(found.role, Some(Role::Assistant));
        assert!(found.text.starts_with("…so so"), "{}", found.text);
        assert!(
            found.text.contains("The parser loses the mark on"),
            "{}",
            found.text
        );
        assert!(found.text.ends_with('…'));
        let marked: Vec<&str> = found
            .marks
            .iter()
            .map(|mark| &found.text[mark.clone()])
            .collect();
        assert_eq!(marked, ["parser", "mark"]);
    }

    #[test]
    fn the_piece_is_of_who_said_it_however_it_is_written() {
        let texts = Texts {
            prompt: "add a retry".into(),
            answer: "a naïve café 解析器 ok".into(),
            ..Texts::default()
        };
        for (typed, marked) in [("cafe", "café"), ("NAIVE", "naïve"), ("解析", "解析")] {
            let found = snippet(&texts, &words(typed));
            assert_eq!(found.role, Some(Role::Assistant), "{typed}");
            let mark = found.marks.first().cloned().unwrap();
            assert_eq!(&found.text[mark], marked);
        }
    }

    #[test]
    fn the_piece_is_of_somebody_who_was_asked_for() {
        let texts = Texts {
            prompt: "a word".into(),
            answer: "a word".into(),
            output: "a word".into(),
            ..Texts::default()
        };
        for (typed, role) in [
            ("word", Role::User),
            ("role:assistant,tool word", Role::Assistant),
            ("role:tool word", Role::Tool),
        ] {
            assert_eq!(snippet(&texts, &words(typed)).role, Some(role), "{typed}");
        }
    }

    #[test]
    fn what_is_not_found_as_typed_shows_how_the_turn_begins() {
        let texts = Texts {
            prompt: "hello there".into(),
            ..Texts::default()
        };
        let found = snippet(&texts, &words("elsewhere"));
        assert_eq!((found.text.as_str(), found.marks.len()), ("hello there", 0));
    }
}
