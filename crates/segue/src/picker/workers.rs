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

use super::data_source::{Deed, Done, Question, Refreshed, Row, Shelf};
use super::state::News;

/// Pending work. A newer query replaces an older one; all actions are performed.
#[derive(Default)]
struct Inbox {
    page: Option<Question>,
    preview: Option<(Row, u64)>,
    deeds: VecDeque<(Row, Deed)>,
    refresh: bool,
    /// Whether the picker has ended, so that no answer is needed.
    is_closed: bool,
}

type Shared = Arc<(Mutex<Inbox>, Condvar)>;

/// Minimum time between two automatic refreshes, which is longer if a refresh takes long.
const AGAIN: Duration = Duration::from_secs(10);

/// The threads and the channels to them.
pub(super) struct Workers {
    inbox: Shared,
    news: Receiver<News>,
    bell: UnixStream,
    /// Thread that reads previews and performs actions.
    hand: JoinHandle<()>,
    deeds: usize,
}

/// Channel for answers: a message, and a byte that wakes the loop.
struct Outbox {
    news: Sender<News>,
    bell: UnixStream,
}

impl Outbox {
    fn tell(&self, news: News) {
        // No byte is sent if the loop has ended. If the pipe is full, the loop wakes anyway.
        if self.news.send(news).is_ok() {
            let _ = (&self.bell).write(&[0]);
        }
    }
}

impl Workers {
    /// Starts the threads. Each opens its own data source. The first refresh starts after the first rows were returned.
    pub(super) fn start<S: Shelf>(
        open: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let open = Arc::new(open);
        let inbox = Shared::default();
        let (sender, news) = channel();
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let outbox = || -> io::Result<Outbox> {
            Ok(Outbox {
                news: sender.clone(),
                bell: ring.try_clone()?,
            })
        };
        let thread = |name: &str| Builder::new().name(format!("picker: {name}"));
        let (shared, answers, opener) = (Arc::clone(&inbox), outbox()?, Arc::clone(&open));
        let refreshing = (outbox()?, Arc::clone(&open), Arc::clone(&inbox));
        thread("look").spawn(move || {
            let mut refreshing = Some(refreshing);
            let mut shelf = None;
            while let Some(question) = next(&shared, |inbox| inbox.page.take()) {
                let answer = with(&mut shelf, &*opener, |shelf| shelf.look(&question));
                answers.tell(News::Page(question, answer));
                if let Some((outbox, open, shared)) = refreshing.take() {
                    let refresh = move || keep_fresh(&*open, &outbox, &shared);
                    // If the thread cannot be started, the list works without a refresh.
                    let _ = Builder::new().name("picker: refresh".into()).spawn(refresh);
                }
            }
        })?;
        let (shared, answers, opener) = (Arc::clone(&inbox), outbox()?, open);
        let hand = thread("hand").spawn(move || {
            let mut shelf = None;
            while let Some(job) = next(&shared, next_job) {
                answers.tell(match job {
                    Job::Deed(row, deed) => {
                        let done = with(&mut shelf, &*opener, |shelf| shelf.act(&row, &deed));
                        News::Acted(row.id, done)
                    }
                    Job::Preview(row, ticket) => {
                        let preview = with(&mut shelf, &*opener, |shelf| shelf.preview(&row));
                        News::Preview(row.id, ticket, preview)
                    }
                });
            }
        })?;
        Ok(Self {
            inbox,
            news,
            bell,
            hand,
            deeds: 0,
        })
    }

    /// Returns the file descriptor that becomes readable when answers are available.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Returns the answers since the last call.
    pub(super) fn news(&mut self) -> Vec<News> {
        let mut rung = [0; 256];
        while matches!(self.bell.read(&mut rung), Ok(1..)) {}
        let news: Vec<News> = self.news.try_iter().collect();
        let done = news.iter().filter(|news| matches!(news, News::Acted(..)));
        self.deeds -= done.count().min(self.deeds);
        news
    }

    pub(super) fn look(&self, question: Question) {
        self.ask(|inbox| inbox.page = Some(question));
    }

    pub(super) fn preview(&self, row: Row, ticket: u64) {
        self.ask(|inbox| inbox.preview = Some((row, ticket)));
    }

