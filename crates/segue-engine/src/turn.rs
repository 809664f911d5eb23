//! One turn, from prompt to settled figures.

mod listen;

use segue_agents::Conversation;
use segue_core::{
    Decision, DecisionKind, Failure, FailureClass, LegId, Message, Opened, Role, Session, Turn,
    TurnId, TurnState, Usage,
};
use segue_store::{Finish, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::hold::Hold;
use crate::open::{CannotOpen, OpenLeg};
use crate::record::Recorder;
use crate::resolve::Resolved;
use crate::{ChatRequest, Engine, EngineError, Stop, TurnEvent, TurnReport};

/// How the agent's part of a turn ended.
struct Outcome {
    state: TurnState,
    failure: Option<Failure>,
}

impl Outcome {
    fn ended(state: TurnState) -> Self {
        Self {
            state,
            failure: None,
        }
    }

    fn failed(failure: Failure) -> Self {
        Self {
            state: TurnState::Failed,
            failure: Some(failure),
        }
    }
}

/// A turn whose prompt is on the disk, in a session that is ours.
struct Begun {
    session: Session,
    hold: Hold,
    turn: Turn,
    decisions: Vec<Decision>,
}

impl Engine {
    /// Runs one turn: the prompt is on the disk before it is sent, and what comes of it as it comes.
    ///
    /// `Err` means that there was no turn, or that its record could not be kept. A turn that the agent failed
    /// is a report like any other.
    pub async fn chat(
        &self,
        request: ChatRequest,
        events: mpsc::Sender<TurnEvent>,
    ) -> Result<TurnReport, EngineError> {
        let resolved = self.resolve(&request).await?;
        let provider = resolved.provider.clone();
        let Begun {
            session,
            hold,
            turn,
            decisions,
        } = self.begin(&request, resolved).await?;
        let run = Run {
            engine: self,
            recorder: Recorder::new(self.store.clone(), hold.lease.clone(), turn.id),
            report: TurnReport {
                session: session.id.clone(),
                turn: turn.n,
                provider,
                native_id: None,
                leg: None,
                opened: None,
                text: String::new(),
                state: TurnState::Running,
                stopped_by_policy: false,
                usage: Usage::default(),
                decisions: Vec::new(),
                failure: None,
            },
            stop: request.stop.clone(),
            session,
            hold: &hold,
            turn: turn.id,
            request,
            events,
            oddities: 0,
            refused: false,
        };
        let report = run.play(decisions).await;
        hold.release().await;
        report
    }

    /// Writes the prompt down: as the first turn of a new session, or as the next one of a session that is
    /// claimed and, if need be, tidied up.
    async fn begin(&self, request: &ChatRequest, resolved: Resolved) -> Result<Begun, EngineError> {
        let mut decisions = resolved.decisions;
        let prompt = Message::text(Role::User, request.prompt.as_str(), (self.world.now)());
        let Some(session) = resolved.session else {
            let started = self.start(request, &resolved.provider, &prompt).await?;
            return Ok(Begun {
                session: started.session,
                hold: self.keep(started.lease),
                turn: started.turn,
                decisions,
            });
        };
        let (hold, taken_over) = self.hold(&session.id).await?;
        let begun = async {
            // Somebody else may have changed the session since it was looked up.
            let session = self.existing(&session.id).await?;
            let recovered = self.recover(&session, &hold.lease).await?;
            let turn = self.store.begin_turn(&hold.lease, &prompt).await?;
            Ok((session, recovered, turn))
        };
        match begun.await {
            Ok((session, recovered, turn)) => {
                decisions.extend(taken_over.into_iter().chain(recovered));
                Ok(Begun {
                    session,
                    hold,
                    turn,
                    decisions,
                })
            }
            Err(error) => {
                hold.release().await;
                Err(error)
            }
        }
    }
}

/// A turn that is under way.
struct Run<'a> {
    engine: &'a Engine,
    request: ChatRequest,
    session: Session,
    hold: &'a Hold,
    turn: TurnId,
    recorder: Recorder,
    report: TurnReport,
    stop: watch::Receiver<Stop>,
    events: mpsc::Sender<TurnEvent>,
    oddities: usize,
    /// Whether a permission was refused without a person having said so.
    refused: bool,
}

