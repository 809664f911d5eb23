//! Application of changes in a native session to the record, with decisions that report them.

use segue_catalog::NativeTurn;
use segue_core::id::ProviderId;
use segue_core::reconcile::merge_interrupted_turn;
use segue_core::session::{
    Decision, InterruptedPrompt, Leg, LegEnd, NativeLoss, Session, Turn, TurnState,
    close_open_calls,
};
use segue_store::{AdoptedTurn, ContextLossState, Lease, NativeUpdate, StoreError, TurnEnding};

use super::{Divergence, NativeAlignment, ReconcileMode};
use crate::AccessError;
use crate::native::storage_provider;
use crate::reconcile::Reconciler;
use crate::reconcile::recovery::{interruption_decision, interruption_failure};
use crate::resolve::adopt::adopt_outside_turn;
use crate::session::lease::LeaseGuard;
use crate::turn::message_chunks::merge_chunks;

impl Reconciler {
    /// Applies the changes in a native session, as far as `mode` allows. Returns the decisions.
    pub(super) async fn apply_divergence(
        &self,
        session: &Session,
        guard: &LeaseGuard,
        mut divergence: Divergence,
        mode: ReconcileMode,
    ) -> Result<Vec<Decision>, AccessError> {
        let now = self.context.now();
        let provider = storage_provider(&divergence.leg.provider);
        let mut decisions = Vec::new();
        let mut update = NativeUpdate {
            leg: divergence.leg.id,
            interrupted_turn: None,
            rewound_to: None,
            turns: Vec::new(),
            at: now,
        };
        if let Some((turn, native)) = &divergence.interrupted {
            update.interrupted_turn = Some((
                turn.id,
                self.build_ending_from_native(turn, native.as_ref()).await?,
            ));
            decisions.push(recovery_decision(
                turn,
                native.as_ref(),
                &divergence.alignment,
                &provider,
            ));
        }
        let new_turns = std::mem::take(&mut divergence.new_turns).into_iter();
        let mut new_turns: Vec<AdoptedTurn> = new_turns
            .map(|turn| adopt_outside_turn(turn, now))
            .collect();
        match &divergence.alignment {
            NativeAlignment::Aligned => {
                if !new_turns.is_empty() {
                    decisions.push(Decision::OutsideTurnsAdded {
                        provider: provider.clone(),
                        turns: count_turns(&new_turns),
                    });
                }
                update.turns = std::mem::take(&mut new_turns);
            }
            NativeAlignment::Rewound { to, dropped } if mode != ReconcileMode::Other => {
                update.rewound_to = Some(to.id);
                decisions.push(Decision::NativeRewound {
                    provider: provider.clone(),
                    session: session.id.clone(),
                    to_turn: to.number,
                    dropped: u64::try_from(*dropped).unwrap_or(u64::MAX),
                    added: count_turns(&new_turns),
                });
                update.turns = std::mem::take(&mut new_turns);
            }
            NativeAlignment::Rewound { .. }
            | NativeAlignment::Diverged(_)
            | NativeAlignment::Missing
            | NativeAlignment::Truncated => {}
        }
        if divergence.compacted && (mode != ReconcileMode::Other || !update.turns.is_empty()) {
            let context_loss = ContextLossState::Lost;
            self.context
                .store
                .set_context_loss(&guard.lease, divergence.leg.id, context_loss)
                .await?;
            decisions.push(Decision::AgentCompacted {
                provider: Some(provider),
            });
        }
        self.save_update(&guard.lease, update, &divergence).await?;
        if mode != ReconcileMode::Other {
            decisions.extend(
                self.detach_native(session, guard, &divergence, new_turns, mode)
                    .await?,
            );
        }
        Ok(decisions)
    }

    /// Saves an update, unless it is empty, and the position up to which an interrupted turn was read.
    async fn save_update(
        &self,
        lease: &Lease,
        update: NativeUpdate,
        divergence: &Divergence,
    ) -> Result<(), StoreError> {
        let store = &self.context.store;
        if update.interrupted_turn.is_some()
            || update.rewound_to.is_some()
            || !update.turns.is_empty()
        {
            store.apply_native_update(lease, update).await?;
        }
        if let Some((turn, Some(native))) = &divergence.interrupted {
            let mark = native.until.to_string();
            store.set_attempt_mark(lease, turn.id, &mark).await?;
        }
        Ok(())
    }

