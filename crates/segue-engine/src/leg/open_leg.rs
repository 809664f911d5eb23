//! Opening a leg as planned: resumes its native session, or starts another one with a brief.

use std::path::PathBuf;

use segue_agents::{
    AgentConnection, AgentError, BranchPoint, OpenRequest, OpenedConnection, TransportFallback,
};
use segue_core::brief::BriefSection;
use segue_core::checkpoint::CheckpointReason;
use segue_core::id::{LegId, NativeId, ProviderId};
use segue_core::session::{
    CompactionSummary, Decision, EarlierAttempt, GuardAction, Leg, LegEnd, NewLegPlan, NewNative,
    NewNativeCause, OpenMode, OpenReason, OpeningInput, OpeningPlan, SessionSnapshot,
    leg_to_measure, plan_opening, plan_unresumed_leg,
};
use segue_store::{NewLeg, StoreError};

use crate::brief::plan::BriefRequest;
use crate::brief::project_context::ContextUse;
use crate::session::lease::LeaseGuard;
use crate::token_count::count_tokens;
use crate::turn::TurnRunner;
use crate::turn::admission::AgentOptions;
use crate::turn::attempt::Opening;
use crate::{ChatRequest, TurnError};

/// A leg with a running agent.
pub(crate) struct OpenLeg {
    /// The leg before the prompt.
    pub(crate) leg: Leg,
    pub(crate) connection: Box<dyn AgentConnection>,
    pub(crate) open_mode: OpenMode,
    /// Reason for the choice of `open_mode`.
    pub(crate) reason: OpenReason,
    /// Brief to send before the prompt. `None` if the native session has the session in context.
    pub(crate) brief: Option<String>,
    /// Decisions about the opening and the brief, in the order in which they are reported.
    pub(crate) decisions: Vec<Decision>,
}

/// Parameters for opening a leg.
pub(crate) struct OpenLegRequest<'a> {
    pub(crate) chat: &'a ChatRequest,
    pub(crate) snapshot: &'a SessionSnapshot,
    pub(crate) guard: &'a LeaseGuard,
    pub(crate) provider: &'a ProviderId,
    pub(crate) options: &'a AgentOptions,
    /// Whether the agent refused the prompt before, and receives the same text again.
    pub(crate) is_resent: bool,
}

/// Reason why no leg could be opened.
pub(crate) enum OpenLegError {
    Agent(AgentError),
    Turn(TurnError),
}

impl<E: Into<TurnError>> From<E> for OpenLegError {
    fn from(error: E) -> Self {
        Self::Turn(error.into())
    }
}

impl TurnRunner {
    /// Plans how a native session is opened for a prompt. `snapshot` is the session before the prompt.
    pub(crate) async fn plan_opening(
        &self,
        request: &ChatRequest,
        snapshot: &SessionSnapshot,
        provider: &ProviderId,
        earlier_attempt: EarlierAttempt<'_>,
    ) -> Result<Opening, TurnError> {
        let input = OpeningInput {
            provider,
            legs: &snapshot.legs,
            earlier_turns: &snapshot.recent_turns,
            earlier_attempt,
        };
        if let Some(leg) = leg_to_measure(&input)
            && self.must_compact_first(request, snapshot, leg).await?
        {
            return Ok(Opening::Compact(leg.clone()));
        }
        Ok(Opening::Planned(plan_opening(&input)))
    }

    /// Returns `true` if the native session of a leg has no room for the prompt, so that the session is compacted first.
    ///
    /// In most cases, compaction happened when the last turn ended. It did not if that turn was interrupted or made
    /// outside segue, and it does not consider a prompt that is long itself.
    async fn must_compact_first(
        &self,
        request: &ChatRequest,
        snapshot: &SessionSnapshot,
        leg: &Leg,
    ) -> Result<bool, TurnError> {
        let session = &snapshot.session;
        let applies = self
            .context
            .settings
            .policy
            .compaction
            .should_compact(session);
        let head = snapshot.recent_turns.last();
        let Some(head) = head.filter(|_| applies && !request.strict) else {
            return Ok(false);
        };
        let briefs = self.briefs();
        let size = match leg.estimated_tokens {
            Some(size) => size,
            None => briefs.estimate_native_tokens(session, head.id).await?,
        };
        let budget = briefs.provider_budget(&leg.provider).await?;
        let added = briefs.prompt_with_added(&snapshot.recent_turns, &request.prompt);
        let added = added.await?;
        let prompt = added.as_deref().unwrap_or(&request.prompt);
        let fits = |prompt: u64| size.saturating_add(prompt) <= budget;
        // No text has more tokens than bytes, so most prompts need no exact count.
        let bytes = u64::try_from(prompt.len()).unwrap_or(u64::MAX);
        if !fits(bytes) && !fits(count_tokens(prompt.to_owned()).await) {
            return Ok(true);
        }
        Ok(briefs
            .should_compact(session, head.id, (size, budget))
            .await?)
    }

