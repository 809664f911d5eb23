//! Asks the shelf on threads of their own, so that a slow answer holds up no key.

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

use super::source::{Deed, Done, Question, Refreshed, Row, Shelf};
use super::state::News;

/// What is still to be done. A newer question takes the place of an older one; deeds are all done.
#[derive(Default)]
struct Inbox {
    page: Option<Question>,
    preview: Option<(Row, u64)>,
    deeds: VecDeque<(Row, Deed)>,
    refresh: bool,
    /// Nobody waits for answers any more.
    is_closed: bool,
}

type Shared = Arc<(Mutex<Inbox>, Condvar)>;

/// How long after a refresh the next one follows by itself; longer where one takes long.
const AGAIN: Duration = Duration::from_secs(10);

/// The threads, and the way to them.
pub(super) struct Workers {
    inbox: Shared,
    news: Receiver<News>,
    bell: UnixStream,
    /// The one that reads previews and does deeds.
    hand: JoinHandle<()>,
    deeds: usize,
}

/// Where a thread leaves its answers: a line of news, and a byte that wakes the loop.
struct Outbox {
    news: Sender<News>,
    bell: UnixStream,
}

impl Outbox {
    fn tell(&self, news: News) {
        // A loop that is over is not told; one whose bell is full of bytes wakes anyway.
        if self.news.send(news).is_ok() {
            let _ = (&self.bell).write(&[0]);
        }
    }
}

impl Workers {
    /// Starts the threads; each opens the shelf for itself. The first refresh begins once the first rows were fetched.
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
                    // Without a thread for it there is no refresh; the list is good all the same.
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

    /// What becomes readable when there is news.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The news so far.
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

    /// Looks for what is new without waiting for the time.
    pub(super) fn refresh(&self) {
        self.ask(|inbox| inbox.refresh = true);
    }

    fn ask(&self, question: impl FnOnce(&mut Inbox)) {
        question(&mut lock(&self.inbox));
        self.inbox.1.notify_all();
    }

    /// Waits for what was begun and must not be left half done; what came of it. The rest ends by itself.
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
    // Nobody will see it any more.
    inbox
        .preview
        .take_if(|_| !inbox.is_closed)
        .map(|(row, ticket)| Job::Preview(row, ticket))
}

/// Waits for something to do; nothing once the picker is over.
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

/// Refreshes now, whenever that is asked for, and from time to time, until the picker is over.
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
            // Whatever it was, another one may fare better.
            shelf = None;
        }
        // Whoever did not ask is not told the same thing over and over.
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

/// Waits until the next refresh is due, and tells whether somebody asked for it; nothing once the picker is over.
fn due(shared: &Shared, at_most: Duration) -> Option<bool> {
    let idle = |inbox: &mut Inbox| !inbox.refresh && !inbox.is_closed;
    let waited = shared.1.wait_timeout_while(lock(shared), at_most, idle);
    let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
    (!inbox.is_closed).then(|| std::mem::take(&mut inbox.refresh))
}

/// Asks a shelf, which is opened first where it is not yet.
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

/// A bug in the shelf is an error of that one answer, and not the end of all answers.
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
