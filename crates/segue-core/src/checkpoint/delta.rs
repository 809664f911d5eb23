//! Difference between two versions of a checkpoint.

use std::collections::{HashMap, HashSet};

use super::{Checkpoint, CheckpointItem, LoopState};

/// The difference between two checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointDelta {
    /// Ids of the removed items.
    pub removed_ids: Vec<u32>,
    /// New and changed items, complete.
    pub changed_items: Vec<CheckpointItem>,
    /// New state of the loop of checks; `None` if it did not change, `Some(None)` if the loop ended.
    pub loop_state: Option<Option<LoopState>>,
}

impl CheckpointDelta {
    /// Computes the difference from one checkpoint to another.
    #[must_use]
    pub fn between(from: &Checkpoint, to: &Checkpoint) -> Self {
        let before: HashMap<u32, &CheckpointItem> =
            from.items.iter().map(|item| (item.id, item)).collect();
        let after: HashSet<u32> = to.items.iter().map(|item| item.id).collect();
        let removed = from.items.iter().map(|item| item.id);
        let removed = removed.filter(|id| !after.contains(id));
        let changed = to
            .items
            .iter()
            .filter(|item| before.get(&item.id) != Some(item));
        Self {
            removed_ids: removed.collect(),
            changed_items: changed.cloned().collect(),
            loop_state: (from.loop_state != to.loop_state).then(|| to.loop_state.clone()),
        }
    }

    /// Returns the checkpoint `base` with the difference applied.
    #[must_use]
    pub fn apply(&self, base: &Checkpoint) -> Checkpoint {
        let changed_ids = self.changed_items.iter().map(|item| item.id);
        let replaced_ids: HashSet<u32> = self
            .removed_ids
            .iter()
            .copied()
            .chain(changed_ids)
            .collect();
        let is_unchanged = |item: &&CheckpointItem| !replaced_ids.contains(&item.id);
        let unchanged = base.items.iter().filter(is_unchanged).cloned();
        let loop_state = self.loop_state.as_ref().unwrap_or(&base.loop_state);
        Checkpoint {
            items: unchanged
                .chain(self.changed_items.iter().cloned())
                .collect(),
            loop_state: loop_state.clone(),
        }
        .into_sorted()
    }

    /// Returns `true` if the checkpoints do not differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
