//! Keys in overlays: the help, the tag dialog and the choice of an agent.

use super::{PickerAction, PickerMessage, PickerMode, PickerState, choose_row};
use crate::picker::data_source::{ChoiceAction, RowAction, parse_tag_change};
use crate::picker::keys::{HELP_ENTRIES, PickerKey};

impl PickerState {
    pub(super) fn handle_help_key(&mut self, key: &PickerKey, top: usize) -> PickerAction {
        let page_height = usize::from(self.size.height).saturating_sub(4).max(1);
        let last_index = HELP_ENTRIES.len().saturating_sub(1);
        self.mode = match key {
            PickerKey::Move(movement) => PickerMode::Help {
                top: movement.apply(top, page_height, last_index),
            },
            _ => PickerMode::List,
        };
        PickerAction::Continue
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
        let selected_agent = match key {
            PickerKey::Move(movement) => {
                let last_index = agents.len().saturating_sub(1);
                *selected = movement.apply(*selected, agents.len(), last_index);
                return PickerAction::Continue;
            }
            PickerKey::Enter => agents.get(*selected),
            PickerKey::Char(c) => match digit_index(*c).and_then(|index| agents.get(index)) {
                None => return PickerAction::Continue,
                agent => agent,
            },
            _ => None,
        };
        let action = selected_agent.map_or(PickerAction::Continue, |agent| {
            choose_row(row.clone(), ChoiceAction::Handoff(agent.clone()))
        });
        self.mode = PickerMode::List;
        action
    }
}

/// Returns the index that a digit selects.
fn digit_index(c: char) -> Option<usize> {
    usize::try_from(c.to_digit(10)?.checked_sub(1)?).ok()
}
