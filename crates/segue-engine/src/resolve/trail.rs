//! What was decided and looked at on the way to a session.

use segue_core::{Decision, DecisionKind, Step, StepKind};

use crate::ChatRequest;

/// The way to a session.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// What was done, and is noted already: it is said even if there is no turn.
    pub(crate) done: Vec<Decision>,
    /// What is said and noted with the turn, whether or not anybody asks.
    pub(crate) decisions: Vec<Decision>,
    /// Each step, for those who ask.
    pub(crate) steps: Vec<Step>,
}

impl Trail {
    /// The way so far.
    pub(crate) fn after(request: &ChatRequest) -> Self {
        Self {
            done: Vec::new(),
            decisions: Vec::new(),
            steps: request.explain.clone().unwrap_or_default(),
        }
    }

    /// Goes back to the beginning of the way. What was done stays done.
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
