//! Opening a leg: resumes the native session if it contains all turns that were sent, or else starts a new one with a
//! brief.

use std::fmt::Write as _;
use std::path::PathBuf;

use segue_agents::{
    AgentConnection, AgentError, BranchPoint, OpenRequest, OpenedConnection, Timeouts,
};
use segue_core::agent::PermissionPolicy;
use segue_core::brief::BriefSection;
use segue_core::id::{LegId, NativeId, ProviderId, TurnId};
use segue_core::session::{Decision, Leg, LegEnd, OpenMode, Session, Turn, can_resume_leg};
use segue_store::NewLeg;

use crate::turn::TurnRunner;
use crate::brief::compose::BriefRequest;
use crate::session::lease::LeaseGuard;
use crate::{ChatRequest, TurnError};

/// A leg with a running agent.
pub(crate) struct OpenLeg {
    pub(crate) leg: Leg,
    pub(crate) connection: Box<dyn AgentConnection>,
    pub(crate) open_mode: OpenMode,
    /// Reason for the choice of `open_mode`, as text for the user.
    pub(crate) reason: String,
    /// Whether the native session is new and branched off from another one, whose context it has.
    pub(crate) branched: bool,
    /// Text to send: the prompt, after a brief if the agent does not have the session in context.
    pub(crate) prompt: String,
    /// Actions that protected native sessions from damage, one line each.
    pub(crate) guard_actions: Vec<String>,
    /// Reason why the agent runs on another transport than the default one; `None` if it does not.
    pub(crate) transport_fallback: Option<String>,
    /// Decisions about the content of the brief.
    pub(crate) brief_decisions: Vec<Decision>,
}

impl OpenLeg {
    /// Creates a leg whose agent is still running, and records the agent's process with the lease.
    fn for_live_agent(
        leg: &Leg,
        connection: Box<dyn AgentConnection>,
        leg_request: &OpenLegRequest<'_>,
        guard: &LeaseGuard,
    ) -> Self {
        if let Some(process) = connection.process_identity() {
            guard.set_agent(process);
        }
        let opening = OpenedConnection {
            connection,
            open_mode: OpenMode::Live,
            fallback_reason: None,
            session_unavailable: false,
            guard_actions: Vec::new(),
            transport_fallback: None,
        };
        Self::for_resumed_native(leg, opening, leg_request)
    }

    /// Creates a leg that resumes its native session, which contains all turns.
    fn for_resumed_native(
        leg: &Leg,
        opening: OpenedConnection,
        leg_request: &OpenLegRequest<'_>,
    ) -> Self {
        let reason = if opening.open_mode == OpenMode::Live {
            "the agent is still running"
        } else {
            "the native session contains all earlier turns"
        };
        Self {
            leg: leg.clone(),
            connection: opening.connection,
            open_mode: opening.open_mode,
            reason: reason.to_owned(),
            branched: false,
            // The agent may or may not have stored the text that it refused, so all of it is sent again.
            prompt: leg_request
                .refused_text
                .unwrap_or(&leg_request.chat.prompt)
                .to_owned(),
            guard_actions: opening.guard_actions,
            transport_fallback: opening.transport_fallback,
            brief_decisions: Vec::new(),
        }
    }
}

/// Parameters for opening a leg.
pub(crate) struct OpenLegRequest<'a> {
    pub(crate) chat: &'a ChatRequest,
    /// Text for a resumed native session: the prompt, after the messages that were added to the record since the last
    /// prompt.
    pub(crate) resume_prompt: &'a str,
    /// Turn of the prompt.
    pub(crate) turn: TurnId,
    pub(crate) provider: &'a ProviderId,
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<&'a str>,
    /// Reason why a second leg is opened for the same prompt; `None` for the first one.
    pub(crate) new_leg_reason: Option<&'a str>,
    /// Text that the same agent refused for this prompt; `None` if it refused none.
    pub(crate) refused_text: Option<&'a str>,
}

impl OpenLegRequest<'_> {
    /// Returns `true` if the prompt can be sent to the native session of a leg without a brief.
    fn can_use_leg(&self, leg: &Leg, earlier_turns: &[Turn]) -> bool {
        let has_refused_prompt = self.refused_text.is_some() && leg.tip == Some(self.turn);
        leg.provider == *self.provider && (has_refused_prompt || can_resume_leg(leg, earlier_turns))
    }
}

