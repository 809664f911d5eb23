//! Splitting of a text into paragraphs and sentences.

use super::line_kind::is_fence;
use super::tool_actions::telling;
use super::voice::{Voice, voices};
use crate::session::Role;
use crate::session::one_line;

/// Maximum bytes of a sentence. A longer one is cut at the end.
const LONGEST: usize = 600;

/// A sentence, a list entry or a heading, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) text: String,
    /// The text in lower case, each word between spaces and without punctuation around it. Cues are matched against it.
    pub(super) plain: String,
}

impl Unit {
    pub(super) fn new(text: &str) -> Self {
        let text = shortened(&one_line(text));
        let plain = plain(&text);
        Self { text, plain }
    }

    /// Joins this sentence and the next one.
    pub(super) fn and(&self, next: &Self) -> Self {
        Self::new(&format!("{} {}", self.text, next.text))
    }

    /// Returns how specific the sentence is, from 0 to 12: the number of tokens beyond one per word. A tokenizer
    /// encodes a common word as one token and splits names, paths and numbers.
    pub(super) fn specificity(&self, count: &dyn Fn(&str) -> u64) -> u32 {
        let words = self.words().count() as u64;
        let more = count(&self.plain).saturating_sub(words);
        u32::try_from(more.min(12)).unwrap_or(12)
    }

    /// Returns the file paths in the sentence: words with a slash and a file extension.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let marks = |c: char| {
            !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '@' | '+'))
        };
        let words = self
            .text
            .split(marks)
            .map(|word| word.trim_end_matches(['.', '-']));
        words.filter(|word| {
            let name = word.rsplit('/').next().unwrap_or_default();
            let Some((stem, ending)) = name.rsplit_once('.') else {
                return false;
            };
            word.contains('/')
                && !word.starts_with("//")
                && !stem.is_empty()
                && (1..=5).contains(&ending.len())
                && ending.chars().all(char::is_alphanumeric)
        })
    }

    /// Returns the words of `plain`.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.plain.split(' ').filter(|word| !word.is_empty())
    }
}

/// Consecutive sentences with the same form and author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Paragraph {
    pub(super) form: Form,
    /// Author of the paragraph. Machine output is reduced to its most informative line.
    pub(super) voice: Voice,
    pub(super) units: Vec<Unit>,
}

/// Layout of a paragraph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// Ordinary text.
    #[default]
    Prose,
    /// A list entry, a table row or a quoted line.
    Entry,
    /// A list entry with a checkbox.
    Box { ticked: bool },
    /// A heading.
    Heading,
}

/// Splits a message into paragraphs. Omits code blocks.
pub(super) fn paragraphs(text: &str, role: Role) -> Vec<Paragraph> {
    let lines: Vec<&str> = text.lines().collect();
    let voices = voices(&lines, role);
    let mut reading = Reading::default();
    for (line, voice) in lines.iter().zip(voices) {
        reading.line(line.trim(), voice);
    }
    reading.end();
    reading.paragraphs
}

/// State while a text is parsed line by line.
#[derive(Default)]
struct Reading<'a> {
    paragraphs: Vec<Paragraph>,
    lines: String,
    form: Form,
    voice: Voice,
    pasted: Vec<&'a str>,
    in_code: bool,
}

impl<'a> Reading<'a> {
    fn line(&mut self, line: &'a str, voice: Voice) {
        if is_fence(line) {
            self.end();
            self.in_code = !self.in_code;
        } else if !self.in_code {
            self.outside_code(line, voice);
        }
    }

    fn outside_code(&mut self, line: &'a str, voice: Voice) {
        if line.is_empty() {
            // `pasted` does not end, because output may contain empty lines.
            self.end_paragraph();
        } else if voice == Voice::Machine {
            self.end_paragraph();
            self.pasted.push(line);
        } else {
            self.said(line, voice);
        }
    }

