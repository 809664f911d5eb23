//! Trace of a session resolution: its decisions and steps.

use segue_core::session::{Decision, ResolutionStep};

use crate::ChatRequest;

/// The trace of a session resolution.
#[derive(Debug, Default)]
pub(crate) struct ResolutionTrace {
    /// Decisions that took effect and are in the log already. They are reported even if no turn starts.
    pub(crate) logged_decisions: Vec<Decision>,
    /// Decisions that are reported and logged with the turn, even if the caller requests no explanation.
    pub(crate) decisions: Vec<Decision>,
    /// Resolution steps, for callers that request an explanation.
    pub(crate) steps: Vec<ResolutionStep>,
}

impl ResolutionTrace {
    /// Creates a trace with the steps that the request contains.
    pub(crate) fn for_request(request: &ChatRequest) -> Self {
        Self {
            steps: request.explain.clone().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Resets the trace to its start. Decisions that took effect stay.
    pub(crate) fn restart(&mut self, request: &ChatRequest) {
        *self = Self {
            logged_decisions: std::mem::take(&mut self.logged_decisions),
            ..Self::for_request(request)
        };
    }
}
