//! Splitting of a text into paragraphs and sentences.

use super::line_kind::is_fence;
use super::tool_actions::most_informative_line;
use super::voice::{Voice, voices};
use crate::session::Role;
use crate::session::to_single_line;

/// Maximum bytes of a sentence. A longer one is cut at the end.
const MAX_SENTENCE_BYTES: usize = 600;

/// A sentence, a list entry or a heading, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextUnit {
    pub(super) text: String,
    /// The text in lower case, each word between spaces and without punctuation around it. Cues are matched against it.
    pub(super) normalised: String,
}

impl TextUnit {
    pub(super) fn new(text: &str) -> Self {
        let text = truncate_sentence(&to_single_line(text));
        let normalised = normalise_text(&text);
        Self { text, normalised }
    }

    /// Joins this sentence and the next one.
    pub(super) fn join(&self, next: &Self) -> Self {
        Self::new(&format!("{} {}", self.text, next.text))
    }

    /// Returns how specific the sentence is, from 0 to 12: the number of tokens beyond one per word. A tokenizer
    /// encodes a common word as one token and splits names, paths and numbers.
    pub(super) fn specificity(&self, count: &dyn Fn(&str) -> u64) -> u32 {
        let words = self.words().count() as u64;
        let extra_tokens = count(&self.normalised).saturating_sub(words);
        u32::try_from(extra_tokens.min(12)).unwrap_or(12)
    }

    /// Returns the file paths in the sentence: words with a slash and a file extension.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let is_separator = |c: char| {
            !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '@' | '+'))
        };
        let words = self
            .text
            .split(is_separator)
            .map(|word| word.trim_end_matches(['.', '-']));
        words.filter(|word| {
            let name = word.rsplit('/').next().unwrap_or_default();
            let Some((stem, extension)) = name.rsplit_once('.') else {
                return false;
            };
            word.contains('/')
                && !word.starts_with("//")
                && !stem.is_empty()
                && (1..=5).contains(&extension.len())
                && extension.chars().all(char::is_alphanumeric)
        })
    }

    /// Returns the words of `normalised`.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.normalised.split(' ').filter(|word| !word.is_empty())
    }
}

/// Consecutive sentences with the same form and author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Paragraph {
    pub(super) layout: ParagraphLayout,
    /// Author of the paragraph. Machine output is reduced to its most informative line.
    pub(super) voice: Voice,
    pub(super) units: Vec<TextUnit>,
}

/// Layout of a paragraph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ParagraphLayout {
    /// Ordinary text.
    #[default]
    Prose,
    /// A list entry, a table row or a quoted line.
    ListEntry,
    /// A list entry with a checkbox.
    Checkbox { ticked: bool },
    /// A heading.
    Heading,
}

/// Splits a message into paragraphs. Omits code blocks.
pub(super) fn split_paragraphs(text: &str, role: Role) -> Vec<Paragraph> {
    let lines: Vec<&str> = text.lines().collect();
    let voices = voices(&lines, role);
    let mut parser = ParagraphParser::default();
    for (line, voice) in lines.iter().zip(voices) {
        parser.push_line(line.trim(), voice);
    }
    parser.end_block();
    parser.paragraphs
}

/// State while a text is parsed line by line.
#[derive(Default)]
struct ParagraphParser<'a> {
    paragraphs: Vec<Paragraph>,
    paragraph_text: String,
    layout: ParagraphLayout,
    voice: Voice,
    pasted: Vec<&'a str>,
    in_code: bool,
}

impl<'a> ParagraphParser<'a> {
    fn push_line(&mut self, line: &'a str, voice: Voice) {
        if is_fence(line) {
            self.end_block();
            self.in_code = !self.in_code;
        } else if !self.in_code {
            self.push_text_line(line, voice);
        }
    }

    fn push_text_line(&mut self, line: &'a str, voice: Voice) {
        if line.is_empty() {
            // `pasted` does not end, because output may contain empty lines.
            self.end_paragraph();
        } else if voice == Voice::Machine {
            self.end_paragraph();
            self.pasted.push(line);
        } else {
            self.push_authored_line(line, voice);
        }
    }

    /// Adds a line that is not machine output.
    fn push_authored_line(&mut self, line: &str, voice: Voice) {
        self.end_pasted();
        if voice != self.voice {
            self.end_paragraph();
        }
        self.voice = voice;
        if voice == Voice::Quoted {
            self.append_line(line.trim_start_matches(['>', ' ']));
        } else if let Some((text, layout)) = parse_paragraph_start(line) {
            self.end_paragraph();
            self.layout = layout;
            self.voice = voice;
            self.paragraph_text.push_str(&text);
        } else if is_table_separator(line) {
            // The line above the separator contains the column names.
            self.paragraph_text.clear();
        } else {
            self.append_line(line);
        }
    }

    fn append_line(&mut self, line: &str) {
        if !self.paragraph_text.is_empty() {
            self.paragraph_text.push(' ');
        }
        self.paragraph_text.push_str(line);
    }

    fn end_paragraph(&mut self) {
        let lines = std::mem::take(&mut self.paragraph_text);
        let layout = std::mem::take(&mut self.layout);
        let voice = std::mem::take(&mut self.voice);
        self.paragraphs
            .extend(parse_paragraph(&lines, layout, voice));
    }

    fn end_pasted(&mut self) {
        self.paragraphs.extend(summarise_pasted(&self.pasted));
        self.pasted.clear();
    }

    fn end_block(&mut self) {
        self.end_paragraph();
        self.end_pasted();
    }
}

