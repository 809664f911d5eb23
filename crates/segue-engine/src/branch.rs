//! Reuse of native sessions that already contain the turns of a session: a leg that ended is reopened, or the agent
//! itself branches a new native session off from one that contains further turns.

use std::ops::ControlFlow;

use segue_agents::{NativePoint, Opening};
use segue_catalog::{Event, NativeSession, NativeTurn, Start};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::reconcile::native_turns;
use segue_core::session::{
    Decision, DecisionKind, Leg, LegEnd, Role, Session, Turn, TurnState, can_be_branched,
    can_be_taken_up, can_go_on,
};
use segue_store::{Lease, NewLeg, StoreError};

use crate::hold::Hold;
use crate::native::keeper;
use crate::open::{OpenLeg, OpenTerms};
use crate::{Engine, EngineError};

/// A point in a native session from which a new one can branch off.
pub(crate) struct Branching {
    pub(crate) point: NativePoint,
    /// Number of the recorded turn that the point follows.
    turn: u32,
    /// Whether the native session belongs to another session, from which this one was forked.
    forked: bool,
}

/// Maximum number of sessions to follow from a fork back to its origins.
const FORKS: usize = 20;

impl Engine {
    /// Reopens a leg that ended, if the head is back at its tip and the newest leg cannot run the next prompt. The
    /// caller must report the decision, and apply the turns that were made in the native session since then. `None` if
    /// no leg is reopened.
    pub(crate) async fn take_up_again(
        &self,
        lease: &Lease,
        session: &Session,
        provider: &ProviderId,
    ) -> Result<Option<Decision>, EngineError> {
        let chain = self.store.turns(&session.id).await?;
        let legs = self.store.legs(&session.id).await?;
        let (chain, legs) = (chain.as_slice(), legs.as_slice());
        let last = legs.last();
        if last.is_some_and(|leg| leg.provider == *provider && can_go_on(leg, chain)) {
            return Ok(None);
        }
        // A native session that was reopened before has received turns since then, so only its newest leg counts.
        let is_newest = |leg: &Leg| {
            let same = |later: &Leg| {
                (&later.provider, &later.native_id) == (&leg.provider, &leg.native_id)
            };
            !legs.iter().any(|later| later.n > leg.n && same(later))
        };
        let fits =
            |leg: &&Leg| leg.provider == *provider && can_be_taken_up(leg, chain) && is_newest(leg);
        let Some(leg) = legs.iter().rev().find(fits) else {
            return Ok(None);
        };
        let native = leg.native_id.as_ref();
        if !self.answered(leg, legs).await? || !self.is_free(provider, native).await {
            return Ok(None);
        }
        let why = match last {
            Some(last) if last.provider != *provider => LegEnd::Handoff,
            Some(_) | None => LegEnd::HeadMoved,
        };
        let at = (self.world.now)();
        match self.store.take_up_leg(lease, leg.id, why, at).await {
            // A different session uses the native session.
            Err(StoreError::Carried(_)) => return Ok(None),
            outcome => outcome?,
        };
        let id = native.map_or("", NativeId::as_str);
        let text = format!(
            "asking {provider} to go on with its own session {id}, which knows all turns of {}",
            session.id
        );
        Ok(Some(Decision::new(DecisionKind::Opened, text)))
    }

    /// Returns `true` if the last attempt at the tip of a leg ran on its native session, or if the tip has no attempts.
    /// After a failure, another agent may have answered instead.
    async fn answered(&self, leg: &Leg, legs: &[Leg]) -> Result<bool, EngineError> {
        let Some(tip) = leg.tip else {
            return Ok(false);
        };
        let attempts = self.store.attempts(tip).await?;
        let last = attempts.last().map(|attempt| attempt.leg);
        let on = legs.iter().find(|leg| Some(leg.id) == last);
        Ok(last.is_none() || on.is_some_and(|on| on.native_id == leg.native_id))
    }

    async fn is_free(&self, provider: &ProviderId, native: Option<&NativeId>) -> bool {
        match native {
            Some(native) => self.refuse_strangers_in(provider, native).await.is_ok(),
            None => false,
        }
    }

