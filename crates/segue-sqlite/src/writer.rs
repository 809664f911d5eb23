//! The writer thread: group commit.
//!
//! Jobs that are queued while a commit waits for the disk share the next commit. Each job has its own savepoint, so
//! that a job that fails does not undo the others. A batch waits for the disk unless all its jobs are of
//! [`Durability::ProcessExit`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use segue_store::{Result, StoreError};
use tokio::sync::oneshot;

use crate::connection::{self, Db, StoreProperties};
use crate::error::{OpError, classify_sqlite_error};

/// Maximum number of jobs in one commit.
const MAX_BATCH_JOBS: usize = 512;

/// Time from which the log reports a commit as slow.
const SLOW_COMMIT_TIME: Duration = Duration::from_millis(100);

/// Event that an acknowledged job must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// The end of the process. Enough for a lease, because no process owns one after a power failure.
    ProcessExit,
    /// A power failure.
    PowerFailure,
}

impl Durability {
    /// Returns the value of SQLite's `synchronous` pragma for this level.
    const fn synchronous_pragma(self) -> &'static str {
        match self {
            Self::ProcessExit => "NORMAL",
            Self::PowerFailure => "FULL",
        }
    }
}

/// Result of the commit of a batch, which all its jobs share.
type CommitResult<'a> = std::result::Result<(), &'a Arc<rusqlite::Error>>;

/// A job: it runs inside a transaction and answers its caller after the commit.
trait WriteJob: Send {
    /// Runs the job. Returns `true` if it succeeded, so that the transaction must be committed.
    fn run(&mut self, db: &Db) -> bool;
    /// Returns the event that the job must survive once it is acknowledged.
    fn durability(&self) -> Durability;
    /// Sends the result to the caller.
    fn send_result(self: Box<Self>, commit_result: CommitResult<'_>);
}

struct QueuedWrite<T, F> {
    work: Option<F>,
    durability: Durability,
    outcome: Option<std::result::Result<T, OpError>>,
    result_sender: oneshot::Sender<Result<T>>,
}

impl<T, F> WriteJob for QueuedWrite<T, F>
where
    T: Send,
    F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send,
{
    fn run(&mut self, db: &Db) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let outcome = run_in_savepoint(db, work);
        let succeeded = outcome.is_ok();
        self.outcome = Some(outcome);
        succeeded
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn send_result(self: Box<Self>, commit_result: CommitResult<'_>) {
        let result = match (self.outcome, commit_result) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Err(op_error)), _) => Err(op_error.into_store_error("write to")),
            (_, Err(error)) => Err(classify_sqlite_error(error, "write to")),
            (None, Ok(())) => Err(writer_stopped_error()),
        };
        // Sending fails only if the caller no longer waits for the answer.
        let _ = self.result_sender.send(result);
    }
}

