//! Moves of a session's head: the turns that they drop, and previews.

use std::ops::ControlFlow;

use segue_catalog::NativeSession;
use segue_core::session::{Effects, Message, Session, Title, Turn, collect_effects, plan_revert};

use crate::SessionError;
use crate::native::{read_native_outline, read_native_turns};
use crate::session::SessionEditor;
use crate::session::lease::leased_error;
use crate::turn::message_chunks::merge_chunks;

/// Preview of a revert.
#[derive(Debug, Clone)]
pub struct RevertPlan {
    /// Number of turns before the revert.
    pub turns: u32,
    /// Turns that the revert would drop, oldest first.
    pub dropped: Vec<DroppedTurn>,
    /// Changes that the dropped turns made to files. A revert does not undo them.
    pub effects: Effects,
}

/// A turn that a revert drops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedTurn {
    /// Number of the turn.
    pub n: u32,
    /// Title, made from the beginning of the prompt.
    pub title: Title,
}

/// Turns that an undo detached, because they were made after the revert that it undid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetachedTurns {
    /// Number of turns.
    pub turns: u32,
    /// Number of the head move that detached them. A fork of the session before that move contains them.
    pub head_move: u32,
}

impl SessionEditor {
    /// Previews a revert to turn `to`, without changing anything. Fails if the session is in use.
    pub async fn preview_revert(
        &self,
        session: &Session,
        to: i64,
    ) -> Result<RevertPlan, SessionError> {
        if let Some(holder) = self.context.leases.live_lease_holder(&session.id).await? {
            return Err(leased_error(&session.id, holder).into());
        }
        let turns = self.context.store.turns(&session.id).await?;
        let count = count_turns(&turns);
        plan_revert(count, to)?;
        let mut turn_messages = Vec::new();
        for turn in turns.iter().filter(|turn| i64::from(turn.number) > to) {
            let messages = self.context.store.messages(turn.id).await?;
            turn_messages.push((turn.number, merge_chunks(messages)));
        }
        let cwd = &session.project.cwd;
        Ok(build_revert_plan(count, turn_messages, cwd))
    }

    /// Previews a revert of a native session to turn `to`, without changing anything.
    pub async fn preview_native_revert(
        &self,
        native: &NativeSession,
        to: i64,
    ) -> Result<RevertPlan, SessionError> {
        let native = native.clone();
        let reading = self.context.natives.with_catalog(move |catalog| {
            let outline = read_native_outline(catalog, &native)?;
            let count = u32::try_from(outline.turns.len()).unwrap_or(u32::MAX);
            plan_revert(count, to)?;
            let mut turn_messages = Vec::new();
            let from = usize::try_from(to).unwrap_or(0);
            read_native_turns(catalog, &native, &outline, from, &mut |index, turn| {
                let n = u32::try_from(index + 1).unwrap_or(u32::MAX);
                turn_messages.push((n, turn.messages));
                ControlFlow::Continue(())
            })?;
            let cwd = native.head.cwd.as_deref().unwrap_or_default();
            Ok(build_revert_plan(count, turn_messages, cwd))
        });
        reading.await
    }

    /// Collects the changes that turns made to files.
    pub(crate) async fn collect_turn_effects(
        &self,
        turns: &[&Turn],
        session: &Session,
    ) -> Result<Effects, SessionError> {
        let mut messages = Vec::new();
        for turn in turns {
            messages.extend(merge_chunks(self.context.store.messages(turn.id).await?));
        }
        Ok(collect_effects(&messages, &session.project.cwd))
    }
}

fn build_revert_plan(turns: u32, turn_messages: Vec<(u32, Vec<Message>)>, cwd: &str) -> RevertPlan {
    let effects = collect_effects(turn_messages.iter().flat_map(|(_, messages)| messages), cwd);
    let dropped = turn_messages.into_iter().map(|(n, messages)| DroppedTurn {
        n,
        title: Title::from_prompt(&messages.first().map_or(String::new(), Message::plain_text)),
    });
    RevertPlan {
        turns,
        dropped: dropped.collect(),
        effects,
    }
}

pub(crate) fn count_turns(turns: &[Turn]) -> u32 {
    u32::try_from(turns.len()).unwrap_or(u32::MAX)
}
