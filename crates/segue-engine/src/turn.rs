//! One turn, from prompt to settled figures.

use segue_agents::{AgentError, Conversation, Step, TurnEnd};
use segue_core::{
    AgentEvent, Decision, DecisionKind, Failure, FailureClass, Message, Opened, Part,
    PermissionAnswer, PermissionRequest, Role, Session, StopReason, Title, TitleSource, TurnState,
    Usage,
};
use segue_store::{DraftKind, Finish, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

use crate::hold::Hold;
use crate::open::{CannotOpen, OpenLeg};
use crate::record::Recorder;
use crate::{ChatRequest, Engine, EngineError, Stop, TurnEvent, TurnReport};

/// How many oddities of one turn are reported; an agent that prints nothing else must not flood the log.
const ODDITIES: usize = 5;

/// How the agent's part of a turn ended.
struct Outcome {
    state: TurnState,
    failure: Option<Failure>,
    stderr: String,
}

impl Outcome {
    fn ended(state: TurnState) -> Self {
        Self {
            state,
            failure: None,
            stderr: String::new(),
        }
    }

    fn failed(error: &AgentError) -> Self {
        Self {
            state: TurnState::Failed,
            failure: Some(error.failure()),
            stderr: error.stderr().to_owned(),
        }
    }
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
        let (session, decisions) = self.resolve(&request).await?;
        let (hold, taken_over) = self.hold(&session.id).await?;
        // From here on somebody else may have changed the session; what counts is what is held.
        let session = self.existing(&session.id).await?;
        let recovered = self.recover(&session, &hold.lease).await?;
        let prompt = Message::text(Role::User, request.prompt.as_str(), (self.world.now)());
        let turn = self.store.begin_turn(&hold.lease, &prompt).await?;
        let provider = request
            .provider
            .as_ref()
            .unwrap_or(&session.provider)
            .clone();
        let mut run = Run {
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
                usage: Usage::default(),
                decisions: Vec::new(),
                failure: None,
                stderr: String::new(),
            },
            title: session.title.source(),
            session,
            hold,
            turn: turn.id,
            stop: request.stop.clone(),
            request,
            events,
            oddities: 0,
        };
        let began = TurnEvent::Began {
            session: run.report.session.clone(),
            turn: turn.n,
        };
        run.emit(began).await;
        for decision in decisions.into_iter().chain(taken_over).chain(recovered) {
            run.decide(decision).await?;
        }
        match run.perform().await {
            Ok(outcome) => run.settle(outcome).await,
            Err(error) => {
                // The record can't be kept. The turn is found open, and closed, by whoever holds it next.
                let _ = run.hold.release().await;
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
    title: TitleSource,
    hold: Hold,
    turn: segue_core::TurnId,
    recorder: Recorder,
    report: TurnReport,
    stop: watch::Receiver<Stop>,
    events: mpsc::Sender<TurnEvent>,
    oddities: usize,
}

impl Run<'_> {
    fn now(&self) -> jiff::Timestamp {
        (self.engine.world.now)()
    }

    async fn emit(&self, event: TurnEvent) {
        // A caller that stopped listening still gets its report.
        let _ = self.events.send(event).await;
    }

    async fn decide(&mut self, decision: Decision) -> Result<(), StoreError> {
        let at = self.now();
        self.engine
            .store
            .note(&self.session.id, &decision, at)
            .await?;
        self.report.decisions.push(decision.clone());
        self.emit(TurnEvent::Decided(decision)).await;
        Ok(())
    }

    /// Opens a leg, sends the prompt, and listens to the end.
    async fn perform(&mut self) -> Result<Outcome, EngineError> {
        let turns = self.engine.store.turns(&self.session.id).await?;
        let opened = {
            let opening = self
                .engine
                .open(&self.request, &self.session, &self.hold.lease, &turns);
            tokio::select! {
                opened = opening => opened,
                () = stopped(self.stop.clone(), Stop::Ask) => return Ok(Outcome::ended(TurnState::Cancelled)),
            }
        };
        let leg = match opened {
            Ok(leg) => leg,
            Err(CannotOpen::Agent(error)) => return Ok(Outcome::failed(&error)),
            Err(CannotOpen::Engine(error)) => return Err(error),
        };
        let mut conversation = self.note_leg(&leg).await.map(|()| leg.conversation)?;
        let at = self.now();
        self.engine
            .store
            .begin_attempt(&self.hold.lease, self.turn, leg.leg.id, at)
            .await?;
        let outcome = match conversation.send(&leg.prompt).await {
            Ok(()) => self.listen(conversation.as_mut()).await,
            Err(error) => Ok(Outcome::failed(&error)),
        };
        conversation.close().await;
        outcome
    }

    async fn note_leg(&mut self, leg: &OpenLeg) -> Result<(), EngineError> {
        self.hold.runs(leg.conversation.process()).await?;
        self.report.native_id = Some(leg.leg.native_id.clone());
        self.report.leg = Some(leg.leg.n);
        self.report.opened = Some((leg.opened, leg.why.clone()));
        self.emit(TurnEvent::Opened {
            provider: leg.leg.provider.clone(),
            native_id: leg.leg.native_id.clone(),
            leg: leg.leg.n,
            opened: leg.opened,
        })
        .await;
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

    /// Takes in what the agent does until the turn is over.
    async fn listen(
        &mut self,
        conversation: &mut dyn Conversation,
    ) -> Result<Outcome, EngineError> {
        let mut asked_to_stop = false;
        loop {
            let due = self.recorder.due();
            let level = if asked_to_stop { Stop::Now } else { Stop::Ask };
            tokio::select! {
                biased;
                () = stopped(self.stop.clone(), level) => {
                    if asked_to_stop {
                        return Ok(Outcome::ended(TurnState::Cancelled));
                    }
                    asked_to_stop = true;
                    conversation.cancel();
                }
                () = until(due) => self.recorder.draft(self.now()).await?,
                step = conversation.next() => match step {
                    Step::Event(event) => self.take_in(event).await?,
                    Step::Ask(request, reply) => reply(self.permit(&request).await?),
                    Step::Done(Ok(end)) => return self.done(end, asked_to_stop).await,
                    Step::Done(Err(error)) => return Ok(Outcome::failed(&error)),
                },
            }
        }
    }

    async fn done(&mut self, end: TurnEnd, asked_to_stop: bool) -> Result<Outcome, EngineError> {
        self.report.usage.update(end.usage);
        let note = match end.reason {
            StopReason::Cancelled => return Ok(Outcome::ended(TurnState::Cancelled)),
            StopReason::EndTurn => None,
            StopReason::Limit => {
                Some("the agent stopped at a limit of its own and may not be done")
            }
            StopReason::Refusal => Some("the agent refused to go on"),
        };
        if let Some(text) = note {
            self.decide(Decision::new(DecisionKind::Oddity, text))
                .await?;
        }
        let state = if asked_to_stop {
            TurnState::Cancelled
        } else {
            TurnState::Finished
        };
        Ok(Outcome::ended(state))
    }

    async fn take_in(&mut self, event: AgentEvent) -> Result<(), EngineError> {
        let at = self.now();
        match event {
            AgentEvent::Text(words) => {
                let (message, ended) = self.recorder.hear(DraftKind::Text, &words, at).await?;
                self.saved(ended).await;
                self.emit(TurnEvent::Text { message, words }).await;
            }
            AgentEvent::Thought(words) => {
                let (message, ended) = self.recorder.hear(DraftKind::Thought, &words, at).await?;
                self.saved(ended).await;
                self.emit(TurnEvent::Thought { message, words }).await;
            }
            AgentEvent::Tool(call) => {
                let seq = self.recorder.tool(&call, at).await?;
                self.emit(TurnEvent::Tool(call)).await;
                self.saved(Some(seq)).await;
            }
            AgentEvent::Usage(usage) => {
                self.report.usage.update(usage);
                self.emit(TurnEvent::Usage(usage)).await;
            }
            AgentEvent::Title(title) => self.name(&title).await?,
            AgentEvent::Unknown(json) => {
                let seq = self.recorder.keep(Part::Unknown(json), at).await?;
                self.saved(Some(seq)).await;
            }
            AgentEvent::Garbage(line) => self.odd(&line).await?,
        }
        Ok(())
    }

    async fn saved(&self, message: Option<u32>) {
        if let Some(message) = message {
            self.emit(TurnEvent::Saved { message }).await;
        }
    }

    /// The agent named the session: its word counts for more than the first prompt, and less than a person's.
    async fn name(&mut self, title: &str) -> Result<(), EngineError> {
        if self.title >= TitleSource::User {
            return Ok(());
        }
        let title: String = title.chars().take(200).collect();
        if let Ok(title) = Title::given(&title, TitleSource::Model) {
            let at = self.now();
            self.engine
                .store
                .rename(&self.session.id, &title, at)
                .await?;
            self.title = TitleSource::Model;
        }
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

    /// Answers a permission request by policy or by asking, and notes the answer.
    async fn permit(
        &mut self,
        request: &PermissionRequest,
    ) -> Result<PermissionAnswer, EngineError> {
        let at = self.now();
        self.recorder.tool(&request.call, at).await?;
        let policy = self.request.permissions;
        let (answer, by) = match policy.answer(request) {
            Some(answer) => (answer, format!("by policy {}", policy.as_str())),
            None => match self.ask(request).await {
                Some(answer) => (answer, "by the user".to_owned()),
                None => (request.reject(), "since nobody could be asked".to_owned()),
            },
        };
        let verdict = if request.allows(&answer) {
            "allowed"
        } else {
            "refused"
        };
        let text = format!("{verdict} {:?} {by}", request.call.name);
        self.decide(Decision::new(DecisionKind::Permission, text))
            .await?;
        Ok(answer)
    }

    async fn ask(&mut self, request: &PermissionRequest) -> Option<PermissionAnswer> {
        let (sender, answer) = oneshot::channel();
        self.emit(TurnEvent::Ask(request.clone(), sender)).await;
        tokio::select! {
            answer = answer => answer.ok(),
            () = stopped(self.stop.clone(), Stop::Ask) => Some(PermissionAnswer::Cancelled),
        }
    }

    /// Closes the record and the figures, and gives the session back.
    async fn settle(mut self, outcome: Outcome) -> Result<TurnReport, EngineError> {
        let at = self.now();
        let ended = self.recorder.end_speech(at).await?;
        self.saved(ended).await;
        let failure = outcome
            .failure
            .map(|failure| with_next_step(failure, &self.report));
        let finish = Finish {
            state: outcome.state,
            messages: self.recorder.closing(at),
            usage: self.report.usage,
            failure: failure.clone(),
            at,
        };
        self.engine
            .store
            .finish_turn(&self.hold.lease, self.turn, finish)
            .await?;
        self.emit(TurnEvent::Ended {
            state: outcome.state,
        })
        .await;
        self.report.text = std::mem::take(&mut self.recorder.text);
        self.report.state = outcome.state;
        self.report.failure = failure;
        self.report.stderr = outcome.stderr;
        self.hold.release().await?;
        Ok(self.report)
    }
}

fn with_next_step(failure: Failure, report: &TurnReport) -> Failure {
    let id = &report.session;
    let hint = match failure.class {
        FailureClass::NotStarted => "`segue doctor` shows which agents can be started".to_owned(),
        FailureClass::TimedOut => {
            format!("try again with a longer --open-timeout: segue chat --resume {id} \"…\"")
        }
        FailureClass::Crashed
        | FailureClass::Agent
        | FailureClass::NotUnderstood
        | FailureClass::SessionUnknown => {
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
async fn until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
