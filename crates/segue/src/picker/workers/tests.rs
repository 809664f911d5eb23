use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::picker::data_source::{
    ListRefresh, ProjectFilter, RowOrder, RowPage, RowPreview, RowTotal,
};
use crate::picker::tests::local_source::{generate_row, now};

/// A data source that waits for permission before every answer.
struct GatedSource {
    /// Requests in the order of their arrival.
    requests: Sender<String>,
    /// Permissions, one for each answer.
    permits: Arc<Mutex<Receiver<()>>>,
}

impl GatedSource {
    fn receive_request(&self, request: String) {
        let _ = self.requests.send(request);
        let _ = self.permits.lock().unwrap().recv();
    }
}

impl DataSource for GatedSource {
    fn fetch_page(&mut self, query: &RowQuery) -> Result<RowPage, String> {
        self.receive_request(format!("query {}", query.search_text));
        assert!(query.search_text != "bug", "it is broken");
        Ok(RowPage {
            rows: Vec::new(),
            total: RowTotal::Exact(0),
            ignored_part: None,
        })
    }

    fn load_preview(&mut self, row: &PickerRow) -> Result<RowPreview, String> {
        self.receive_request(format!("preview {}", row.id));
        Ok(RowPreview::default())
    }

    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<ListRefresh, String> {
        progress("half");
        Ok(ListRefresh::Changed)
    }

    fn perform_action(
        &mut self,
        row: &PickerRow,
        action: &RowAction,
    ) -> Result<RowActionOutcome, String> {
        self.receive_request(format!("{action:?} {}", row.id));
        Ok(RowActionOutcome {
            message: format!("{action:?} done"),
            id: row.id.clone(),
            fork_id: None,
        })
    }
}

struct WorkersFixture {
    workers: Workers,
    requests: Receiver<String>,
    gate: Sender<()>,
}

impl WorkersFixture {
    fn new() -> Self {
        let (request_sender, requests) = channel();
        let (gate, permits) = channel();
        let shared = (Mutex::new(request_sender), Arc::new(Mutex::new(permits)));
        let open = move || {
            Ok(GatedSource {
                requests: shared.0.lock().unwrap().clone(),
                permits: Arc::clone(&shared.1),
            })
        };
        Self {
            workers: Workers::start(open).unwrap(),
            requests,
            gate,
        }
    }

    fn expect_request(&self, expected: &str) {
        let request = self.requests.recv_timeout(Duration::from_mins(1)).unwrap();
        assert_eq!(request, expected);
    }

    fn permit_answer(&self) {
        self.gate.send(()).unwrap();
    }

    /// Waits for answers through the file descriptor, as the loop does.
    fn wait_for_answers(&mut self) -> Vec<WorkerAnswer> {
        loop {
            let poll_fd = PollFd::from_borrowed_fd(self.workers.answers_fd(), PollFlags::IN);
            poll(&mut [poll_fd], None).unwrap();
            let answers = self.workers.take_answers();
            if !answers.is_empty() {
                return answers;
            }
        }
    }

    /// Waits for the answer to a query. Ignores answers of the refresh.
    fn wait_for_page(&mut self) -> (String, Result<RowPage, String>) {
        loop {
            for answer in self.wait_for_answers() {
                if let WorkerAnswer::Page(query, page) = answer {
                    return (query.search_text, page);
                }
            }
        }
    }
}

fn row_query(search_text: &str) -> RowQuery {
    RowQuery {
        search_text: search_text.to_owned(),
        project_filter: ProjectFilter::Current,
        order: RowOrder::Newest,
        offset: 0,
        limit: 10,
        data_version: 0,
    }
}

#[test]
fn a_newer_query_replaces_waiting_queries() {
    let mut fixture = WorkersFixture::new();
    fixture.workers.request_page(row_query("a"));
    fixture.expect_request("query a");
    for search_text in ["ab", "abc", "abcd"] {
        fixture.workers.request_page(row_query(search_text));
    }
    fixture.permit_answer();
    assert_eq!(fixture.wait_for_page().0, "a");
    fixture.expect_request("query abcd");
    fixture.permit_answer();
    assert_eq!(fixture.wait_for_page().0, "abcd");
}

#[test]
fn a_slow_query_delays_neither_previews_nor_actions() {
    let mut fixture = WorkersFixture::new();
    fixture
        .workers
        .request_action(generate_row(1, now()), RowAction::Fork);
    fixture.expect_request("Fork id-1");
    fixture.workers.request_page(row_query("a"));
    fixture.expect_request("query a");
    fixture.workers.request_preview(generate_row(2, now()), 7);
    fixture.workers.request_preview(generate_row(3, now()), 8);
    fixture
        .workers
        .request_action(generate_row(4, now()), RowAction::Archive);
    for _ in 0..4 {
        fixture.permit_answer();
    }
    // Actions come before previews, and only the last preview is read.
    fixture.expect_request("Archive id-4");
    fixture.expect_request("preview id-3");
    let mut previewed = Vec::new();
    while previewed.is_empty() {
        previewed.extend(fixture.wait_for_answers().into_iter().filter_map(
            |answer| match answer {
                WorkerAnswer::Preview(id, version, Ok(_)) => Some((id, version)),
                _ => None,
            },
        ));
    }
    assert_eq!(previewed, [("id-3".to_owned(), 8)]);
}

