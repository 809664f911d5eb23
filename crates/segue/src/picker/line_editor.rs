//! Editable line: the text, the cursor and the effect of keys.

use unicode_segmentation::UnicodeSegmentation;

use super::keys::LineEdit;
use crate::terminal::text;

/// Maximum length of a line in bytes, because a pasted file is not a search.
const MAX_LINE_BYTES: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineEditor {
    text: String,
    /// Byte offset of the cursor in the text.
    cursor: usize,
}

impl LineEditor {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Inserts a text at the cursor, on one line and without control characters.
    pub(super) fn insert(&mut self, input: &str) {
        // A terminal pastes line ends as carriage returns.
        let mut input = text::to_plain_line(&input.replace("\r\n", "\n").replace('\r', "\n"));
        let room = MAX_LINE_BYTES.saturating_sub(self.text.len());
        input.truncate(input.floor_char_boundary(room));
        self.text.insert_str(self.cursor, &input);
        self.cursor += input.len();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Moves the cursor, or deletes the text between the cursor and the position that it would be moved to.
    pub(super) fn edit(&mut self, edit: LineEdit) {
        let (before, after) = self.text.split_at(self.cursor);
        let (target, is_deletion) = match edit {
            LineEdit::Left => (self.cursor - last_grapheme_len(before), false),
            LineEdit::Backspace => (self.cursor - last_grapheme_len(before), true),
            LineEdit::WordLeft => (self.cursor - last_word_len(before), false),
            LineEdit::WordBackspace => (self.cursor - last_word_len(before), true),
            LineEdit::Start => (0, false),
            LineEdit::DeleteToStart => (0, true),
            LineEdit::Right => (self.cursor + first_grapheme_len(after), false),
            LineEdit::Delete => (self.cursor + first_grapheme_len(after), true),
            LineEdit::WordRight => (self.cursor + first_word_len(after), false),
            LineEdit::WordDelete => (self.cursor + first_word_len(after), true),
            LineEdit::End => (self.text.len(), false),
        };
        if is_deletion {
            let start = self.cursor.min(target);
            self.text.drain(start..self.cursor.max(target));
            self.cursor = start;
        } else {
            self.cursor = target;
        }
    }

    /// Returns the part of the line that fits into `width` with the cursor, and the column of the cursor in it.
    pub(super) fn visible_part(&self, width: usize) -> (String, usize) {
        let (before, after) = self.text.split_at(self.cursor);
        let mut visible = String::new();
        // The last column is reserved for the cursor after the last character.
        let mut room = width.saturating_sub(1);
        for grapheme in before.graphemes(true).rev() {
            let Some(remaining) = room.checked_sub(text::display_width(grapheme)) else {
                break;
            };
            visible.insert_str(0, grapheme);
            room = remaining;
        }
        let cursor = text::display_width(&visible);
        visible.push_str(&text::fitting_prefix(after, width.saturating_sub(cursor)));
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
            text: format!("{before}{after}"),
            cursor: before.len(),
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