    /// Detaches a session from a native session that has diverged, is missing or is truncated. Turns that diverged
    /// become another session.
    async fn detach_native(
        &self,
        session: &Session,
        guard: &LeaseGuard,
        divergence: &Divergence,
        new_turns: Vec<AdoptedTurn>,
        mode: ReconcileMode,
    ) -> Result<Option<Decision>, AccessError> {
        let from = match &divergence.alignment {
            NativeAlignment::Aligned | NativeAlignment::Rewound { .. } => return Ok(None),
            alignment @ (NativeAlignment::Missing | NativeAlignment::Truncated) => {
                return self
                    .end_lost_leg(&guard.lease, &divergence.leg, alignment, mode)
                    .await;
            }
            NativeAlignment::Diverged(_) if new_turns.is_empty() => return Ok(None),
            NativeAlignment::Diverged(from) => from,
        };
        let turns = count_turns(&new_turns);
        let update = NativeUpdate {
            leg: divergence.leg.id,
            interrupted_turn: None,
            rewound_to: Some(from.id),
            turns: new_turns,
            at: self.context.now(),
        };
        let fork = self
            .fork_diverged_turns(session, &guard.lease, update)
            .await?;
        Ok(Some(Decision::TurnsDiverged {
            provider: storage_provider(&divergence.leg.provider),
            turns,
            after_turn: from.number,
            fork: fork.id,
        }))
    }

    /// Ends a leg whose native session cannot be resumed, before its agent tries to resume it.
    async fn end_lost_leg(
        &self,
        lease: &Lease,
        leg: &Leg,
        alignment: &NativeAlignment,
        mode: ReconcileMode,
    ) -> Result<Option<Decision>, AccessError> {
        let provider = storage_provider(&leg.provider);
        let loss = match (alignment, mode) {
            // Opening the agent may restore it, because segue stores copies of Gemini CLI's sessions.
            (NativeAlignment::Missing, _) if provider.as_str() == "gemini" => return Ok(None),
            // A strict prompt accepts no other native session, so the agent itself reports that it cannot resume this
            // one.
            (NativeAlignment::Missing, ReconcileMode::Prompt { strict: true }) => return Ok(None),
            (NativeAlignment::Missing, _) => NativeLoss::Missing,
            (_, _) => NativeLoss::Truncated,
        };
        let at = self.context.now();
        self.context
            .store
            .end_leg(lease, leg.id, LegEnd::Lost, at)
            .await?;
        Ok(Some(Decision::NativeLost {
            provider,
            native_id: leg.native_id.clone(),
            loss,
        }))
    }

    /// Determines how an interrupted turn ended, from the native record.
    async fn build_ending_from_native(
        &self,
        turn: &Turn,
        native: Option<&NativeTurn>,
    ) -> Result<TurnEnding, AccessError> {
        let Some(native) = native else {
            return self.build_ending_from_record(turn).await;
        };
        let now = self.context.now();
        let recorded = self.context.store.messages(turn.id).await?;
        let recorded_count = recorded.len();
        let mut messages = match merge_chunks(recorded.clone()) {
            merged if merged.len() == recorded_count => {
                merge_interrupted_turn(merged, native.messages.clone())
            }
            // The answer is stored in several chunks because of its length, so the recorded messages stay as they are.
            _ => recorded.clone(),
        };
        let finished = native.state == TurnState::Finished;
        messages.extend(close_open_calls(&messages, now));
        let changed = (0..).zip(messages).filter(|(seq, message)| {
            let stored = usize::try_from(*seq).ok().and_then(|seq| recorded.get(seq));
            !message.complete || stored != Some(message)
        });
        Ok(TurnEnding {
            state: if finished {
                TurnState::Finished
            } else {
                TurnState::Interrupted
            },
            messages: changed.collect(),
            usage: native.usage,
            failure: (!finished).then(interruption_failure),
            at: native.ended_at.unwrap_or(now).max(turn.started_at),
        })
    }

    /// Creates a session from turns that continue a turn which is no longer on the path to the head.
    async fn fork_diverged_turns(
        &self,
        session: &Session,
        lease: &Lease,
        update: NativeUpdate,
    ) -> Result<Session, AccessError> {
        let title = session.title.with_suffix("outside segue");
        loop {
            // The new session has no purpose, so that a request by purpose finds the original session.
            let new = self
                .context
                .new_session(&session.project, &title, None, &session.provider);
            let process = self.context.environment.process.clone();
            match self
                .context
                .store
                .fork_native_update(lease, new, process, update.clone())
                .await
            {
                Err(StoreError::SessionExists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}

fn count_turns(turns: &[AdoptedTurn]) -> u64 {
    u64::try_from(turns.len()).unwrap_or(u64::MAX)
}

fn recovery_decision(
    turn: &Turn,
    native: Option<&NativeTurn>,
    alignment: &NativeAlignment,
    provider: &ProviderId,
) -> Decision {
    let provider = provider.clone();
    let prompt = match native {
        Some(native) if native.state == TurnState::Finished => {
            InterruptedPrompt::Answered { provider }
        }
        Some(_) => InterruptedPrompt::PartlyAnswered { provider },
        None if turn.sent
            && !matches!(
                alignment,
                NativeAlignment::Missing | NativeAlignment::Truncated
            ) =>
        {
            InterruptedPrompt::NotInNative { provider }
        }
        None => return interruption_decision(turn),
    };
    Decision::TurnInterrupted {
        turn: turn.number,
        prompt,
    }
}