    /// Finds the point from which a native session can branch off that contains exactly the turns `before`. `None` if
    /// the agent cannot branch, or if the point is in doubt.
    pub(crate) async fn branching(
        &self,
        session: &Session,
        provider: &ProviderId,
        before: &[Turn],
    ) -> Result<Option<Branching>, EngineError> {
        let sent: Vec<&Turn> = before.iter().filter(|turn| turn.sent).collect();
        let Some(last) = sent.last().filter(|turn| turn.state == TurnState::Finished) else {
            return Ok(None);
        };
        if !self.agent(provider)?.branches() || !self.reads(provider) {
            return Ok(None);
        }
        let mut prompts = Vec::with_capacity(sent.len());
        for turn in &sent {
            let messages = self.store.messages(turn.id).await?;
            prompts.push(
                messages
                    .first()
                    .map_or(String::new(), segue_core::session::Message::words),
            );
        }
        for (owner, leg) in self.legs_with(session, last).await? {
            let Some(native) = leg.native_id.as_ref().filter(|_| leg.provider == *provider) else {
                continue;
            };
            if let Some(point) = self.point(session, provider, native, &prompts).await {
                return Ok(Some(Branching {
                    point,
                    turn: last.n,
                    forked: owner != session.id,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the legs whose native sessions may contain a turn, the likeliest first, each with its session: the leg
    /// of the turn's last attempt, or all legs if the turn was made outside segue.
    async fn legs_with(
        &self,
        session: &Session,
        turn: &Turn,
    ) -> Result<Vec<(SessionId, Leg)>, EngineError> {
        let mut all = Vec::new();
        let mut next = Some((session.id.clone(), session.forked_from.clone()));
        for _ in 0..FORKS {
            let Some((id, from)) = next.take() else {
                break;
            };
            let legs = self.store.legs(&id).await?.into_iter().rev();
            all.extend(legs.filter(can_be_branched).map(|leg| (id.clone(), leg)));
            if let Some((origin, _)) = from {
                let origin = self.store.session(&origin).await?;
                next = origin.map(|origin| (origin.id, origin.forked_from));
            }
        }
        let attempts = self.store.attempts(turn.id).await?;
        if let Some(attempt) = attempts.last() {
            all.retain(|(_, leg)| leg.id == attempt.leg);
        }
        Ok(all)
    }

    /// Finds the point in a native session at which the turns with these prompts end. `None` if the native session is
    /// missing, archived or in another directory, or if the point is in doubt.
    async fn point(
        &self,
        session: &Session,
        provider: &ProviderId,
        id: &NativeId,
        prompts: &[String],
    ) -> Option<NativePoint> {
        let named = format!("{}:{id}", keeper(provider));
        let found = self.lookup_native(&named).await.ok()?;
        let native = found
            .into_iter()
            .find(|native| native.session.head.id == *id)?;
        let native = native.session;
        // A branch works in the directory of the native session that it comes from.
        if native.head.cwd.as_ref() != Some(&session.project.cwd) {
            return None;
        }
        let prompts = prompts.to_vec();
        self.with_catalog(move |catalog| {
            if catalog.only_archived(&native) {
                return None;
            }
            place(catalog, &native, &prompts)
        })
        .await
    }

    /// Records a leg on a branch, which runs the session from now on.
    pub(crate) async fn begin_branch(
        &self,
        opening: Opening,
        terms: &OpenTerms<'_>,
        hold: &Hold,
        from: &Branching,
    ) -> Result<OpenLeg, EngineError> {
        let new = NewLeg {
            provider: terms.provider.clone(),
            native_id: opening.conversation.native_id().cloned(),
            at: (self.world.now)(),
        };
        let leg = self.store.open_leg(&hold.lease, new).await?;
        let (provider, turn) = (terms.provider, from.turn);
        let why = if from.forked {
            format!("{provider} branched off from its own session after turn {turn}")
        } else {
            format!("{provider} rewound its own session to turn {turn}")
        };
        Ok(OpenLeg {
            leg,
            conversation: opening.conversation,
            opened: opening.opened,
            why,
            branched: true,
            prompt: terms.request.prompt.clone(),
            protected: opening.protected,
            fell_back: opening.fell_back,
            news: Vec::new(),
        })
    }
}

/// Finds the point in a native session at which the turns with these prompts end; `None` if the point is in doubt.
fn place(
    catalog: &segue_catalog::Catalog,
    native: &NativeSession,
    prompts: &[String],
) -> Option<NativePoint> {
    let mut records = catalog.records(native, &Start::Beginning).ok()?;
    let outlined = segue_catalog::outline(records.as_mut()).ok()?;
    if !records.skipped().is_nothing() {
        return None;
    }
    let turns = outlined.into_turns();
    let mut sent = Vec::with_capacity(turns.len());
    let mut records = catalog.records(native, &Start::Beginning).ok()?;
    segue_catalog::replay(records.as_mut(), &turns, 0, &mut |_, turn| {
        let mut asked = turn.messages.iter().filter(|said| said.role == Role::User);
        sent.push(
            asked
                .next()
                .map_or(String::new(), segue_core::session::Message::words),
        );
        ControlFlow::Continue(())
    })
    .ok()?;
    let count = native_turns(&sent, prompts)?;
    let last = turns.get(count - 1)?;
    if last.state != TurnState::Finished {
        return None;
    }
    Some(NativePoint {
        id: native.head.id.clone(),
        turns: count,
        record: last_record(catalog, native, last),
        prompt: sent.get(count - 1)?.clone(),
    })
}

/// Returns the key of the last record of a turn; `None` if its records have no keys or cannot be read.
fn last_record(
    catalog: &segue_catalog::Catalog,
    native: &NativeSession,
    turn: &NativeTurn,
) -> Option<String> {
    let start = turn.after.clone().map_or(Start::Beginning, Start::After);
    let mut records = catalog.records(native, &start).ok()?;
    let mut last = None;
    while let Some(record) = records.next().ok()? {
        for event in record.events {
            match event {
                Event::Prompt(said) | Event::Said(said) => last = said.key.or(last),
                Event::Step(key) => last = Some(key),
                Event::Rewind(_)
                | Event::Compacted(_)
                | Event::Used { .. }
                | Event::Ended(_)
                | Event::Titled { .. } => {}
            }
        }
        if record.mark == turn.until {
            return last;
        }
    }
    None
}

#[cfg(test)]
mod tests;
