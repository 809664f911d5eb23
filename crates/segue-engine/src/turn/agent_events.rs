//! Processing of agent events until the turn ends: records output and answers permission requests.

use std::time::Duration;

use segue_core::agent::{PermissionAnswer, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, Decision, Failure, FailureClass, Part, PermissionSource, PlanStep, StopReason,
    Title, TitleSource, ToolCall, ToolStatus, TurnEnd, TurnState,
};
use segue_providers::{AgentConnection, AgentError, ConnectionEvent};
use segue_store::{DraftKind, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::attempt::AttemptState;
use super::watchdog::Watchdog;
use super::{TurnOutcome, TurnRun, sleep_until_deadline};
use crate::{StopLevel, TurnError, TurnEvent};

/// Maximum number of unexpected lines that are reported per turn, because an agent that prints only such lines must not
/// flood the log.
const MAX_REPORTED_ODDITIES: usize = 5;

/// Time that an agent may take to stop before it is ended.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Tools of segue's own MCP server.
const SEGUE_TOOLS: [&str; 3] = ["session_describe", "session_history", "session_search"];

/// A turn that is being stopped.
struct PendingStop {
    /// Deadline after which the agent is ended.
    deadline: Instant,
    /// Outcome of the turn, whatever the agent answers.
    outcome: TurnOutcome,
}

impl PendingStop {
    fn new(outcome: TurnOutcome) -> Self {
        Self {
            deadline: Instant::now() + STOP_GRACE_PERIOD,
            outcome,
        }
    }
}

impl TurnRun<'_> {
    /// Processes the agent's events until the turn ends.
    pub(super) async fn process_events(
        &mut self,
        attempt: &mut AttemptState,
        connection: &mut dyn AgentConnection,
    ) -> Result<TurnOutcome, TurnError> {
        let cancelled = || TurnOutcome::with_state(TurnState::Cancelled);
        let mut watchdog = Watchdog::new(attempt.agent.timeouts);
        let mut pending_stop: Option<PendingStop> = None;
        loop {
            let (level, stop_deadline, timeout) = match &pending_stop {
                Some(pending_stop) => (StopLevel::Immediate, Some(pending_stop.deadline), None),
                None => (StopLevel::Graceful, None, watchdog.deadline()),
            };
            tokio::select! {
                biased;
                () = self.wait_for_stop(level) => {
                    if pending_stop.is_some() {
                        return Ok(cancelled());
                    }
                    pending_stop = Some(PendingStop::new(cancelled()));
                    connection.cancel();
                    self.emit(TurnEvent::Stopping).await?;
                }
                () = sleep_until_deadline(stop_deadline) => {
                    return Ok(pending_stop.map_or_else(cancelled, |stop| stop.outcome));
                }
                () = sleep_until_deadline(timeout) => {
                    let failed = TurnOutcome::from_failure(watchdog.timeout_failure());
                    pending_stop = Some(PendingStop::new(failed));
                    connection.cancel();
                }
                () = sleep_until_deadline(self.recorder.draft_deadline()) => {
                    self.recorder.save_draft(self.now()).await?;
                }
                connection_event = connection.next_event() => match connection_event {
                    ConnectionEvent::NativeIdReported(id) => self.record_native_id(attempt, id).await?,
                    ConnectionEvent::Event(event) => {
                        watchdog.record_event(&event);
                        attempt.has_output |= event.is_agent_activity();
                        self.record_event(attempt, event).await?;
                    }
                    ConnectionEvent::PermissionRequested(request, reply) => {
                        attempt.has_output = true;
                        let asked_at = Instant::now();
                        let answer = self.answer_permission(attempt, &request).await?;
                        let allowed = request.is_allowed_by(&answer).then_some(&request.call);
                        watchdog.record_permission_answer(asked_at, allowed);
                        reply(answer);
                    }
                    ConnectionEvent::TurnEnded(end) => {
                        let outcome = self.resolve_outcome(end, pending_stop).await?;
                        return Ok(TurnOutcome { is_agent_idle: true, ..outcome });
                    }
                },
            }
        }
    }

    /// Records the native id that the agent reports.
    async fn record_native_id(
        &mut self,
        attempt: &mut AttemptState,
        native_id: NativeId,
    ) -> Result<(), TurnError> {
        let Some(attempt_leg) = &mut attempt.leg else {
            return Ok(());
        };
        let previous_id = attempt_leg.native_id.replace(native_id.clone());
        if previous_id.as_ref() == Some(&native_id) {
            return Ok(());
        }
        let (store, leg) = (self.store(), attempt_leg.leg.id);
        store
            .set_leg_native_id(self.lease(), leg, &native_id)
            .await?;
        if let Some(from) = previous_id {
            let to = native_id.clone();
            self.record_decision(Decision::NativeIdChanged { from, to })
                .await?;
        }
        Ok(self.emit(TurnEvent::NativeIdReported { native_id }).await?)
    }

    /// Converts the end that the agent reports to an outcome.
    async fn resolve_outcome(
        &mut self,
        end: Result<TurnEnd, AgentError>,
        pending_stop: Option<PendingStop>,
    ) -> Result<TurnOutcome, TurnError> {
        if let Ok(end) = &end {
            self.report.usage.update(end.usage);
        }
        // After a request to stop, the agent's answer does not change the outcome.
        if let Some(pending_stop) = pending_stop {
            return Ok(pending_stop.outcome);
        }
        let end = match end {
            Ok(end) => end,
            Err(error) => return Ok(TurnOutcome::from_failure(error.to_failure(self.now()))),
        };
        let note = match end.reason {
            StopReason::EndTurn => None,
            StopReason::Limit => Some(Decision::AgentStoppedAtLimit),
            StopReason::Refusal => Some(Decision::AgentRefused),
            StopReason::Cancelled if self.has_refused_permission => {
                self.report.stopped_by_policy = true;
                return Ok(TurnOutcome::with_state(TurnState::Cancelled));
            }
            StopReason::Cancelled => {
                let failure = Failure::new(
                    FailureClass::Agent,
                    "the agent cancelled the turn on its own",
                );
                return Ok(TurnOutcome::from_failure(failure));
            }
        };
        if let Some(decision) = note {
            self.record_decision(decision).await?;
        }
        Ok(TurnOutcome::with_state(TurnState::Finished))
    }

    async fn record_event(
        &mut self,
        attempt: &mut AttemptState,
        event: AgentEvent,
    ) -> Result<(), TurnError> {
        match event {
            AgentEvent::Text(text) => {
                let message = self.append_text(DraftKind::Text, &text).await?;
                self.emit(TurnEvent::Text { message, text }).await?;
            }
            AgentEvent::Thought(text) => {
                let message = self.append_text(DraftKind::Thought, &text).await?;
                self.emit(TurnEvent::Thought { message, text }).await?;
            }
            AgentEvent::Tool(call) => {
                self.flag_role_violation(&call).await?;
                let seq = self.recorder.record_tool_call(&call, self.now()).await?;
                self.emit(TurnEvent::Tool(call)).await?;
                self.emit_saved(Some(seq)).await?;
            }
            AgentEvent::Usage(usage) => {
                self.report.usage.update(usage);
                self.emit(TurnEvent::Usage(usage)).await?;
            }
            AgentEvent::Title(title) => self.suggest_title(&attempt.sent_text, &title).await?,
            AgentEvent::Plan(steps) => {
                let part = Part::Unknown(plan_to_json(&steps));
                let seq = self.recorder.record_part(part, self.now()).await?;
                self.emit(TurnEvent::Plan(steps)).await?;
                self.emit_saved(Some(seq)).await?;
            }
            AgentEvent::Compacted => self.record_context_loss(attempt).await?,
            AgentEvent::Data(data) => self.record_part(Part::InlineData(data)).await?,
            AgentEvent::Unknown(json) => self.record_part(Part::Unknown(json)).await?,
            AgentEvent::Garbage(line) => self.report_oddity(line).await?,
        }
        Ok(())
    }

    /// Records streamed text, and reports the message that it ended. Returns the number of its own message.
    async fn append_text(&mut self, kind: DraftKind, text: &str) -> Result<u32, StoreError> {
        let at = self.now();
        let (message, ended) = self.recorder.append_text(kind, text, at).await?;
        self.emit_saved(ended).await?;
        Ok(message)
    }

    async fn record_part(&mut self, part: Part) -> Result<(), StoreError> {
        let seq = self.recorder.record_part(part, self.now()).await?;
        self.emit_saved(Some(seq)).await
    }

    pub(super) async fn emit_saved(&mut self, message: Option<u32>) -> Result<(), StoreError> {
        match message {
            Some(message) => self.emit(TurnEvent::Saved { message }).await,
            None => Ok(()),
        }
    }

    /// Saves a title that the agent proposes. It replaces a title that comes from the first prompt, but none that the
    /// user or the model set. A title that repeats the start of the sent text is ignored.
    async fn suggest_title(&mut self, sent_text: &str, title: &str) -> Result<(), TurnError> {
        let title: String = title.chars().take(200).collect();
        let Ok(title) = Title::new(&title, TitleSource::Model) else {
            return Ok(());
        };
        let (context, id) = (&self.runner.context, &self.snapshot.session.id);
        let current = context.require_session(id).await?.title;
        let repeats = |text: &str| has_same_start(title.as_str(), text);
        if current.source() != TitleSource::Prompt
            || repeats(current.as_str())
            || repeats(sent_text)
        {
            return Ok(());
        }
        Ok(context.store.suggest_title(id, &title).await?)
    }

    async fn report_oddity(&mut self, line: String) -> Result<(), StoreError> {
        self.oddity_count += 1;
        if self.oddity_count > MAX_REPORTED_ODDITIES {
            return Ok(());
        }
        self.record_decision(Decision::UnexpectedOutput { line })
            .await
    }

    /// Notes that the agent used a tool that its role does not allow, without requesting permission.
    async fn flag_role_violation(&mut self, call: &ToolCall) -> Result<(), TurnError> {
        let Some(role) = self.runner.context.session_role(&self.snapshot.session)? else {
            return Ok(());
        };
        let violates_role = call.status == ToolStatus::Completed
            && !is_segue_tool(call)
            && !role.can_make_call(call);
        if !violates_role || !self.disallowed_calls.insert(call.id.clone()) {
            return Ok(());
        }
        let decision = Decision::RoleViolated {
            tool: call.name.clone(),
            role: role.name.clone(),
        };
        Ok(self.record_decision(decision).await?)
    }

    /// Answers a permission request by the role, by the policy or by asking the user, and notes the answer.
    async fn answer_permission(
        &mut self,
        attempt: &AttemptState,
        request: &PermissionRequest,
    ) -> Result<PermissionAnswer, TurnError> {
        let at = self.now();
        self.recorder.record_tool_call(&request.call, at).await?;
        let policy = attempt.agent.permissions;
        let by_policy = || PermissionSource::Policy { policy };
        let role = self.runner.context.session_role(&self.snapshot.session)?;
        let automatic_answer = match role {
            _ if is_segue_tool(&request.call) => Some((request.allow_answer(), by_policy())),
            Some(role) if !role.can_make_call(&request.call) => {
                let role = role.name.clone();
                Some((request.reject_answer(), PermissionSource::Role { role }))
            }
            Some(_) | None => policy.answer(request).map(|answer| (answer, by_policy())),
        };
        let (answer, source) = match automatic_answer {
            Some(answered) => answered,
            None => match self.ask_user(request).await {
                Some(answer) => (answer, PermissionSource::User),
                None => (request.reject_answer(), PermissionSource::Unanswered),
            },
        };
        let allowed = request.is_allowed_by(&answer);
        self.has_refused_permission |= !allowed && source != PermissionSource::User;
        let tool = request.call.name.clone();
        let is_role = matches!(source, PermissionSource::Role { .. });
        let decision = if answer == PermissionAnswer::Cancelled && !is_role {
            Decision::PermissionCancelled { tool }
        } else {
            Decision::PermissionAnswered {
                tool,
                allowed,
                by: source,
            }
        };
        self.record_decision(decision).await?;
        Ok(answer)
    }

    async fn ask_user(&mut self, request: &PermissionRequest) -> Option<PermissionAnswer> {
        let (sender, answer) = oneshot::channel();
        self.emit(TurnEvent::PermissionRequested(request.clone(), sender))
            .await
            .ok()?;
        tokio::select! {
            answer = answer => answer.ok(),
            () = self.wait_for_stop(StopLevel::Graceful) => Some(PermissionAnswer::Cancelled),
        }
    }
}

