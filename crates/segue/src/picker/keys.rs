//! Key bindings.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Paste(String),
    Edit(Edit),
    Move(Move),
    PreviewUp,
    PreviewDown,
    Enter,
    Escape,
    Place,
    Order,
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
pub(super) enum Edit {
    Left,
    Right,
    WordLeft,
    WordRight,
    Start,
    End,
    Backspace,
    WordBackspace,
    ToStart,
    Delete,
    WordDelete,
}

/// A movement in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// Translates an event of the terminal. `None` if the picker does not use it.
pub(super) fn key(event: Event) -> Option<Key> {
    match event {
        Event::Paste(text) => Some(Key::Paste(text)),
        Event::Key(event) if event.kind != KeyEventKind::Release => pressed(event),
        _ => None,
    }
}

fn pressed(event: KeyEvent) -> Option<Key> {
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    let alt = event.modifiers.contains(KeyModifiers::ALT);
    let shift = event.modifiers.contains(KeyModifiers::SHIFT);
    let word = control || alt;
    Some(match event.code {
        KeyCode::Char(c) if control && !alt => return with_control(c),
        KeyCode::Char(c) if alt && !control => return with_alt(c),
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab | KeyCode::BackTab => Key::Place,
        KeyCode::F(1) => Key::Help,
        KeyCode::F(5) => Key::Redraw,
        KeyCode::Up if word || shift => Key::PreviewUp,
        KeyCode::Down if word || shift => Key::PreviewDown,
        KeyCode::Up => Key::Move(Move::Up),
        KeyCode::Down => Key::Move(Move::Down),
        KeyCode::PageUp => Key::Move(Move::PageUp),
        KeyCode::PageDown => Key::Move(Move::PageDown),
        KeyCode::Home => Key::Move(Move::First),
        KeyCode::End => Key::Move(Move::Last),
        KeyCode::Left if word => Key::Edit(Edit::WordLeft),
        KeyCode::Right if word => Key::Edit(Edit::WordRight),
        KeyCode::Left => Key::Edit(Edit::Left),
        KeyCode::Right => Key::Edit(Edit::Right),
        KeyCode::Backspace if word => Key::Edit(Edit::WordBackspace),
        KeyCode::Backspace => Key::Edit(Edit::Backspace),
        KeyCode::Delete if word => Key::Edit(Edit::WordDelete),
        KeyCode::Delete => Key::Edit(Edit::Delete),
        _ => return None,
    })
}

fn with_control(c: char) -> Option<Key> {
    Some(match c.to_ascii_lowercase() {
        'a' => Key::Edit(Edit::Start),
        'b' => Key::Edit(Edit::Left),
        'c' => Key::Quit,
        'd' => Key::EndOfInput,
        'e' => Key::Edit(Edit::End),
        'f' => Key::Edit(Edit::Right),
        // Many terminals send Ctrl-H for the backspace key.
        'h' => Key::Edit(Edit::Backspace),
        'j' | 'n' => Key::Move(Move::Down),
        'k' | 'p' => Key::Move(Move::Up),
        'l' => Key::Redraw,
        'o' => Key::Show,
        'r' => Key::Order,
        's' => Key::Archive,
        't' => Key::Tag,
        'u' => Key::Edit(Edit::ToStart),
        'w' => Key::Edit(Edit::WordBackspace),
        'x' => Key::Handoff,
        'y' => Key::Fork,
        'z' => Key::Suspend,
        _ => return None,
    })
}

fn with_alt(c: char) -> Option<Key> {
    Some(match c {
        'b' => Key::Edit(Edit::WordLeft),
        'd' => Key::Edit(Edit::WordDelete),
        'f' => Key::Edit(Edit::WordRight),
        '<' => Key::Move(Move::First),
        '>' => Key::Move(Move::Last),
        _ => return None,
    })
}

/// Key bindings in the help, at most as many as fit on a terminal of 24 lines.
pub(super) const HELP: &[(&str, &str)] = &[
    ("Enter", "resume it in its own agent"),
    ("Ctrl-O", "leave, and print what was said"),
    ("Ctrl-X", "hand it over to another agent"),
    ("Ctrl-Y", "fork it: the same past, a future of its own"),
    ("Ctrl-T", "tag it"),
    ("Ctrl-S", "archive it: a copy that nobody cleans up"),
    ("", ""),
    ("Up, Down", "move; also Ctrl-P, Ctrl-N"),
    ("PgUp, PgDn", "move by a page"),
    ("Home, End", "the first, the last"),
    ("Shift-Up, -Down", "scroll the preview"),
    ("Tab", "this project, or everywhere"),
    ("Ctrl-R", "the newest first, or the best"),
    ("", ""),
    ("provider:codex", "only those of an agent"),
    ("project:NAME", "only those of a project"),
    ("tag:NAME", "only those with a tag"),
    ("after:7d", "only those touched since then"),
    ("\"a phrase\"", "these words, in this order"),
    ("Ctrl-W, -U", "delete a word, all before the cursor"),
    ("Esc", "clear the search; then leave"),
    ("Ctrl-C, -Z, -L", "leave, suspend, look again"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_their_users_expect() {
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        let (alt, shift) = (KeyModifiers::ALT, KeyModifiers::SHIFT);
        let cases = [
            (KeyCode::Char('q'), none, Some(Key::Char('q'))),
            (KeyCode::Char('Q'), shift, Some(Key::Char('Q'))),
            (KeyCode::Char('?'), none, Some(Key::Char('?'))),
            // AltGr is reported as Ctrl and Alt, and types characters.
            (KeyCode::Char('@'), control | alt, Some(Key::Char('@'))),
            (KeyCode::Char('n'), control, Some(Key::Move(Move::Down))),
            (KeyCode::Char('P'), control, Some(Key::Move(Move::Up))),
            (
                KeyCode::Char('h'),
                control,
                Some(Key::Edit(Edit::Backspace)),
            ),
            (KeyCode::Char('g'), control, None),
            (KeyCode::Char('x'), alt, None),
            (KeyCode::Left, alt, Some(Key::Edit(Edit::WordLeft))),
            (KeyCode::Right, control, Some(Key::Edit(Edit::WordRight))),
            (KeyCode::Up, shift, Some(Key::PreviewUp)),
            (
                KeyCode::Backspace,
                alt,
                Some(Key::Edit(Edit::WordBackspace)),
            ),
            (KeyCode::BackTab, shift, Some(Key::Place)),
            (KeyCode::F(1), none, Some(Key::Help)),
            (KeyCode::F(5), none, Some(Key::Redraw)),
            (KeyCode::F(6), none, None),
        ];
        for (code, modifiers, expected) in cases {
            let event = Event::Key(KeyEvent::new(code, modifiers));
            assert_eq!(key(event), expected, "{modifiers} {code}");
        }
        assert_eq!(key(Event::Resize(80, 24)), None);
        assert_eq!(
            key(Event::Paste("a\nb".into())),
            Some(Key::Paste("a\nb".into()))
        );
    }
}
