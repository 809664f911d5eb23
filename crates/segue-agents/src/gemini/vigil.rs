//! Protection of the sessions around one process of Gemini CLI, even if the caller stops waiting for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use segue_core::agent::ProcessMark;
use segue_core::id::NativeId;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use super::keep::{Danger, Keep};
use crate::leash::GRACE;
use crate::{Life, life};

/// Interval in which the end of a process is polled. Short, because a segue process that dropped the vigil may be about
/// to exit.
const GLANCE: Duration = Duration::from_millis(2);

/// Message for the user if the guard itself panics.
const FAILED: &str = "could not guard the Gemini sessions of this directory";

/// Guard of the sessions that a process may touch. Dropping it does the remaining work in the background.
pub(super) struct Vigil {
    keep: Arc<Keep>,
    cwd: PathBuf,
    /// Sessions of segue's own: the one that was requested, and the one that was opened.
    ids: Vec<NativeId>,
    /// Process, once it has started.
    process: watch::Receiver<Option<ProcessMark>>,
    /// Record of what is at risk; `None` once the work is done.
    danger: Option<Danger>,
}

impl Vigil {
    /// Prepares the sessions before a process starts. Returns the actions taken.
    pub(super) async fn begin(
        keep: &Arc<Keep>,
        cwd: &Path,
        id: Option<&NativeId>,
        process: watch::Receiver<Option<ProcessMark>>,
    ) -> (Option<Self>, Vec<String>) {
        let (keep, cwd) = (Arc::clone(keep), cwd.to_owned());
        let ids: Vec<NativeId> = id.cloned().into_iter().collect();
        // Blocking, because files may be large and disks slow.
        let begun = spawn_blocking(move || {
            let (danger, told) = keep.before(&cwd, ids.first());
            let vigil = Self {
                keep,
                cwd,
                ids,
                process,
                danger: Some(danger),
            };
            (Some(vigil), told)
        });
        begun
            .await
            .unwrap_or_else(|_| (None, vec![FAILED.to_owned()]))
    }

    /// Adds another session of segue's own.
    pub(super) fn add(&mut self, id: &NativeId) {
        if !self.ids.contains(id) {
            self.ids.push(id.clone());
        }
    }

    /// Starts the work after the end of the process. The work returns the actions taken.
    pub(super) fn end(mut self) -> Work {
        Work::of(move || {
            let danger = self.danger.take();
            danger.map_or_else(Vec::new, |danger| {
                self.keep.after(&danger, &self.cwd, &self.ids)
            })
        })
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        let Some(danger) = self.danger.take() else {
            return;
        };
        let keep = Arc::clone(&self.keep);
        let cwd = std::mem::take(&mut self.cwd);
        let ids = std::mem::take(&mut self.ids);
        let process = self.process.borrow().clone();
        let work = move || {
            if let Some(process) = process {
                wait_for_the_end_of(&process);
            }
            keep.after(&danger, &cwd, &ids);
        };
        // Runs in a thread, because a runtime that is shutting down starts no tasks. If segue exits before the thread
        // is done, the next segue process does the work.
        let _ = std::thread::Builder::new().spawn(work);
    }
}

/// Waits, with a time limit, for the end of a process that its leash is ending.
fn wait_for_the_end_of(process: &ProcessMark) {
    let deadline = Instant::now() + GRACE + Duration::from_secs(4);
    while life(process) == Life::Alive && Instant::now() < deadline {
        std::thread::sleep(GLANCE);
    }
}

/// Work on files in a separate task, which returns the actions taken.
pub(super) struct Work(JoinHandle<Vec<String>>);

impl Work {
    pub(super) fn of(work: impl FnOnce() -> Vec<String> + Send + 'static) -> Self {
        Self(spawn_blocking(work))
    }

    /// Returns the actions taken. The caller can drop the future and call this method again until it has returned.
    pub(super) async fn told(&mut self) -> Vec<String> {
        let told = (&mut self.0).await;
        told.unwrap_or_else(|_| vec![FAILED.to_owned()])
    }
}