    /// Opens a leg for a prompt that is recorded and not sent yet.
    pub(crate) async fn open_leg(
        &self,
        request: &OpenLegRequest<'_>,
        opening: Opening,
    ) -> Result<OpenLeg, OpenLegError> {
        match opening {
            Opening::Live { leg, connection } => Ok(resumed_leg(
                leg,
                OpenedConnection::live(connection),
                request.guard,
            )),
            Opening::Planned(OpeningPlan::Resume(leg)) => self.resume_leg(request, leg).await,
            Opening::Planned(OpeningPlan::Start(plan)) => self.start_leg(request, plan).await,
            Opening::Compact(leg) => {
                let compaction = self.compact_before_prompt(request, &leg).await?;
                let plan = NewLegPlan {
                    cause: NewNativeCause::Compacted { compaction },
                    // The compaction ended it.
                    ended_leg: None,
                    may_branch: false,
                };
                self.start_leg(request, plan).await
            }
        }
    }

    /// Resumes the native session of a leg, with its running agent if there is one. If the agent cannot resume it,
    /// starts another one with a brief.
    async fn resume_leg(
        &self,
        request: &OpenLegRequest<'_>,
        leg: Leg,
    ) -> Result<OpenLeg, OpenLegError> {
        let id = &request.snapshot.session.id;
        let pool = &self.context.agent_pool;
        if let Some(connection) = pool.take_usable(id, &leg, request.options).await {
            let opened = OpenedConnection::live(connection);
            return Ok(resumed_leg(leg, opened, request.guard));
        }
        let earlier_turns = &request.snapshot.recent_turns;
        if request.chat.strict && leg.native_id.is_none() && !earlier_turns.is_empty() {
            return Err(no_native_error(Some(&leg), None, request.provider));
        }
        let opened = self
            .open_agent(request, leg.native_id.clone(), None)
            .await?;
        if opened.open_mode.is_resumed() {
            return Ok(resumed_leg(leg, opened, request.guard));
        }
        let plan = plan_unresumed_leg(&leg, opened.session_unavailable);
        self.brief_leg(request, opened, plan).await
    }

    /// Starts a native session: as a branch of one that contains all earlier turns, or else with a brief.
    async fn start_leg(
        &self,
        request: &OpenLegRequest<'_>,
        plan: NewLegPlan,
    ) -> Result<OpenLeg, OpenLegError> {
        let (snapshot, provider) = (request.snapshot, request.provider);
        let branch_source = if plan.may_branch {
            self.find_branch_source(snapshot, provider).await?
        } else {
            None
        };
        let refuse = || no_native_error(snapshot.open_leg(), Some(&plan.cause), provider);
        let is_first = snapshot.recent_turns.is_empty();
        if request.chat.strict && branch_source.is_none() && !is_first {
            return Err(refuse());
        }
        let branch_point = branch_source.as_ref().map(|source| source.point.clone());
        let opened = self.open_agent(request, None, branch_point).await?;
        match branch_source {
            Some(source) if opened.open_mode.is_resumed() => {
                self.end_leg(request.guard, plan.ended_leg).await?;
                Ok(self.start_branched_leg(opened, request, &source).await?)
            }
            Some(_) if request.chat.strict => {
                opened.connection.close().await;
                Err(refuse())
            }
            Some(_) | None => self.brief_leg(request, opened, plan).await,
        }
    }