impl Run<'_> {
    fn now(&self) -> jiff::Timestamp {
        (self.engine.world.now)()
    }

    /// Tells an event. A caller that is slow to listen is waited for, but what was streamed is drafted meanwhile;
    /// one that stopped listening still gets its report.
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
                // Whoever wants us to end now does not wait for a listener either.
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
        self.report.decisions.push(decision.clone());
        self.emit(TurnEvent::Decided(decision)).await
    }

    /// The whole turn, from the written prompt to the settled figures.
    async fn play(mut self, decisions: Vec<Decision>) -> Result<TurnReport, EngineError> {
        let began = TurnEvent::Began {
            session: self.report.session.clone(),
            turn: self.report.turn,
        };
        self.emit(began).await?;
        for decision in decisions {
            self.decide(decision).await?;
        }
        let outcome = self.perform().await?;
        self.settle(outcome).await
    }

    /// Opens a leg, sends the prompt, and listens to the end.
    async fn perform(&mut self) -> Result<Outcome, EngineError> {
        let turns = self.engine.store.turns(&self.session.id).await?;
        let before = turns
            .split_last()
            .map_or(turns.as_slice(), |(_, before)| before);
        let provider = &self.report.provider;
        let opening = self
            .engine
            .open(&self.request, &self.session, provider, self.hold, before);
        let opened = tokio::select! {
            opened = opening => Some(opened),
            () = stopped(self.stop.clone(), Stop::Ask) => None,
        };
        let leg = match opened {
            Some(Ok(leg)) => leg,
            Some(Err(CannotOpen::Agent(error))) => {
                return Ok(Outcome::failed(error.failure(self.now())));
            }
            Some(Err(CannotOpen::Engine(error))) => {
                self.hold.agent_is_gone().await;
                return Err(error);
            }
            None => {
                self.hold.agent_is_gone().await;
                return Ok(Outcome::ended(TurnState::Cancelled));
            }
        };
        let (noted, mut conversation) = (self.note_leg(&leg).await, leg.conversation);
        let outcome = match noted {
            Ok(()) => {
                self.send(conversation.as_mut(), leg.leg.id, &leg.prompt)
                    .await
            }
            Err(error) => Err(error),
        };
        conversation.close().await;
        outcome
    }

    /// Sends the prompt, once it is on record that it is about to be sent.
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
        match conversation.send(prompt).await {
            Ok(()) => self.listen(conversation).await,
            Err(error) => Ok(Outcome::failed(error.failure(self.now()))),
        }
    }

    async fn note_leg(&mut self, leg: &OpenLeg) -> Result<(), EngineError> {
        self.report.native_id.clone_from(&leg.leg.native_id);
        self.report.leg = Some(leg.leg.n);
        self.report.opened = Some((leg.opened, leg.why.clone()));
        self.emit(TurnEvent::Opened {
            provider: leg.leg.provider.clone(),
            native_id: leg.leg.native_id.clone(),
            leg: leg.leg.n,
            opened: leg.opened,
        })
        .await?;
        // What was to be expected is no news.
        if leg.opened == Opened::Briefed {
            let text = format!(
                "started a new native session and told it the story so far: {}",
                leg.why
            );
            self.decide(Decision::new(DecisionKind::Opened, text))
                .await?;
        }
        Ok(())
    }

    /// Closes the record and settles the figures, in one transaction.
    async fn settle(mut self, outcome: Outcome) -> Result<TurnReport, EngineError> {
        let at = self.now();
        let state = outcome.state;
        let failure = outcome
            .failure
            .map(|failure| with_next_step(failure, &self.report));
        let last = self.recorder.close(state == TurnState::Finished, at);
        let last_number = last.last().map(|(number, _)| *number);
        let finish = Finish {
            state,
            messages: last,
            usage: self.report.usage,
            failure: failure.clone(),
            at,
        };
        self.engine
            .store
            .finish_turn(&self.hold.lease, self.turn, finish)
            .await?;
        self.saved(last_number).await?;
        self.emit(TurnEvent::Ended { state }).await?;
        self.report.text = std::mem::take(&mut self.recorder.text);
        self.report.state = state;
        self.report.failure = failure;
        Ok(self.report)
    }
}

fn with_next_step(failure: Failure, report: &TurnReport) -> Failure {
    if failure.hint.is_some() {
        return failure;
    }
    let id = &report.session;
    let hint = match failure.class {
        FailureClass::NotStarted => "`segue doctor` shows which agents can be started".to_owned(),
        FailureClass::TimedOut => {
            format!("give it longer: segue chat --resume {id} --open-timeout 120 \"…\"")
        }
        FailureClass::Crashed
        | FailureClass::Agent
        | FailureClass::NotUnderstood
        | FailureClass::SessionUnknown
        | FailureClass::Quota
        | FailureClass::RateLimited
        | FailureClass::ContextTooLong
        | FailureClass::NotLoggedIn
        | FailureClass::UntrustedFolder => {
            format!("what was said is kept; go on with: segue chat --resume {id} \"…\"")
        }
    };
    failure.with_hint(hint)
}

/// Waits until a stop of at least this urgency is asked for; for ever if nobody can ask any more.
async fn stopped(mut stop: watch::Receiver<Stop>, level: Stop) {
    if stop.wait_for(|asked| *asked >= level).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until a moment; for ever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
