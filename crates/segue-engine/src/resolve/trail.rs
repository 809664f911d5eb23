//! Trace of a session resolution: its decisions and steps.

use segue_core::session::{Decision, DecisionKind, Step, StepKind};

use crate::ChatRequest;

/// The trace of a session resolution.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// Decisions that took effect and are in the log already. They are reported even if no turn starts.
    pub(crate) done: Vec<Decision>,
    /// Decisions that are reported and logged with the turn, even if the caller requests no explanation.
    pub(crate) decisions: Vec<Decision>,
    /// Resolution steps, for callers that request an explanation.
    pub(crate) steps: Vec<Step>,
}

impl Trail {
    /// Creates a trace with the steps that the request contains.
    pub(crate) fn after(request: &ChatRequest) -> Self {
        Self {
            done: Vec::new(),
            decisions: Vec::new(),
            steps: request.explain.clone().unwrap_or_default(),
        }
    }

    /// Resets the trace to its start. Decisions that took effect stay.
    pub(crate) fn begin_again(&mut self, request: &ChatRequest) {
        *self = Self {
            done: std::mem::take(&mut self.done),
            ..Self::after(request)
        };
    }

    pub(super) fn decide(&mut self, kind: DecisionKind, text: impl Into<String>) {
        self.decisions.push(Decision::new(kind, text));
    }

    pub(crate) fn step(&mut self, kind: StepKind, text: impl Into<String>) {
        self.steps.push(Step::new(kind, text));
    }
}
