//! A single attempt at a turn: opens a leg, reports it, and sends the prompt.

use segue_core::session::{Decision, DecisionKind, FailureClass, Opened, TurnState};

use super::{Outcome, Run, Tried, stopped};
use crate::open::{CannotOpen, OpenLeg, OpenTerms};
use crate::{EngineError, Stop, TurnEvent};

impl Run<'_> {
    /// Opens a leg, sends the prompt, and processes the agent's events until the turn ends.
    pub(super) async fn attempt(&mut self) -> Result<Tried, EngineError> {
        self.heard = false;
        let turns = self.engine.store.turns(&self.session.id).await?;
        let before = turns
            .split_last()
            .map_or(turns.as_slice(), |(_, before)| before);
        let reminded = self.engine.reminded(before, &self.request.prompt).await?;
        let terms = OpenTerms {
            request: &self.request,
            sends: reminded.as_deref().unwrap_or(&self.request.prompt),
            turn: self.turn,
            provider: &self.report.provider,
            permissions: self.permissions,
            timeouts: self.timeouts,
            model: self.model.as_deref(),
            why_again: self.course.why_again.as_deref(),
            refused: self.course.refused.as_deref(),
        };
        let opening = self.engine.open(&terms, &self.session, self.hold, before);
        let opened = tokio::select! {
            opened = opening => Some(opened),
            () = stopped(self.stop.clone(), Stop::Ask) => None,
        };
        let mut leg = match opened {
            Some(Ok(leg)) => leg,
            Some(Err(CannotOpen::Agent(error))) => {
                let failure = error.failure(self.now());
                return Ok(Tried::Over(Outcome::failed(failure)));
            }
            Some(Err(CannotOpen::Engine(error))) => {
                self.hold.agent_is_gone().await;
                return Err(error);
            }
            None => {
                self.hold.agent_is_gone().await;
                return Ok(Tried::Over(Outcome::ended(TurnState::Cancelled)));
            }
        };
        // The rejected text, which is sent again, contains the added messages already.
        if leg.opened.goes_on() && terms.refused.is_none() {
            self.remind(&mut leg, before, reminded).await?;
        }
        self.leg = Some(leg.leg.id);
        self.opened_leg = Some(leg.leg.clone());
        // If no earlier turn was sent, a replacement would have no history.
        let replaceable = leg.opened.goes_on() && before.iter().any(|turn| turn.sent);
        let noted = self.note_leg(&mut leg).await;
        let mut conversation = leg.conversation;
        let outcome = match noted {
            Ok(()) => {
                self.send(conversation.as_mut(), leg.leg.id, &leg.prompt)
                    .await
            }
            Err(error) => Err(error),
        };
        self.part(conversation, &outcome).await?;
        let outcome = outcome?;
        match outcome.failure {
            Some(failure)
                if failure.class == FailureClass::SessionUnknown
                    && replaceable
                    && !self.course.replaced
                    && !self.heard
                    && !self.request.strict =>
            {
                Ok(Tried::Unknown(failure))
            }
            failure => Ok(Tried::Over(Outcome { failure, ..outcome })),
        }
    }

    // Takes `&mut OpenLeg` because a conversation is not `Sync`: a shared reference would prevent the turn's future
    // from being `Send`.
    async fn note_leg(&mut self, leg: &mut OpenLeg) -> Result<(), EngineError> {
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
        if let Some(why) = &leg.fell_back {
            self.decide(Decision::new(DecisionKind::Provider, why.as_str()))
                .await?;
        }
        for decision in std::mem::take(&mut leg.news) {
            self.decide(decision).await?;
        }
        for line in &leg.protected {
            self.protected(line).await?;
        }
        if leg.branched {
            self.decide(Decision::new(DecisionKind::Opened, leg.why.as_str()))
                .await?;
        }
        // Only a new native session with a brief is reported. Other modes are expected.
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
}
