//! Reuse of native sessions that already contain the turns of a session: a leg that ended is reopened, or the agent
//! itself branches a new native session off from one that contains further turns.

use std::ops::ControlFlow;

use segue_agents::{BranchPoint, OpenedConnection};
use segue_catalog::{NativeSession, NativeTurn, ReadStart, RecordEvent};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::reconcile::native_prefix_len;
use segue_core::session::{
    Decision, DecisionKind, Leg, LegEnd, Role, Session, Turn, TurnState, can_branch_leg,
    can_reopen_leg, can_resume_leg,
};
use segue_store::{Lease, NewLeg, StoreError};

use crate::leg::open_leg::{OpenLeg, OpenLegRequest};
use crate::library::conversations::storage_provider;
use crate::session::lease::LeaseGuard;
use crate::{Engine, EngineError};

/// A point in a native session from which a new one can branch off.
pub(crate) struct BranchSource {
    pub(crate) point: BranchPoint,
    /// Number of the recorded turn that the point follows.
    turn_number: u32,
    /// Whether the native session belongs to another session, from which this one was forked.
    is_fork: bool,
}

/// Maximum number of sessions to follow from a fork back to its origins.
const MAX_FORK_ANCESTORS: usize = 20;

impl Engine {
    /// Reopens a leg that ended, if the head is back at its tip and the newest leg cannot run the next prompt. The
    /// caller must report the decision, and apply the turns that were made in the native session since then. `None` if
    /// no leg is reopened.
    pub(crate) async fn reopen_left_leg(
        &self,
        lease: &Lease,
        session: &Session,
        provider: &ProviderId,
    ) -> Result<Option<Decision>, EngineError> {
        let chain = self.store.turns(&session.id).await?;
        let legs = self.store.legs(&session.id).await?;
        let (chain, legs) = (chain.as_slice(), legs.as_slice());
        let last = legs.last();
        if last.is_some_and(|leg| leg.provider == *provider && can_resume_leg(leg, chain)) {
            return Ok(None);
        }
        // A native session that was reopened before has received turns since then, so only its newest leg counts.
        let is_newest = |leg: &Leg| {
            let is_same_native = |later: &Leg| {
                (&later.provider, &later.native_id) == (&leg.provider, &leg.native_id)
            };
            !legs
                .iter()
                .any(|later| later.number > leg.number && is_same_native(later))
        };
        let is_reopenable =
            |leg: &&Leg| leg.provider == *provider && can_reopen_leg(leg, chain) && is_newest(leg);
        let Some(leg) = legs.iter().rev().find(is_reopenable) else {
            return Ok(None);
        };
        let native_id = leg.native_id.as_ref();
        if !self.has_answered_tip(leg, legs).await?
            || !self.is_native_free(provider, native_id).await
        {
            return Ok(None);
        }
        let reason = match last {
            Some(last) if last.provider != *provider => LegEnd::Handoff,
            Some(_) | None => LegEnd::HeadMoved,
        };
        let at = (self.environment.now)();
        match self.store.reopen_leg(lease, leg.id, reason, at).await {
            // A different session uses the native session.
            Err(StoreError::NativeAttached(_)) => return Ok(None),
            outcome => outcome?,
        };
        let id = native_id.map_or("", NativeId::as_str);
        let text = format!(
            "reopened native session {provider}:{id}, which contains all turns of {}",
            session.id
        );
        Ok(Some(Decision::new(DecisionKind::Opened, text)))
    }

    /// Returns `true` if the last attempt at the tip of a leg ran on its native session, or if the tip has no attempts.
    /// After a failure, another agent may have answered instead.
    async fn has_answered_tip(&self, leg: &Leg, legs: &[Leg]) -> Result<bool, EngineError> {
        let Some(tip) = leg.tip else {
            return Ok(false);
        };
        let attempts = self.store.attempts(tip).await?;
        let last_leg_id = attempts.last().map(|attempt| attempt.leg);
        let last_leg = legs.iter().find(|leg| Some(leg.id) == last_leg_id);
        Ok(last_leg_id.is_none()
            || last_leg.is_some_and(|last_leg| last_leg.native_id == leg.native_id))
    }

