//! Comparison of an imported session with an existing one by their messages, because two sessions may have one name.

use std::collections::HashMap;

use segue_core::checkpoint::{Checkpoint, Item};
use segue_core::id::FeatureId;
use segue_core::json::Json;
use segue_core::scope::{Purpose, TaskId};

use crate::extra_fields::{KeptLine, mark};
use crate::json_fields::{iso, one_line};
use crate::{Kept, Line, Portable};

/// An existing session that has the name of an imported one.
#[derive(Debug, Clone, Default)]
pub struct There {
    /// Purpose of the session.
    pub purpose: Option<Purpose>,
    /// Messages up to the head.
    pub lines: Vec<Line>,
    /// Fields that were stored when the session was imported; `None` if it was not. They list the imported messages
    /// even if the session was reverted since then.
    pub kept: Option<Json>,
    /// All versions of the checkpoint.
    pub checkpoints: Vec<Checkpoint>,
}

/// Difference between an existing session and an imported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Messages are missing: the existing session has only this number of them.
    Messages(usize),
    /// No messages are missing, but no version of the checkpoint matches the imported one.
    Checkpoint,
    /// The feature or the task differs.
    Purpose,
}

impl Portable {
    /// Compares this imported session with an existing one. `None` if the existing session contains all of it.
    #[must_use]
    pub fn lacking(&self, there: &There) -> Option<Lack> {
        let coming: Vec<&Line> = self.past.iter().chain(&self.lines).collect();
        let here = there.lines.iter();
        let here = here.map(|line| (line.role.as_str(), iso(line.at), mark(&line.words)));
        let kept = there.kept.as_ref();
        let kept: Option<Kept> = kept.and_then(|kept| serde_json::from_str(kept.as_str()).ok());
        let came = kept.iter().flat_map(|kept| &kept.lines).map(KeptLine::told);
        let shared = shared(&coming, here).max(shared(&coming, came));
        let recap = self.recap.as_ref().map(|recap| &recap.checkpoint);
        let mut versions = there.checkpoints.iter();
        if about(self.purpose.as_ref()) != about(there.purpose.as_ref()) {
            Some(Lack::Purpose)
        } else if shared < coming.len() {
            Some(Lack::Messages(shared))
        } else if recap.is_none_or(|recap| versions.any(|version| has(version, recap))) {
            None
        } else {
            Some(Lack::Checkpoint)
        }
    }
}

/// Returns the feature and the task of a purpose. The state of the task is not compared, because it changes while the
/// session stays the same.
fn about(purpose: Option<&Purpose>) -> (Option<&FeatureId>, Option<&TaskId>) {
    let scope = purpose.map(|purpose| &purpose.scope);
    let task = scope.and_then(|scope| scope.task());
    (
        scope.and_then(|scope| scope.feature()),
        task.map(|(task, _)| task),
    )
}

/// Returns the number of imported messages that already exist; each existing message counts once. `there` yields the
/// role, the time and the checksum of the text of each existing message.
fn shared<'a>(coming: &[&Line], there: impl Iterator<Item = (&'a str, String, String)>) -> usize {
    let mut known: HashMap<(&str, String), Vec<String>> = HashMap::new();
    for (role, at, mark) in there {
        known.entry((role, mark)).or_default().push(at);
    }
    let take = |line: &Line| {
        let times = known.get_mut(&(line.role.as_str(), mark(&line.words)))?;
        let at = iso(line.at);
        // A message without a stated time got another time at each import, so its time is not compared.
        let same = times.iter().position(|time| !line.timed || *time == at)?;
        Some(times.swap_remove(same))
    };
    // Messages with a stated time are matched first, so that the others do not use up their matches.
    let (timed, others): (Vec<&Line>, Vec<&Line>) = coming.iter().partition(|line| line.timed);
    let all = timed.into_iter().chain(others);
    all.filter_map(take).count()
}

/// Returns `true` if a version contains all items of the imported checkpoint and has the same loop state.
fn has(version: &Checkpoint, coming: &Checkpoint) -> bool {
    let told = |item: &Item| {
        let subject = item.subject.as_deref().map(one_line);
        (item.kind, subject, one_line(&item.text))
    };
    let known: Vec<_> = version.items.iter().map(told).collect();
    let mut items = coming.items.iter();
    items.all(|item| known.contains(&told(item))) && version.loop_state == coming.loop_state
}

#[cfg(test)]
mod tests;
