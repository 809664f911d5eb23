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

/// State that the loop and the threads share.
struct WorkerChannel {
    inbox: Mutex<Inbox>,
    inbox_changed: Condvar,
    answers: Sender<WorkerAnswer>,
    /// Pipe that receives a byte with each answer, which wakes the loop.
    wake_writer: UnixStream,
}

/// Minimum time between two automatic refreshes, which is longer if a refresh takes long.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The threads and the channels to them.
pub(super) struct Workers {
    channel: Arc<WorkerChannel>,
    answers: Receiver<WorkerAnswer>,
    wake_reader: UnixStream,
    /// Thread that reads previews and performs actions.
    action_thread: JoinHandle<()>,
    pending_actions: usize,
}

impl Workers {
    /// Starts the threads. Each opens its own data source. The first refresh starts after the first rows were returned.
    pub(super) fn start<S: DataSource>(
        open: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (sender, answers) = channel();
        let (wake_reader, wake_writer) = UnixStream::pair()?;
        wake_reader.set_nonblocking(true)?;
        wake_writer.set_nonblocking(true)?;
        let channel = Arc::new(WorkerChannel {
            inbox: Mutex::default(),
            inbox_changed: Condvar::new(),
            answers: sender,
            wake_writer,
        });
        let open = Arc::new(open);
        let (query_channel, query_open) = (Arc::clone(&channel), Arc::clone(&open));
        spawn_thread("query", move || {
            run_query_loop(&query_channel, &query_open);
        })?;
        let action_channel = Arc::clone(&channel);
        let action_thread = spawn_thread("action", move || {
            run_action_loop(&action_channel, &*open);
        })?;
        Ok(Self {
            channel,
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
        self.channel.update_inbox(|inbox| inbox.query = Some(query));
    }

    pub(super) fn request_preview(&self, row: PickerRow, version: u64) {
        self.channel
            .update_inbox(|inbox| inbox.preview = Some((row, version)));
    }

    pub(super) fn request_action(&mut self, row: PickerRow, action: RowAction) {
        self.pending_actions += 1;
        self.channel
            .update_inbox(|inbox| inbox.actions.push_back((row, action)));
    }

    /// Starts a refresh before the interval ends.
    pub(super) fn request_refresh(&self) {
        self.channel
            .update_inbox(|inbox| inbox.is_refresh_requested = true);
    }

    /// Waits for pending actions, which must not be interrupted, and returns their results. The other threads end on
    /// their own.
    pub(super) fn finish(self) -> Vec<Result<RowActionOutcome, String>> {
        self.channel.update_inbox(|inbox| inbox.is_closed = true);
        if self.pending_actions == 0 {
            return Vec::new();
        }
        let _ = self.action_thread.join();
        let outcomes = self.answers.try_iter().filter_map(|answer| match answer {
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

impl WorkerChannel {
    fn send(&self, answer: WorkerAnswer) {
        // No byte is sent if the loop has ended. If the pipe is full, the loop wakes anyway.
        if self.answers.send(answer).is_ok() {
            let _ = (&self.wake_writer).write(&[0]);
        }
    }

    fn lock_inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_inbox(&self, update: impl FnOnce(&mut Inbox)) {
        update(&mut self.lock_inbox());
        self.inbox_changed.notify_all();
    }

    /// Waits for work. `None` once the picker has ended.
    fn wait_for_work<T>(&self, take: impl Fn(&mut Inbox) -> Option<T>) -> Option<T> {
        let mut inbox = self.lock_inbox();
        loop {
            if let Some(work) = take(&mut inbox) {
                return Some(work);
            }
            if inbox.is_closed {
                return None;
            }
            let wait_result = self.inbox_changed.wait(inbox);
            inbox = wait_result.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the next refresh is due. Returns `true` if the user requested it, `None` once the picker has ended.
    fn wait_until_due(&self, timeout: Duration) -> Option<bool> {
        let idle = |inbox: &mut Inbox| !inbox.is_refresh_requested && !inbox.is_closed;
        let inbox = self.lock_inbox();
        let wait_result = self.inbox_changed.wait_timeout_while(inbox, timeout, idle);
        let (mut inbox, _) = wait_result.unwrap_or_else(PoisonError::into_inner);
        (!inbox.is_closed).then(|| std::mem::take(&mut inbox.is_refresh_requested))
    }
}

fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(format!("picker: {name}")).spawn(run)
}

/// Answers queries. The first answer starts the thread that refreshes the list.
fn run_query_loop<S, O>(channel: &Arc<WorkerChannel>, open: &Arc<O>)
where
    S: DataSource,
    O: Fn() -> Result<S, String> + Send + Sync + 'static,
{
    let mut source = None;
    let mut is_first = true;
    while let Some(query) = channel.wait_for_work(|inbox| inbox.query.take()) {
        let result = query_source(&mut source, &**open, |source| source.fetch_page(&query));
        channel.send(WorkerAnswer::Page(query, result));
        if std::mem::take(&mut is_first) {
            let (channel, open) = (Arc::clone(channel), Arc::clone(open));
            // If the thread cannot be started, the list works without a refresh.
            let _ = spawn_thread("refresh", move || run_refresh_loop(&*open, &channel));
        }
    }
}

/// Reads previews and performs actions.
fn run_action_loop<S: DataSource>(channel: &WorkerChannel, open: &impl Fn() -> Result<S, String>) {
    let mut source = None;
    while let Some(job) = channel.wait_for_work(take_job) {
        channel.send(match job {
            WorkerJob::Action(row, action) => {
                let perform = |source: &mut S| source.perform_action(&row, &action);
                let outcome = query_source(&mut source, open, perform);
                WorkerAnswer::Acted(row.id, outcome)
            }
            WorkerJob::Preview(row, version) => {
                let load = |source: &mut S| source.load_preview(&row);
                let preview = query_source(&mut source, open, load);
                WorkerAnswer::Preview(row.id, version, preview)
            }
        });
    }
}

/// Refreshes at the start, on request and at intervals, until the picker ends.
fn run_refresh_loop<S: DataSource>(open: &impl Fn() -> Result<S, String>, channel: &WorkerChannel) {
    let mut source = None;
    let mut last_error = None;
    let mut is_requested = true;
    loop {
        let started = Instant::now();
        if is_requested {
            channel.send(WorkerAnswer::Progress("refreshing…".to_owned()));
        }
        let mut progress = |text: &str| channel.send(WorkerAnswer::Progress(text.to_owned()));
        let outcome = query_source(&mut source, open, |source| source.refresh(&mut progress));
        let failure = outcome.as_ref().err().cloned();
        if failure.is_some() {
            // A newly opened data source may succeed.
            source = None;
        }
        // An automatic refresh does not repeat the same error.
        let is_repeated = !is_requested && failure.is_some() && failure == last_error;
        last_error = failure;
        channel.send(WorkerAnswer::Refreshed(if is_repeated {
            Ok(ListRefresh::Unchanged)
        } else {
            outcome
        }));
        let pause = MIN_REFRESH_INTERVAL.max(started.elapsed() * 10);
        match channel.wait_until_due(pause) {
            Some(requested) => is_requested = requested,
            None => return,
        }
    }
}

/// Queries a data source, and opens it first if necessary. A panic of the data source becomes an error of this answer,
/// so that later answers are not affected.
fn query_source<S, T>(
    source: &mut Option<S>,
    open: &impl Fn() -> Result<S, String>,
    query: impl FnOnce(&mut S) -> Result<T, String>,
) -> Result<T, String> {
    let answer = || match source {
        Some(source) => query(source),
        None => query(source.insert(open()?)),
    };
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|panic| Err(format_panic(&*panic)))
}

fn format_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a bug in segue: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests;
