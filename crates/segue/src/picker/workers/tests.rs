use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::picker::data_source::{Order, Page, Place, Preview, Refreshed, Total};
use crate::picker::tests::local_source::{now, row};

/// A data source that waits for permission before every answer.
struct Gated {
    /// Requests in the order of their arrival.
    heard: Sender<String>,
    /// Permissions, one for each answer.
    let_go: Arc<Mutex<Receiver<()>>>,
}

impl Gated {
    fn hear(&self, what: String) {
        let _ = self.heard.send(what);
        let _ = self.let_go.lock().unwrap().recv();
    }
}

impl Shelf for Gated {
    fn look(&mut self, question: &Question) -> Result<Page, String> {
        self.hear(format!("look {}", question.typed));
        assert!(question.typed != "bug", "it is broken");
        Ok(Page {
            rows: Vec::new(),
            total: Total::Exactly(0),
            passed_over: None,
        })
    }

    fn preview(&mut self, row: &Row) -> Result<Preview, String> {
        self.hear(format!("preview {}", row.id));
        Ok(Preview::default())
    }

    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Refreshed, String> {
        progress("half");
        Ok(Refreshed::Changed)
    }

    fn act(&mut self, row: &Row, deed: &Deed) -> Result<Done, String> {
        self.hear(format!("{deed:?} {}", row.id));
        Ok(Done {
            said: format!("{deed:?} done"),
            id: row.id.clone(),
            fork: None,
        })
    }
}

struct Stage {
    workers: Workers,
    heard: Receiver<String>,
    gate: Sender<()>,
}

impl Stage {
    fn new() -> Self {
        let (heard_sender, heard) = channel();
        let (gate, let_go) = channel();
        let shared = (Mutex::new(heard_sender), Arc::new(Mutex::new(let_go)));
        let open = move || {
            Ok(Gated {
                heard: shared.0.lock().unwrap().clone(),
                let_go: Arc::clone(&shared.1),
            })
        };
        Self {
            workers: Workers::start(open).unwrap(),
            heard,
            gate,
        }
    }

    fn hears(&self, what: &str) {
        let heard = self.heard.recv_timeout(Duration::from_mins(1)).unwrap();
        assert_eq!(heard, what);
    }

    fn lets_go(&self) {
        self.gate.send(()).unwrap();
    }

    /// Waits for answers through the file descriptor, as the loop does.
    fn told(&mut self) -> Vec<News> {
        loop {
            let bell = PollFd::from_borrowed_fd(self.workers.bell(), PollFlags::IN);
            poll(&mut [bell], None).unwrap();
            let news = self.workers.news();
            if !news.is_empty() {
                return news;
            }
        }
    }

    /// Waits for the answer to a query. Ignores answers of the refresh.
    fn told_page(&mut self) -> (String, Result<Page, String>) {
        loop {
            for news in self.told() {
                if let News::Page(question, page) = news {
                    return (question.typed, page);
                }
            }
        }
    }
}

fn question(typed: &str) -> Question {
    Question {
        typed: typed.to_owned(),
        place: Place::Here,
        order: Order::Newest,
        from: 0,
        limit: 10,
        edition: 0,
    }
}

#[test]
fn a_newer_question_takes_the_place_of_those_that_wait() {
    let mut stage = Stage::new();
    stage.workers.look(question("a"));
    stage.hears("look a");
    for typed in ["ab", "abc", "abcd"] {
        stage.workers.look(question(typed));
    }
    stage.lets_go();
    assert_eq!(stage.told_page().0, "a");
    stage.hears("look abcd");
    stage.lets_go();
    assert_eq!(stage.told_page().0, "abcd");
}

#[test]
fn a_slow_look_holds_up_neither_previews_nor_deeds() {
    let mut stage = Stage::new();
    stage.workers.act(row(1, now()), Deed::Fork);
    stage.hears("Fork id-1");
    stage.workers.look(question("a"));
    stage.hears("look a");
    stage.workers.preview(row(2, now()), 7);
    stage.workers.preview(row(3, now()), 8);
    stage.workers.act(row(4, now()), Deed::Archive);
    for _ in 0..4 {
        stage.lets_go();
    }
    // Actions come before previews, and only the last preview is read.
    stage.hears("Archive id-4");
    stage.hears("preview id-3");
    let mut previewed = Vec::new();
    while previewed.is_empty() {
        previewed.extend(stage.told().into_iter().filter_map(|news| match news {
            News::Preview(id, ticket, Ok(_)) => Some((id, ticket)),
            _ => None,
        }));
    }
    assert_eq!(previewed, [("id-3".to_owned(), 8)]);
}

