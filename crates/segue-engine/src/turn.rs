//! A turn, from the prompt to its final record.

mod again;
mod attempt;
mod compacted;
mod listen;
mod memory;
mod patience;
mod settle;
mod tokens;

use std::collections::HashSet;

use segue_agents::{Conversation, Timeouts};
use segue_core::agent::{PermissionPolicy, RoleDescription};
use segue_core::id::{LegId, ProviderId, TurnId};
use segue_core::session::{
    Decision, DecisionKind, Failure, Leg, Message, Role, Session, StepKind, Turn, TurnState, Usage,
};
use segue_store::StoreError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use again::Course;
use memory::Knows;

use crate::hold::Hold;
use crate::outside::Ahead;
use crate::pieces::Text;
use crate::policy::Admitted;
use crate::record::Recorder;
use crate::resolve::{Resolved, Trail, having};
use crate::warm::Waiting;
use crate::{ChatRequest, Engine, EngineError, Stop, Target, TurnEvent, TurnReport};

/// End of the agent's work on a turn.
struct Outcome {
    state: TurnState,
    failure: Option<Failure>,
    /// Whether the agent itself ended the turn, and waits for the next one.
    idle: bool,
}

/// Result of one attempt at a turn.
enum Tried {
    /// The attempt ended.
    Over(Outcome),
    /// The agent does not have the native session, and reported this before any output.
    Unknown(Failure),
}

impl Outcome {
    fn ended(state: TurnState) -> Self {
        Self {
            state,
            failure: None,
            idle: false,
        }
    }

    fn failed(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            ..Self::ended(TurnState::Failed)
        }
    }
}

/// A turn whose prompt is on disk, in a session whose lease is acquired.
struct Begun {
    session: Session,
    hold: Hold,
    turn: Turn,
    admitted: Admitted,
}

impl Engine {
    /// Runs one turn. The prompt is on disk before it is sent, and the output is recorded as it arrives.
    ///
    /// Returns `Err` if no turn was started, or if its record could not be saved. A turn in which the agent failed is a
    /// normal report. The turn waits for a caller that does not receive its events. A caller that needs no events drops
    /// the receiver before the call.
    pub async fn chat(
        &self,
        request: ChatRequest,
        events: mpsc::Sender<TurnEvent>,
    ) -> Result<TurnReport, EngineError> {
        let mut trail = Trail::after(&request);
        // Each phase is boxed, because otherwise the future of a turn would contain the futures of all phases.
        let begun = Box::pin(self.enter(&request, &mut trail)).await;
        let Begun {
            session,
            hold,
            turn,
            admitted,
        } = match begun {
            Ok(begun) => begun,
            Err(error) => {
                tell_in_vain(&request, trail, &events).await;
                return Err(error);
            }
        };
        let Admitted {
            provider,
            standing,
            rested,
            wait,
            instead_of,
            ..
        } = admitted;
        let terms = self.terms(&request, &provider, instead_of.as_ref())?;
        let role = self.role_of(&session)?.cloned();
        let run = Run {
            engine: self,
            recorder: Recorder::new(
                self.store.clone(),
                hold.lease.clone(),
                turn.id,
                Text::up_to(request.text_up_to),
            ),
            report: TurnReport {
                session: session.id.clone(),
                turn: turn.n,
                provider,
                native_id: None,
                leg: None,
                opened: None,
                text: None,
                state: TurnState::Running,
                sent: false,
                stopped_by_policy: false,
                usage: Usage::default(),
                decisions: Vec::new(),
                steps: request.explain.is_some().then(|| trail.steps.clone()),
                failure: None,
            },
            stop: request.stop.clone(),
            session,
            hold: &hold,
            turn: turn.id,
            permissions: terms.permissions,
            role,
            timeouts: terms.timeouts,
            model: terms.model,
            course: Course {
                standing,
                rested,
                wait,
                ..Course::default()
            },
            request,
            events,
            leg: None,
            opened_leg: None,
            sent: String::new(),
            heard: false,
            oddities: 0,
            refused: false,
            overstepped: HashSet::new(),
            knows: Knows::AsBefore,
        };
        let report = Box::pin(run.play(trail)).await;
        hold.release().await;
        report
    }

