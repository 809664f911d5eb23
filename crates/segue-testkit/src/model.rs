//! Model stub: a model server on loopback that answers from a script and records all requests.
//!
//! The stub implements Anthropic Messages, `OpenAI` Responses and Gemini `generateContent`, with and without streaming,
//! so the real CLIs run complete turns against it. It needs no API key and no network. It does not validate requests as
//! a real model server does.
//!
//! ```
//! use segue_testkit::model::{ModelStub, Reply, Script, ScriptedCall, StubFailure};
//!
//! let script = Script::new()
//!     .with_rule("list", [
//!         Reply::from_text("I look.").with_thoughts("Which files?").with_call(ScriptedCall::shell("ls")),
//!         Reply::from_text("Found two files."),
//!     ])
//!     .with_rule("flaky", [Reply::from_text("Done.").with_failures(StubFailure::ServerError, 2)]);
//! let model = ModelStub::start(script);
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

use record::StubState;
pub use request::{ApiFormat, ModelRequest};
pub use script::{Reply, Script, ScriptRule, ScriptedCall, StubFailure, StubUsage};
pub use side_requests::SideRequestKind;
pub use transcript::TranscriptEntry;

/// A running model server, which stops when this value is dropped.
pub struct ModelStub {
    address: SocketAddr,
    state: Arc<StubState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelStub {
    /// Starts the stub on a free port.
    pub fn start(script: Script) -> Self {
        Self::start_on_port(0, script, None)
    }

    /// Starts the stub on `port`, or on a free port if it is 0. Writes each request to `log` as one line of JSON.
    pub fn start_on_port(port: u16, script: Script, log: Option<File>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(StubState::new(script, log));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || run_server(listener, shared, stopped));
        Self {
            address,
            state,
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
        self.state.requests()
    }

    /// Returns the requests that belong to the user's turns, without model lists, token counts and side requests.
    pub fn turn_requests(&self) -> Vec<ModelRequest> {
        let mut requests = self.requests();
        requests.retain(is_turn_request);
        requests
    }

    /// Waits until `count` requests of the user's turns have arrived. Returns `false` if they have not arrived in time.
    #[must_use]
    pub fn wait_for_turn_requests(&self, count: usize, timeout: Duration) -> bool {
        self.wait_until(timeout, |requests| {
            requests
                .iter()
                .filter(|request| is_turn_request(request))
                .count()
                >= count
        })
    }

    /// Waits until `condition` accepts the requests so far. Returns `false` if it has not accepted them in time.
    #[must_use]
    pub fn wait_until(
        &self,
        timeout: Duration,
        condition: impl Fn(&[ModelRequest]) -> bool,
    ) -> bool {
        self.state.wait_until(timeout, condition)
    }
}

fn is_turn_request(request: &ModelRequest) -> bool {
    let is_generation = request.path.contains("enerateContent")
        || [Some("/messages"), Some("/responses")].contains(&last_segment(&request.path));
    is_generation && request.side_request.is_none() && request.method == "POST"
}

fn last_segment(path: &str) -> Option<&str> {
    let path = path.split('?').next()?;
    Some(path.split_at(path.rfind('/')?).1)
}

/// Stops the server. Answers in progress end too, so a stalled answer does not outlive the stub.
impl Drop for ModelStub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been printed.
            let _ = thread.join();
        }
    }
}

fn run_server(listener: TcpListener, state: Arc<StubState>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let server = axum::serve(listener, server::build_router(state)).into_future();
        tokio::select! {
            _ = server => {}
            _ = stopped => {}
        }
    });
}
