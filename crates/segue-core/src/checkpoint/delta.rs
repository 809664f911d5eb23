//! What changed from one version of a checkpoint to the next.

use std::collections::{HashMap, HashSet};

use super::{Checkpoint, Item, LoopState};

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    /// The numbers of the items that are gone.
    pub gone: Vec<u32>,
    /// The items that are new or say something else, whole.
    pub set: Vec<Item>,
    /// Where the loop of checks stands now; none if that did not change.
    pub loop_state: Option<Option<LoopState>>,
}

impl Delta {
    /// What changed from one checkpoint to another.
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

    /// The checkpoint after the change.
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

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
