//! Looking after a session that goes on in Gemini CLI itself, without us.

use std::path::{Path, PathBuf};

use segue_core::NativeId;

use super::KEPT;
use super::keep::Keep;
use crate::Outside;

/// The sessions in one home of Gemini CLI that were handed over with the terminal.
#[derive(Debug)]
pub struct Entrust(Keep);

impl Entrust {
    /// Those of a home of Gemini CLI, whose copies are under [`Host::kept`](crate::Host::kept).
    #[must_use]
    pub fn new(home: PathBuf, kept: &Path, outside: Outside) -> Self {
        Self(Keep::new(home, kept.join(KEPT), outside))
    }

    /// Before this very process becomes Gemini CLI, to go on with a session; tells what was done. What is kept belongs
    /// to the process until that ends.
    #[must_use]
    pub fn hand_over(&self, cwd: &Path, id: &NativeId) -> Vec<String> {
        self.0.entrust(cwd, id)
    }

    /// Puts back what was destroyed of sessions that were handed over; tells what was done.
    #[must_use]
    pub fn take_back(&self) -> Vec<String> {
        self.0.settle_entrusted()
    }
}