    /// Resolves the session, and writes the prompt to it.
    async fn enter(&self, request: &ChatRequest, trail: &mut Trail) -> Result<Begun, EngineError> {
        loop {
            if let Target::Scope(purpose) | Target::NewFor(purpose) = &request.target {
                self.described(purpose.role.as_ref())?;
            }
            let resolved = self.resolve(request, trail).await?;
            if let Resolved::There(session, _) = &resolved {
                self.role_of(session)?;
            }
            match self.begin(request, resolved, trail).await {
                // A concurrent process created the session since the lookup, so the next lookup finds it.
                Err(EngineError::Store(StoreError::Fits(_))) => trail.begin_again(request),
                begun => return begun,
            }
        }
    }

    /// Writes the prompt: as the first turn of a new session, or as the next turn of an existing session, after its
    /// lease is acquired and it is reconciled.
    async fn begin(
        &self,
        request: &ChatRequest,
        resolved: Resolved,
        trail: &mut Trail,
    ) -> Result<Begun, EngineError> {
        let (provider, target) = match resolved {
            Resolved::There(session, chosen) => {
                return self.begin_in(request, &session, chosen, trail).await;
            }
            Resolved::New(provider, target) => (provider, target),
        };
        let mut admitted = self.admit(request, None, provider).await?;
        if admitted.instead_of.is_some() {
            let other = &admitted.provider;
            let found = self.with_other(request, &target, other, trail);
            if let Some(session) = found.await? {
                trail.decisions.append(&mut admitted.decisions);
                let other = Some(admitted.provider);
                let mut begun = self.begin_in(request, &session, other, trail).await?;
                // In this session, too, the agent is a fallback that the user did not choose.
                let instead_of = &mut begun.admitted.instead_of;
                *instead_of = admitted.instead_of.or_else(|| instead_of.take());
                return Ok(begun);
            }
        }
        trail.decisions.append(&mut admitted.decisions);
        let prompt = self.prompt_of(request);
        let provider = &admitted.provider;
        let unless = match &target {
            Target::Scope(purpose) => {
                // The filter is that of the lookup: with an agent if one was requested or if it is a fallback.
                let chosen = request.provider.is_some() || admitted.instead_of.is_some();
                Some(having(
                    purpose,
                    &request.project,
                    chosen.then_some(provider),
                ))
            }
            _ => None,
        };
        let started = self.start(request, provider, &prompt, unless.as_ref());
        let started = started.await?;
        Ok(Begun {
            session: started.session,
            hold: self.keep(started.lease),
            turn: started.turn,
            admitted,
        })
    }

    fn prompt_of(&self, request: &ChatRequest) -> Message {
        Message::text(Role::User, request.prompt.as_str(), (self.world.now)())
    }

    /// Starts the next turn of an existing session, with the chosen agent or else the session's provider.
    async fn begin_in(
        &self,
        request: &ChatRequest,
        session: &Session,
        chosen: Option<ProviderId>,
        trail: &mut Trail,
    ) -> Result<Begun, EngineError> {
        let carrier = &session.provider;
        let prompt = self.prompt_of(request);
        let (hold, taken_over) = self.hold(&session.id).await?;
        let begun = async {
            // The session may have been changed by another process since the lookup.
            let session = self.existing(&session.id).await?;
            let from = session.provider.clone();
            if chosen.is_none() && from != *carrier {
                let text = format!("{from}, who carries the session by now");
                trail.step(StepKind::Provider, text);
                self.agent(&from)?;
            }
            let provider = chosen.unwrap_or_else(|| from.clone());
            let mut admitted = self.admit_to(request, &session, provider, &hold).await?;
            if let Some(native) = &session.native_id
                && session.provider == admitted.provider
            {
                self.refuse_strangers_in(&session.provider, native).await?;
            }
            let strict = request.strict;
            let ahead = Ahead::Prompt { strict };
            let (mut session, mut decisions) = self.bring_up_to_date(session, &hold, ahead).await?;
            let again = self.take_up_again(&hold.lease, &session, &admitted.provider);
            if let Some(decision) = again.await? {
                decisions.push(decision);
                // The user may have continued this native session outside segue since its leg was detached.
                session = self.existing(&session.id).await?;
                let (brought, news) = self.bring_up_to_date(session, &hold, ahead).await?;
                session = brought;
                decisions.extend(news);
            }
            let turn = self.store.begin_turn(&hold.lease, &prompt).await?;
            if admitted.instead_of.is_none() {
                let left = self.left_behind(&from, &admitted.provider, Some(request));
                let left = left.into_iter();
                let left = left.map(|line| Decision::new(DecisionKind::HandedOver, line));
                admitted.decisions.extend(left);
            }
            Ok((session, decisions, turn, admitted))
        };
        match begun.await {
            Ok((session, decisions, turn, mut admitted)) => {
                trail
                    .decisions
                    .extend(taken_over.into_iter().chain(decisions));
                trail.decisions.append(&mut admitted.decisions);
                Ok(Begun {
                    session,
                    hold,
                    turn,
                    admitted,
                })
            }
            Err(error) => {
                hold.release().await;
                Err(error)
            }
        }
    }