    /// Opens the agent. `native_id` is the native session to resume, and `branch_point` is the position to branch off
    /// from; with neither of them, the agent starts a new native session. Ends an agent that waits in the session.
    async fn open_agent(
        &self,
        request: &OpenLegRequest<'_>,
        native_id: Option<NativeId>,
        branch_point: Option<BranchPoint>,
    ) -> Result<OpenedConnection, OpenLegError> {
        let session = &request.snapshot.session;
        let earlier_turns = &request.snapshot.recent_turns;
        let mut guard_actions = self.context.agent_pool.end_agent(&session.id).await;
        let role = self.context.session_role(session)?;
        let permissions = request.options.permissions;
        // Without recorded turns, a new native session would get no brief and have no context, so opening fails
        // instead.
        let would_lose_context = native_id.is_some()
            && !request.is_resent
            && !earlier_turns.iter().any(|turn| turn.sent);
        let open_request = OpenRequest {
            cwd: PathBuf::from(&session.project.cwd),
            strict: request.chat.strict || would_lose_context,
            native_id,
            branch_point,
            permissions: role.map_or(permissions, |role| role.restrict_policy(permissions)),
            role: role.cloned(),
            model: request.options.model.clone(),
            mcp: self.context.settings.tools.for_session(&session.id),
            timeout: request.options.timeouts.start,
            process_sender: request.guard.agent.clone(),
        };
        if open_request.native_id.is_none()
            && (!earlier_turns.is_empty() || open_request.role.is_some())
        {
            // The vocabulary loads while the agent starts, so that the tokens of the brief can be counted then.
            segue_tokens::warm_up();
        }
        let agent = self.context.agents.get(request.provider)?;
        let opened = agent.open(&open_request).await;
        let mut opened = opened.map_err(OpenLegError::Agent)?;
        guard_actions.append(&mut opened.guard_actions);
        opened.guard_actions = guard_actions;
        Ok(opened)
    }

    /// Records the end of a leg, if one is given.
    pub(crate) async fn end_leg(
        &self,
        guard: &LeaseGuard,
        ended_leg: Option<(LegId, LegEnd)>,
    ) -> Result<(), StoreError> {
        match ended_leg {
            Some((leg, end)) => {
                let (store, at) = (&self.context.store, self.context.now());
                store.end_leg(&guard.lease, leg, end, at).await
            }
            None => Ok(()),
        }
    }

    /// Compacts the session, which ends the leg that has no room for the prompt. Returns the compaction; `None` if the
    /// turns were compacted for another agent before.
    async fn compact_before_prompt(
        &self,
        request: &OpenLegRequest<'_>,
        leg: &Leg,
    ) -> Result<Option<CompactionSummary>, TurnError> {
        let snapshot = request.snapshot;
        if let Some(head) = snapshot.recent_turns.last() {
            let planning =
                self.briefs()
                    .plan_compaction(&snapshot.session, head.id, request.provider);
            if let Some(plan) = planning.await? {
                let lease = &request.guard.lease;
                let up_to = (head.id, CheckpointReason::Budget);
                let committing = self.compactor.commit(lease, &plan, up_to, Some(leg.id));
                let version = committing.await?;
                return Ok(Some(plan.to_summary(version.n)));
            }
        }
        self.end_leg(request.guard, Some((leg.id, LegEnd::Compacted)))
            .await?;
        Ok(None)
    }

