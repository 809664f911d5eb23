//! Moving a session's head: what that leaves behind, and what would be.

use std::ops::ControlFlow;

use segue_catalog::NativeSession;
use segue_core::{Decision, Effects, Leg, Message, Session, Title, Turn, effects, plan_revert};
use segue_store::Lease;

use crate::hold::held;
use crate::pieces::joined;
use crate::{Engine, EngineError};

/// What a revert would do.
#[derive(Debug, Clone)]
pub struct RevertPlan {
    /// How many turns there are.
    pub turns: u32,
    /// The turns that would not count any more, oldest first.
    pub dropped: Vec<DroppedTurn>,
    /// What those did to files, which would stay as they are.
    pub effects: Effects,
}

/// A turn that a revert drops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedTurn {
    /// Its number.
    pub n: u32,
    /// The beginning of its prompt.
    pub title: Title,
}

/// Turns that an undo left behind: they were made after the revert that it took back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetAside {
    /// How many.
    pub turns: u32,
    /// The move of the head that left them, before which they can be forked.
    pub by_move: u32,
}

impl Engine {
    /// What a revert to turn `to` would do; nothing is changed.
    pub async fn preview_revert(
        &self,
        session: &Session,
        to: i64,
    ) -> Result<RevertPlan, EngineError> {
        if let Some(holder) = self.living_holder(&session.id).await? {
            return Err(held(&session.id, holder));
        }
        let turns = self.store.turns(&session.id).await?;
        let count = count_of(&turns);
        plan_revert(count, to)?;
        let mut said = Vec::new();
        for turn in turns.iter().filter(|turn| i64::from(turn.n) > to) {
            said.push((turn.n, joined(self.store.messages(turn.id).await?)));
        }
        Ok(plan(count, said, &session.project.cwd))
    }

    /// The same of a native session.
    pub fn preview_native_revert(
        &self,
        native: &NativeSession,
        to: i64,
    ) -> Result<RevertPlan, EngineError> {
        let survey = self.survey(native)?;
        let count = u32::try_from(survey.turns.len()).unwrap_or(u32::MAX);
        plan_revert(count, to)?;
        let mut said = Vec::new();
        let from = usize::try_from(to).unwrap_or(0);
        self.replay(native, &survey, from, &mut |index, turn| {
            let n = u32::try_from(index + 1).unwrap_or(u32::MAX);
            said.push((n, turn.messages));
            ControlFlow::Continue(())
        })?;
        Ok(plan(
            count,
            said,
            native.head.cwd.as_deref().unwrap_or_default(),
        ))
    }

    /// What some turns did to files.
    pub(crate) async fn effects_of(
        &self,
        turns: impl IntoIterator<Item = &Turn>,
        session: &Session,
    ) -> Result<Effects, EngineError> {
        let mut said = Vec::new();
        for turn in turns {
            said.extend(joined(self.store.messages(turn.id).await?));
        }
        Ok(effects(&said, &session.project.cwd))
    }

    /// The first and the last turn that each leg carried, of those that lead to the head.
    pub(crate) async fn carried_by(
        &self,
        legs: &[Leg],
        session: &Session,
    ) -> Result<Vec<Option<(u32, u32)>>, EngineError> {
        let mut carried: Vec<Option<(u32, u32)>> = vec![None; legs.len()];
        for turn in self.store.turns(&session.id).await? {
            let attempts = self.store.attempts(turn.id).await?;
            let Some(last) = attempts.last() else {
                continue;
            };
            let index = legs.iter().position(|leg| leg.id == last.leg);
            if let Some(turns) = index.and_then(|index| carried.get_mut(index)) {
                let first = turns.map_or(turn.n, |(first, _)| first);
                *turns = Some((first, turn.n));
            }
        }
        Ok(carried)
    }

    /// Once the head has moved: a leg that was left, and is where the head is, goes on.
    pub(crate) async fn follow_head(
        &self,
        lease: &Lease,
        session: Session,
        decisions: &mut Vec<Decision>,
    ) -> Result<Session, EngineError> {
        let taken = self.take_up_again(lease, &session, &session.provider);
        let Some(decision) = taken.await? else {
            return Ok(session);
        };
        let at = (self.world.now)();
        self.store.note(lease, &decision, at).await?;
        decisions.push(decision);
        self.existing(&session.id).await
    }
}

fn plan(turns: u32, said: Vec<(u32, Vec<Message>)>, cwd: &str) -> RevertPlan {
    let effects = effects(said.iter().flat_map(|(_, messages)| messages), cwd);
    let dropped = said.into_iter().map(|(n, messages)| DroppedTurn {
        n,
        title: Title::from_prompt(&messages.first().map_or(String::new(), Message::words)),
    });
    RevertPlan {
        turns,
        dropped: dropped.collect(),
        effects,
    }
}

pub(crate) fn count_of(turns: &[Turn]) -> u32 {
    u32::try_from(turns.len()).unwrap_or(u32::MAX)
}
