//! The model stub: a model server on loopback that says what a script tells it and remembers what it was asked.
//!
//! It speaks Anthropic Messages, `OpenAI` Responses and Gemini `generateContent`, streamed and not, so the real
//! CLIs run whole turns against it. It needs no key and reaches nothing. It does not check that requests are
//! valid; that is what the real ones are for.
//!
//! ```
//! use segue_testkit::model::{Call, Failure, Model, Reply, Script};
//!
//! let script = Script::new()
//!     .on("list", [
//!         Reply::say("I look.").think("Which files?").call(Call::shell("ls")),
//!         Reply::say("There they are."),
//!     ])
//!     .on("flaky", [Reply::say("At last.").failing_times(Failure::Server, 2)]);
//! let model = Model::start(script);
//! assert!(model.url().starts_with("http://127.0.0.1:"));
//! assert!(model.requests().is_empty());
//! ```

mod answer;
mod anthropic;
mod frame;
mod gemini;
mod record;
mod request;
mod responses;
mod route;
mod script;
mod seen;
mod server;
mod side;
mod tools;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use record::Record;
pub use request::{Dialect, ModelRequest};
pub use script::{Call, Failure, Reply, Rule, Script, Usage};
pub use seen::Seen;
pub use side::Side;

/// A model server that runs until this is dropped.
pub struct Model {
    address: SocketAddr,
    record: Arc<Record>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Model {
    /// Starts on a free port.
    pub fn start(script: Script) -> Self {
        Self::start_at(0, script, None)
    }

    /// Starts on this port (0: a free one) and writes each request to `log`, a line of JSON each.
    pub fn start_at(port: u16, script: Script, log: Option<File>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Record::new(script, log));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&record);
        let thread = std::thread::spawn(move || serve(listener, shared, stopped));
        Self {
            address,
            record,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where it is, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything it was asked so far, in the order of arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.record.requests()
    }

    /// What it was asked for the sake of the user's turns: no lists, no counts, nothing on the side.
    pub fn turns(&self) -> Vec<ModelRequest> {
        let mut requests = self.requests();
        requests.retain(is_turn);
        requests
    }

    /// Waits until so many requests for the user's turns have arrived; says whether they have.
    #[must_use]
    pub fn wait_for_turns(&self, count: usize, time: Duration) -> bool {
        self.wait_until(time, |requests| {
            requests.iter().filter(|request| is_turn(request)).count() >= count
        })
    }

    /// Waits until the requests so far are what is wanted; says whether they are.
    #[must_use]
    pub fn wait_until(&self, time: Duration, wanted: impl Fn(&[ModelRequest]) -> bool) -> bool {
        self.record.wait(time, wanted)
    }
}

fn is_turn(request: &ModelRequest) -> bool {
    let asks = request.path.contains("enerateContent")
        || [Some("/messages"), Some("/responses")].contains(&last_segment(&request.path));
    asks && request.side.is_none() && request.method == "POST"
}

fn last_segment(path: &str) -> Option<&str> {
    let path = path.split('?').next()?;
    Some(path.split_at(path.rfind('/')?).1)
}

/// Ends what is still being answered too: stalled answers do not outlive the stub.
impl Drop for Model {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed already.
            let _ = thread.join();
        }
    }
}

fn serve(listener: TcpListener, record: Arc<Record>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let server = axum::serve(listener, server::router(record)).into_future();
        tokio::select! {
            _ = server => {}
            _ = stopped => {}
        }
    });
}
