//! Processing of agent events until the turn ends: records output and answers permission requests.

use std::fmt;
use std::time::Duration;

use segue_agents::{AgentError, Conversation, Step};
use segue_core::agent::{PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::scope::RoleName;
use segue_core::session::{
    AgentEvent, Decision, DecisionKind, Failure, FailureClass, Part, PlanStep, StopReason, Title,
    TitleSource, ToolCall, ToolStatus, TurnEnd, TurnState,
};
use segue_store::{DraftKind, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::patience::Patience;
use super::{Outcome, Run, stopped, until};
use crate::{EngineError, Stop, TurnEvent};

/// Maximum number of unexpected lines that are reported per turn, because an agent that prints only such lines must not
/// flood the log.
const ODDITIES: usize = 5;

/// Time that an agent may take to stop before it is ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Tools of segue's own MCP server.
const OWN_TOOLS: [&str; 3] = ["session_describe", "session_history", "session_search"];

/// Source of the answer to a permission request.
enum AnsweredBy {
    Policy(PermissionPolicy),
    Role(RoleName),
    Person,
    Nobody,
}

impl fmt::Display for AnsweredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => write!(f, "by policy {}", policy.as_str()),
            Self::Role(role) => write!(f, "since the role {role} may not use it"),
            Self::Person => f.write_str("by the user"),
            Self::Nobody => f.write_str("since nobody answered and no policy allows it"),
        }
    }
}

/// A turn that is being stopped.
struct Stopping {
    /// Deadline after which the agent is ended.
    until: Instant,
    /// Failure that caused the stop. `None` if the user requested it.
    why: Option<Failure>,
}

impl Stopping {
    fn new(why: Option<Failure>) -> Self {
        Self {
            until: Instant::now() + STOP_PATIENCE,
            why,
        }
    }

    fn outcome(stopping: Option<Self>) -> Outcome {
        match stopping.and_then(|stopping| stopping.why) {
            Some(failure) => Outcome::failed(failure),
            None => Outcome::ended(TurnState::Cancelled),
        }
    }
}

