//! Execution of one turn: sends the prompt to the engine and prints the events as they arrive.

use std::sync::{Arc, Mutex, PoisonError};

use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Decision, DecisionKind, Failure, Step, TurnState};
use segue_engine::{ChatRequest, Engine, EngineError, Stop, TurnEvent, TurnReport};
use tokio::sync::{mpsc, watch};

use super::Form;
use super::printer::{self, Printer};
use crate::error::{CliError, Kind};
use crate::frontend::Front;
use crate::terminal::{Style, clean, say};

/// Number of events that may wait to be printed before the turn is blocked.
const WAITING: usize = 64;

/// Session and turn number under which a prompt was saved.
pub(crate) type Began = (SessionId, u32);

/// Partial report of a turn, for a result without a report of the engine.
#[derive(Default)]
pub(crate) struct Told {
    /// Session and turn of the prompt. `None` if it was not saved.
    pub(crate) began: Option<Began>,
    /// Texts of the automatic decisions.
    pub(crate) decisions: Vec<String>,
    /// Steps that resolved the session. `None` if the user did not request them.
    pub(crate) steps: Option<Vec<Step>>,
}

impl Told {
    fn take(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Began { session, turn } => self.began = Some((session.clone(), *turn)),
            TurnEvent::Decided(decision) => self.decisions.push(decision.text.clone()),
            TurnEvent::Explained(steps) => self.steps = Some(steps.clone()),
            _ => {}
        }
    }
}

/// Runs a turn and prints its events. Also returns a partial report of them.
///
/// Ends the process if `nobody_waits` completes while events still wait for a reader that does not read.
pub(in crate::commands) async fn play(
    engine: &Engine,
    request: ChatRequest,
    form: Form,
    nobody_waits: impl Future<Output = ()>,
) -> (Result<TurnReport, EngineError>, Told) {
    let (sender, events) = mpsc::channel(WAITING);
    let telling = Telling::start(form, events);
    let outcome = {
        // The event channel closes when this future is dropped.
        // The future of a turn is large, so it is boxed to keep the futures around it small.
        let mut chat = Box::pin(engine.chat(request, sender));
        loop {
            tokio::select! {
                biased;
                outcome = &mut chat => break outcome,
                () = tokio::time::sleep(printer::FRAME) => telling.spin(),
            }
        }
    };
    let told = tokio::task::spawn_blocking(move || telling.end());
    tokio::select! {
        told = told => (outcome, told.unwrap_or_default()),
        // The turn is settled, only a reader that does not read delays the exit, and the user requested an immediate
        // end.
        () = nobody_waits => std::process::exit(130),
    }
}

/// Output of a turn on a separate thread, so that a reader that does not read does not block the turn.
struct Telling {
    printer: Arc<Mutex<Printer>>,
    thread: std::thread::JoinHandle<Told>,
}

impl Telling {
    fn start(form: Form, mut events: mpsc::Receiver<TurnEvent>) -> Self {
        let printer = Arc::new(Mutex::new(Printer::new(form)));
        let shared = Arc::clone(&printer);
        let thread = std::thread::spawn(move || {
            let mut told = Told::default();
            while let Some(event) = events.blocking_recv() {
                told.take(&event);
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .tell(event);
            }
            told
        });
        Self { printer, thread }
    }

    /// Advances the progress indicator, unless an event is being printed.
    fn spin(&self) {
        if let Ok(mut printer) = self.printer.try_lock() {
            printer.spin();
        }
    }

    /// Waits until all events are printed, and returns the partial report.
    fn end(self) -> Told {
        let told = self.thread.join().unwrap_or_default();
        self.printer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end();
        told
    }
}

/// Handles an interrupt: the first asks the agent to stop, the second ends it.
pub(in crate::commands) fn interrupt(stop: &watch::Sender<Stop>) {
    let asked_before = stop.borrow().gt(&Stop::No);
    stop.send_replace(if asked_before { Stop::Now } else { Stop::Ask });
}

/// Returns the exit kind of a turn. `None` if the turn finished.
pub(in crate::commands) fn failed(report: &TurnReport) -> Option<Kind> {
    match report.state {
        TurnState::Finished => None,
        _ if report.stopped_by_policy => Some(Kind::Policy),
        TurnState::Cancelled => Some(Kind::Interrupted),
        TurnState::Running | TurnState::Failed | TurnState::Interrupted => Some(Kind::Agent),
    }
}

/// Prints why an agent failed, with its standard error.
pub(in crate::commands) fn tell_failure(
    provider: &ProviderId,
    failure: &Failure,
    front: Front<'_>,
) {
    if let Some(stderr) = &failure.stderr {
        let style = Style::stderr();
        say(&style.dim(&format!("{provider} wrote to its error output:")));
        for line in clean(stderr).lines() {
            say(&style.dim(&format!("  {line}")));
        }
    }
    let error = CliError {
        kind: Kind::Agent,
        message: failure.message.clone(),
        hints: failure.hint.clone().into_iter().collect(),
        retry_at: failure.retry_at,
        about: Box::default(),
    };
    error.report(front);
}

/// Explains why a turn without a failure did not finish.
pub(in crate::commands) fn why_cancelled(report: &TurnReport) -> &'static str {
    if report.stopped_by_policy {
        "the agent stopped, since it was not allowed to do what it asked for (--permissions)"
    } else if report.sent {
        "interrupted"
    } else {
        "interrupted before the prompt was sent"
    }
}

/// Returns `true` if the prompt was cancelled while it waited for the agent's cooldown or backoff.
pub(super) fn waited(report: &TurnReport) -> bool {
    let waits = |decision: &Decision| decision.kind == DecisionKind::BackedOff;
    !report.sent && report.decisions.iter().any(waits)
}

/// Prints the steps that resolved the session.
pub(in crate::commands) fn explain(steps: &[Step]) {
    let mark = Style::stderr().dim("explain:");
    for step in steps {
        let (kind, text) = (step.kind.as_str(), clean(&step.text));
        say(&format!("{mark} {kind}: {text}"));
    }
}
