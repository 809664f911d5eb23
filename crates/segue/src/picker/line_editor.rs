//! Editable line: the text, the cursor and the effect of keys.

use unicode_segmentation::UnicodeSegmentation;

use super::keys::LineEdit;
use crate::terminal::text;

/// Maximum length of a line in bytes, because a pasted file is not a search.
const MAX_LINE_BYTES: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineEditor {
    before_cursor: String,
    after_cursor: String,
}

impl LineEditor {
    pub(super) fn new(text: &str) -> Self {
        let mut line = Self::default();
        line.insert(text);
        line
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before_cursor, self.after_cursor)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.before_cursor.is_empty() && self.after_cursor.is_empty()
    }

    /// Inserts a text at the cursor, on one line and without control characters.
    pub(super) fn insert(&mut self, input: &str) {
        let room =
            MAX_LINE_BYTES.saturating_sub(self.before_cursor.len() + self.after_cursor.len());
        // A terminal pastes line ends as carriage returns.
        let input = text::to_plain_line(&input.replace("\r\n", "\n").replace('\r', "\n"));
        let mut length = input.len().min(room);
        while !input.is_char_boundary(length) {
            length -= 1;
        }
        self.before_cursor
            .push_str(input.get(..length).unwrap_or_default());
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn edit(&mut self, edit: LineEdit) {
        match edit {
            LineEdit::Left => self.move_left(last_grapheme_len(&self.before_cursor)),
            LineEdit::WordLeft => self.move_left(last_word_len(&self.before_cursor)),
            LineEdit::Start => self.move_left(self.before_cursor.len()),
            LineEdit::Right => self.move_right(first_grapheme_len(&self.after_cursor)),
            LineEdit::WordRight => self.move_right(first_word_len(&self.after_cursor)),
            LineEdit::End => self.move_right(self.after_cursor.len()),
            LineEdit::Backspace => {
                self.delete_before_cursor(last_grapheme_len(&self.before_cursor));
            }
            LineEdit::WordBackspace => {
                self.delete_before_cursor(last_word_len(&self.before_cursor));
            }
            LineEdit::DeleteToStart => self.before_cursor.clear(),
            LineEdit::Delete => drop(
                self.after_cursor
                    .drain(..first_grapheme_len(&self.after_cursor)),
            ),
            LineEdit::WordDelete => drop(
                self.after_cursor
                    .drain(..first_word_len(&self.after_cursor)),
            ),
        }
    }

    fn move_left(&mut self, length: usize) {
        let moved = self
            .before_cursor
            .split_off(self.before_cursor.len() - length);
        self.after_cursor.insert_str(0, &moved);
    }

    fn move_right(&mut self, length: usize) {
        self.before_cursor.extend(self.after_cursor.drain(..length));
    }

    fn delete_before_cursor(&mut self, length: usize) {
        self.before_cursor
            .truncate(self.before_cursor.len() - length);
    }

    /// Returns the part of the line that fits into `width` with the cursor, and the column of the cursor in it.
    pub(super) fn visible_part(&self, width: usize) -> (String, usize) {
        let mut visible = String::new();
        // The last column is reserved for the cursor after the last character.
        let mut room = width.saturating_sub(1);
        for grapheme in self.before_cursor.graphemes(true).rev() {
            let Some(remaining) = room.checked_sub(text::display_width(grapheme)) else {
                break;
            };
            visible.insert_str(0, grapheme);
            room = remaining;
        }
        let cursor = text::display_width(&visible);
        visible.push_str(&text::fitting_prefix(
            &self.after_cursor,
            width.saturating_sub(cursor),
        ));
        (visible, cursor)
    }
}

fn last_grapheme_len(text: &str) -> usize {
    text.graphemes(true).next_back().map_or(0, str::len)
}

fn first_grapheme_len(text: &str) -> usize {
    text.graphemes(true).next().map_or(0, str::len)
}

/// Returns the length of the last word, including the blanks after it.
fn last_word_len(text: &str) -> usize {
    let last_blank = text.trim_end().rfind(char::is_whitespace);
    let word_start =
        last_blank.and_then(|at| text.get(at..)?.chars().next().map(|c| at + c.len_utf8()));
    text.len() - word_start.unwrap_or(0)
}

/// Returns the length of the first word, including the blanks before it.
fn first_word_len(text: &str) -> usize {
    let word = text.trim_start();
    let blanks = text.len() - word.len();
    blanks + word.find(char::is_whitespace).unwrap_or(word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a line from a text in which `|` marks the cursor.
    fn line_with_cursor(text: &str) -> LineEditor {
        let (before, after) = text.split_once('|').unwrap();
        LineEditor {
            before_cursor: before.to_owned(),
            after_cursor: after.to_owned(),
        }
    }

    #[test]
    fn edits_move_the_cursor_and_delete_text() {
        let cases = [
            ("ab|c", LineEdit::Left, "a|bc"),
            ("|abc", LineEdit::Left, "|abc"),
            ("ab|c", LineEdit::Right, "abc|"),
            ("abc|", LineEdit::Right, "abc|"),
            ("日本|語", LineEdit::Left, "日|本語"),
            ("e\u{301}|x", LineEdit::Left, "|e\u{301}x"),
            ("one two  |x", LineEdit::WordLeft, "one |two  x"),
            ("one |x", LineEdit::WordLeft, "|one x"),
            ("a|  one two", LineEdit::WordRight, "a  one| two"),
            ("one t|wo", LineEdit::Start, "|one two"),
            ("one t|wo", LineEdit::End, "one two|"),
            ("one t|wo", LineEdit::Backspace, "one |wo"),
            ("|wo", LineEdit::Backspace, "|wo"),
            ("tag:x one  |two", LineEdit::WordBackspace, "tag:x |two"),
            ("\u{3000}é|", LineEdit::WordBackspace, "\u{3000}|"),
            ("one t|wo", LineEdit::DeleteToStart, "|wo"),
            ("one t|wo x", LineEdit::Delete, "one t|o x"),
            ("one t|", LineEdit::Delete, "one t|"),
            ("one t|wo x", LineEdit::WordDelete, "one t| x"),
        ];
        for (before, edit, after) in cases {
            let mut edited = line_with_cursor(before);
            edited.edit(edit);
            assert_eq!(edited, line_with_cursor(after), "{edit:?} in {before:?}");
        }
    }

    #[test]
    fn pasted_text_becomes_one_clean_line_of_bounded_length() {
        let mut pasted = line_with_cursor("a|z");
        pasted.insert("one\r\ntwo\tthree\u{1b}[31m\u{7}");
        assert_eq!(pasted.text(), "aone two threez");
        pasted.insert(" x\ry\r");
        assert_eq!(pasted.text(), "aone two three x yz");
        pasted.insert(&"ü".repeat(5000));
        assert!(pasted.text().len() <= MAX_LINE_BYTES && pasted.text().ends_with("üz"));
    }

    #[test]
    fn the_cursor_is_always_visible() {
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
        for (text, width, visible, cursor) in cases {
            assert_eq!(
                line_with_cursor(text).visible_part(width),
                (visible.to_owned(), cursor),
                "{text:?} in {width}"
            );
        }
    }
}