    /// Decides whether a prompt may be sent in a session whose lease is acquired. A rejection is noted in the session's
    /// log.
    async fn admit_to(
        &self,
        request: &ChatRequest,
        session: &Session,
        provider: ProviderId,
        hold: &Hold,
    ) -> Result<Admitted, EngineError> {
        let admitted = self.admit(request, Some(&session.id), provider).await;
        if let Err(error @ (EngineError::Hopeless { .. } | EngineError::NotYet { .. })) = &admitted
        {
            let decision = Decision::new(DecisionKind::Stopped, error.to_string());
            let at = (self.world.now)();
            self.store.note(&hold.lease, &decision, at).await?;
        }
        admitted
    }
}

/// A running turn.
struct Run<'a> {
    engine: &'a Engine,
    request: ChatRequest,
    session: Session,
    hold: &'a Hold,
    turn: TurnId,
    permissions: PermissionPolicy,
    /// Role of the session, which may limit the agent's tools. `None` if it has no role.
    role: Option<RoleDescription>,
    timeouts: Timeouts,
    model: Option<String>,
    course: Course,
    /// Leg on which the prompt runs. `None` until a leg is open.
    leg: Option<LegId>,
    /// State of that leg before the turn.
    opened_leg: Option<Leg>,
    /// Text that was sent, including the brief.
    sent: String,
    /// Whether the agent has produced output in the current attempt.
    heard: bool,
    recorder: Recorder,
    report: TurnReport,
    stop: watch::Receiver<Stop>,
    events: mpsc::Sender<TurnEvent>,
    oddities: usize,
    /// Whether a permission was rejected without the user.
    refused: bool,
    /// Ids of the tool calls that the agent made although the role does not allow them.
    overstepped: HashSet<String>,
    /// Change of the agent's context in this turn.
    knows: Knows,
}

