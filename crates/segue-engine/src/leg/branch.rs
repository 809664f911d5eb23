//! Branches: the agent itself branches a new native session off from one that contains the turns of a session, and
//! further turns.

use std::ops::ControlFlow;

use segue_agents::{BranchPoint, OpenedConnection};
use segue_catalog::{NativeSession, NativeTurn, ReadStart, RecordEvent};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::reconcile::native_prefix_len;
use segue_core::session::{
    Decision, Leg, Message, OpenReason, Role, Session, SessionSnapshot, Turn, TurnState,
    can_branch_leg,
};
use segue_store::StoreError;

use crate::TurnError;
use crate::leg::open_leg::{OpenLeg, OpenLegRequest, guard_decisions, with_transport_decision};
use crate::native::storage_provider;
use crate::turn::TurnRunner;

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

impl TurnRunner {
    /// Finds the point from which a native session can branch off that contains exactly the turns before the prompt.
    /// `None` if the agent cannot branch, or if the point is in doubt.
    pub(crate) async fn find_branch_source(
        &self,
        snapshot: &SessionSnapshot,
        provider: &ProviderId,
    ) -> Result<Option<BranchSource>, TurnError> {
        let session = &snapshot.session;
        let is_sent = |turn: &&Turn| turn.sent;
        let last = snapshot.recent_turns.iter().rev().find(is_sent);
        let Some(last) = last.filter(|turn| turn.state == TurnState::Finished) else {
            return Ok(None);
        };
        let can_branch = self.context.agents.get(provider)?.can_branch();
        if !can_branch || !self.context.natives.can_read_sessions(provider) {
            return Ok(None);
        }
        let store = &self.context.store;
        let mut prompts = Vec::new();
        for turn in store.turns_up_to(last.id).await?.iter().filter(is_sent) {
            let messages = store.messages(turn.id).await?;
            prompts.push(messages.first().map_or(String::new(), Message::plain_text));
        }
        for (owner, leg) in self.list_legs_with_turn(session, last).await? {
            let Some(native) = leg.native_id.as_ref().filter(|_| leg.provider == *provider) else {
                continue;
            };
            let point = self.find_branch_point(session, provider, native, &prompts);
            if let Some(point) = point.await {
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
    ) -> Result<Vec<(SessionId, Leg)>, TurnError> {
        let mut candidates = Vec::new();
        let mut next = Some((session.id.clone(), session.forked_from.clone()));
        for _ in 0..MAX_FORK_ANCESTORS {
            let Some((id, forked_from)) = next.take() else {
                break;
            };
            let legs = self.context.store.legs(&id).await?.into_iter().rev();
            candidates.extend(legs.filter(can_branch_leg).map(|leg| (id.clone(), leg)));
            if let Some((origin, _)) = forked_from {
                let origin = self.context.store.session(&origin).await?;
                next = origin.map(|origin| (origin.id, origin.forked_from));
            }
        }
        let attempts = self.context.store.attempts(turn.id).await?;
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
        let natives = self
            .context
            .natives
            .lookup_natives(&qualified_id)
            .await
            .ok()?;
        let native = natives
            .into_iter()
            .find(|native| native.session.head.id == *id)?;
        let native = native.session;
        // A branch works in the directory of the native session that it comes from.
        if native.head.cwd.as_ref() != Some(&session.project.cwd) {
            return None;
        }
        let prompts = prompts.to_vec();
        self.context
            .natives
            .with_catalog(move |catalog| {
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
        opened: OpenedConnection,
        request: &OpenLegRequest<'_>,
        source: &BranchSource,
    ) -> Result<OpenLeg, StoreError> {
        let native_id = opened.connection.native_id().cloned();
        let leg = self.record_leg(request, native_id).await?;
        let (provider, turn, is_fork) = (request.provider, source.turn_number, source.is_fork);
        let branched = Decision::NativeBranched {
            provider: provider.clone(),
            turn,
            is_fork,
        };
        let decisions = guard_decisions(opened.guard_actions).chain([branched]);
        Ok(OpenLeg {
            leg,
            connection: opened.connection,
            open_mode: opened.open_mode,
            reason: OpenReason::Branched {
                provider: provider.clone(),
                turn,
                is_fork,
            },
            brief: None,
            decisions: with_transport_decision(
                opened.transport_fallback,
                provider,
                decisions.collect(),
            ),
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
