//! Keys in overlays: the help, the tag dialog and the choice of an agent.

use super::{PickerAction, PickerMessage, PickerMode, PickerState, choose_row};
use crate::picker::data_source::{ChoiceAction, RowAction, parse_tag_change};
use crate::picker::keys::{HELP_ENTRIES, ListMove, PickerKey};

impl PickerState {
    pub(super) fn handle_help_key(&mut self, key: &PickerKey, top: usize) {
        let last_index = HELP_ENTRIES.len().saturating_sub(1);
        let page_height = usize::from(self.size.height).saturating_sub(4).max(1);
        let top = match key {
            PickerKey::Move(ListMove::Up) => top.saturating_sub(1),
            PickerKey::Move(ListMove::Down) => top + 1,
            PickerKey::Move(ListMove::PageUp) => top.saturating_sub(page_height),
            PickerKey::Move(ListMove::PageDown) => top + page_height,
            PickerKey::Move(ListMove::First) => 0,
            PickerKey::Move(ListMove::Last) => last_index,
            _ => {
                self.mode = PickerMode::List;
                return;
            }
        };
        self.mode = PickerMode::Help {
            top: top.min(last_index),
        };
    }

    pub(super) fn handle_tag_key(&mut self, key: PickerKey) -> PickerAction {
        let PickerMode::Tag(row, line) = &mut self.mode else {
            return PickerAction::Continue;
        };
        match key {
            PickerKey::Char(c) => line.insert(c.encode_utf8(&mut [0; 4])),
            PickerKey::Paste(text) => line.insert(&text),
            PickerKey::Edit(edit) => line.edit(edit),
            PickerKey::Escape => self.mode = PickerMode::List,
            PickerKey::Enter => {
                let (row, tags) = (row.clone(), line.text().trim().to_owned());
                if let Err(error) = parse_tag_change(&tags) {
                    // The typed text remains, so that the user can correct it.
                    self.message = Some(PickerMessage::Error(error.to_string()));
                    return PickerAction::Continue;
                }
                self.mode = PickerMode::List;
                if !tags.is_empty() {
                    return self.start_action(row, RowAction::Tag(tags), "tagging…");
                }
            }
            _ => {}
        }
        PickerAction::Continue
    }

    pub(super) fn handle_handoff_key(&mut self, key: &PickerKey) -> PickerAction {
        let PickerMode::Handoff(row, agents, selected) = &mut self.mode else {
            return PickerAction::Continue;
        };
        let last_index = agents.len().saturating_sub(1);
        let selected_agent = match key {
            PickerKey::Move(ListMove::Up) => {
                return select_agent(selected, selected.saturating_sub(1));
            }
            PickerKey::Move(ListMove::Down) => {
                return select_agent(selected, (*selected + 1).min(last_index));
            }
            PickerKey::Move(ListMove::First | ListMove::PageUp) => {
                return select_agent(selected, 0);
            }
            PickerKey::Move(ListMove::Last | ListMove::PageDown) => {
                return select_agent(selected, last_index);
            }
            PickerKey::Enter => agents.get(*selected).cloned(),
            PickerKey::Char(c) => match digit_index(*c).and_then(|index| agents.get(index)) {
                None => return PickerAction::Continue,
                agent => agent.cloned(),
            },
            _ => None,
        };
        let row = row.clone();
        self.mode = PickerMode::List;
        selected_agent.map_or(PickerAction::Continue, |agent| {
            choose_row(row, ChoiceAction::Handoff(agent))
        })
    }
}

fn select_agent(selected: &mut usize, index: usize) -> PickerAction {
    *selected = index;
    PickerAction::Continue
}

/// Returns the index that a digit selects.
fn digit_index(c: char) -> Option<usize> {
    usize::try_from(c.to_digit(10)?.checked_sub(1)?).ok()
}
