//! Execution of one turn: sends the prompt to the engine and prints the events as they arrive.

use std::sync::{Arc, Mutex, PoisonError};

use segue_api::text::format_resolution_step;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Decision, DecisionKind, Failure, ResolutionStep, TurnState};
use segue_engine::{ChatRequest, Engine, TurnError, TurnEvent, TurnReport};
use tokio::sync::mpsc;

use super::OutputFormat;
use super::printer::{self, TurnPrinter};
use crate::error::{CliError, ExitKind, HintText};
use crate::frontend::Frontend;
use crate::terminal::{Style, eprint_line, strip_control_chars};

/// Number of events that may wait to be printed before the turn is blocked.
const EVENT_CHANNEL_CAPACITY: usize = 64;

/// Session and turn number under which a prompt was saved.
pub(crate) type SavedTurn = (SessionId, u32);

/// Partial report of a turn, for a result without a report of the engine.
#[derive(Default)]
pub(crate) struct PartialTurnReport {
    /// Session and turn of the prompt. `None` if it was not saved.
    pub(crate) saved_turn: Option<SavedTurn>,
    /// Automatic decisions.
    pub(crate) decisions: Vec<Decision>,
    /// Steps that resolved the session. `None` if the user did not request them.
    pub(crate) resolution_steps: Option<Vec<ResolutionStep>>,
}

impl PartialTurnReport {
    fn record_event(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Started { session, turn } => {
                self.saved_turn = Some((session.clone(), *turn));
            }
            TurnEvent::Decided(decision) => self.decisions.push(decision.clone()),
            TurnEvent::Explained(steps) => self.resolution_steps = Some(steps.clone()),
            _ => {}
        }
    }
}

/// Runs a turn and prints its events. Also returns a partial report of them.
///
/// Ends the process if `forced_exit` completes while events still wait for a reader that does not read.
pub(in crate::commands) async fn run(
    engine: &Engine,
    request: ChatRequest,
    (format, frontend): (OutputFormat, Frontend<'_>),
    forced_exit: impl Future<Output = ()>,
) -> (Result<TurnReport, TurnError>, PartialTurnReport) {
    let (sender, events) = mpsc::channel(EVENT_CHANNEL_CAPACITY);
    let printer = Arc::new(Mutex::new(TurnPrinter::new(format, frontend)));
    // The events are printed on another thread, so that a reader that does not read does not block the turn.
    let print_task = tokio::task::spawn_blocking({
        let printer = Arc::clone(&printer);
        move || print_events(&printer, events)
    });
    let outcome = {
        // The event channel closes when this future is dropped.
        // The future of a turn is large, so it is boxed to keep the futures around it small.
        let mut chat = Box::pin(engine.chat(request, sender));
        loop {
            tokio::select! {
                biased;
                outcome = &mut chat => break outcome,
                () = tokio::time::sleep(printer::SPINNER_FRAME_DURATION) => {
                    // The spinner waits while an event is printed.
                    if let Ok(mut printer) = printer.try_lock() {
                        printer.advance_spinner();
                    }
                }
            }
        }
    };
    tokio::select! {
        partial_report = print_task => (outcome, partial_report.unwrap_or_default()),
        // The turn is settled, only a reader that does not read delays the exit, and the user requested an immediate
        // end.
        () = forced_exit => std::process::exit(130),
    }
}

/// Prints the events of a turn until it ends. Returns a partial report of them.
fn print_events(
    printer: &Mutex<TurnPrinter>,
    mut events: mpsc::Receiver<TurnEvent>,
) -> PartialTurnReport {
    let lock_printer = || printer.lock().unwrap_or_else(PoisonError::into_inner);
    let mut partial_report = PartialTurnReport::default();
    while let Some(event) = events.blocking_recv() {
        partial_report.record_event(&event);
        lock_printer().print_event(event);
    }
    lock_printer().finish();
    partial_report
}

/// Returns the exit kind of a turn. `None` if the turn finished.
pub(in crate::commands) fn exit_kind(report: &TurnReport) -> Option<ExitKind> {
    match report.state {
        TurnState::Finished => None,
        _ if report.stopped_by_policy => Some(ExitKind::Policy),
        TurnState::Cancelled => Some(ExitKind::Interrupted),
        TurnState::Running | TurnState::Failed | TurnState::Interrupted => Some(ExitKind::Agent),
    }
}

/// Prints why an agent failed, with its standard error.
pub(in crate::commands) fn report_failure(
    provider: &ProviderId,
    failure: &Failure,
    frontend: Frontend<'_>,
) {
    if let Some(stderr) = &failure.stderr {
        let style = Style::stderr();
        eprint_line(&style.dim(&format!("{provider} wrote to standard error:")));
        for line in strip_control_chars(stderr).lines() {
            eprint_line(&style.dim(&format!("  {line}")));
        }
    }
    let mut error = CliError::new(ExitKind::Agent, &failure.message);
    error.hints.extend(failure.hint.clone().map(HintText::from));
    error.report(frontend);
}

/// Explains why a turn without a failure did not finish.
pub(in crate::commands) fn cancellation_reason(report: &TurnReport) -> &'static str {
    if report.stopped_by_policy {
        "the agent stopped because a permission request was denied (see `--permissions`)"
    } else if report.sent {
        "interrupted"
    } else {
        "interrupted before the prompt was sent"
    }
}

/// Returns `true` if the prompt was cancelled while it waited for the agent's cooldown or backoff.
pub(super) fn is_cancelled_while_waiting(report: &TurnReport) -> bool {
    let is_backoff = |decision: &Decision| decision.kind() == DecisionKind::BackedOff;
    !report.sent && report.decisions.iter().any(is_backoff)
}

/// Prints the steps that resolved the session.
pub(in crate::commands) fn print_resolution_steps(steps: &[ResolutionStep]) {
    let prefix = Style::stderr().dim("explain:");
    for step in steps {
        let text = format_resolution_step(step);
        let text = strip_control_chars(&text);
        eprint_line(&format!("{prefix} {}: {text}", step.kind().as_str()));
    }
}
