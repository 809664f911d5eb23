//! Difference between two versions of a checkpoint.

use std::collections::{HashMap, HashSet};

use super::{Checkpoint, Item, LoopState};

/// The difference between two checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    /// Ids of the removed items.
    pub gone: Vec<u32>,
    /// New and changed items, complete.
    pub set: Vec<Item>,
    /// New state of the loop of checks; `None` if it did not change, `Some(None)` if the loop ended.
    pub loop_state: Option<Option<LoopState>>,
}

impl Delta {
    /// Computes the difference from one checkpoint to another.
    #[must_use]
    pub fn between(from: &Checkpoint, to: &Checkpoint) -> Self {
        let before: HashMap<u32, &Item> = from.items.iter().map(|item| (item.id, item)).collect();
        let after: HashSet<u32> = to.items.iter().map(|item| item.id).collect();
        let gone = from.items.iter().map(|item| item.id);
        let gone = gone.filter(|id| !after.contains(id));
        let set = to.items.iter();
        let set = set.filter(|item| before.get(&item.id) != Some(item));
        Self {
            gone: gone.collect(),
            set: set.cloned().collect(),
            loop_state: (from.loop_state != to.loop_state).then(|| to.loop_state.clone()),
        }
    }

    /// Returns the checkpoint `to` with the difference applied.
    #[must_use]
    pub fn apply(&self, to: &Checkpoint) -> Checkpoint {
        let set = self.set.iter().map(|item| item.id);
        let touched: HashSet<u32> = self.gone.iter().copied().chain(set).collect();
        let stays = |item: &&Item| !touched.contains(&item.id);
        let kept = to.items.iter().filter(stays).cloned();
        let loop_state = match &self.loop_state {
            Some(state) => state.clone(),
            None => to.loop_state.clone(),
        };
        Checkpoint {
            items: kept.chain(self.set.iter().cloned()).collect(),
            loop_state,
        }
        .in_order()
    }

    /// Returns `true` if the checkpoints do not differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