/// Reason for starting a new native session.
struct NewNativeReason {
    /// Text for the user.
    text: String,
    /// Whether the text states that earlier turns were compacted. If it does not, a checkpoint in the brief is reported
    /// in addition.
    mentions_compaction: bool,
}

impl NewNativeReason {
    /// Creates a reason whose text states that earlier turns were compacted.
    fn with_compaction(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            mentions_compaction: true,
        }
    }

    /// Creates a reason whose text does not mention a compaction.
    fn without_compaction(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            mentions_compaction: false,
        }
    }
}

/// Reason why no leg could be opened.
pub(crate) enum OpenLegError {
    Agent(AgentError),
    Engine(TurnError),
}

impl<E: Into<TurnError>> From<E> for OpenLegError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

impl TurnRunner {
    /// Opens a leg for a prompt that is recorded and not sent yet. `earlier_turns` are the turns before the prompt.
    pub(crate) async fn open_leg(
        &self,
        leg_request: &OpenLegRequest<'_>,
        session: &Session,
        guard: &LeaseGuard,
        earlier_turns: &[Turn],
    ) -> Result<OpenLeg, OpenLegError> {
        let provider = leg_request.provider;
        let agent = self.context.agents.get(provider)?;
        let (last, ended_reason) = self
            .find_open_leg(leg_request, session, guard, earlier_turns)
            .await?;
        let usable = last
            .as_ref()
            .filter(|leg| leg_request.can_use_leg(leg, earlier_turns));
        let live = self.context.agent_pool.take(
            &session.id,
            usable,
            leg_request.permissions,
            leg_request.model,
        );
        let (live, mut guard_actions) = live.await;
        if let (Some(connection), Some(leg)) = (live, usable) {
            return Ok(OpenLeg::for_live_agent(leg, connection, leg_request, guard));
        }
        let native_id = usable.and_then(|leg| leg.native_id.clone());
        let branch_source = match (usable, leg_request.new_leg_reason) {
            (None, None) => {
                self.find_branch_source(session, provider, earlier_turns)
                    .await?
            }
            (Some(_), _) | (None, Some(_)) => None,
        };
        let has_no_native = native_id.is_none() && branch_source.is_none();
        if leg_request.chat.strict && has_no_native && !earlier_turns.is_empty() {
            return Err(no_native_error(last.as_ref(), ended_reason, provider));
        }
        let branch_point = branch_source.as_ref().map(|source| source.point.clone());
        let native = (native_id, branch_point);
        let open_request =
            self.build_open_request(leg_request, session, guard, earlier_turns, native)?;
        if open_request.native_id.is_none()
            && (!earlier_turns.is_empty() || open_request.role.is_some())
        {
            // The vocabulary loads while the agent starts, so that the tokens of the brief can be counted then.
            segue_tokens::warm_up();
        }
        let mut opening = agent
            .open(&open_request)
            .await
            .map_err(OpenLegError::Agent)?;
        guard_actions.append(&mut opening.guard_actions);
        opening.guard_actions = guard_actions;
        if let (true, Some(leg)) = (opening.open_mode.is_resumed(), usable) {
            return Ok(OpenLeg::for_resumed_native(leg, opening, leg_request));
        }
        if leg_request.chat.strict && branch_source.is_some() && !opening.open_mode.is_resumed() {
            opening.connection.close().await;
            return Err(no_native_error(last.as_ref(), ended_reason, provider));
        }
        let leg_end = last.as_ref().map(|leg| {
            replaced_leg_end(leg, usable.map(|_| opening.session_unavailable), provider)
        });
        let ended_leg = last.as_ref().zip(leg_end.as_ref());
        let ended_leg = ended_leg.map(|(leg, (end, _))| (leg.id, *end));
        if let (true, Some(source)) = (opening.open_mode.is_resumed(), branch_source) {
            self.end_leg(guard, ended_leg).await?;
            return Ok(self
                .start_branched_leg(opening, leg_request, guard, &source)
                .await?);
        }
        let reason = match (leg_request.new_leg_reason, leg_end) {
            (Some(reason), _) => NewNativeReason::without_compaction(reason),
            (None, Some((_, reason))) => NewNativeReason::without_compaction(reason),
            (None, None) => new_native_reason(ended_reason, earlier_turns),
        };
        self.start_briefed_leg(
            opening,
            leg_request,
            session,
            guard,
            earlier_turns,
            (ended_leg, reason),
        )
        .await
    }

