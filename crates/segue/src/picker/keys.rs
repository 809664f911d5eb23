//! Key bindings.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PickerKey {
    Char(char),
    Paste(String),
    Edit(LineEdit),
    Move(ListMove),
    PreviewUp,
    PreviewDown,
    Enter,
    Escape,
    ToggleProjects,
    ToggleOrder,
    Show,
    Handoff,
    Fork,
    Tag,
    Archive,
    Help,
    /// Ends the picker if the line is empty.
    EndOfInput,
    Quit,
    Suspend,
    /// Redraws the screen and refreshes the list.
    Redraw,
}

/// An edit of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEdit {
    Left,
    Right,
    WordLeft,
    WordRight,
    Start,
    End,
    Backspace,
    WordBackspace,
    DeleteToStart,
    Delete,
    WordDelete,
}

/// A movement in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListMove {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

impl ListMove {
    /// Returns the index after this movement, in a list with this last index.
    pub(super) fn apply(self, index: usize, page_height: usize, last_index: usize) -> usize {
        let moved = match self {
            Self::Up => index.saturating_sub(1),
            Self::Down => index + 1,
            Self::PageUp => index.saturating_sub(page_height),
            Self::PageDown => index + page_height,
            Self::First => 0,
            Self::Last => last_index,
        };
        moved.min(last_index)
    }
}

/// Translates an event of the terminal. `None` if the picker does not use it.
pub(super) fn translate_event(event: Event) -> Option<PickerKey> {
    match event {
        Event::Paste(text) => Some(PickerKey::Paste(text)),
        Event::Key(event) if event.kind != KeyEventKind::Release => translate_key(event),
        _ => None,
    }
}

fn translate_key(event: KeyEvent) -> Option<PickerKey> {
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    let alt = event.modifiers.contains(KeyModifiers::ALT);
    let shift = event.modifiers.contains(KeyModifiers::SHIFT);
    let is_word_edit = control || alt;
    Some(match event.code {
        KeyCode::Char(c) if control && !alt => return control_key(c),
        KeyCode::Char(c) if alt && !control => return alt_key(c),
        KeyCode::Char(c) => PickerKey::Char(c),
        KeyCode::Enter => PickerKey::Enter,
        KeyCode::Esc => PickerKey::Escape,
        KeyCode::Tab | KeyCode::BackTab => PickerKey::ToggleProjects,
        KeyCode::F(1) => PickerKey::Help,
        KeyCode::F(5) => PickerKey::Redraw,
        KeyCode::Up if is_word_edit || shift => PickerKey::PreviewUp,
        KeyCode::Down if is_word_edit || shift => PickerKey::PreviewDown,
        KeyCode::Up => PickerKey::Move(ListMove::Up),
        KeyCode::Down => PickerKey::Move(ListMove::Down),
        KeyCode::PageUp => PickerKey::Move(ListMove::PageUp),
        KeyCode::PageDown => PickerKey::Move(ListMove::PageDown),
        KeyCode::Home => PickerKey::Move(ListMove::First),
        KeyCode::End => PickerKey::Move(ListMove::Last),
        KeyCode::Left if is_word_edit => PickerKey::Edit(LineEdit::WordLeft),
        KeyCode::Right if is_word_edit => PickerKey::Edit(LineEdit::WordRight),
        KeyCode::Left => PickerKey::Edit(LineEdit::Left),
        KeyCode::Right => PickerKey::Edit(LineEdit::Right),
        KeyCode::Backspace if is_word_edit => PickerKey::Edit(LineEdit::WordBackspace),
        KeyCode::Backspace => PickerKey::Edit(LineEdit::Backspace),
        KeyCode::Delete if is_word_edit => PickerKey::Edit(LineEdit::WordDelete),
        KeyCode::Delete => PickerKey::Edit(LineEdit::Delete),
        _ => return None,
    })
}

fn control_key(c: char) -> Option<PickerKey> {
    Some(match c.to_ascii_lowercase() {
        'a' => PickerKey::Edit(LineEdit::Start),
        'b' => PickerKey::Edit(LineEdit::Left),
        'c' => PickerKey::Quit,
        'd' => PickerKey::EndOfInput,
        'e' => PickerKey::Edit(LineEdit::End),
        'f' => PickerKey::Edit(LineEdit::Right),
        // Many terminals send Ctrl-H for the backspace key.
        'h' => PickerKey::Edit(LineEdit::Backspace),
        'j' | 'n' => PickerKey::Move(ListMove::Down),
        'k' | 'p' => PickerKey::Move(ListMove::Up),
        'l' => PickerKey::Redraw,
        'o' => PickerKey::Show,
        'r' => PickerKey::ToggleOrder,
        's' => PickerKey::Archive,
        't' => PickerKey::Tag,
        'u' => PickerKey::Edit(LineEdit::DeleteToStart),
        'w' => PickerKey::Edit(LineEdit::WordBackspace),
        'x' => PickerKey::Handoff,
        'y' => PickerKey::Fork,
        'z' => PickerKey::Suspend,
        _ => return None,
    })
}

