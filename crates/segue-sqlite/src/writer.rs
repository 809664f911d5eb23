//! The writer thread: group commit.
//!
//! Jobs that are queued while a commit waits for the disk share the next commit. Each job has its own savepoint, so
//! that a job that fails does not undo the others. A batch waits for the disk unless all its jobs are of
//! [`Outlives::Process`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use segue_store::{Result, StoreError};
use tokio::sync::oneshot;

use crate::connection;
use crate::error::{Fault, classify};

/// Maximum number of jobs in one commit.
const BATCH: usize = 512;

/// Event that an acknowledged job must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outlives {
    /// The end of the process. Enough for a lease, because no process owns one after a power failure.
    Process,
    /// A power failure.
    Power,
}

impl Outlives {
    /// Returns the value of SQLite's `synchronous` pragma for this level.
    const fn synchronous(self) -> &'static str {
        match self {
            Self::Process => "NORMAL",
            Self::Power => "FULL",
        }
    }
}

/// Result of the commit of a batch, which all its jobs share.
type Committed<'a> = std::result::Result<(), (&'a Arc<rusqlite::Error>, &'a Path)>;

/// A job: it runs inside a transaction and answers its caller after the commit.
trait Job: Send {
    /// Runs the job. Returns `true` if it succeeded, so that the transaction must be committed.
    fn run(&mut self, db: &Connection) -> bool;
    /// Returns the event that the job must survive once it is acknowledged.
    fn outlives(&self) -> Outlives;
    /// Sends the result to the caller.
    fn answer(self: Box<Self>, path: &Path, committed: Committed<'_>);
}

struct Errand<T, F> {
    work: Option<F>,
    outlives: Outlives,
    outcome: Option<std::result::Result<T, Fault>>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Errand<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send,
{
    fn run(&mut self, db: &Connection) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let outcome = in_savepoint(db, work);
        let changed = outcome.is_ok();
        self.outcome = Some(outcome);
        changed
    }

    fn outlives(&self) -> Outlives {
        self.outlives
    }

    fn answer(self: Box<Self>, path: &Path, committed: Committed<'_>) {
        let answer = match (self.outcome, committed) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Err(fault)), _) => Err(fault.into_store_error("write to", path)),
            (_, Err((error, path))) => Err(classify(error, "write to", path)),
            (None, Ok(())) => Err(stopped(path)),
        };
        // Sending fails only if the caller no longer waits for the answer.
        let _ = self.caller.send(answer);
    }
}

fn in_savepoint<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>,
) -> std::result::Result<T, Fault> {
    db.prepare_cached("SAVEPOINT work")?.execute([])?;
    let outcome = work(db);
    // On a full disk SQLite rolls back the complete transaction, including the savepoint.
    if db.is_autocommit() {
        return outcome;
    }
    if outcome.is_err() {
        db.prepare_cached("ROLLBACK TO work")?.execute([])?;
    }
    db.prepare_cached("RELEASE work")?.execute([])?;
    outcome
}

/// Sends jobs to the writer thread, which starts with the first job.
pub(crate) struct Writer {
    path: PathBuf,
    thread: Mutex<Option<Running>>,
}

struct Running {
    jobs: mpsc::Sender<Box<dyn Job>>,
    handle: JoinHandle<()>,
}

impl Writer {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            thread: Mutex::new(None),
        }
    }

    pub(crate) async fn run<T, F>(&self, outlives: Outlives, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job = Errand {
            work: Some(work),
            outlives,
            outcome: None,
            caller,
        };
        self.send(Box::new(job))?;
        answer.await.unwrap_or_else(|_| Err(stopped(&self.path)))
    }

    fn send(&self, job: Box<dyn Job>) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match thread.take() {
            Some(running) => running,
            None => start(&self.path)?,
        };
        let sent = running.jobs.send(job);
        *thread = Some(running);
        sent.map_err(|_| stopped(&self.path))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let running = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Running { jobs, handle }) = running {
            drop(jobs);
            // The thread writes the queued jobs before it ends. A panic of the thread was reported when it happened.
            let _ = handle.join();
        }
    }
}

fn start(path: &Path) -> Result<Running> {
    let db = connection::open_writer(path).map_err(|fault| fault.into_store_error("open", path))?;
    let (jobs, queue) = mpsc::channel();
    let owned = path.to_owned();
    let handle = thread::Builder::new()
        .name("segue-writer".into())
        .spawn(move || write_all(&db, &owned, &queue))
        .map_err(|error| StoreError::Backend {
            doing: "start writing to",
            path: path.to_owned(),
            source: error.into(),
        })?;
    Ok(Running { jobs, handle })
}

fn stopped(path: &Path) -> StoreError {
    StoreError::Backend {
        doing: "write to",
        path: path.to_owned(),
        source: "the writing thread has stopped".into(),
    }
}

fn write_all(db: &Connection, path: &Path, queue: &mpsc::Receiver<Box<dyn Job>>) {
    let mut synced_for = None;
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH - 1));
        let outlives = batch.iter().map(|job| job.outlives()).max();
        let ready = if outlives == synced_for {
            Ok(())
        } else {
            sync_for(db, outlives.unwrap_or(Outlives::Power))
        };
        synced_for = outlives.filter(|_| ready.is_ok());
        let committed = ready.and_then(|()| commit(db, &mut batch));
        let committed = committed.map_err(Arc::new);
        let committed = committed.as_ref().copied().map_err(|error| (error, path));
        for job in batch {
            job.answer(path, committed);
        }
    }
}

/// Sets whether the following commits wait for the disk. SQLite allows this change only between two transactions.
fn sync_for(db: &Connection, outlives: Outlives) -> std::result::Result<(), rusqlite::Error> {
    db.pragma_update(None, "synchronous", outlives.synchronous())
}

fn commit(db: &Connection, batch: &mut [Box<dyn Job>]) -> std::result::Result<(), rusqlite::Error> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut changed = false;
    for job in batch {
        changed |= job.run(db);
        if db.is_autocommit() {
            // SQLite rolled back the complete transaction, including the jobs that ran earlier in it.
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
                Some("the transaction was rolled back".into()),
            ));
        }
    }
    let end = if changed { "COMMIT" } else { "ROLLBACK" };
    let ended = db.prepare_cached(end)?.execute([]);
    if ended.is_err() && !db.is_autocommit() {
        // The caller needs the error of the commit, so an error of the rollback is ignored.
        let _ = db.execute_batch("ROLLBACK");
    }
    ended.map(|_| ())
}
