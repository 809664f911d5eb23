//! Protection of a session that the user resumes in Gemini CLI itself, without segue.

use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use segue_core::session::GuardAction;

use super::GEMINI_COPIES_DIR;
use super::session_guard::SessionGuard;
use crate::SystemFns;

/// Guard of the sessions in one home of Gemini CLI that segue handed over with the terminal.
#[derive(Debug)]
pub struct UnattendedGuard(SessionGuard);

impl UnattendedGuard {
    /// Creates the guard for a home of Gemini CLI, with its copies under
    /// [`AgentHost::agent_files_dir`](crate::AgentHost::agent_files_dir).
    #[must_use]
    pub fn new(home: PathBuf, agent_files_dir: &Path, system: SystemFns) -> Self {
        Self(SessionGuard::new(
            home,
            agent_files_dir.join(GEMINI_COPIES_DIR),
            system,
        ))
    }

    /// Prepares the handover of a session, before this process becomes Gemini CLI to resume it. The copies belong to
    /// this process until it ends. Returns the actions taken.
    #[must_use]
    pub fn prepare_handover(&self, cwd: &Path, id: &NativeId) -> Vec<GuardAction> {
        self.0.prepare_handover(cwd, id)
    }

    /// Restores what Gemini CLI destroyed of sessions that were handed over. Returns the actions taken.
    #[must_use]
    pub fn restore_sessions(&self) -> Vec<GuardAction> {
        self.0.repair_handed_over()
    }
}
