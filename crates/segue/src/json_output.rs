//! The JSON output for other programs: conversion to the types of `segue-api`, and printing.

mod session;
mod transcript;

use std::path::Path;

use segue_api::chat::{ChatEvent, ChatResult, ChatStop, DecisionLine, ExplainedStep};
use segue_api::error::{BlockingHolder, CommandError, ErrorClass, ErrorDetails, SegueErrorClass};
use segue_api::text::{ShellActions, format_open_reason};
use segue_core::session::{Decision, ResolutionStep, TurnState, Usage};
use segue_engine::{TurnEvent, TurnReport};
use serde::Serialize;

use crate::commands::chat::run_turn::PartialTurnReport;
use crate::error::{CliError, ExitKind};
use crate::terminal::print_line;

pub(crate) use self::session::{
    conversation_json, native_info_json, native_json, outline_json, search_hits_json,
    session_info_json, skipped_json,
};
pub(crate) use self::transcript::{native_turn_json, transcript_json};

/// Prints a value as one line.
pub(crate) fn print_json(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        print_line(&line);
    }
}

/// Prints the error of a command that has no JSON shape of its own for errors.
pub(crate) fn print_error(error: &CliError) {
    print_json(&CommandError {
        error: error.into(),
    });
}

/// Returns a path as text. Replaces bytes that are not UTF-8.
pub(crate) fn path_json(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<&CliError> for ErrorDetails {
    fn from(error: &CliError) -> Self {
        let class = match error.kind {
            ExitKind::Usage => SegueErrorClass::Usage,
            ExitKind::Policy => SegueErrorClass::Policy,
            ExitKind::Failed | ExitKind::Agent | ExitKind::Interrupted => SegueErrorClass::Failed,
        };
        let hints = error.hints.iter();
        let hints: Vec<String> = hints.map(|hint| hint.format(&ShellActions)).collect();
        let blocking_process = error.subject.blocking_process.as_ref();
        Self {
            class: ErrorClass::Segue(class),
            message: error.message.clone(),
            hint: hints.first().cloned(),
            hints,
            advice: None,
            stderr: None,
            retry_at: error.retry_at,
            held_by: blocking_process.map(|process| {
                let (host, since) = process.host_and_since.clone().unzip();
                BlockingHolder {
                    host,
                    pid: process.pid,
                    since,
                }
            }),
        }
    }
}

/// Returns the output of `chat --json`.
pub(crate) fn chat_json(report: &TurnReport) -> ChatResult {
    let (opened, opened_reason) = report.opened.clone().unzip();
    let decision_details = decisions_json(&report.decisions);
    ChatResult {
        session_id: Some(report.session.clone()),
        // A prompt that was cancelled before it was sent has no turn number.
        turn: (report.sent || report.state != TurnState::Cancelled).then_some(report.turn),
        provider: Some(report.provider.clone()),
        native_session_id: report.native_id.clone(),
        leg: report.leg,
        opened,
        opened_why: opened_reason.as_ref().map(format_open_reason),
        opened_reason,
        text: report.text.clone(),
        stop: report.state.into(),
        usage: report.usage,
        decisions: decision_texts(&decision_details),
        decision_details,
        explain: report.steps.as_deref().map(steps_json),
        error: report.failure.as_ref().map(Into::into),
    }
}

/// Returns the output of `chat --json` for a turn that did not start or that could not be saved.
pub(crate) fn chat_error_json(partial_report: PartialTurnReport, error: &CliError) -> ChatResult {
    let (session, turn) = partial_report.saved_turn.unzip();
    let subject = &error.subject;
    let decision_details = decisions_json(&partial_report.decisions);
    ChatResult {
        session_id: session.or_else(|| subject.session.clone()),
        turn,
        provider: subject.provider.clone(),
        native_session_id: None,
        leg: None,
        opened: None,
        opened_why: None,
        opened_reason: None,
        text: Some(String::new()),
        stop: ChatStop::Failed,
        usage: Usage::default(),
        decisions: decision_texts(&decision_details),
        decision_details,
        explain: partial_report.resolution_steps.as_deref().map(steps_json),
        error: Some(error.into()),
    }
}

/// Returns the line that `chat --events` prints for one event.
pub(crate) fn event_json(event: TurnEvent) -> ChatEvent {
    match event {
        TurnEvent::Started { session, turn } => ChatEvent::Began {
            session_id: session,
            turn,
        },
        TurnEvent::Explained(steps) => ChatEvent::Explained {
            steps: steps_json(&steps),
        },
        TurnEvent::Opened {
            provider,
            native_id,
            leg,
            mode,
        } => ChatEvent::Opened {
            provider,
            native_session_id: native_id,
            leg,
            opened: mode,
        },
        TurnEvent::Decided(decision) => ChatEvent::Decision((&decision).into()),
        TurnEvent::Text { message, text } => ChatEvent::Text { message, text },
        TurnEvent::Thought { message, text } => ChatEvent::Thought { message, text },
        TurnEvent::NativeIdReported { native_id } => ChatEvent::Named {
            native_session_id: native_id,
        },
        TurnEvent::Plan(steps) => ChatEvent::Plan { steps },
        TurnEvent::Stopping => ChatEvent::Stopping,
        TurnEvent::Tool(call) => ChatEvent::Tool((&call).into()),
        TurnEvent::PermissionRequested(request, _) => ChatEvent::PermissionRequest {
            tool: (&request.call).into(),
            options: request
                .options
                .into_iter()
                .map(|option| option.name)
                .collect(),
        },
        TurnEvent::Saved { message } => ChatEvent::Saved { message },
        TurnEvent::Usage(usage) => ChatEvent::Usage(usage),
        TurnEvent::Ended { state } => ChatEvent::Ended { state },
    }
}

fn decisions_json(decisions: &[Decision]) -> Vec<DecisionLine> {
    decisions.iter().map(Into::into).collect()
}

fn decision_texts(decisions: &[DecisionLine]) -> Vec<String> {
    decisions.iter().map(|line| line.text.clone()).collect()
}

/// Returns the steps that resolved the session.
fn steps_json(steps: &[ResolutionStep]) -> Vec<ExplainedStep> {
    steps.iter().map(Into::into).collect()
}