    async fn is_native_free(&self, provider: &ProviderId, native: Option<&NativeId>) -> bool {
        match native {
            Some(native) => self
                .ensure_no_foreign_process(provider, native)
                .await
                .is_ok(),
            None => false,
        }
    }

    /// Finds the point from which a native session can branch off that contains exactly `earlier_turns`. `None` if the
    /// agent cannot branch, or if the point is in doubt.
    pub(crate) async fn find_branch_source(
        &self,
        session: &Session,
        provider: &ProviderId,
        earlier_turns: &[Turn],
    ) -> Result<Option<BranchSource>, EngineError> {
        let sent: Vec<&Turn> = earlier_turns.iter().filter(|turn| turn.sent).collect();
        let Some(last) = sent.last().filter(|turn| turn.state == TurnState::Finished) else {
            return Ok(None);
        };
        if !self.agent(provider)?.can_branch() || !self.can_read_sessions(provider) {
            return Ok(None);
        }
        let mut prompts = Vec::with_capacity(sent.len());
        for turn in &sent {
            let messages = self.store.messages(turn.id).await?;
            prompts.push(
                messages
                    .first()
                    .map_or(String::new(), segue_core::session::Message::plain_text),
            );
        }
        for (owner, leg) in self.list_legs_with_turn(session, last).await? {
            let Some(native) = leg.native_id.as_ref().filter(|_| leg.provider == *provider) else {
                continue;
            };
            if let Some(point) = self
                .find_branch_point(session, provider, native, &prompts)
                .await
            {
                return Ok(Some(BranchSource {
                    point,
                    turn_number: last.number,
                    is_fork: owner != session.id,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the legs whose native sessions may contain a turn, the likeliest first, each with its session: the leg
    /// of the turn's last attempt, or all legs if the turn was made outside segue.
    async fn list_legs_with_turn(
        &self,
        session: &Session,
        turn: &Turn,
    ) -> Result<Vec<(SessionId, Leg)>, EngineError> {
        let mut candidates = Vec::new();
        let mut next = Some((session.id.clone(), session.forked_from.clone()));
        for _ in 0..MAX_FORK_ANCESTORS {
            let Some((id, forked_from)) = next.take() else {
                break;
            };
            let legs = self.store.legs(&id).await?.into_iter().rev();
            candidates.extend(legs.filter(can_branch_leg).map(|leg| (id.clone(), leg)));
            if let Some((origin, _)) = forked_from {
                let origin = self.store.session(&origin).await?;
                next = origin.map(|origin| (origin.id, origin.forked_from));
            }
        }
        let attempts = self.store.attempts(turn.id).await?;
        if let Some(attempt) = attempts.last() {
            candidates.retain(|(_, leg)| leg.id == attempt.leg);
        }
        Ok(candidates)
    }

    /// Finds the point in a native session at which the turns with these prompts end. `None` if the native session is
    /// missing, archived or in another directory, or if the point is in doubt.
    async fn find_branch_point(
        &self,
        session: &Session,
        provider: &ProviderId,
        id: &NativeId,
        prompts: &[String],
    ) -> Option<BranchPoint> {
        let qualified_id = format!("{}:{id}", storage_provider(provider));
        let natives = self.lookup_natives(&qualified_id).await.ok()?;
        let native = natives
            .into_iter()
            .find(|native| native.session.head.id == *id)?;
        let native = native.session;
        // A branch works in the directory of the native session that it comes from.
        if native.head.cwd.as_ref() != Some(&session.project.cwd) {
            return None;
        }
        let prompts = prompts.to_vec();
        self.with_catalog(move |catalog| {
            if catalog.is_only_archived(&native) {
                return None;
            }
            read_branch_point(catalog, &native, &prompts)
        })
        .await
    }

    /// Records a leg on a branch, which runs the session from now on.
    pub(crate) async fn start_branched_leg(
        &self,
        opening: OpenedConnection,
        leg_request: &OpenLegRequest<'_>,
        guard: &LeaseGuard,
        source: &BranchSource,
    ) -> Result<OpenLeg, EngineError> {
        let new_leg = NewLeg {
            provider: leg_request.provider.clone(),
            native_id: opening.connection.native_id().cloned(),
            at: (self.environment.now)(),
        };
        let leg = self.store.open_leg(&guard.lease, new_leg).await?;
        let (provider, turn) = (leg_request.provider, source.turn_number);
        let reason = if source.is_fork {
            format!("{provider} branched off from its native session after turn {turn}")
        } else {
            format!("{provider} rewound its native session to turn {turn}")
        };
        Ok(OpenLeg {
            leg,
            connection: opening.connection,
            open_mode: opening.open_mode,
            reason,
            branched: true,
            prompt: leg_request.chat.prompt.clone(),
            guard_actions: opening.guard_actions,
            transport_fallback: opening.transport_fallback,
            brief_decisions: Vec::new(),
        })
    }
}

/// Finds the point in a native session at which the turns with these prompts end; `None` if the point is in doubt.
fn read_branch_point(
    catalog: &segue_catalog::Catalog,
    native: &NativeSession,
    prompts: &[String],
) -> Option<BranchPoint> {
    let mut records = catalog.open_records(native, &ReadStart::Beginning).ok()?;
    let outlined = segue_catalog::read_outline(records.as_mut()).ok()?;
    if !records.skipped().is_empty() {
        return None;
    }
    let turns = outlined.into_turns();
    let mut native_prompts = Vec::with_capacity(turns.len());
    let mut records = catalog.open_records(native, &ReadStart::Beginning).ok()?;
    segue_catalog::read_turns_from(records.as_mut(), &turns, 0, &mut |_, turn| {
        let mut user_messages = turn
            .messages
            .iter()
            .filter(|message| message.role == Role::User);
        native_prompts.push(
            user_messages
                .next()
                .map_or(String::new(), segue_core::session::Message::plain_text),
        );
        ControlFlow::Continue(())
    })
    .ok()?;
    let count = native_prefix_len(&native_prompts, prompts)?;
    let last = turns.get(count - 1)?;
    if last.state != TurnState::Finished {
        return None;
    }
    Some(BranchPoint {
        native_id: native.head.id.clone(),
        turn_count: count,
        last_record_id: last_record_key(catalog, native, last),
        last_prompt: native_prompts.get(count - 1)?.clone(),
    })
}

/// Returns the key of the last record of a turn; `None` if its records have no keys or cannot be read.
fn last_record_key(
    catalog: &segue_catalog::Catalog,
    native: &NativeSession,
    turn: &NativeTurn,
) -> Option<String> {
    let start = turn
        .after
        .clone()
        .map_or(ReadStart::Beginning, ReadStart::After);
    let mut records = catalog.open_records(native, &start).ok()?;
    let mut last_key = None;
    while let Some(record) = records.next().ok()? {
        for event in record.events {
            match event {
                RecordEvent::Prompt(message) | RecordEvent::Message(message) => {
                    last_key = message.key.or(last_key);
                }
                RecordEvent::Anchor(key) => last_key = Some(key),
                RecordEvent::Rewind(_)
                | RecordEvent::Compacted(_)
                | RecordEvent::RequestUsage { .. }
                | RecordEvent::TurnEnded(_)
                | RecordEvent::TitleChanged { .. } => {}
            }
        }
        if record.mark == turn.until {
            return last_key;
        }
    }
    None
}

#[cfg(test)]
mod tests;
