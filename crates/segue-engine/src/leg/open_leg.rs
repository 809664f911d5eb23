//! Opening a leg as planned: resumes its native session, or starts another one with a brief.

use std::path::PathBuf;

use segue_core::brief::BriefSection;
use segue_core::checkpoint::CheckpointReason;
use segue_core::id::{LegId, NativeId, ProviderId};
use segue_core::session::{
    CompactionSummary, Decision, EarlierAttempt, GuardAction, Leg, LegEnd, NewLegPlan, NewNative,
    NewNativeCause, OpenMode, OpenReason, OpeningInput, OpeningPlan, SessionSnapshot,
    leg_to_measure, plan_opening, plan_unresumed_leg,
};
use segue_providers::{AgentConnection, AgentError, BranchPoint, OpenRequest, OpenedConnection};
use segue_store::{NewLeg, StoreError};

use crate::brief::plan::BriefRequest;
use crate::brief::project_context::ContextUse;
use crate::token_count::count_tokens;
use crate::turn::admission::AttemptAgent;
use crate::turn::attempt::{AttemptLeg, AttemptState, Opening};
use crate::turn::{TurnRun, TurnRunner};
use crate::{ChatRequest, TurnError};

/// A leg with a running agent.
pub(crate) struct OpenLeg {
    pub(crate) leg: AttemptLeg,
    pub(crate) connection: Box<dyn AgentConnection>,
    /// Brief to send before the prompt. `None` if the native session has the session in context.
    pub(crate) brief: Option<String>,
    /// Decisions about the opening and the brief, in the order in which they are reported.
    pub(crate) decisions: Vec<Decision>,
}

impl OpenLeg {
    /// Creates a leg with the decisions that report how it was opened. `brief` is the text to send before the prompt,
    /// with the decisions about it.
    pub(crate) fn new(
        leg: Leg,
        opened: OpenedConnection,
        (open_mode, reason): (OpenMode, OpenReason),
        brief: Option<(String, Vec<Decision>)>,
    ) -> Self {
        let transport_decision =
            opened
                .transport_fallback
                .map(|fallback| Decision::TransportReplaced {
                    provider: leg.provider.clone(),
                    transport: fallback.transport.to_owned(),
                    failed_transport: fallback.failed_transport.to_owned(),
                    error: fallback.error,
                });
        let opening_decision = match &reason {
            OpenReason::Branched {
                provider,
                turn,
                is_fork,
            } => Some(Decision::NativeBranched {
                provider: provider.clone(),
                turn: *turn,
                is_fork: *is_fork,
            }),
            // The first native session of a session is expected.
            OpenReason::NewNative(new_native) if open_mode == OpenMode::Briefed => {
                Some(Decision::NativeBriefed(new_native.clone()))
            }
            _ => None,
        };
        let (brief, brief_decisions) = brief.unzip();
        let decisions = transport_decision
            .into_iter()
            .chain(brief_decisions.into_iter().flatten())
            .chain(guard_decisions(opened.guard_actions))
            .chain(opening_decision);
        Self {
            decisions: decisions.collect(),
            leg: AttemptLeg {
                native_id: leg.native_id.clone(),
                leg,
                open_mode,
                reason,
            },
            connection: opened.connection,
            brief,
        }
    }
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
        let policy = &self.context.settings.policy.compaction;
        let applies = !request.strict && policy.should_compact(session);
        let Some(head) = snapshot.recent_turns.last().filter(|_| applies) else {
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
}

impl TurnRun<'_> {
    /// Opens a leg for a prompt that is recorded and not sent yet.
    pub(crate) async fn open_leg(
        &self,
        attempt: &AttemptState,
        opening: Opening,
    ) -> Result<OpenLeg, OpenLegError> {
        match opening {
            Opening::Live { leg, connection } => {
                Ok(self.resumed_leg(leg, OpenedConnection::live(connection)))
            }
            Opening::Planned(OpeningPlan::Resume(leg)) => self.resume_leg(attempt, leg).await,
            Opening::Planned(OpeningPlan::Start(plan)) => self.start_leg(attempt, plan).await,
            Opening::Compact(leg) => {
                let compaction = self.compact_before_prompt(attempt, &leg).await?;
                let plan = NewLegPlan {
                    cause: NewNativeCause::Compacted { compaction },
                    // The compaction ended it.
                    ended_leg: None,
                    may_branch: false,
                };
                self.start_leg(attempt, plan).await
            }
        }
    }