#[test]
fn the_refresh_follows_the_first_rows() {
    let mut fixture = WorkersFixture::new();
    fixture.workers.request_page(row_query(""));
    fixture.expect_request("query ");
    fixture.permit_answer();
    let mut order = Vec::new();
    while !order.contains(&"refreshed") {
        order.extend(
            fixture
                .wait_for_answers()
                .into_iter()
                .map(|answer| match answer {
                    WorkerAnswer::Page(..) => "page",
                    WorkerAnswer::Progress(_) => "progress",
                    WorkerAnswer::Refreshed(Ok(ListRefresh::Changed)) => "refreshed",
                    unexpected => panic!("{unexpected:?}"),
                }),
        );
    }
    assert_eq!(order, ["page", "progress", "progress", "refreshed"]);
}

#[test]
fn a_refresh_runs_automatically_and_on_request() {
    let mut fixture = WorkersFixture::new();
    fixture.workers.request_page(row_query("a"));
    fixture.permit_answer();
    for _ in 0..3 {
        loop {
            let answers = fixture.wait_for_answers();
            if answers
                .iter()
                .any(|answer| matches!(answer, WorkerAnswer::Refreshed(_)))
            {
                break;
            }
        }
        fixture.workers.request_refresh();
    }
    let channel = WorkersFixture::new().workers.channel;
    assert_eq!(
        channel.wait_until_due(Duration::ZERO),
        Some(false),
        "the interval ended"
    );
    channel.lock_inbox().is_refresh_requested = true;
    let hour = Duration::from_hours(1);
    assert_eq!(
        channel.wait_until_due(hour),
        Some(true),
        "the user requested it"
    );
    channel.lock_inbox().is_closed = true;
    assert_eq!(channel.wait_until_due(hour), None);
}

#[test]
fn pending_actions_finish_before_the_end() {
    let mut fixture = WorkersFixture::new();
    fixture
        .workers
        .request_action(generate_row(1, now()), RowAction::Fork);
    fixture
        .workers
        .request_action(generate_row(1, now()), RowAction::Archive);
    fixture.workers.request_preview(generate_row(2, now()), 1);
    fixture.expect_request("Fork id-1");
    let channel = Arc::clone(&fixture.workers.channel);
    let end = std::thread::spawn(move || fixture.workers.finish());
    while !channel.lock_inbox().is_closed {
        std::thread::yield_now();
    }
    // Only two permissions are given: the end does not wait for a preview that is not needed.
    fixture.gate.send(()).unwrap();
    fixture.gate.send(()).unwrap();
    let outcomes = end.join().unwrap();
    assert_eq!(
        fixture.requests.try_iter().collect::<Vec<_>>(),
        ["Archive id-1"]
    );
    let messages: Vec<String> = outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap().message)
        .collect();
    assert_eq!(messages, ["Fork done", "Archive done"]);
}

#[test]
fn a_hanging_query_does_not_delay_the_end() {
    let fixture = WorkersFixture::new();
    fixture.workers.request_page(row_query("a"));
    fixture.expect_request("query a");
    assert_eq!(fixture.workers.finish(), []);
}

#[test]
fn a_panic_in_the_source_fails_only_one_answer() {
    let mut fixture = WorkersFixture::new();
    fixture.workers.request_page(row_query("bug"));
    fixture.permit_answer();
    let (_, answer) = fixture.wait_for_page();
    assert_eq!(answer, Err("a bug in segue: it is broken".to_owned()));
    fixture.workers.request_page(row_query("fine"));
    fixture.permit_answer();
    assert!(fixture.wait_for_page().1.is_ok());
}

#[test]
fn a_source_that_cannot_be_opened_is_retried() {
    let (request_sender, requests) = channel();
    let (gate, permits) = channel();
    let (request_sender, permits) = (Mutex::new(request_sender), Arc::new(Mutex::new(permits)));
    let is_locked = Arc::new(AtomicBool::new(true));
    let locked = Arc::clone(&is_locked);
    let open = move || {
        if locked.load(Ordering::Relaxed) {
            return Err("locked".to_owned());
        }
        Ok(GatedSource {
            requests: request_sender.lock().unwrap().clone(),
            permits: Arc::clone(&permits),
        })
    };
    let workers = Workers::start(open).unwrap();
    let mut fixture = WorkersFixture {
        workers,
        requests,
        gate,
    };
    fixture.workers.request_page(row_query("a"));
    assert_eq!(fixture.wait_for_page().1, Err("locked".to_owned()));
    is_locked.store(false, Ordering::Relaxed);
    fixture.workers.request_page(row_query("b"));
    fixture.permit_answer();
    assert!(fixture.wait_for_page().1.is_ok());
}
