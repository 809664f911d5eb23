//! Whether a session that comes is one that is here: by what is said in it, since two may have one name.

use std::collections::HashMap;

use segue_core::{Checkpoint, FeatureId, Item, Json, Purpose, TaskId};

use crate::fields::{iso, one_line};
use crate::kept::{KeptLine, mark};
use crate::{Kept, Line, Portable};

/// A session that is here under the name of one that comes.
#[derive(Debug, Clone, Default)]
pub struct There {
    /// What it is for.
    pub purpose: Option<Purpose>,
    /// What was said in it up to where it is now.
    pub lines: Vec<Line>,
    /// What was kept aside when it came, where it did: that tells what was said in it even if it went back since.
    pub kept: Option<Json>,
    /// All versions of its checkpoint.
    pub checkpoints: Vec<Checkpoint>,
}

/// Why a session that is here is not the one that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It has so many of the messages, and not all.
    Messages(usize),
    /// It has all of the messages; what they came to is something else.
    Checkpoint,
    /// It is for another feature or task.
    Purpose,
}

impl Portable {
    /// What one that is here lacks of it; nothing, if all of it has come.
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

/// What tells purposes apart. The state of a task is not part of it: it changes while the session stays the same.
fn about(purpose: Option<&Purpose>) -> (Option<&FeatureId>, Option<&TaskId>) {
    let scope = purpose.map(|purpose| &purpose.scope);
    let task = scope.and_then(|scope| scope.task());
    (
        scope.and_then(|scope| scope.feature()),
        task.map(|(task, _)| task),
    )
}

/// How many messages are there, each as often as it comes. What is there has who speaks, when, and the mark of the words.
fn shared<'a>(coming: &[&Line], there: impl Iterator<Item = (&'a str, String, String)>) -> usize {
    let mut known: HashMap<(&str, String), Vec<String>> = HashMap::new();
    for (role, at, mark) in there {
        known.entry((role, mark)).or_default().push(at);
    }
    let take = |line: &Line| {
        let times = known.get_mut(&(line.role.as_str(), mark(&line.words)))?;
        let at = iso(line.at);
        // One that does not say when it was said was given another time whenever it came.
        let same = times.iter().position(|time| !line.timed || *time == at)?;
        Some(times.swap_remove(same))
    };
    // Those with a time choose first, so that the others leave them theirs.
    let (timed, others): (Vec<&Line>, Vec<&Line>) = coming.iter().partition(|line| line.timed);
    let all = timed.into_iter().chain(others);
    all.filter_map(take).count()
}

/// Whether a checkpoint says all that another one does.
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