    pub(super) fn act(&mut self, row: Row, deed: Deed) {
        self.deeds += 1;
        self.ask(|inbox| inbox.deeds.push_back((row, deed)));
    }

    /// Starts a refresh before the interval ends.
    pub(super) fn refresh(&self) {
        self.ask(|inbox| inbox.refresh = true);
    }

    fn ask(&self, question: impl FnOnce(&mut Inbox)) {
        question(&mut lock(&self.inbox));
        self.inbox.1.notify_all();
    }

    /// Waits for pending actions, which must not be interrupted, and returns their results. The other threads end on
    /// their own.
    pub(super) fn finish(mut self) -> Vec<Result<Done, String>> {
        self.ask(|inbox| inbox.is_closed = true);
        if self.deeds == 0 {
            return Vec::new();
        }
        let _ = self.hand.join();
        let news = std::mem::replace(&mut self.news, channel().1);
        let outcomes = news.try_iter().filter_map(|news| match news {
            News::Acted(_, outcome) => Some(outcome),
            _ => None,
        });
        outcomes.collect()
    }
}

enum Job {
    Deed(Row, Deed),
    Preview(Row, u64),
}

fn next_job(inbox: &mut Inbox) -> Option<Job> {
    if let Some((row, deed)) = inbox.deeds.pop_front() {
        return Some(Job::Deed(row, deed));
    }
    // After the end of the picker no preview is needed.
    inbox
        .preview
        .take_if(|_| !inbox.is_closed)
        .map(|(row, ticket)| Job::Preview(row, ticket))
}

/// Waits for work. `None` once the picker has ended.
fn next<T>(shared: &Shared, take: impl Fn(&mut Inbox) -> Option<T>) -> Option<T> {
    let mut inbox = lock(shared);
    loop {
        if let Some(taken) = take(&mut inbox) {
            return Some(taken);
        }
        if inbox.is_closed {
            return None;
        }
        inbox = shared.1.wait(inbox).unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Inbox> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refreshes at the start, on request and at intervals, until the picker ends.
fn keep_fresh<S: Shelf>(open: &impl Fn() -> Result<S, String>, outbox: &Outbox, shared: &Shared) {
    let mut shelf = None;
    let mut told = None;
    let mut asked = true;
    loop {
        let began = Instant::now();
        if asked {
            outbox.tell(News::Progress("refreshing…".to_owned()));
        }
        let mut progress = |what: &str| outbox.tell(News::Progress(what.to_owned()));
        let outcome = with(&mut shelf, open, |shelf| shelf.refresh(&mut progress));
        let failure = outcome.as_ref().err().cloned();
        if failure.is_some() {
            // A newly opened data source may succeed.
            shelf = None;
        }
        // An automatic refresh does not repeat the same error.
        let is_old = !asked && failure.is_some() && failure == told;
        told = failure;
        outbox.tell(News::Refreshed(if is_old {
            Ok(Refreshed::Nothing)
        } else {
            outcome
        }));
        match due(shared, AGAIN.max(began.elapsed() * 10)) {
            Some(by_hand) => asked = by_hand,
            None => return,
        }
    }
}

/// Waits until the next refresh is due. Returns `true` if the user requested it, `None` once the picker has ended.
fn due(shared: &Shared, at_most: Duration) -> Option<bool> {
    let idle = |inbox: &mut Inbox| !inbox.refresh && !inbox.is_closed;
    let waited = shared.1.wait_timeout_while(lock(shared), at_most, idle);
    let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
    (!inbox.is_closed).then(|| std::mem::take(&mut inbox.refresh))
}

/// Queries a data source, and opens it first if necessary.
fn with<S, T>(
    shelf: &mut Option<S>,
    open: &impl Fn() -> Result<S, String>,
    ask: impl FnOnce(&mut S) -> Result<T, String>,
) -> Result<T, String> {
    guarded(|| match shelf {
        Some(shelf) => ask(shelf),
        None => ask(shelf.insert(open()?)),
    })
}

/// Converts a panic of the data source to an error of this answer, so that later answers are not affected.
fn guarded<T>(ask: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| Err(told(&*panic)))
}

fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a bug in segue: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests;
