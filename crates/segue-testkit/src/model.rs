//! Model stub: a model server on loopback that answers from a script and records all requests.
//!
//! The stub implements Anthropic Messages, `OpenAI` Responses and Gemini `generateContent`, with and without streaming,
//! so the real CLIs run complete turns against it. It needs no API key and no network. It does not validate requests as
//! a real model server does.
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

mod anthropic;
mod frame;
mod gemini;
mod record;
mod reply;
mod request;
mod responses;
mod route;
mod script;
mod server;
mod side_requests;
mod tools;
mod transcript;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use record::Record;
pub use request::{Dialect, ModelRequest};
pub use script::{Call, Failure, Reply, Rule, Script, Usage};
pub use side_requests::Side;
pub use transcript::Seen;

/// A running model server, which stops when this value is dropped.
pub struct Model {
    address: SocketAddr,
    record: Arc<Record>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Model {
    /// Starts the stub on a free port.
    pub fn start(script: Script) -> Self {
        Self::start_at(0, script, None)
    }

    /// Starts the stub on `port`, or on a free port if it is 0. Writes each request to `log` as one line of JSON.
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

    /// Returns the base URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far, in the order of arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.record.requests()
    }

    /// Returns the requests that belong to the user's turns, without model lists, token counts and side requests.
    pub fn turns(&self) -> Vec<ModelRequest> {
        let mut requests = self.requests();
        requests.retain(is_turn);
        requests
    }

    /// Waits until `count` requests of the user's turns have arrived. Returns `false` if they have not arrived in time.
    #[must_use]
    pub fn wait_for_turns(&self, count: usize, time: Duration) -> bool {
        self.wait_until(time, |requests| {
            requests.iter().filter(|request| is_turn(request)).count() >= count
        })
    }

    /// Waits until `wanted` accepts the requests so far. Returns `false` if it has not accepted them in time.
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

/// Stops the server. Answers in progress end too, so a stalled answer does not outlive the stub.
impl Drop for Model {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been printed.
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