    /// Returns the open leg, or the reason why the newest leg is not resumed. Compacts the session first if that is
    /// due, which ends the leg.
    async fn find_open_leg(
        &self,
        leg_request: &OpenLegRequest<'_>,
        session: &Session,
        guard: &LeaseGuard,
        earlier_turns: &[Turn],
    ) -> Result<(Option<Leg>, Option<NewNativeReason>), OpenLegError> {
        let legs = self.context.store.legs(&session.id).await?;
        let newest = legs.into_iter().next_back();
        let compaction = self.compactor.compact_before_prompt(
            leg_request,
            session,
            guard,
            (newest.as_ref(), earlier_turns),
        );
        if let Some(reason) = compaction.await? {
            return Ok((None, Some(NewNativeReason::with_compaction(reason))));
        }
        let ended_reason = newest
            .as_ref()
            .and_then(|leg| ended_leg_reason(leg, leg_request.provider));
        Ok((newest.filter(|leg| leg.ended.is_none()), ended_reason))
    }

    /// Records the end of a leg, if one is given.
    async fn end_leg(
        &self,
        guard: &LeaseGuard,
        ended_leg: Option<(LegId, LegEnd)>,
    ) -> Result<(), TurnError> {
        if let Some((leg, end)) = ended_leg {
            let at = self.context.now();
            self.context.store.end_leg(&guard.lease, leg, end, at).await?;
        }
        Ok(())
    }

    /// Creates the request for an agent. `native_id` is the native session to resume, and `branch_point` is the
    /// position to branch off from; with neither of them, the agent starts a new native session.
    fn build_open_request(
        &self,
        leg_request: &OpenLegRequest<'_>,
        session: &Session,
        guard: &LeaseGuard,
        earlier_turns: &[Turn],
        (native_id, branch_point): (Option<NativeId>, Option<BranchPoint>),
    ) -> Result<OpenRequest, TurnError> {
        let role = self.context.session_role(session)?;
        let permissions = leg_request.permissions;
        // Without recorded turns, a new native session would get no brief and have no context, so opening fails
        // instead.
        let would_lose_context = native_id.is_some()
            && leg_request.refused_text.is_none()
            && !earlier_turns.iter().any(|turn| turn.sent);
        Ok(OpenRequest {
            cwd: PathBuf::from(&session.project.cwd),
            strict: leg_request.chat.strict || would_lose_context,
            native_id,
            branch_point,
            permissions: role.map_or(permissions, |role| role.restrict_policy(permissions)),
            role: role.cloned(),
            model: leg_request.model.map(str::to_owned),
            mcp: self.context.settings.tools.for_session(&session.id),
            timeout: leg_request.timeouts.start,
            process_sender: guard.agent.clone(),
        })
    }

    /// Records a leg on a new native session, which runs the session from now on, and composes its brief.
    async fn start_briefed_leg(
        &self,
        opening: OpenedConnection,
        leg_request: &OpenLegRequest<'_>,
        session: &Session,
        guard: &LeaseGuard,
        earlier_turns: &[Turn],
        (ended_leg, reason): (Option<(LegId, LegEnd)>, NewNativeReason),
    ) -> Result<OpenLeg, OpenLegError> {
        let brief_request = BriefRequest {
            session,
            provider: leg_request.provider,
            prompt: &leg_request.chat.prompt,
            earlier_turns,
            has_tools: opening.connection.accepts_mcp_servers(),
            guard,
        };
        // The previous leg ends only after the brief is composed, because composing it may fail.
        let (brief, brief_decisions) = self.compactor.briefs.brief_new_leg(brief_request).await?;
        self.end_leg(guard, ended_leg).await?;
        let new_leg = NewLeg {
            provider: leg_request.provider.clone(),
            native_id: opening.connection.native_id().cloned(),
            at: self.context.now(),
        };
        let leg = self.context.store.open_leg(&guard.lease, new_leg).await?;
        let NewNativeReason {
            text: mut reason,
            mentions_compaction,
        } = reason;
        if let Some(fallback_reason) = opening.fallback_reason {
            reason = format!("{reason} ({fallback_reason})");
        }
        if brief.has_section(BriefSection::Checkpoint) && !mentions_compaction {
            reason.push_str("; the brief contains a checkpoint of earlier turns");
        }
        match brief.omitted_turns {
            0 => {}
            1 => reason.push_str("; turn 1 did not fit into the brief"),
            n => {
                let _ = write!(reason, "; turns 1 to {n} did not fit into the brief");
            }
        }
        let open_mode = if earlier_turns.is_empty() {
            OpenMode::Fresh
        } else {
            OpenMode::Briefed
        };
        Ok(OpenLeg {
            leg,
            connection: opening.connection,
            open_mode,
            reason,
            branched: false,
            prompt: brief.prepend_to(&leg_request.chat.prompt),
            guard_actions: opening.guard_actions,
            transport_fallback: opening.transport_fallback,
            brief_decisions,
        })
    }
}