/// Converts a plan to the JSON that is recorded.
fn plan_to_json(steps: &[PlanStep]) -> Json {
    let steps: Vec<_> = steps
        .iter()
        .map(|step| serde_json::json!({ "text": step.text, "status": step.status.as_str() }))
        .collect();
    Json::from(serde_json::json!({ "plan": steps }))
}

/// Returns `true` if a call is of one of segue's own tools, which need no permission.
///
/// A command with the name of such a tool does not count, because its kind is not `other`. The configuration allows no
/// other server with the name `segue`.
fn is_segue_tool(call: &ToolCall) -> bool {
    let prefixes = ["mcp__segue__", "mcp_segue_", "mcp.segue.", "segue_"];
    let tool = prefixes
        .iter()
        .find_map(|prefix| call.name.strip_prefix(prefix));
    call.kind == "other" && tool.is_some_and(|tool| SEGUE_TOOLS.contains(&tool))
}

/// Returns `true` if one text is the start of the other, ignoring whitespace and truncation marks at the end.
fn has_same_start(title: &str, text: &str) -> bool {
    let normalize = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().take(60).collect();
        words.join(" ").trim_end_matches(['…', '.']).to_owned()
    };
    let (title, text) = (normalize(title), normalize(text));
    text.starts_with(&title) || title.starts_with(&text)
}
