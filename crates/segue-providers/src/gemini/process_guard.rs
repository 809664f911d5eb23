//! Protection of the sessions around one process of Gemini CLI, even if the caller stops waiting for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use segue_core::agent::ProcessIdentity;
use segue_core::id::NativeId;
use segue_core::session::GuardAction;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use super::session_guard::{AtRiskSessions, SessionGuard};
use crate::process::leash::SIGTERM_GRACE;
use crate::{ProcessStatus, process_status};

/// Interval in which the end of a process is polled. Short, because a segue process that dropped the guard may be about
/// to exit.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Guard of the sessions that a process may touch. Dropping it does the remaining work in the background.
pub(super) struct ProcessGuard {
    guard: Arc<SessionGuard>,
    cwd: PathBuf,
    /// Sessions of segue's own: the one that was requested, and the one that was opened.
    own_ids: Vec<NativeId>,
    /// Process, once it has started.
    process_receiver: watch::Receiver<Option<ProcessIdentity>>,
    /// Record of what is at risk; `None` once the work is done.
    at_risk: Option<AtRiskSessions>,
}

impl ProcessGuard {
    /// Prepares the sessions before a process starts. Returns the actions taken.
    pub(super) async fn start(
        guard: &Arc<SessionGuard>,
        cwd: &Path,
        id: Option<&NativeId>,
        process_receiver: watch::Receiver<Option<ProcessIdentity>>,
    ) -> (Option<Self>, Vec<GuardAction>) {
        let (guard, cwd) = (Arc::clone(guard), cwd.to_owned());
        let own_ids: Vec<NativeId> = id.cloned().into_iter().collect();
        // Blocking, because files may be large and disks slow.
        let preparation = spawn_blocking(move || {
            let (at_risk, actions) = guard.prepare_for_start(&cwd, own_ids.first());
            let process_guard = Self {
                guard,
                cwd,
                own_ids,
                process_receiver,
                at_risk: Some(at_risk),
            };
            (Some(process_guard), actions)
        });
        preparation
            .await
            .unwrap_or_else(|_| (None, vec![GuardAction::GuardFailed]))
    }

    /// Adds another session of segue's own.
    pub(super) fn add_session(&mut self, id: &NativeId) {
        if !self.own_ids.contains(id) {
            self.own_ids.push(id.clone());
        }
    }

    /// Starts the work after the end of the process. The work returns the actions taken.
    pub(super) fn finish(mut self) -> GuardTask {
        GuardTask::spawn(move || {
            let at_risk = self.at_risk.take();
            at_risk.map_or_else(Vec::new, |at_risk| {
                self.guard
                    .repair_after_exit(&at_risk, &self.cwd, &self.own_ids)
            })
        })
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let Some(at_risk) = self.at_risk.take() else {
            return;
        };
        let guard = Arc::clone(&self.guard);
        let cwd = std::mem::take(&mut self.cwd);
        let own_ids = std::mem::take(&mut self.own_ids);
        let process = self.process_receiver.borrow().clone();
        let repair = move || {
            if let Some(process) = process {
                wait_for_exit(&process);
            }
            guard.repair_after_exit(&at_risk, &cwd, &own_ids);
        };
        // Runs in a thread, because a runtime that is shutting down starts no tasks. If segue exits before the thread
        // is done, the next segue process does the work.
        let _ = std::thread::Builder::new().spawn(repair);
    }
}

/// Waits, with a time limit, for the end of a process that its leash is ending.
fn wait_for_exit(process: &ProcessIdentity) {
    let deadline = Instant::now() + SIGTERM_GRACE + Duration::from_secs(4);
    while process_status(process) == ProcessStatus::Alive && Instant::now() < deadline {
        std::thread::sleep(EXIT_POLL_INTERVAL);
    }
}

/// Work on files in a separate task, which returns the actions taken.
pub(super) struct GuardTask(JoinHandle<Vec<GuardAction>>);

impl GuardTask {
    pub(super) fn spawn(work: impl FnOnce() -> Vec<GuardAction> + Send + 'static) -> Self {
        Self(spawn_blocking(work))
    }

    /// Returns the actions taken. The caller can drop the future and call this method again until it has returned.
    pub(super) async fn wait_for_actions(&mut self) -> Vec<GuardAction> {
        let result = (&mut self.0).await;
        result.unwrap_or_else(|_| vec![GuardAction::GuardFailed])
    }
}