/// Creates the error for a strict request if no native session can be resumed.
fn no_native_error(
    last: Option<&Leg>,
    ended_reason: Option<NewNativeReason>,
    provider: &ProviderId,
) -> OpenLegError {
    let reason = match last {
        Some(leg) if leg.provider != *provider => {
            format!("the session runs on {}, not on {provider}", leg.provider)
        }
        Some(_) => "the last native session does not match the head of the session".to_owned(),
        None => ended_reason.map_or_else(
            || "the session has none yet".to_owned(),
            |reason| reason.text,
        ),
    };
    OpenLegError::Agent(AgentError::NoResumableSession(reason))
}

/// Returns the reason why a leg that has ended is not resumed; `None` if the leg has not ended.
fn ended_leg_reason(leg: &Leg, provider: &ProviderId) -> Option<NewNativeReason> {
    let (_, end) = leg.ended?;
    Some(match end {
        _ if leg.provider != *provider => NewNativeReason::without_compaction(format!(
            "{provider} took over from {}",
            leg.provider
        )),
        LegEnd::Handoff => NewNativeReason::without_compaction(format!(
            "the session was handed back to {provider}"
        )),
        LegEnd::Full => NewNativeReason::without_compaction("the last native session was full"),
        LegEnd::Compacted => NewNativeReason::with_compaction("earlier turns were compacted"),
        LegEnd::Errors => {
            NewNativeReason::without_compaction("the last native session failed too often in a row")
        }
        LegEnd::Lost => NewNativeReason::without_compaction("the last native session is lost"),
        LegEnd::Unavailable => NewNativeReason::without_compaction(
            "the last native session could not be resumed at that time",
        ),
        LegEnd::HeadMoved => NewNativeReason::without_compaction(
            "the last native session no longer matches the head of the session",
        ),
    })
}

/// Returns the reason for a new native session if no open leg ends for it.
fn new_native_reason(
    ended_reason: Option<NewNativeReason>,
    earlier_turns: &[Turn],
) -> NewNativeReason {
    match ended_reason {
        _ if earlier_turns.is_empty() => NewNativeReason::without_compaction("a new session"),
        Some(reason) => reason,
        None => NewNativeReason::without_compaction("the session has no native session yet"),
    }
}

/// Returns why the last leg ends, given that another one is opened. `is_unavailable` is `None` if the leg was not
/// usable, and `true` if its agent reported that it cannot resume the native session now.
fn replaced_leg_end(
    leg: &Leg,
    is_unavailable: Option<bool>,
    provider: &ProviderId,
) -> (LegEnd, String) {
    if let Some(is_unavailable) = is_unavailable {
        let (end, suffix) = if is_unavailable {
            (LegEnd::Unavailable, " at this time")
        } else {
            (LegEnd::Lost, "")
        };
        let reason = format!("the agent could not resume its native session{suffix}");
        (end, reason)
    } else if leg.provider != *provider {
        (
            LegEnd::Handoff,
            format!("{provider} took over from {}", leg.provider),
        )
    } else if leg.tip.is_none() {
        (
            LegEnd::Lost,
            "the last native session was never used".to_owned(),
        )
    } else {
        (
            LegEnd::HeadMoved,
            "the session was moved to another turn by a revert or an undo".to_owned(),
        )
    }
}
