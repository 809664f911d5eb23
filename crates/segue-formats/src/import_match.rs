//! Comparison of an imported session with an existing one by their messages, because two sessions may have one name.

use std::collections::HashMap;

use segue_core::checkpoint::{Checkpoint, CheckpointItem};
use segue_core::id::FeatureId;
use segue_core::json::Json;
use segue_core::scope::{Purpose, TaskId};

use crate::extra_fields::{ExtraMessageFields, text_checksum};
use crate::json_fields::{collapse_to_one_line, format_iso_time};
use crate::{ExtraFields, PortableMessage, PortableSession};

/// An existing session that has the name of an imported one.
#[derive(Debug, Clone, Default)]
pub struct ExistingSession {
    /// Purpose of the session.
    pub purpose: Option<Purpose>,
    /// Messages up to the head.
    pub messages: Vec<PortableMessage>,
    /// Fields that were stored when the session was imported; `None` if it was not. They list the imported messages
    /// even if the session was reverted since then.
    pub extra_fields: Option<Json>,
    /// All versions of the checkpoint.
    pub checkpoints: Vec<Checkpoint>,
}

/// Difference between an existing session and an imported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportDifference {
    /// Messages are missing: the existing session has only this number of them.
    Messages(usize),
    /// No messages are missing, but no version of the checkpoint matches the imported one.
    Checkpoint,
    /// The feature or the task differs.
    Purpose,
}

impl PortableSession {
    /// Compares this imported session with an existing one. `None` if the existing session contains all of it.
    #[must_use]
    pub fn find_difference(&self, existing: &ExistingSession) -> Option<ImportDifference> {
        let incoming: Vec<&PortableMessage> = self
            .compacted_messages
            .iter()
            .chain(&self.messages)
            .collect();
        let current_keys = existing.messages.iter().map(|message| {
            (
                message.role.as_str(),
                format_iso_time(message.at),
                text_checksum(&message.text),
            )
        });
        let stored: Option<ExtraFields> = existing
            .extra_fields
            .as_ref()
            .and_then(|json| serde_json::from_str(json.as_str()).ok());
        let imported_keys = stored
            .iter()
            .flat_map(|fields| &fields.messages)
            .map(ExtraMessageFields::match_key);
        let shared_count = count_shared_messages(&incoming, current_keys)
            .max(count_shared_messages(&incoming, imported_keys));
        let checkpoint = self.checkpoint.as_ref().map(|portable| &portable.content);
        let mut versions = existing.checkpoints.iter();
        if feature_and_task(self.purpose.as_ref()) != feature_and_task(existing.purpose.as_ref()) {
            Some(ImportDifference::Purpose)
        } else if shared_count < incoming.len() {
            Some(ImportDifference::Messages(shared_count))
        } else if checkpoint
            .is_none_or(|content| versions.any(|version| has_all_content(version, content)))
        {
            None
        } else {
            Some(ImportDifference::Checkpoint)
        }
    }
}

/// Returns the feature and the task of a purpose. The state of the task is not compared, because it changes while the
/// session stays the same.
fn feature_and_task(purpose: Option<&Purpose>) -> (Option<&FeatureId>, Option<&TaskId>) {
    let scope = purpose.map(|purpose| &purpose.scope);
    let task = scope.and_then(|scope| scope.task());
    (
        scope.and_then(|scope| scope.feature()),
        task.map(|(task, _)| task),
    )
}

/// Returns the number of imported messages that already exist; each existing message counts once. `existing_keys`
/// yields the role, the time and the checksum of the text of each existing message.
fn count_shared_messages<'a>(
    incoming: &[&PortableMessage],
    existing_keys: impl Iterator<Item = (&'a str, String, String)>,
) -> usize {
    let mut times_by_text: HashMap<(&str, String), Vec<String>> = HashMap::new();
    for (role, at, checksum) in existing_keys {
        times_by_text.entry((role, checksum)).or_default().push(at);
    }
    let take_match = |message: &PortableMessage| {
        let times =
            times_by_text.get_mut(&(message.role.as_str(), text_checksum(&message.text)))?;
        let at = format_iso_time(message.at);
        // A message without a stated time got another time at each import, so its time is not compared.
        let index = times
            .iter()
            .position(|time| !message.has_stated_time || *time == at)?;
        Some(times.swap_remove(index))
    };
    // Messages with a stated time are matched first, so that the others do not use up their matches.
    let (timed, untimed): (Vec<&PortableMessage>, Vec<&PortableMessage>) =
        incoming.iter().partition(|message| message.has_stated_time);
    let ordered = timed.into_iter().chain(untimed);
    ordered.filter_map(take_match).count()
}

/// Returns `true` if a version contains all items of the imported checkpoint and has the same loop state.
fn has_all_content(version: &Checkpoint, incoming: &Checkpoint) -> bool {
    let item_key = |item: &CheckpointItem| {
        let subject = item.subject.as_deref().map(collapse_to_one_line);
        (item.kind, subject, collapse_to_one_line(&item.text))
    };
    let existing_keys: Vec<_> = version.items.iter().map(item_key).collect();
    let mut items = incoming.items.iter();
    items.all(|item| existing_keys.contains(&item_key(item)))
        && version.loop_state == incoming.loop_state
}

#[cfg(test)]
mod tests;
