//! Keys in overlays: the help, the tag dialog and the choice of an agent.

use super::{Ask, Message, Mode, State, choose};
use crate::picker::data_source::{Deed, Next, retag};
use crate::picker::keys::{HELP, Key, Move};

impl State {
    pub(super) fn press_in_help(&mut self, key: &Key, top: usize) {
        let last = HELP.len().saturating_sub(1);
        let page = usize::from(self.size.height).saturating_sub(4).max(1);
        let top = match key {
            Key::Move(Move::Up) => top.saturating_sub(1),
            Key::Move(Move::Down) => top + 1,
            Key::Move(Move::PageUp) => top.saturating_sub(page),
            Key::Move(Move::PageDown) => top + page,
            Key::Move(Move::First) => 0,
            Key::Move(Move::Last) => last,
            _ => {
                self.mode = Mode::List;
                return;
            }
        };
        self.mode = Mode::Help { top: top.min(last) };
    }

    pub(super) fn press_in_tag(&mut self, key: Key) -> Ask {
        let Mode::Tag(row, line) = &mut self.mode else {
            return Ask::Nothing;
        };
        match key {
            Key::Char(c) => line.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => line.insert(&text),
            Key::Edit(edit) => line.edit(edit),
            Key::Escape => self.mode = Mode::List,
            Key::Enter => {
                let (row, tag) = (row.clone(), line.text().trim().to_owned());
                if let Err(error) = retag(&tag) {
                    // The typed text remains, so that the user can correct it.
                    self.message = Some(Message::Wrong(error.to_string()));
                    return Ask::Nothing;
                }
                self.mode = Mode::List;
                if !tag.is_empty() {
                    return self.act(row, Deed::Tag(tag), "tagging…");
                }
            }
            _ => {}
        }
        Ask::Nothing
    }

    pub(super) fn press_in_handoff(&mut self, key: &Key) -> Ask {
        let Mode::Handoff(row, agents, selected) = &mut self.mode else {
            return Ask::Nothing;
        };
        let last = agents.len().saturating_sub(1);
        let taken = match key {
            Key::Move(Move::Up) => return go(selected, selected.saturating_sub(1)),
            Key::Move(Move::Down) => return go(selected, (*selected + 1).min(last)),
            Key::Move(Move::First | Move::PageUp) => return go(selected, 0),
            Key::Move(Move::Last | Move::PageDown) => return go(selected, last),
            Key::Enter => agents.get(*selected).cloned(),
            Key::Char(c) => match numbered(*c).and_then(|at| agents.get(at)) {
                None => return Ask::Nothing,
                agent => agent.cloned(),
            },
            _ => None,
        };
        let row = row.clone();
        self.mode = Mode::List;
        taken.map_or(Ask::Nothing, |agent| choose(row, Next::Handoff(agent)))
    }
}

fn go(selected: &mut usize, to: usize) -> Ask {
    *selected = to;
    Ask::Nothing
}

/// Returns the index that a digit selects.
fn numbered(c: char) -> Option<usize> {
    usize::try_from(c.to_digit(10)?.checked_sub(1)?).ok()
}
