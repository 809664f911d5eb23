//! Threads that query the data source, so that a slow answer does not delay keys.

use std::any::Any;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::data_source::{
    DataSource, ListRefresh, PickerRow, RowAction, RowActionOutcome, RowQuery,
};
use super::state::WorkerAnswer;

/// Pending work. A newer query replaces an older one; all actions are performed.
#[derive(Default)]
struct Inbox {
    query: Option<RowQuery>,
    preview: Option<(PickerRow, u64)>,
    actions: VecDeque<(PickerRow, RowAction)>,
    is_refresh_requested: bool,
    /// Whether the picker has ended, so that no answer is needed.
    is_closed: bool,
}

type SharedInbox = Arc<(Mutex<Inbox>, Condvar)>;

/// Minimum time between two automatic refreshes, which is longer if a refresh takes long.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The threads and the channels to them.
pub(super) struct Workers {
    inbox: SharedInbox,
    answers: Receiver<WorkerAnswer>,
    wake_reader: UnixStream,
    /// Thread that reads previews and performs actions.
    action_thread: JoinHandle<()>,
    pending_actions: usize,
}

/// Channel for answers: a message, and a byte that wakes the loop.
struct Outbox {
    answers: Sender<WorkerAnswer>,
    wake_writer: UnixStream,
}

impl Outbox {
    fn send(&self, answer: WorkerAnswer) {
        // No byte is sent if the loop has ended. If the pipe is full, the loop wakes anyway.
        if self.answers.send(answer).is_ok() {
            let _ = (&self.wake_writer).write(&[0]);
        }
    }
}

impl Workers {
    /// Starts the threads. Each opens its own data source. The first refresh starts after the first rows were returned.
    pub(super) fn start<S: DataSource>(
        open: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let open = Arc::new(open);
        let inbox = SharedInbox::default();
        let (sender, answers) = channel();
        let (wake_reader, wake_writer) = UnixStream::pair()?;
        wake_reader.set_nonblocking(true)?;
        wake_writer.set_nonblocking(true)?;
        let outbox = || -> io::Result<Outbox> {
            Ok(Outbox {
                answers: sender.clone(),
                wake_writer: wake_writer.try_clone()?,
            })
        };
        let thread = |name: &str| Builder::new().name(format!("picker: {name}"));
        let (shared, page_outbox, opener) = (Arc::clone(&inbox), outbox()?, Arc::clone(&open));
        let refresh_inputs = (outbox()?, Arc::clone(&open), Arc::clone(&inbox));
        thread("query").spawn(move || {
            let mut refresh_inputs = Some(refresh_inputs);
            let mut source = None;
            while let Some(query) = wait_for_work(&shared, |inbox| inbox.query.take()) {
                let result =
                    query_source(&mut source, &*opener, |source| source.fetch_page(&query));
                page_outbox.send(WorkerAnswer::Page(query, result));
                if let Some((outbox, open, shared)) = refresh_inputs.take() {
                    let refresh = move || run_refresh_loop(&*open, &outbox, &shared);
                    // If the thread cannot be started, the list works without a refresh.
                    let _ = Builder::new().name("picker: refresh".into()).spawn(refresh);
                }
            }
        })?;
        let (shared, action_outbox, opener) = (Arc::clone(&inbox), outbox()?, open);
        let action_thread = thread("action").spawn(move || {
            let mut source = None;
            while let Some(job) = wait_for_work(&shared, take_job) {
                action_outbox.send(match job {
                    WorkerJob::Action(row, action) => {
                        let outcome = query_source(&mut source, &*opener, |source| {
                            source.perform_action(&row, &action)
                        });
                        WorkerAnswer::Acted(row.id, outcome)
                    }
                    WorkerJob::Preview(row, version) => {
                        let preview =
                            query_source(&mut source, &*opener, |source| source.load_preview(&row));
                        WorkerAnswer::Preview(row.id, version, preview)
                    }
                });
            }
        })?;
        Ok(Self {
            inbox,
            answers,
            wake_reader,
            action_thread,
            pending_actions: 0,
        })
    }