    /// Resumes the native session of a leg, with its running agent if there is one. If the agent cannot resume it,
    /// starts another one with a brief.
    async fn resume_leg(&self, attempt: &AttemptState, leg: Leg) -> Result<OpenLeg, OpenLegError> {
        let pool = &self.runner.context.agent_pool;
        let id = &self.snapshot.session.id;
        if let Some(connection) = pool.take_usable(id, &leg, &attempt.agent).await {
            return Ok(self.resumed_leg(leg, OpenedConnection::live(connection)));
        }
        let has_turns = !self.snapshot.recent_turns.is_empty();
        if self.request.strict && leg.native_id.is_none() && has_turns {
            return Err(no_native_error(Some(&leg), None, &attempt.agent.provider));
        }
        let native_id = leg.native_id.clone();
        let opened = self.open_agent(attempt, native_id, None).await?;
        if opened.open_mode.is_resumed() {
            return Ok(self.resumed_leg(leg, opened));
        }
        let plan = plan_unresumed_leg(&leg, opened.session_unavailable);
        self.brief_leg(attempt, opened, plan).await
    }

    /// Returns a leg that resumes its native session, and records the agent's process with the lease if it is running.
    fn resumed_leg(&self, leg: Leg, opened: OpenedConnection) -> OpenLeg {
        let open_mode = opened.open_mode;
        let reason = if open_mode == OpenMode::Live {
            if let Some(process) = opened.connection.process_identity() {
                self.guard.set_agent(process);
            }
            OpenReason::AgentRunning
        } else {
            OpenReason::NativeComplete
        };
        OpenLeg::new(leg, opened, (open_mode, reason), None)
    }

    /// Starts a native session: as a branch of one that contains all earlier turns, or else with a brief.
    async fn start_leg(
        &self,
        attempt: &AttemptState,
        plan: NewLegPlan,
    ) -> Result<OpenLeg, OpenLegError> {
        let provider = &attempt.agent.provider;
        let branch_source = if plan.may_branch {
            self.find_branch_source(provider).await?
        } else {
            None
        };
        let refuse = || no_native_error(self.snapshot.open_leg(), Some(&plan.cause), provider);
        let is_first = self.snapshot.recent_turns.is_empty();
        if self.request.strict && branch_source.is_none() && !is_first {
            return Err(refuse());
        }
        let (branch_point, reason) = branch_source.unzip();
        let opened = self.open_agent(attempt, None, branch_point).await?;
        match reason {
            Some(reason) if opened.open_mode.is_resumed() => {
                self.end_leg(plan.ended_leg).await?;
                let native_id = opened.connection.native_id().cloned();
                let leg = self.record_leg(attempt, native_id).await?;
                let open_mode = opened.open_mode;
                Ok(OpenLeg::new(leg, opened, (open_mode, reason), None))
            }
            Some(_) if self.request.strict => {
                opened.connection.close().await;
                Err(refuse())
            }
            Some(_) | None => self.brief_leg(attempt, opened, plan).await,
        }
    }

    /// Opens the agent. `native_id` is the native session to resume, and `branch_point` is the position to branch off
    /// from; with neither of them, the agent starts a new native session. Ends an agent that waits in the session.
    async fn open_agent(
        &self,
        attempt: &AttemptState,
        native_id: Option<NativeId>,
        branch_point: Option<BranchPoint>,
    ) -> Result<OpenedConnection, OpenLegError> {
        let context = &self.runner.context;
        let session = &self.snapshot.session;
        let earlier_turns = &self.snapshot.recent_turns;
        let guard_actions = context.agent_pool.end_agent(&session.id).await;
        let role = context.session_role(session)?;
        let AttemptAgent {
            provider,
            permissions,
            timeouts,
            model,
        } = &attempt.agent;
        // Without recorded turns, a new native session would get no brief and have no context, so opening fails
        // instead.
        let would_lose_context = native_id.is_some()
            && !attempt.is_resent
            && !earlier_turns.iter().any(|turn| turn.sent);
        let open_request = OpenRequest {
            cwd: PathBuf::from(&session.project.cwd),
            strict: self.request.strict || would_lose_context,
            native_id,
            branch_point,
            permissions: role.map_or(*permissions, |role| role.restrict_policy(*permissions)),
            role: role.cloned(),
            model: model.clone(),
            mcp: context.settings.tools.for_session(&session.id),
            timeout: timeouts.start,
            process_sender: self.guard.agent.clone(),
        };
        if open_request.native_id.is_none()
            && (!earlier_turns.is_empty() || open_request.role.is_some())
        {
            // The vocabulary loads while the agent starts, so that the tokens of the brief can be counted then.
            segue_tokens::warm_up();
        }
        let opening = context.agents.get(provider)?.open(&open_request).await;
        let mut opened = opening.map_err(OpenLegError::Agent)?;
        opened.guard_actions.splice(0..0, guard_actions);
        Ok(opened)
    }

