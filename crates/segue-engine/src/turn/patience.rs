//! Timeouts of a running turn, and the failures that they cause.

use std::collections::HashSet;
use std::time::Duration;

use segue_agents::Timeouts;
use segue_core::session::{AgentEvent, Failure, FailureClass, ToolCall};
use tokio::time::Instant;

/// Watchdog of a running turn.
pub(super) struct Patience {
    timeouts: Timeouts,
    began: Instant,
    /// Time of the agent's last event, or of the prompt.
    since: Instant,
    heard: bool,
    /// Ids of the running tools. While a tool runs, the silence of the agent has no limit.
    running: HashSet<String>,
}

impl Patience {
    pub(super) fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        Self {
            timeouts,
            began: now,
            since: now,
            heard: false,
            running: HashSet::new(),
        }
    }

    /// Records an event of the agent.
    pub(super) fn heard(&mut self, event: &AgentEvent) {
        if let AgentEvent::Tool(call) = event {
            if call.status.is_over() {
                self.running.remove(&call.id);
            } else {
                self.running.insert(call.id.clone());
            }
        }
        self.heard = true;
        self.restart();
    }

    /// Records that a permission request from the time `since` is answered now.
    ///
    /// The time in between does not count against the agent. An allowed call counts as running from now on, even if the
    /// agent did not announce it before the request.
    pub(super) fn answered(&mut self, since: Instant, allowed: Option<&ToolCall>) {
        self.heard = true;
        self.began += since.elapsed();
        self.running.extend(allowed.map(|call| call.id.clone()));
        self.restart();
    }

    fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// Returns the time at which the next timeout expires. `None` if no timeout applies.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        let silence = self.quiet().map(|quiet| self.since + quiet);
        let turn = self.timeouts.turn.map(|turn| self.began + turn);
        [silence, turn].into_iter().flatten().min()
    }

    /// Returns how long the agent may be silent now. `None` for no limit.
    fn quiet(&self) -> Option<Duration> {
        match (self.heard, self.running.is_empty()) {
            (false, _) => self.timeouts.first,
            (true, true) => self.timeouts.silence,
            (true, false) => None,
        }
    }

    /// Returns the failure for the timeout that expired.
    pub(super) fn failure(&self) -> Failure {
        let seconds = |limit: Duration| limit.as_secs_f32();
        let whole = self
            .timeouts
            .turn
            .filter(|turn| self.began.elapsed() >= *turn);
        let text = match (whole, self.quiet()) {
            (Some(limit), _) => format!("the turn took longer than {} s", seconds(limit)),
            (None, Some(limit)) if self.heard => {
                format!("the agent said nothing for {} s", seconds(limit))
            }
            (None, Some(limit)) => {
                format!(
                    "the agent gave no sign of life within {} s of the prompt",
                    seconds(limit)
                )
            }
            (None, None) => "the agent took too long".to_owned(),
        };
        Failure::new(FailureClass::TimedOut, text)
    }
}