#[test]
fn the_refresh_follows_the_first_rows() {
    let mut stage = Stage::new();
    stage.workers.look(question(""));
    stage.hears("look ");
    stage.lets_go();
    let mut order = Vec::new();
    while !order.contains(&"refreshed") {
        order.extend(stage.told().into_iter().map(|news| match news {
            News::Page(..) => "page",
            News::Progress(_) => "progress",
            News::Refreshed(Ok(Refreshed::Changed)) => "refreshed",
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(order, ["page", "progress", "progress", "refreshed"]);
}

#[test]
fn a_refresh_follows_by_itself_and_when_it_is_asked_for() {
    let mut stage = Stage::new();
    stage.workers.look(question("a"));
    stage.lets_go();
    for _ in 0..3 {
        loop {
            let news = stage.told();
            if news.iter().any(|news| matches!(news, News::Refreshed(_))) {
                break;
            }
        }
        stage.workers.refresh();
    }
    let shared = Shared::default();
    assert_eq!(due(&shared, Duration::ZERO), Some(false), "its time came");
    lock(&shared).refresh = true;
    let hour = Duration::from_hours(1);
    assert_eq!(due(&shared, hour), Some(true), "somebody asked");
    lock(&shared).is_closed = true;
    assert_eq!(due(&shared, hour), None);
}

#[test]
fn what_was_begun_is_finished_before_the_end() {
    let mut stage = Stage::new();
    stage.workers.act(row(1, now()), Deed::Fork);
    stage.workers.act(row(1, now()), Deed::Archive);
    stage.workers.preview(row(2, now()), 1);
    stage.hears("Fork id-1");
    let inbox = Arc::clone(&stage.workers.inbox);
    let end = std::thread::spawn(move || stage.workers.finish());
    while !lock(&inbox).is_closed {
        std::thread::yield_now();
    }
    // Only two permissions are given: the end does not wait for a preview that is not needed.
    stage.gate.send(()).unwrap();
    stage.gate.send(()).unwrap();
    let outcomes = end.join().unwrap();
    assert_eq!(stage.heard.try_iter().collect::<Vec<_>>(), ["Archive id-1"]);
    let said: Vec<String> = outcomes
        .into_iter()
        .map(|done| done.unwrap().said)
        .collect();
    assert_eq!(said, ["Fork done", "Archive done"]);
}

#[test]
fn a_look_that_hangs_does_not_hold_up_the_end() {
    let stage = Stage::new();
    stage.workers.look(question("a"));
    stage.hears("look a");
    assert_eq!(stage.workers.finish(), []);
}

#[test]
fn a_bug_in_the_shelf_is_one_bad_answer() {
    let mut stage = Stage::new();
    stage.workers.look(question("bug"));
    stage.lets_go();
    let (_, answer) = stage.told_page();
    assert_eq!(answer, Err("a bug in segue: it is broken".to_owned()));
    stage.workers.look(question("fine"));
    stage.lets_go();
    assert!(stage.told_page().1.is_ok());
}

#[test]
fn a_shelf_that_can_not_be_opened_is_tried_again() {
    let (heard_sender, heard) = channel();
    let (gate, let_go) = channel();
    let (heard_sender, let_go) = (Mutex::new(heard_sender), Arc::new(Mutex::new(let_go)));
    let is_locked = Arc::new(AtomicBool::new(true));
    let locked = Arc::clone(&is_locked);
    let open = move || {
        if locked.load(Ordering::Relaxed) {
            return Err("locked".to_owned());
        }
        Ok(Gated {
            heard: heard_sender.lock().unwrap().clone(),
            let_go: Arc::clone(&let_go),
        })
    };
    let workers = Workers::start(open).unwrap();
    let mut stage = Stage {
        workers,
        heard,
        gate,
    };
    stage.workers.look(question("a"));
    assert_eq!(stage.told_page().1, Err("locked".to_owned()));
    is_locked.store(false, Ordering::Relaxed);
    stage.workers.look(question("b"));
    stage.lets_go();
    assert!(stage.told_page().1.is_ok());
}