    /// Records the end of a leg, if one is given.
    pub(crate) async fn end_leg(
        &self,
        ended_leg: Option<(LegId, LegEnd)>,
    ) -> Result<(), StoreError> {
        let Some((leg, end)) = ended_leg else {
            return Ok(());
        };
        let at = self.runner.context.now();
        self.store().end_leg(self.lease(), leg, end, at).await
    }

    /// Compacts the session, which ends the leg that has no room for the prompt. Returns the compaction; `None` if the
    /// turns were compacted for another agent before.
    async fn compact_before_prompt(
        &self,
        attempt: &AttemptState,
        leg: &Leg,
    ) -> Result<Option<CompactionSummary>, TurnError> {
        let (runner, session) = (self.runner, &self.snapshot.session);
        if let Some(head) = self.snapshot.recent_turns.last() {
            let provider = &attempt.agent.provider;
            let planning = runner.briefs().plan_compaction(session, head.id, provider);
            if let Some(plan) = planning.await? {
                let up_to = (head.id, CheckpointReason::Budget);
                let compactor = &runner.compactor;
                let committing = compactor.commit(self.lease(), &plan, up_to, Some(leg.id));
                return Ok(Some(plan.to_summary(committing.await?.n)));
            }
        }
        self.end_leg(Some((leg.id, LegEnd::Compacted))).await?;
        Ok(None)
    }

    /// Records a leg on a new native session, which runs the session from now on, and composes its brief.
    async fn brief_leg(
        &self,
        attempt: &AttemptState,
        opened: OpenedConnection,
        plan: NewLegPlan,
    ) -> Result<OpenLeg, OpenLegError> {
        let (runner, snapshot) = (self.runner, &self.snapshot);
        let head = snapshot.recent_turns.last().map(|turn| turn.id);
        let brief_request = BriefRequest {
            session: &snapshot.session,
            provider: &attempt.agent.provider,
            prompt: &self.request.prompt,
            head,
            has_tools: opened.connection.accepts_mcp_servers(),
            context_use: ContextUse::Brief,
        };
        let planning = runner.briefs().plan_session_brief(brief_request);
        let (brief_plan, brief_decisions) = planning.await?;
        if let (Some(compaction), Some(head)) = (&brief_plan.compaction, head) {
            let up_to = (head, CheckpointReason::BriefTooLarge);
            let compactor = &runner.compactor;
            let committing = compactor.commit(self.lease(), compaction, up_to, None);
            committing.await?;
        }
        // The previous leg ends only after the brief is composed, because composing it may fail.
        self.end_leg(plan.ended_leg).await?;
        let brief = brief_plan.brief;
        let reason = OpenReason::NewNative(NewNative {
            cause: plan.cause,
            agent_message: opened.fallback_reason.clone(),
            has_checkpoint: brief.has_section(BriefSection::Checkpoint),
            omitted_turns: brief.omitted_turns,
        });
        let open_mode = match head {
            Some(_) => OpenMode::Briefed,
            None => OpenMode::Fresh,
        };
        let native_id = opened.connection.native_id().cloned();
        let leg = self.record_leg(attempt, native_id).await?;
        let brief = Some((brief.text, brief_decisions));
        Ok(OpenLeg::new(leg, opened, (open_mode, reason), brief))
    }

    /// Records the next leg. `native_id` is `None` if the agent has not reported it yet.
    async fn record_leg(
        &self,
        attempt: &AttemptState,
        native_id: Option<NativeId>,
    ) -> Result<Leg, StoreError> {
        let new_leg = NewLeg {
            provider: attempt.agent.provider.clone(),
            native_id,
            at: self.runner.context.now(),
        };
        self.store().open_leg(self.lease(), new_leg).await
    }
}

/// Returns the decisions that report actions which protected native sessions.
pub(crate) fn guard_decisions(guard_actions: Vec<GuardAction>) -> impl Iterator<Item = Decision> {
    let actions = guard_actions.into_iter();
    actions.map(|action| Decision::NativeProtected { action })
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
