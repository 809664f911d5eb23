//! Editable line: the text, the cursor and the effect of keys.

use unicode_segmentation::UnicodeSegmentation;

use super::keys::Edit;
use crate::terminal::text;

/// Maximum length of a line in bytes, because a pasted file is not a search.
const LONGEST: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    before: String,
    after: String,
}

impl Line {
    pub(super) fn new(text: &str) -> Self {
        let mut line = Self::default();
        line.insert(text);
        line
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// Inserts a text at the cursor, on one line and without control characters.
    pub(super) fn insert(&mut self, typed: &str) {
        let room = LONGEST.saturating_sub(self.before.len() + self.after.len());
        // A terminal pastes line ends as carriage returns.
        let typed = text::plain(&typed.replace("\r\n", "\n").replace('\r', "\n"));
        let mut taken = typed.len().min(room);
        while !typed.is_char_boundary(taken) {
            taken -= 1;
        }
        self.before.push_str(typed.get(..taken).unwrap_or_default());
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Left => self.back(last_length(&self.before)),
            Edit::WordLeft => self.back(last_word(&self.before)),
            Edit::Start => self.back(self.before.len()),
            Edit::Right => self.ahead(first_length(&self.after)),
            Edit::WordRight => self.ahead(first_word(&self.after)),
            Edit::End => self.ahead(self.after.len()),
            Edit::Backspace => self.cut_before(last_length(&self.before)),
            Edit::WordBackspace => self.cut_before(last_word(&self.before)),
            Edit::ToStart => self.before.clear(),
            Edit::Delete => drop(self.after.drain(..first_length(&self.after))),
            Edit::WordDelete => drop(self.after.drain(..first_word(&self.after))),
        }
    }

    fn back(&mut self, length: usize) {
        let moved = self.before.split_off(self.before.len() - length);
        self.after.insert_str(0, &moved);
    }

    fn ahead(&mut self, length: usize) {
        self.before.extend(self.after.drain(..length));
    }

    fn cut_before(&mut self, length: usize) {
        self.before.truncate(self.before.len() - length);
    }

    /// Returns the part of the line that fits into `width` with the cursor, and the column of the cursor in it.
    pub(super) fn view(&self, width: usize) -> (String, usize) {
        let mut shown = String::new();
        // The last column is reserved for the cursor after the last character.
        let mut room = width.saturating_sub(1);
        for grapheme in self.before.graphemes(true).rev() {
            let Some(left) = room.checked_sub(text::width(grapheme)) else {
                break;
            };
            shown.insert_str(0, grapheme);
            room = left;
        }
        let cursor = text::width(&shown);
        shown.push_str(&text::fitting(&self.after, width.saturating_sub(cursor)));
        (shown, cursor)
    }
}

fn last_length(text: &str) -> usize {
    text.graphemes(true).next_back().map_or(0, str::len)
}

fn first_length(text: &str) -> usize {
    text.graphemes(true).next().map_or(0, str::len)
}

/// Returns the length of the last word, including the blanks after it.
fn last_word(text: &str) -> usize {
    let words = text.trim_end().rfind(char::is_whitespace);
    let blank = words.and_then(|at| text.get(at..)?.chars().next().map(|c| at + c.len_utf8()));
    text.len() - blank.unwrap_or(0)
}

/// Returns the length of the first word, including the blanks before it.
fn first_word(text: &str) -> usize {
    let word = text.trim_start();
    let blanks = text.len() - word.len();
    blanks + word.find(char::is_whitespace).unwrap_or(word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a line from a text in which `|` marks the cursor.
    fn line(text: &str) -> Line {
        let (before, after) = text.split_once('|').unwrap();
        Line {
            before: before.to_owned(),
            after: after.to_owned(),
        }
    }

    #[test]
    fn keys_move_and_cut() {
        let cases = [
            ("ab|c", Edit::Left, "a|bc"),
            ("|abc", Edit::Left, "|abc"),
            ("ab|c", Edit::Right, "abc|"),
            ("abc|", Edit::Right, "abc|"),
            ("日本|語", Edit::Left, "日|本語"),
            ("e\u{301}|x", Edit::Left, "|e\u{301}x"),
            ("one two  |x", Edit::WordLeft, "one |two  x"),
            ("one |x", Edit::WordLeft, "|one x"),
            ("a|  one two", Edit::WordRight, "a  one| two"),
            ("one t|wo", Edit::Start, "|one two"),
            ("one t|wo", Edit::End, "one two|"),
            ("one t|wo", Edit::Backspace, "one |wo"),
            ("|wo", Edit::Backspace, "|wo"),
            ("tag:x one  |two", Edit::WordBackspace, "tag:x |two"),
            ("\u{3000}é|", Edit::WordBackspace, "\u{3000}|"),
            ("one t|wo", Edit::ToStart, "|wo"),
            ("one t|wo x", Edit::Delete, "one t|o x"),
            ("one t|", Edit::Delete, "one t|"),
            ("one t|wo x", Edit::WordDelete, "one t| x"),
        ];
        for (before, edit, after) in cases {
            let mut edited = line(before);
            edited.edit(edit);
            assert_eq!(edited, line(after), "{edit:?} in {before:?}");
        }
    }

    #[test]
    fn what_is_pasted_is_one_harmless_line_of_bounded_length() {
        let mut pasted = line("a|z");
        pasted.insert("one\r\ntwo\tthree\u{1b}[31m\u{7}");
        assert_eq!(pasted.text(), "aone two threez");
        pasted.insert(" x\ry\r");
        assert_eq!(pasted.text(), "aone two three x yz");
        pasted.insert(&"ü".repeat(5000));
        assert!(pasted.text().len() <= LONGEST && pasted.text().ends_with("üz"));
    }

    #[test]
    fn the_cursor_is_always_in_view() {
        let cases = [
            ("abc|", 10, "abc", 3),
            ("abcdef|", 4, "def", 3),
            ("ab|cdef", 4, "abcd", 2),
            ("|abcdef", 4, "abcd", 0),
            ("日本語|", 4, "語", 2),
            ("日本|語x", 6, "日本語", 4),
            ("abc|", 0, "", 0),
            ("abc|", 1, "", 0),
        ];
        for (text, width, shown, cursor) in cases {
            assert_eq!(
                line(text).view(width),
                (shown.to_owned(), cursor),
                "{text:?} in {width}"
            );
        }
    }
}
