//! Protection of a session that the user resumes in Gemini CLI itself, without segue.

use std::path::{Path, PathBuf};

use segue_core::id::NativeId;

use super::KEPT;
use super::keep::Keep;
use crate::Outside;

/// Guard of the sessions in one home of Gemini CLI that segue handed over with the terminal.
#[derive(Debug)]
pub struct Entrust(Keep);

impl Entrust {
    /// Creates the guard for a home of Gemini CLI, with its copies under [`Host::kept`](crate::Host::kept).
    #[must_use]
    pub fn new(home: PathBuf, kept: &Path, outside: Outside) -> Self {
        Self(Keep::new(home, kept.join(KEPT), outside))
    }

    /// Prepares the handover of a session, before this process becomes Gemini CLI to resume it. The copies belong to
    /// this process until it ends. Returns the actions taken.
    #[must_use]
    pub fn hand_over(&self, cwd: &Path, id: &NativeId) -> Vec<String> {
        self.0.entrust(cwd, id)
    }

    /// Restores what Gemini CLI destroyed of sessions that were handed over. Returns the actions taken.
    #[must_use]
    pub fn take_back(&self) -> Vec<String> {
        self.0.settle_entrusted()
    }
}