fn run_in_savepoint<T>(
    db: &Db,
    work: impl FnOnce(&Db) -> std::result::Result<T, OpError>,
) -> std::result::Result<T, OpError> {
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
pub(crate) struct StoreWriter {
    path: PathBuf,
    properties: StoreProperties,
    thread: Mutex<Option<WriterThread>>,
}

struct WriterThread {
    job_sender: mpsc::Sender<Box<dyn WriteJob>>,
    handle: JoinHandle<()>,
}

impl StoreWriter {
    pub(crate) fn new(path: PathBuf, properties: StoreProperties) -> Self {
        Self {
            path,
            properties,
            thread: Mutex::new(None),
        }
    }

    pub(crate) async fn run<T, F>(&self, durability: Durability, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> std::result::Result<T, OpError> + Send + 'static,
    {
        let (result_sender, result_receiver) = oneshot::channel();
        let job = QueuedWrite {
            work: Some(work),
            durability,
            outcome: None,
            result_sender,
        };
        self.send_job(Box::new(job))?;
        result_receiver
            .await
            .unwrap_or_else(|_| Err(writer_stopped_error()))
    }

    fn send_job(&self, job: Box<dyn WriteJob>) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let writer_thread = match thread.take() {
            Some(writer_thread) => writer_thread,
            None => start_thread(&self.path, self.properties.clone())?,
        };
        let sent = writer_thread.job_sender.send(job);
        *thread = Some(writer_thread);
        sent.map_err(|_| writer_stopped_error())
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        let writer_thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(WriterThread { job_sender, handle }) = writer_thread {
            drop(job_sender);
            // The thread writes the queued jobs before it ends. A panic of the thread was reported when it happened.
            let _ = handle.join();
        }
    }
}

fn start_thread(path: &Path, properties: StoreProperties) -> Result<WriterThread> {
    let db = connection::open_writer(path).map_err(|op_error| op_error.into_store_error("open"))?;
    let db = Db::new(db, properties);
    let (job_sender, queue) = mpsc::channel();
    let handle = thread::Builder::new()
        .name("segue-writer".into())
        .spawn(move || run_write_jobs(&db, &queue))
        .map_err(|error| StoreError::Backend {
            operation: "start the writer thread of",
            source: error.into(),
        })?;
    Ok(WriterThread { job_sender, handle })
}

fn writer_stopped_error() -> StoreError {
    StoreError::Backend {
        operation: "write to",
        source: "the writer thread has stopped".into(),
    }
}

fn run_write_jobs(db: &Db, queue: &mpsc::Receiver<Box<dyn WriteJob>>) {
    let mut current_durability = None;
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(MAX_BATCH_JOBS - 1));
        let durability = batch.iter().map(|job| job.durability()).max();
        let ready = if durability == current_durability {
            Ok(())
        } else {
            set_durability(db, durability.unwrap_or(Durability::PowerFailure))
        };
        current_durability = durability.filter(|_| ready.is_ok());
        let mut timer = CommitTimer::start();
        let commit_result = ready.and_then(|()| commit_batch(db, &mut batch, timer.as_mut()));
        if let Some(timer) = timer {
            timer.log_commit(batch.len(), durability, commit_result.as_ref().err());
        }
        let commit_result = commit_result.map_err(Arc::new);
        for job in batch {
            job.send_result(commit_result.as_ref().copied());
        }
    }
}

/// Measurement of one commit, for the log.
struct CommitTimer {
    started: Instant,
    /// Time until no other process had locked the file.
    lock_time: Duration,
    /// Time of all steps before the commit statement.
    run_time: Duration,
}

impl CommitTimer {
    /// Starts a measurement. `None` if no log needs it.
    fn start() -> Option<Self> {
        tracing::enabled!(tracing::Level::WARN).then(|| Self {
            started: Instant::now(),
            lock_time: Duration::ZERO,
            run_time: Duration::ZERO,
        })
    }

    fn log_commit(
        &self,
        operations: usize,
        durability: Option<Durability>,
        error: Option<&rusqlite::Error>,
    ) {
        let elapsed = self.started.elapsed();
        let elapsed_us = elapsed.as_micros();
        let lock_us = self.lock_time.as_micros();
        let sync_us = elapsed.saturating_sub(self.run_time).as_micros();
        let synchronous = durability.map(Durability::synchronous_pragma);
        if let Some(error) = error {
            let sqlite_code = error.sqlite_error().map(|error| error.extended_code);
            tracing::warn!(
                operations,
                sqlite_code,
                elapsed_us,
                lock_us,
                "commit failed"
            );
        } else if elapsed >= SLOW_COMMIT_TIME {
            tracing::warn!(
                operations,
                synchronous,
                elapsed_us,
                lock_us,
                sync_us,
                "slow commit"
            );
        } else {
            tracing::trace!(
                operations,
                synchronous,
                elapsed_us,
                lock_us,
                sync_us,
                "commit"
            );
        }
    }
}

/// Sets whether the following commits wait for the disk. SQLite allows this change only between two transactions.
fn set_durability(
    db: &Connection,
    durability: Durability,
) -> std::result::Result<(), rusqlite::Error> {
    db.pragma_update(None, "synchronous", durability.synchronous_pragma())
}

fn commit_batch(
    db: &Db,
    batch: &mut [Box<dyn WriteJob>],
    mut timer: Option<&mut CommitTimer>,
) -> std::result::Result<(), rusqlite::Error> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    if let Some(timer) = &mut timer {
        timer.lock_time = timer.started.elapsed();
    }
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
    if let Some(timer) = timer {
        timer.run_time = timer.started.elapsed();
    }
    let end_statement = if changed { "COMMIT" } else { "ROLLBACK" };
    let ended = db.prepare_cached(end_statement)?.execute([]);
    if ended.is_err() && !db.is_autocommit() {
        // The caller needs the error of the commit, so an error of the rollback is ignored.
        let _ = db.execute_batch("ROLLBACK");
    }
    ended.map(|_| ())
}