fn alt_key(c: char) -> Option<PickerKey> {
    Some(match c {
        'b' => PickerKey::Edit(LineEdit::WordLeft),
        'd' => PickerKey::Edit(LineEdit::WordDelete),
        'f' => PickerKey::Edit(LineEdit::WordRight),
        '<' => PickerKey::Move(ListMove::First),
        '>' => PickerKey::Move(ListMove::Last),
        _ => return None,
    })
}

/// Key bindings in the help, at most as many as fit on a terminal of 24 lines.
pub(super) const HELP_ENTRIES: &[(&str, &str)] = &[
    ("Enter", "resume in the agent's own program"),
    ("Ctrl-O", "quit and print the transcript"),
    ("Ctrl-X", "hand the session off to another agent"),
    ("Ctrl-Y", "fork the session"),
    ("Ctrl-T", "add or remove tags"),
    ("Ctrl-S", "archive the session"),
    ("", ""),
    ("Up, Down", "move; also Ctrl-P, Ctrl-N"),
    ("PgUp, PgDn", "move by a page"),
    ("Home, End", "move to the first or last session"),
    ("Shift-Up, -Down", "scroll the preview"),
    ("Tab", "show this project or all projects"),
    ("Ctrl-R", "sort by date or by best match"),
    ("", ""),
    ("provider:codex", "only sessions of this agent"),
    ("project:NAME", "only sessions of this project"),
    ("tag:NAME", "only sessions with this tag"),
    ("after:7d", "only sessions active since then"),
    ("\"a phrase\"", "these words in this order"),
    ("Ctrl-W, -U", "delete a word, or all before the cursor"),
    ("Esc", "clear the search, then quit"),
    ("Ctrl-C, -Z, -L", "quit, suspend, refresh"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_conventional_meaning() {
        let (no_modifier, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        let (alt, shift) = (KeyModifiers::ALT, KeyModifiers::SHIFT);
        let cases = [
            (KeyCode::Char('q'), no_modifier, Some(PickerKey::Char('q'))),
            (KeyCode::Char('Q'), shift, Some(PickerKey::Char('Q'))),
            (KeyCode::Char('?'), no_modifier, Some(PickerKey::Char('?'))),
            // AltGr is reported as Ctrl and Alt, and types characters.
            (
                KeyCode::Char('@'),
                control | alt,
                Some(PickerKey::Char('@')),
            ),
            (
                KeyCode::Char('n'),
                control,
                Some(PickerKey::Move(ListMove::Down)),
            ),
            (
                KeyCode::Char('P'),
                control,
                Some(PickerKey::Move(ListMove::Up)),
            ),
            (
                KeyCode::Char('h'),
                control,
                Some(PickerKey::Edit(LineEdit::Backspace)),
            ),
            (KeyCode::Char('g'), control, None),
            (KeyCode::Char('x'), alt, None),
            (
                KeyCode::Left,
                alt,
                Some(PickerKey::Edit(LineEdit::WordLeft)),
            ),
            (
                KeyCode::Right,
                control,
                Some(PickerKey::Edit(LineEdit::WordRight)),
            ),
            (KeyCode::Up, shift, Some(PickerKey::PreviewUp)),
            (
                KeyCode::Backspace,
                alt,
                Some(PickerKey::Edit(LineEdit::WordBackspace)),
            ),
            (KeyCode::BackTab, shift, Some(PickerKey::ToggleProjects)),
            (KeyCode::F(1), no_modifier, Some(PickerKey::Help)),
            (KeyCode::F(5), no_modifier, Some(PickerKey::Redraw)),
            (KeyCode::F(6), no_modifier, None),
        ];
        for (code, modifiers, expected) in cases {
            let event = Event::Key(KeyEvent::new(code, modifiers));
            assert_eq!(translate_event(event), expected, "{modifiers} {code}");
        }
        assert_eq!(translate_event(Event::Resize(80, 24)), None);
        assert_eq!(
            translate_event(Event::Paste("a\nb".into())),
            Some(PickerKey::Paste("a\nb".into()))
        );
    }
}
