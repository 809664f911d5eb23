//! Playing one turn: the prompt goes to the engine, and what happens is told as it happens.

use std::sync::{Arc, Mutex, PoisonError};

use segue_core::{Decision, DecisionKind, Failure, ProviderId, SessionId, Step, TurnState};
use segue_engine::{ChatRequest, Engine, EngineError, Stop, TurnEvent, TurnReport};
use tokio::sync::{mpsc, watch};

use super::Form;
use super::printer::{self, Printer};
use crate::error::{CliError, Kind};
use crate::front::Front;
use crate::terminal::{Style, clean, say};

/// How many events may wait to be printed before the turn does.
const WAITING: usize = 64;

/// The session and turn a prompt was written down as.
pub(crate) type Began = (SessionId, u32);

/// What was told of a turn, for an answer that has to do without its report.
#[derive(Default)]
pub(crate) struct Told {
    /// As what the prompt was written down, if it was.
    pub(crate) began: Option<Began>,
    /// What was decided.
    pub(crate) decisions: Vec<String>,
    /// The way to the session, for those who ask.
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

/// Runs a turn and tells what happens on the way; also returns what was told.
///
/// The process ends when `nobody_waits` returns while something is still to be told to a reader that does not read.
pub(in crate::commands) async fn play(
    engine: &Engine,
    request: ChatRequest,
    form: Form,
    nobody_waits: impl Future<Output = ()>,
) -> (Result<TurnReport, EngineError>, Told) {
    let (sender, events) = mpsc::channel(WAITING);
    let telling = Telling::start(form, events);
    let outcome = {
        // The events end when this future is gone.
        // A turn is large; what it is part of need not be.
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
        // The turn is settled; only a reader that does not read keeps us, and we were told to end.
        () = nobody_waits => std::process::exit(130),
    }
}

/// The telling of a turn, on a thread of its own: a reader that does not read must not hold the turn up.
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

    /// Shows that time passes, unless something is being printed just now.
    fn spin(&self) {
        if let Ok(mut printer) = self.printer.try_lock() {
            printer.spin();
        }
    }

    /// Waits until everything is told; returns what that was.
    fn end(self) -> Told {
        let told = self.thread.join().unwrap_or_default();
        self.printer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end();
        told
    }
}

/// The first interrupt asks the agent to stop, the second ends it.
pub(in crate::commands) fn interrupt(stop: &watch::Sender<Stop>) {
    let asked_before = stop.borrow().gt(&Stop::No);
    stop.send_replace(if asked_before { Stop::Now } else { Stop::Ask });
}

/// What kind of failure a turn was; none if it was finished.
pub(in crate::commands) fn failed(report: &TurnReport) -> Option<Kind> {
    match report.state {
        TurnState::Finished => None,
        _ if report.stopped_by_policy => Some(Kind::Policy),
        TurnState::Cancelled => Some(Kind::Interrupted),
        TurnState::Running | TurnState::Failed | TurnState::Interrupted => Some(Kind::Agent),
    }
}

/// Tells why an agent failed, with what it wrote to its error output.
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

/// Why a turn without a failure was not finished, in words.
pub(in crate::commands) fn why_cancelled(report: &TurnReport) -> &'static str {
    if report.stopped_by_policy {
        "the agent stopped, since it was not allowed to do what it asked for (--permissions)"
    } else if report.sent {
        "interrupted"
    } else {
        "interrupted before the prompt was sent"
    }
}

/// Whether the prompt was stopped while it waited for the agent.
pub(super) fn waited(report: &TurnReport) -> bool {
    let waits = |decision: &Decision| decision.kind == DecisionKind::BackedOff;
    !report.sent && report.decisions.iter().any(waits)
}

/// Tells how a session was found, step by step.
pub(in crate::commands) fn explain(steps: &[Step]) {
    let mark = Style::stderr().dim("explain:");
    for step in steps {
        let (kind, text) = (step.kind.as_str(), clean(&step.text));
        say(&format!("{mark} {kind}: {text}"));
    }
}
