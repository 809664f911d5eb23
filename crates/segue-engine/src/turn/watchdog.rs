//! Timeouts of a running turn, and the failures that they cause.

use std::collections::HashSet;
use std::time::Duration;

use segue_core::session::{AgentEvent, Failure, FailureClass, ToolCall};
use segue_providers::Timeouts;
use tokio::time::Instant;

/// Watchdog of a running turn.
pub(super) struct Watchdog {
    timeouts: Timeouts,
    started_at: Instant,
    /// Time of the agent's last event, or of the prompt.
    last_event_at: Instant,
    has_output: bool,
    /// Ids of the running tools. While a tool runs, the silence of the agent has no limit.
    running_tools: HashSet<String>,
}

impl Watchdog {
    pub(super) fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        Self {
            timeouts,
            started_at: now,
            last_event_at: now,
            has_output: false,
            running_tools: HashSet::new(),
        }
    }

    /// Records an event of the agent.
    pub(super) fn record_event(&mut self, event: &AgentEvent) {
        if let AgentEvent::Tool(call) = event {
            if call.status.has_ended() {
                self.running_tools.remove(&call.id);
            } else {
                self.running_tools.insert(call.id.clone());
            }
        }
        self.has_output = true;
        self.reset_silence();
    }

    /// Records that a permission request from the time `asked_at` is answered now.
    ///
    /// The time in between does not count against the agent. An allowed call counts as running from now on, even if the
    /// agent did not announce it before the request.
    pub(super) fn record_permission_answer(
        &mut self,
        asked_at: Instant,
        allowed: Option<&ToolCall>,
    ) {
        self.has_output = true;
        self.started_at += asked_at.elapsed();
        self.running_tools
            .extend(allowed.map(|call| call.id.clone()));
        self.reset_silence();
    }

    fn reset_silence(&mut self) {
        self.last_event_at = Instant::now();
    }

    /// Returns the time at which the next timeout expires. `None` if no timeout applies.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let silence = self.silence_limit().map(|limit| self.last_event_at + limit);
        let turn = self.timeouts.turn.map(|turn| self.started_at + turn);
        [silence, turn].into_iter().flatten().min()
    }

    /// Returns how long the agent may be silent now. `None` for no limit.
    fn silence_limit(&self) -> Option<Duration> {
        match (self.has_output, self.running_tools.is_empty()) {
            (false, _) => self.timeouts.first_output,
            (true, true) => self.timeouts.silence,
            (true, false) => None,
        }
    }

    /// Returns the failure for the timeout that expired.
    pub(super) fn timeout_failure(&self) -> Failure {
        let seconds = |limit: Duration| limit.as_secs_f32();
        let turn_limit = self
            .timeouts
            .turn
            .filter(|turn| self.started_at.elapsed() >= *turn);
        let text = match (turn_limit, self.silence_limit()) {
            (Some(limit), _) => format!("the turn took longer than {} s", seconds(limit)),
            (None, Some(limit)) if self.has_output => {
                format!("the agent sent no output for {} s", seconds(limit))
            }
            (None, Some(limit)) => {
                format!(
                    "the agent sent no output within {} s of the prompt",
                    seconds(limit)
                )
            }
            (None, None) => "the agent took too long".to_owned(),
        };
        Failure::new(FailureClass::TimedOut, text)
    }
}
