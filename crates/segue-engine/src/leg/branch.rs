//! Branches: the agent itself branches a new native session off from one that contains the turns of a session, and
//! further turns.

use std::ops::ControlFlow;

use segue_catalog::{Catalog, NativeSession, NativeTurn, ReadStart, RecordEvent};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::reconcile::native_prefix_len;
use segue_core::session::{Leg, Message, OpenReason, Role, Turn, TurnState, can_branch_leg};
use segue_providers::BranchPoint;

use crate::TurnError;
use crate::native::{read_native_outline, read_native_turns};
use crate::turn::TurnRun;

/// Maximum number of sessions to follow from a fork back to its origins.
const MAX_FORK_ANCESTORS: usize = 20;

impl TurnRun<'_> {
    /// Finds the point from which a native session can branch off that contains exactly the turns before the prompt.
    /// Returns it with the reason for the branch. `None` if the agent cannot branch, or if the point is in doubt.
    pub(crate) async fn find_branch_source(
        &self,
        provider: &ProviderId,
    ) -> Result<Option<(BranchPoint, OpenReason)>, TurnError> {
        let (context, store) = (&self.runner.context, self.store());
        let session = &self.snapshot.session;
        let is_sent = |turn: &&Turn| turn.sent;
        let last = self.snapshot.recent_turns.iter().rev().find(is_sent);
        let Some(last) = last.filter(|turn| turn.state == TurnState::Finished) else {
            return Ok(None);
        };
        let can_branch = context.agents.get(provider)?.can_branch();
        if !can_branch || !context.natives.can_read_sessions(provider) {
            return Ok(None);
        }
        let mut prompts = Vec::new();
        for turn in store.turns_up_to(last.id).await?.iter().filter(is_sent) {
            let messages = store.messages(turn.id).await?;
            prompts.push(messages.first().map_or(String::new(), Message::plain_text));
        }
        for (owner, leg) in self.list_legs_with_turn(last).await? {
            let Some(native) = leg.native_id.as_ref().filter(|_| leg.provider == *provider) else {
                continue;
            };
            let point = self.find_branch_point(provider, native, &prompts);
            if let Some(point) = point.await {
                let reason = OpenReason::Branched {
                    provider: provider.clone(),
                    turn: last.number,
                    is_fork: owner != session.id,
                };
                return Ok(Some((point, reason)));
            }
        }
        Ok(None)
    }

    /// Returns the legs whose native sessions may contain a turn, the likeliest first, each with its session: the leg
    /// of the turn's last attempt, or all legs if the turn was made outside segue.
    async fn list_legs_with_turn(&self, turn: &Turn) -> Result<Vec<(SessionId, Leg)>, TurnError> {
        let (store, session) = (self.store(), &self.snapshot.session);
        let mut candidates = Vec::new();
        let mut next = Some((session.id.clone(), session.forked_from.clone()));
        for _ in 0..MAX_FORK_ANCESTORS {
            let Some((id, forked_from)) = next.take() else {
                break;
            };
            let legs = store.legs(&id).await?.into_iter().rev();
            candidates.extend(legs.filter(can_branch_leg).map(|leg| (id.clone(), leg)));
            if let Some((origin, _)) = forked_from {
                let origin = store.session(&origin).await?;
                next = origin.map(|origin| (origin.id, origin.forked_from));
            }
        }
        if let Some(attempt) = store.attempts(turn.id).await?.last() {
            candidates.retain(|(_, leg)| leg.id == attempt.leg);
        }
        Ok(candidates)
    }

    /// Finds the point in a native session at which the turns with these prompts end. `None` if the native session is
    /// missing, archived or in another directory, or if the point is in doubt.
    async fn find_branch_point(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        prompts: &[String],
    ) -> Option<BranchPoint> {
        let natives = &self.runner.context.natives;
        let native = natives.find_native(provider, id).await.ok()??.session;
        // A branch works in the directory of the native session that it comes from.
        if native.head.cwd.as_ref() != Some(&self.snapshot.session.project.cwd) {
            return None;
        }
        let prompts = prompts.to_vec();
        let reading = natives.with_catalog(move |catalog| {
            if catalog.is_only_archived(&native) {
                return None;
            }
            read_branch_point(catalog, &native, &prompts)
        });
        reading.await
    }
}

/// Finds the point in a native session at which the turns with these prompts end; `None` if the point is in doubt.
fn read_branch_point(
    catalog: &Catalog,
    native: &NativeSession,
    prompts: &[String],
) -> Option<BranchPoint> {
    let outline = read_native_outline(catalog, native).ok()?;
    if !outline.skipped.is_empty() {
        return None;
    }
    let mut native_prompts = Vec::with_capacity(outline.turns.len());
    read_native_turns(catalog, native, &outline, 0, &mut |_, turn| {
        let mut messages = turn.messages.iter();
        let prompt = messages.find(|message| message.role == Role::User);
        native_prompts.push(prompt.map_or(String::new(), Message::plain_text));
        ControlFlow::Continue(())
    })
    .ok()?;
    let count = native_prefix_len(&native_prompts, prompts)?;
    let last = outline.turns.get(count - 1)?;
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
fn last_record_key(catalog: &Catalog, native: &NativeSession, turn: &NativeTurn) -> Option<String> {
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