    /// Adds a line that is not machine output.
    fn said(&mut self, line: &str, voice: Voice) {
        self.end_pasted();
        if voice != self.voice {
            self.end_paragraph();
        }
        self.voice = voice;
        if voice == Voice::Quoted {
            self.add(line.trim_start_matches(['>', ' ']));
        } else if let Some((said, form)) = begun(line) {
            self.end_paragraph();
            self.form = form;
            self.voice = voice;
            self.lines.push_str(&said);
        } else if is_rule(line) {
            // The line above the separator contains the column names.
            self.lines.clear();
        } else {
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        if !self.lines.is_empty() {
            self.lines.push(' ');
        }
        self.lines.push_str(line);
    }

    fn end_paragraph(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let form = std::mem::take(&mut self.form);
        let voice = std::mem::take(&mut self.voice);
        self.paragraphs.extend(paragraph(&lines, form, voice));
    }

    fn end_pasted(&mut self) {
        self.paragraphs.extend(told_most(&self.pasted));
        self.pasted.clear();
    }

    fn end(&mut self) {
        self.end_paragraph();
        self.end_pasted();
    }
}

/// Reduces pasted lines to the most informative one.
fn told_most(pasted: &[&str]) -> Option<Paragraph> {
    let units = vec![Unit::new(telling(pasted.iter().copied())?)];
    Some(Paragraph {
        form: Form::Prose,
        voice: Voice::Machine,
        units,
    })
}

fn paragraph(text: &str, form: Form, voice: Voice) -> Option<Paragraph> {
    let bold = text
        .strip_prefix("**")
        .map(|text| text.trim_end_matches(':'));
    let bold = bold.and_then(|text| text.strip_suffix("**"));
    let (text, form) = match bold {
        Some(text) if form == Form::Prose && !text.contains("**") => (text, Form::Heading),
        Some(_) | None => (text, form),
    };
    let units = sentences(text).filter(|unit| is_said(unit));
    let units: Vec<Unit> = units.map(Unit::new).collect();
    (!units.is_empty()).then_some(Paragraph { form, voice, units })
}

/// Parses a line that starts a new paragraph: a list entry, a table row, a heading or a quoted line. `None` for any
/// other line.
fn begun(line: &str) -> Option<(String, Form)> {
    if is_rule(line) {
        return None;
    }
    if let Some(row) = line.strip_prefix('|') {
        let cells = row.split('|').map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        return Some((cells.join(": "), Form::Entry));
    }
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return Some((heading.trim().to_owned(), Form::Heading));
    }
    let entry = entry(line)?;
    for (mark, ticked) in [("[ ] ", false), ("[x] ", true), ("[X] ", true)] {
        if let Some(rest) = entry.strip_prefix(mark) {
            return Some((rest.to_owned(), Form::Box { ticked }));
        }
    }
    Some((entry.to_owned(), Form::Entry))
}

/// Returns `true` if a line separates the header of a table from its rows.
fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.contains("--") && line.chars().all(|c| "|-: ".contains(c))
}

/// Returns the text of a list entry or a quoted line without its mark; `None` for any other line.
fn entry(line: &str) -> Option<&str> {
    for mark in ["- ", "* ", "+ ", "• ", "> "] {
        if let Some(rest) = line.strip_prefix(mark) {
            return Some(rest.trim_start());
        }
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..).filter(|_| (1..=3).contains(&digits))?;
    let rest = rest.strip_prefix('.').or_else(|| rest.strip_prefix(')'))?;
    rest.strip_prefix(' ').map(str::trim_start)
}

/// Splits a paragraph into sentences. A sentence ends at `.`, `!` or `?` before whitespace, except after an
/// abbreviation, and at `。`, `！` or `？`.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let end = sentence_end(rest);
        let (sentence, after) = rest.split_at(end);
        rest = after;
        Some(sentence.trim_end())
    })
}

fn sentence_end(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let end = at + c.len_utf8();
        if matches!(c, '。' | '！' | '？') {
            return end;
        }
        if !matches!(c, '.' | '!' | '?') {
            continue;
        }
        let blank = characters
            .peek()
            .is_none_or(|(_, next)| next.is_whitespace());
        let before = text.get(..at).unwrap_or_default();
        if blank && !(c == '.' && is_short_form(before)) {
            return end;
        }
    }
    text.len()
}

/// Returns `true` if the word before a period is an abbreviation.
fn is_short_form(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    let known = ["e.g", "i.e", "etc", "vs", "cf", "approx", "z.B", "bzw"];
    known.iter().any(|short| word.eq_ignore_ascii_case(short))
}

/// Returns `true` if the text contains at least two letters or digits.
fn is_said(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).count() >= 2
}

fn shortened(line: &str) -> String {
    if line.len() <= LONGEST {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(LONGEST);
    let kept = line.get(..end).unwrap_or(line);
    // Cut between two words, if possible.
    let kept = kept.rsplit_once(' ').map_or(kept, |(kept, _)| kept);
    format!("{kept} …")
}

/// Normalises a text for matching: lower-case letters, digits, and the marks within words and names. Each word is
/// between spaces.
pub(super) fn plain(text: &str) -> String {
    let is_mark = |c: char| matches!(c, '\'' | '.' | '-' | '_');
    let mut plain = String::with_capacity(text.len() + 2);
    plain.push(' ');
    let mut begins = 1;
    for c in text.chars().chain([' ']) {
        match c {
            'A'..='Z' => plain.push(c.to_ascii_lowercase()),
            // A mark at the start of a word is dropped, because marks count only within a word.
            '’' | '\'' | '_' | '.' | '-' if plain.len() == begins => {}
            '’' => plain.push('\''),
            'a'..='z' | '0'..='9' | '/' | '\'' | '_' | '.' | '-' => plain.push(c),
            c if c.is_alphanumeric() => plain.extend(c.to_lowercase()),
            _ => {
                let word = plain.get(begins..).unwrap_or_default();
                let word = word.trim_end_matches(is_mark).len();
                plain.truncate(begins + word);
                if word > 0 {
                    plain.push(' ');
                    begins = plain.len();
                }
            }
        }
    }
    plain
}