/// Reduces pasted lines to the most informative one.
fn summarise_pasted(pasted: &[&str]) -> Option<Paragraph> {
    let units = vec![TextUnit::new(most_informative_line(
        pasted.iter().copied(),
    )?)];
    Some(Paragraph {
        layout: ParagraphLayout::Prose,
        voice: Voice::Machine,
        units,
    })
}

fn parse_paragraph(text: &str, layout: ParagraphLayout, voice: Voice) -> Option<Paragraph> {
    let bold = text
        .strip_prefix("**")
        .map(|text| text.trim_end_matches(':'));
    let bold = bold.and_then(|text| text.strip_suffix("**"));
    let (text, layout) = match bold {
        Some(text) if layout == ParagraphLayout::Prose && !text.contains("**") => {
            (text, ParagraphLayout::Heading)
        }
        Some(_) | None => (text, layout),
    };
    let units = split_sentences(text).filter(|unit| has_content(unit));
    let units: Vec<TextUnit> = units.map(TextUnit::new).collect();
    (!units.is_empty()).then_some(Paragraph {
        layout,
        voice,
        units,
    })
}

/// Parses a line that starts a new paragraph: a list entry, a table row, a heading or a quoted line. `None` for any
/// other line.
fn parse_paragraph_start(line: &str) -> Option<(String, ParagraphLayout)> {
    if is_table_separator(line) {
        return None;
    }
    if let Some(row) = line.strip_prefix('|') {
        let cells = row.split('|').map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        return Some((cells.join(": "), ParagraphLayout::ListEntry));
    }
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return Some((heading.trim().to_owned(), ParagraphLayout::Heading));
    }
    let entry = parse_list_entry(line)?;
    for (mark, ticked) in [("[ ] ", false), ("[x] ", true), ("[X] ", true)] {
        if let Some(label) = entry.strip_prefix(mark) {
            return Some((label.to_owned(), ParagraphLayout::Checkbox { ticked }));
        }
    }
    Some((entry.to_owned(), ParagraphLayout::ListEntry))
}

/// Returns `true` if a line separates the header of a table from its rows.
fn is_table_separator(line: &str) -> bool {
    line.starts_with('|') && line.contains("--") && line.chars().all(|c| "|-: ".contains(c))
}

/// Returns the text of a list entry or a quoted line without its mark; `None` for any other line.
fn parse_list_entry(line: &str) -> Option<&str> {
    for mark in ["- ", "* ", "+ ", "• ", "> "] {
        if let Some(text) = line.strip_prefix(mark) {
            return Some(text.trim_start());
        }
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after_number = line.get(digits..).filter(|_| (1..=3).contains(&digits))?;
    let after_number = after_number
        .strip_prefix('.')
        .or_else(|| after_number.strip_prefix(')'))?;
    after_number.strip_prefix(' ').map(str::trim_start)
}

/// Splits a paragraph into sentences. A sentence ends at `.`, `!` or `?` before whitespace, except after an
/// abbreviation, and at `。`, `！` or `？`.
fn split_sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut remaining = paragraph;
    std::iter::from_fn(move || {
        remaining = remaining.trim_start();
        if remaining.is_empty() {
            return None;
        }
        let end = sentence_end(remaining);
        let (sentence, after) = remaining.split_at(end);
        remaining = after;
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
        let is_before_space = characters
            .peek()
            .is_none_or(|(_, next)| next.is_whitespace());
        let before = text.get(..at).unwrap_or_default();
        if is_before_space && !(c == '.' && is_abbreviation(before)) {
            return end;
        }
    }
    text.len()
}

/// Returns `true` if the word before a period is an abbreviation.
fn is_abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    let abbreviations = ["e.g", "i.e", "etc", "vs", "cf", "approx", "z.B", "bzw"];
    abbreviations
        .iter()
        .any(|abbreviation| word.eq_ignore_ascii_case(abbreviation))
}

/// Returns `true` if the text contains at least two letters or digits.
fn has_content(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).count() >= 2
}

fn truncate_sentence(line: &str) -> String {
    if line.len() <= MAX_SENTENCE_BYTES {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(MAX_SENTENCE_BYTES);
    let prefix = line.get(..end).unwrap_or(line);
    // Cut between two words, if possible.
    let prefix = prefix.rsplit_once(' ').map_or(prefix, |(prefix, _)| prefix);
    format!("{prefix} …")
}

/// Normalises a text for matching: lower-case letters, digits, and the marks within words and names. Each word is
/// between spaces.
pub(super) fn normalise_text(text: &str) -> String {
    let is_mark = |c: char| matches!(c, '\'' | '.' | '-' | '_');
    let mut normalised = String::with_capacity(text.len() + 2);
    normalised.push(' ');
    let mut word_start = 1;
    for c in text.chars().chain([' ']) {
        match c {
            'A'..='Z' => normalised.push(c.to_ascii_lowercase()),
            // A mark at the start of a word is dropped, because marks count only within a word.
            '’' | '\'' | '_' | '.' | '-' if normalised.len() == word_start => {}
            '’' => normalised.push('\''),
            'a'..='z' | '0'..='9' | '/' | '\'' | '_' | '.' | '-' => normalised.push(c),
            c if c.is_alphanumeric() => normalised.extend(c.to_lowercase()),
            _ => {
                let word = normalised.get(word_start..).unwrap_or_default();
                let word = word.trim_end_matches(is_mark).len();
                normalised.truncate(word_start + word);
                if word > 0 {
                    normalised.push(' ');
                    word_start = normalised.len();
                }
            }
        }
    }
    normalised
}