    /// Returns the file descriptor that becomes readable when answers are available.
    pub(super) fn answers_fd(&self) -> BorrowedFd<'_> {
        self.wake_reader.as_fd()
    }

    /// Returns the answers since the last call.
    pub(super) fn take_answers(&mut self) -> Vec<WorkerAnswer> {
        let mut buffer = [0; 256];
        while matches!(self.wake_reader.read(&mut buffer), Ok(1..)) {}
        let answers: Vec<WorkerAnswer> = self.answers.try_iter().collect();
        let completed = answers
            .iter()
            .filter(|answer| matches!(answer, WorkerAnswer::Acted(..)));
        self.pending_actions -= completed.count().min(self.pending_actions);
        answers
    }

    pub(super) fn request_page(&self, query: RowQuery) {
        self.update_inbox(|inbox| inbox.query = Some(query));
    }

    pub(super) fn request_preview(&self, row: PickerRow, version: u64) {
        self.update_inbox(|inbox| inbox.preview = Some((row, version)));
    }

    pub(super) fn request_action(&mut self, row: PickerRow, action: RowAction) {
        self.pending_actions += 1;
        self.update_inbox(|inbox| inbox.actions.push_back((row, action)));
    }

    /// Starts a refresh before the interval ends.
    pub(super) fn request_refresh(&self) {
        self.update_inbox(|inbox| inbox.is_refresh_requested = true);
    }

    fn update_inbox(&self, update: impl FnOnce(&mut Inbox)) {
        update(&mut lock_inbox(&self.inbox));
        self.inbox.1.notify_all();
    }

    /// Waits for pending actions, which must not be interrupted, and returns their results. The other threads end on
    /// their own.
    pub(super) fn finish(mut self) -> Vec<Result<RowActionOutcome, String>> {
        self.update_inbox(|inbox| inbox.is_closed = true);
        if self.pending_actions == 0 {
            return Vec::new();
        }
        let _ = self.action_thread.join();
        let answers = std::mem::replace(&mut self.answers, channel().1);
        let outcomes = answers.try_iter().filter_map(|answer| match answer {
            WorkerAnswer::Acted(_, outcome) => Some(outcome),
            _ => None,
        });
        outcomes.collect()
    }
}

enum WorkerJob {
    Action(PickerRow, RowAction),
    Preview(PickerRow, u64),
}

fn take_job(inbox: &mut Inbox) -> Option<WorkerJob> {
    if let Some((row, action)) = inbox.actions.pop_front() {
        return Some(WorkerJob::Action(row, action));
    }
    // After the end of the picker no preview is needed.
    inbox
        .preview
        .take_if(|_| !inbox.is_closed)
        .map(|(row, version)| WorkerJob::Preview(row, version))
}

/// Waits for work. `None` once the picker has ended.
fn wait_for_work<T>(shared: &SharedInbox, take: impl Fn(&mut Inbox) -> Option<T>) -> Option<T> {
    let mut inbox = lock_inbox(shared);
    loop {
        if let Some(work) = take(&mut inbox) {
            return Some(work);
        }
        if inbox.is_closed {
            return None;
        }
        inbox = shared.1.wait(inbox).unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock_inbox(shared: &SharedInbox) -> MutexGuard<'_, Inbox> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refreshes at the start, on request and at intervals, until the picker ends.
fn run_refresh_loop<S: DataSource>(
    open: &impl Fn() -> Result<S, String>,
    outbox: &Outbox,
    shared: &SharedInbox,
) {
    let mut source = None;
    let mut last_error = None;
    let mut is_requested = true;
    loop {
        let started = Instant::now();
        if is_requested {
            outbox.send(WorkerAnswer::Progress("refreshing…".to_owned()));
        }
        let mut progress = |text: &str| outbox.send(WorkerAnswer::Progress(text.to_owned()));
        let outcome = query_source(&mut source, open, |source| source.refresh(&mut progress));
        let failure = outcome.as_ref().err().cloned();
        if failure.is_some() {
            // A newly opened data source may succeed.
            source = None;
        }
        // An automatic refresh does not repeat the same error.
        let is_repeated = !is_requested && failure.is_some() && failure == last_error;
        last_error = failure;
        outbox.send(WorkerAnswer::Refreshed(if is_repeated {
            Ok(ListRefresh::Unchanged)
        } else {
            outcome
        }));
        match wait_until_due(shared, MIN_REFRESH_INTERVAL.max(started.elapsed() * 10)) {
            Some(requested) => is_requested = requested,
            None => return,
        }
    }
}

/// Waits until the next refresh is due. Returns `true` if the user requested it, `None` once the picker has ended.
fn wait_until_due(shared: &SharedInbox, timeout: Duration) -> Option<bool> {
    let idle = |inbox: &mut Inbox| !inbox.is_refresh_requested && !inbox.is_closed;
    let wait_result = shared
        .1
        .wait_timeout_while(lock_inbox(shared), timeout, idle);
    let (mut inbox, _) = wait_result.unwrap_or_else(PoisonError::into_inner);
    (!inbox.is_closed).then(|| std::mem::take(&mut inbox.is_refresh_requested))
}

/// Queries a data source, and opens it first if necessary.
fn query_source<S, T>(
    source: &mut Option<S>,
    open: &impl Fn() -> Result<S, String>,
    query: impl FnOnce(&mut S) -> Result<T, String>,
) -> Result<T, String> {
    catch_panic(|| match source {
        Some(source) => query(source),
        None => query(source.insert(open()?)),
    })
}

/// Converts a panic of the data source to an error of this answer, so that later answers are not affected.
fn catch_panic<T>(query: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(query)).unwrap_or_else(|panic| Err(format_panic(&*panic)))
}

fn format_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a bug in segue: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests;