impl Run<'_> {
    /// Processes the agent's events until the turn ends.
    pub(super) async fn listen(
        &mut self,
        conversation: &mut dyn Conversation,
    ) -> Result<Outcome, EngineError> {
        let mut patience = Patience::new(self.timeouts);
        let mut stopping: Option<Stopping> = None;
        loop {
            let level = if stopping.is_some() {
                Stop::Now
            } else {
                Stop::Ask
            };
            tokio::select! {
                biased;
                () = stopped(self.stop.clone(), level) => {
                    if stopping.is_some() {
                        return Ok(Outcome::ended(TurnState::Cancelled));
                    }
                    stopping = Some(Stopping::new(None));
                    conversation.cancel();
                    self.emit(TurnEvent::Stopping).await?;
                }
                () = until(stopping.as_ref().map(|stopping| stopping.until)) => {
                    return Ok(Stopping::outcome(stopping));
                }
                () = until(patience.ends_at().filter(|_| stopping.is_none())) => {
                    stopping = Some(Stopping::new(Some(patience.failure())));
                    conversation.cancel();
                }
                () = until(self.recorder.due()) => self.recorder.draft(self.now()).await?,
                step = conversation.next() => match step {
                    Step::Named(id) => self.named(id).await?,
                    Step::Event(event) => {
                        patience.heard(&event);
                        self.heard |= event.is_work();
                        self.take_in(event).await?;
                    }
                    Step::Ask(request, reply) => {
                        self.heard = true;
                        let since = Instant::now();
                        let answer = self.permit(&request).await?;
                        let allowed = request.allows(&answer).then_some(&request.call);
                        patience.answered(since, allowed);
                        reply(answer);
                    }
                    Step::Done(end) => {
                        let outcome = self.done(end, stopping).await?;
                        return Ok(Outcome { idle: true, ..outcome });
                    }
                },
            }
        }
    }

    /// Records the native id that the agent reports.
    async fn named(&mut self, native_id: NativeId) -> Result<(), EngineError> {
        let before = self.report.native_id.replace(native_id.clone());
        if before.as_ref() == Some(&native_id) {
            return Ok(());
        }
        if let Some(leg) = self.leg {
            let (store, lease) = (&self.engine.store, &self.hold.lease);
            store.name_leg(lease, leg, &native_id).await?;
        }
        if let Some(before) = before {
            let text = format!("the agent goes on in its session {native_id} instead of {before}");
            self.decide(Decision::new(DecisionKind::Oddity, text))
                .await?;
        }
        Ok(self.emit(TurnEvent::Named { native_id }).await?)
    }

    /// Converts the end that the agent reports to an outcome.
    async fn done(
        &mut self,
        end: Result<TurnEnd, AgentError>,
        stopping: Option<Stopping>,
    ) -> Result<Outcome, EngineError> {
        if let Ok(end) = &end {
            self.report.usage.update(end.usage);
        }
        // After a request to stop, the agent's answer does not change the outcome.
        if stopping.is_some() {
            return Ok(Stopping::outcome(stopping));
        }
        let end = match end {
            Ok(end) => end,
            Err(error) => return Ok(Outcome::failed(error.failure(self.now()))),
        };
        let note = match end.reason {
            StopReason::EndTurn => None,
            StopReason::Limit => {
                Some("the agent stopped at a limit of its own and may not be done")
            }
            StopReason::Refusal => Some("the agent refused to go on"),
            StopReason::Cancelled if self.refused => {
                self.report.stopped_by_policy = true;
                return Ok(Outcome::ended(TurnState::Cancelled));
            }
            StopReason::Cancelled => {
                let failure = Failure::new(
                    FailureClass::Agent,
                    "the agent cancelled the turn by itself",
                );
                return Ok(Outcome::failed(failure));
            }
        };
        if let Some(text) = note {
            self.decide(Decision::new(DecisionKind::Oddity, text))
                .await?;
        }
        Ok(Outcome::ended(TurnState::Finished))
    }

    async fn take_in(&mut self, event: AgentEvent) -> Result<(), EngineError> {
        let at = self.now();
        match event {
            AgentEvent::Text(words) => {
                let (message, ended) = self.recorder.hear(DraftKind::Text, &words, at).await?;
                self.saved(ended).await?;
                self.emit(TurnEvent::Text { message, words }).await?;
            }
            AgentEvent::Thought(words) => {
                let (message, ended) = self.recorder.hear(DraftKind::Thought, &words, at).await?;
                self.saved(ended).await?;
                self.emit(TurnEvent::Thought { message, words }).await?;
            }
            AgentEvent::Tool(call) => {
                self.notice(&call).await?;
                let seq = self.recorder.tool(&call, at).await?;
                self.emit(TurnEvent::Tool(call)).await?;
                self.saved(Some(seq)).await?;
            }
            AgentEvent::Usage(usage) => {
                self.report.usage.update(usage);
                self.emit(TurnEvent::Usage(usage)).await?;
            }
            AgentEvent::Title(title) => self.name(&title).await?,
            AgentEvent::Plan(steps) => {
                let kept = Part::Unknown(plan(&steps));
                let seq = self.recorder.keep(kept, at).await?;
                self.emit(TurnEvent::Plan(steps)).await?;
                self.saved(Some(seq)).await?;
            }
            AgentEvent::Compacted => {
                self.forgets().await?;
            }
            AgentEvent::Data(data) => {
                let seq = self.recorder.keep(Part::InlineData(data), at).await?;
                self.saved(Some(seq)).await?;
            }
            AgentEvent::Unknown(json) => {
                let seq = self.recorder.keep(Part::Unknown(json), at).await?;
                self.saved(Some(seq)).await?;
            }
            AgentEvent::Garbage(line) => self.odd(&line).await?,
        }
        Ok(())
    }

    pub(super) async fn saved(&mut self, message: Option<u32>) -> Result<(), StoreError> {
        match message {
            Some(message) => self.emit(TurnEvent::Saved { message }).await,
            None => Ok(()),
        }
    }

    /// Saves a title that the agent proposes. It replaces a title that comes from the first prompt, but none that the
    /// user or the model set. A title that repeats the start of the sent text is ignored.
    async fn name(&mut self, title: &str) -> Result<(), EngineError> {
        let title: String = title.chars().take(200).collect();
        let Ok(title) = Title::given(&title, TitleSource::Model) else {
            return Ok(());
        };
        let current = self.engine.existing(&self.session.id).await?.title;
        let repeats = |text: &str| is_beginning(title.as_str(), text);
        if current.source() != TitleSource::Prompt
            || repeats(current.as_str())
            || repeats(&self.sent)
        {
            return Ok(());
        }
        let store = &self.engine.store;
        store.suggest_title(&self.session.id, &title).await?;
        Ok(())
    }

    async fn odd(&mut self, line: &str) -> Result<(), EngineError> {
        self.oddities += 1;
        if self.oddities > ODDITIES {
            return Ok(());
        }
        let text = format!("the agent printed something that is not the protocol: {line:?}");
        Ok(self
            .decide(Decision::new(DecisionKind::Oddity, text))
            .await?)
    }

    /// Notes that the agent used a tool that its role does not allow, without requesting permission.
    async fn notice(&mut self, call: &ToolCall) -> Result<(), EngineError> {
        let Some(role) = &self.role else {
            return Ok(());
        };
        let oversteps =
            call.status == ToolStatus::Completed && !is_our_own(call) && !role.allows(call);
        if !oversteps || !self.overstepped.insert(call.id.clone()) {
            return Ok(());
        }
        let text = format!(
            "the agent used {:?} without asking, which the role {} may not",
            call.name, role.name
        );
        Ok(self
            .decide(Decision::new(DecisionKind::Permission, text))
            .await?)
    }

    /// Answers a permission request by the role, by the policy or by asking the user, and notes the answer.
    async fn permit(
        &mut self,
        request: &PermissionRequest,
    ) -> Result<PermissionAnswer, EngineError> {
        let at = self.now();
        self.recorder.tool(&request.call, at).await?;
        let policy = self.permissions;
        let ours = is_our_own(&request.call);
        let by_rule = match &self.role {
            _ if ours => Some((request.allow_once(), AnsweredBy::Policy(policy))),
            Some(role) if !role.allows(&request.call) => {
                Some((request.reject(), AnsweredBy::Role(role.name.clone())))
            }
            Some(_) | None => {
                let answer = policy.answer(request);
                answer.map(|answer| (answer, AnsweredBy::Policy(policy)))
            }
        };
        let (answer, by) = match by_rule {
            Some(answered) => answered,
            None => match self.ask(request).await {
                Some(answer) => (answer, AnsweredBy::Person),
                None => (request.reject(), AnsweredBy::Nobody),
            },
        };
        let allowed = request.allows(&answer);
        self.refused |= !allowed && !matches!(by, AnsweredBy::Person);
        let name = &request.call.name;
        let text = match (&answer, allowed) {
            (PermissionAnswer::Cancelled, _) if !matches!(by, AnsweredBy::Role(_)) => {
                format!("stopped before {name:?} was answered")
            }
            (_, true) => format!("allowed {name:?} {by}"),
            (_, false) => format!("refused {name:?} {by}"),
        };
        self.decide(Decision::new(DecisionKind::Permission, text))
            .await?;
        Ok(answer)
    }

    async fn ask(&mut self, request: &PermissionRequest) -> Option<PermissionAnswer> {
        let (sender, answer) = oneshot::channel();
        self.emit(TurnEvent::Ask(request.clone(), sender))
            .await
            .ok()?;
        tokio::select! {
            answer = answer => answer.ok(),
            () = stopped(self.stop.clone(), Stop::Ask) => Some(PermissionAnswer::Cancelled),
        }
    }
}

/// Converts a plan to the JSON that is recorded.
fn plan(steps: &[PlanStep]) -> Json {
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
fn is_our_own(call: &ToolCall) -> bool {
    let prefixes = ["mcp__segue__", "mcp_segue_", "mcp.segue.", "segue_"];
    let tool = prefixes
        .iter()
        .find_map(|prefix| call.name.strip_prefix(prefix));
    call.kind == "other" && tool.is_some_and(|tool| OWN_TOOLS.contains(&tool))
}

/// Returns `true` if one text is the start of the other, ignoring whitespace and truncation marks at the end.
fn is_beginning(title: &str, text: &str) -> bool {
    let plain = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().take(60).collect();
        words.join(" ").trim_end_matches(['…', '.']).to_owned()
    };
    let (title, text) = (plain(title), plain(text));
    text.starts_with(&title) || title.starts_with(&text)
}
