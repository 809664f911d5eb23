//! Seeing to the sessions around one process of Gemini CLI, also if whoever started it lets go in the middle.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use segue_core::{NativeId, ProcessMark};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use super::keep::{Danger, Keep};
use crate::leash::GRACE;
use crate::{Life, life};

/// How often is looked whether a process is gone. Whoever let go may be about to exit, so there is little time.
const GLANCE: Duration = Duration::from_millis(2);

/// What is told if the work itself came to grief.
const FAILED: &str = "could not guard the Gemini sessions of this directory";

/// The guard of the sessions that a process may touch. Letting go of it does what is left to do, in the background.
pub(super) struct Vigil {
    keep: Arc<Keep>,
    cwd: PathBuf,
    /// The sessions that are ours: the one that was to be opened, and the one that was.
    ids: Vec<NativeId>,
    /// The process, once it was started.
    process: watch::Receiver<Option<ProcessMark>>,
    /// None when all is done.
    danger: Option<Danger>,
}

impl Vigil {
    /// Begins before a process is started; tells what was done.
    pub(super) async fn begin(
        keep: &Arc<Keep>,
        cwd: &Path,
        id: Option<&NativeId>,
        process: watch::Receiver<Option<ProcessMark>>,
    ) -> (Option<Self>, Vec<String>) {
        let (keep, cwd) = (Arc::clone(keep), cwd.to_owned());
        let ids: Vec<NativeId> = id.cloned().into_iter().collect();
        // Files may be large and disks slow.
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

    /// This session is ours as well.
    pub(super) fn add(&mut self, id: &NativeId) {
        if !self.ids.contains(id) {
            self.ids.push(id.clone());
        }
    }

    /// Ends after the process has; the work tells what was done.
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
        // In a thread of its own: a runtime that is being shut down begins nothing new. If we are gone before it is
        // done, the next segue does it.
        let _ = std::thread::Builder::new().spawn(work);
    }
}

/// Waits until a process is gone that its leash is ending, but not for ever.
fn wait_for_the_end_of(process: &ProcessMark) {
    let deadline = Instant::now() + GRACE + Duration::from_secs(4);
    while life(process) == Life::Alive && Instant::now() < deadline {
        std::thread::sleep(GLANCE);
    }
}

/// Work on files that goes on apart from what waits, and tells what was done.
pub(super) struct Work(JoinHandle<Vec<String>>);

impl Work {
    pub(super) fn of(work: impl FnOnce() -> Vec<String> + Send + 'static) -> Self {
        Self(spawn_blocking(work))
    }

    /// Safe to drop and to call again, until it has returned.
    pub(super) async fn told(&mut self) -> Vec<String> {
        let told = (&mut self.0).await;
        told.unwrap_or_else(|_| vec![FAILED.to_owned()])
    }
}