impl Run<'_> {
    fn now(&self) -> jiff::Timestamp {
        (self.engine.world.now)()
    }

    /// Emits an event. Waits for a slow receiver, and saves drafts of streamed text during that time. If the caller
    /// dropped the receiver, the event is discarded, and the caller still gets the report.
    async fn emit(&mut self, event: TurnEvent) -> Result<(), StoreError> {
        let events = self.events.clone();
        loop {
            tokio::select! {
                biased;
                permit = events.reserve() => {
                    if let Ok(permit) = permit {
                        permit.send(event);
                    }
                    return Ok(());
                }
                // An immediate stop does not wait for the receiver either.
                () = stopped(self.stop.clone(), Stop::Now) => return Ok(()),
                () = until(self.recorder.due()) => self.recorder.draft(self.now()).await?,
            }
        }
    }

    async fn decide(&mut self, decision: Decision) -> Result<(), StoreError> {
        let at = self.now();
        self.engine
            .store
            .note(&self.hold.lease, &decision, at)
            .await?;
        self.tell(decision).await
    }

    /// Reports a decision that is already in the log.
    async fn tell(&mut self, decision: Decision) -> Result<(), StoreError> {
        self.report.decisions.push(decision.clone());
        self.emit(TurnEvent::Decided(decision)).await
    }

    /// Reports an action that protected a native session. The same action is reported once per turn.
    async fn protected(&mut self, line: &str) -> Result<(), StoreError> {
        let decision = Decision::new(DecisionKind::Protected, line);
        if self.report.decisions.contains(&decision) {
            return Ok(());
        }
        self.decide(decision).await
    }

    /// Runs the complete turn, from the saved prompt to the final record.
    async fn play(mut self, trail: Trail) -> Result<TurnReport, EngineError> {
        let began = TurnEvent::Began {
            session: self.report.session.clone(),
            turn: self.report.turn,
        };
        self.emit(began).await?;
        if let Some(steps) = self.report.steps.clone() {
            self.emit(TurnEvent::Explained(steps)).await?;
        }
        for decision in trail.done {
            self.report.decisions.push(decision.clone());
            self.emit(TurnEvent::Decided(decision)).await?;
        }
        for decision in trail.decisions {
            self.decide(decision).await?;
        }
        let outcome = match self.perform().await {
            // The brief exceeds the budget. No agent received the prompt, and none can until the user fixes this.
            Err(error @ EngineError::Brief(_)) if !self.report.sent => {
                self.take_back("nobody could be told the prompt").await?;
                return Err(error);
            }
            outcome => outcome?,
        };
        if outcome.state == TurnState::Cancelled && !self.report.sent {
            return self.withdraw().await;
        }
        self.settle(outcome).await
    }

    /// Keeps the agent running for the next turn, or ends it.
    async fn part(
        &mut self,
        mut conversation: Box<dyn Conversation>,
        outcome: &Result<Outcome, EngineError>,
    ) -> Result<(), EngineError> {
        let went_well = outcome.as_ref().is_ok_and(|outcome| {
            outcome.idle && matches!(outcome.state, TurnState::Finished | TurnState::Cancelled)
        });
        let named = conversation.native_id().is_some();
        if let (true, true, true, Some(leg)) = (self.request.keep_open, went_well, named, self.leg)
            && conversation.is_alive()
        {
            let waiting = Waiting {
                leg,
                tip: self.turn,
                permissions: self.permissions,
                model: self.model.clone(),
                claim: self.hold.for_agent(conversation.process().as_ref()),
                conversation,
            };
            self.engine.warm.keep(&self.session.id, waiting).await;
            return Ok(());
        }
        for line in conversation.close().await {
            self.protected(&line).await?;
        }
        Ok(())
    }

    /// Sends the prompt, after recording that it is about to be sent, and processes the agent's events.
    async fn send(
        &mut self,
        conversation: &mut dyn Conversation,
        leg: LegId,
        prompt: &str,
    ) -> Result<Outcome, EngineError> {
        let at = self.now();
        self.engine
            .store
            .begin_attempt(&self.hold.lease, self.turn, leg, at)
            .await?;
        self.report.sent = true;
        prompt.clone_into(&mut self.sent);
        match conversation.send(prompt).await {
            Ok(()) => {
                // Loading the tokenizer takes less time than the agent needs for its first output.
                segue_tokens::warm_up();
                // An agent that starts a process for each turn has started it by now.
                if let Some(process) = conversation.process() {
                    self.hold.runs(process);
                }
                self.listen(conversation).await
            }
            Err(error) => Ok(Outcome::failed(error.failure(self.now()))),
        }
    }
}

/// Reports the resolution steps of a request that started no turn, and the decisions that took effect nevertheless.
async fn tell_in_vain(request: &ChatRequest, trail: Trail, events: &mpsc::Sender<TurnEvent>) {
    let steps = request.explain.is_some().then_some(trail.steps);
    let done = trail.done.into_iter().map(TurnEvent::Decided);
    for event in steps.map(TurnEvent::Explained).into_iter().chain(done) {
        // A caller that dropped the receiver still gets the error.
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Waits until a stop of at least this urgency is requested. Waits forever if the sender is dropped.
async fn stopped(mut stop: watch::Receiver<Stop>, level: Stop) {
    if stop.wait_for(|asked| *asked >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until an instant. Waits forever if it is `None`.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