    /// Records a leg on a new native session, which runs the session from now on, and composes its brief.
    async fn brief_leg(
        &self,
        request: &OpenLegRequest<'_>,
        opened: OpenedConnection,
        plan: NewLegPlan,
    ) -> Result<OpenLeg, OpenLegError> {
        let snapshot = request.snapshot;
        let head = snapshot.recent_turns.last().map(|turn| turn.id);
        let brief_request = BriefRequest {
            session: &snapshot.session,
            provider: request.provider,
            prompt: &request.chat.prompt,
            head,
            has_tools: opened.connection.accepts_mcp_servers(),
            context_use: ContextUse::Brief,
        };
        let planning = self.briefs().plan_session_brief(brief_request);
        let (brief_plan, brief_decisions) = planning.await?;
        if let (Some(compaction), Some(head)) = (&brief_plan.compaction, head) {
            let lease = &request.guard.lease;
            let up_to = (head, CheckpointReason::BriefTooLarge);
            let committing = self.compactor.commit(lease, compaction, up_to, None);
            committing.await?;
        }
        // The previous leg ends only after the brief is composed, because composing it may fail.
        self.end_leg(request.guard, plan.ended_leg).await?;
        let brief = brief_plan.brief;
        let new_native = NewNative {
            cause: plan.cause,
            agent_message: opened.fallback_reason.clone(),
            has_checkpoint: brief.has_section(BriefSection::Checkpoint),
            omitted_turns: brief.omitted_turns,
        };
        let open_mode = if head.is_none() {
            OpenMode::Fresh
        } else {
            OpenMode::Briefed
        };
        let mut decisions = brief_decisions;
        decisions.extend(guard_decisions(opened.guard_actions));
        // Only a new native session with a brief is reported. Other modes are expected.
        if open_mode == OpenMode::Briefed {
            decisions.push(Decision::NativeBriefed(new_native.clone()));
        }
        let native_id = opened.connection.native_id().cloned();
        let leg = self.record_leg(request, native_id).await?;
        Ok(OpenLeg {
            leg,
            connection: opened.connection,
            open_mode,
            reason: OpenReason::NewNative(new_native),
            brief: Some(brief.text),
            decisions: with_transport_decision(
                opened.transport_fallback,
                request.provider,
                decisions,
            ),
        })
    }

    /// Records the next leg. `native_id` is `None` if the agent has not reported it yet.
    pub(crate) async fn record_leg(
        &self,
        request: &OpenLegRequest<'_>,
        native_id: Option<NativeId>,
    ) -> Result<Leg, StoreError> {
        let new_leg = NewLeg {
            provider: request.provider.clone(),
            native_id,
            at: self.context.now(),
        };
        let store = &self.context.store;
        store.open_leg(&request.guard.lease, new_leg).await
    }
}

/// Creates a leg that resumes its native session, and records the agent's process with the lease if it is running.
fn resumed_leg(leg: Leg, opened: OpenedConnection, guard: &LeaseGuard) -> OpenLeg {
    let is_running = opened.open_mode == OpenMode::Live;
    if is_running && let Some(process) = opened.connection.process_identity() {
        guard.set_agent(process);
    }
    let provider = leg.provider.clone();
    OpenLeg {
        leg,
        connection: opened.connection,
        open_mode: opened.open_mode,
        reason: if is_running {
            OpenReason::AgentRunning
        } else {
            OpenReason::NativeComplete
        },
        brief: None,
        decisions: with_transport_decision(
            opened.transport_fallback,
            &provider,
            guard_decisions(opened.guard_actions).collect(),
        ),
    }
}

/// Returns the decisions that report actions which protected native sessions.
pub(crate) fn guard_decisions(guard_actions: Vec<GuardAction>) -> impl Iterator<Item = Decision> {
    let actions = guard_actions.into_iter();
    actions.map(|action| Decision::NativeProtected { action })
}

/// Puts the decision about the transport before the others.
pub(crate) fn with_transport_decision(
    transport_fallback: Option<TransportFallback>,
    provider: &ProviderId,
    decisions: Vec<Decision>,
) -> Vec<Decision> {
    let replaced = transport_fallback.map(|fallback| Decision::TransportReplaced {
        provider: provider.clone(),
        transport: fallback.transport.to_owned(),
        failed_transport: fallback.failed_transport.to_owned(),
        error: fallback.error,
    });
    replaced.into_iter().chain(decisions).collect()
}

/// Creates the error for a strict request if no native session can be resumed.
fn no_native_error(
    open_leg: Option<&Leg>,
    cause: Option<&NewNativeCause>,
    provider: &ProviderId,
) -> OpenLegError {
    let reason = match (open_leg, cause) {
        (Some(leg), _) if leg.provider != *provider => {
            format!("the session runs on {}, not on {provider}", leg.provider)
        }
        (Some(_), _) => "the last native session does not match the head of the session".to_owned(),
        (None, Some(NewNativeCause::NewSession | NewNativeCause::NoNativeYet) | None) => {
            "the session has none yet".to_owned()
        }
        (None, Some(cause)) => cause.to_string(),
    };
    OpenLegError::Agent(AgentError::NoResumableSession(reason))
}
