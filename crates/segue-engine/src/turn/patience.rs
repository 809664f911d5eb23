//! How long an agent is waited for, and what it is told when that is over.

use std::collections::HashSet;
use std::time::Duration;

use segue_agents::Timeouts;
use segue_core::{AgentEvent, Failure, FailureClass, ToolCall};
use tokio::time::Instant;

/// What is waited for in a turn that is under way.
pub(super) struct Patience {
    timeouts: Timeouts,
    began: Instant,
    /// When the agent was last heard, or the prompt was sent.
    since: Instant,
    heard: bool,
    /// The tools that run: they may take their time, and say nothing meanwhile.
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

    /// The agent did something.
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

    /// A question was asked at `since` and is answered now: that time is not the agent's. What was allowed runs from
    /// now on, also where the agent did not announce it before it asked.
    pub(super) fn answered(&mut self, since: Instant, allowed: Option<&ToolCall>) {
        self.heard = true;
        self.began += since.elapsed();
        self.running.extend(allowed.map(|call| call.id.clone()));
        self.restart();
    }

    fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// When it is over.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        let silence = self.quiet().map(|quiet| self.since + quiet);
        let turn = self.timeouts.turn.map(|turn| self.began + turn);
        [silence, turn].into_iter().flatten().min()
    }

    /// How long the agent may be silent now.
    fn quiet(&self) -> Option<Duration> {
        match (self.heard, self.running.is_empty()) {
            (false, _) => self.timeouts.first,
            (true, true) => self.timeouts.silence,
            (true, false) => None,
        }
    }

    /// What to say when it is over.
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
