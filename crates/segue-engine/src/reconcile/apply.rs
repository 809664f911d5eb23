//! Application of changes in a native session to the record, with decisions that report them.

use segue_catalog::NativeTurn;
use segue_core::id::ProviderId;
use segue_core::session::{
    Decision, InterruptedPrompt, Leg, LegEnd, NativeLoss, Session, Turn, TurnState,
};
use segue_store::{AdoptedTurn, ContextLossState, Lease, NativeUpdate, StoreError};

use super::{Divergence, NativeAlignment, ReconcileMode};
use crate::AccessError;
use crate::native::storage_provider;
use crate::reconcile::Reconciler;
use crate::reconcile::recovery::interruption_decision;
use crate::resolve::adopt::adopt_outside_turn;
use crate::session::lease::LeaseGuard;

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
            let native = native.as_ref();
            update.interrupted_turn = Some((turn.id, self.build_ending(turn, native).await?));
            let alignment = &divergence.alignment;
            decisions.push(recovery_decision(turn, native, alignment, &provider));
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
                        turns: new_turns.len() as u64,
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
                    dropped: *dropped as u64,
                    added: new_turns.len() as u64,
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
            let (store, leg) = (&self.context.store, divergence.leg.id);
            store
                .set_context_loss(&guard.lease, leg, context_loss)
                .await?;
            decisions.push(Decision::AgentCompacted {
                provider: Some(provider),
            });
        }
        self.save_update(&guard.lease, update, &divergence).await?;
        if mode != ReconcileMode::Other {
            let detaching = self.detach_native(session, guard, &divergence, new_turns, mode);
            decisions.extend(detaching.await?);
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
        let has_head_change = update.interrupted_turn.is_some() || update.rewound_to.is_some();
        if has_head_change || !update.turns.is_empty() {
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
        let (lease, leg) = (&guard.lease, &divergence.leg);
        let provider = storage_provider(&leg.provider);
        match &divergence.alignment {
            NativeAlignment::Diverged(from) if !new_turns.is_empty() => {
                let turns = new_turns.len() as u64;
                let update = NativeUpdate {
                    leg: leg.id,
                    interrupted_turn: None,
                    rewound_to: Some(from.id),
                    turns: new_turns,
                    at: self.context.now(),
                };
                let fork = self.fork_diverged_turns(session, lease, update).await?;
                Ok(Some(Decision::TurnsDiverged {
                    provider,
                    turns,
                    after_turn: from.number,
                    fork: fork.id,
                }))
            }
            // Opening the agent may restore it, because segue stores copies of Gemini CLI's sessions.
            NativeAlignment::Missing if provider == ProviderId::gemini() => Ok(None),
            // A strict prompt accepts no other native session, so the agent itself reports that it cannot resume this
            // one.
            NativeAlignment::Missing if mode == (ReconcileMode::Prompt { strict: true }) => {
                Ok(None)
            }
            NativeAlignment::Missing => self.end_lost_leg(lease, leg, NativeLoss::Missing).await,
            NativeAlignment::Truncated => {
                self.end_lost_leg(lease, leg, NativeLoss::Truncated).await
            }
            NativeAlignment::Aligned
            | NativeAlignment::Rewound { .. }
            | NativeAlignment::Diverged(_) => Ok(None),
        }
    }

    /// Ends a leg whose native session cannot be resumed, before its agent tries to resume it.
    async fn end_lost_leg(
        &self,
        lease: &Lease,
        leg: &Leg,
        loss: NativeLoss,
    ) -> Result<Option<Decision>, AccessError> {
        let (store, at) = (&self.context.store, self.context.now());
        store.end_leg(lease, leg.id, LegEnd::Lost, at).await?;
        Ok(Some(Decision::NativeLost {
            provider: storage_provider(&leg.provider),
            native_id: leg.native_id.clone(),
            loss,
        }))
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
            let (context, project) = (&self.context, &session.project);
            let new = context.new_session(project, &title, None, &session.provider);
            let (store, process) = (&context.store, context.environment.process.clone());
            let forking = store.fork_native_update(lease, new, process, update.clone());
            match forking.await {
                Err(StoreError::SessionExists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}

fn recovery_decision(
    turn: &Turn,
    native: Option<&NativeTurn>,
    alignment: &NativeAlignment,
    provider: &ProviderId,
) -> Decision {
    let provider = provider.clone();
    let is_lost = matches!(
        alignment,
        NativeAlignment::Missing | NativeAlignment::Truncated
    );
    let prompt = match native.map(|native| native.state) {
        Some(TurnState::Finished) => InterruptedPrompt::Answered { provider },
        Some(_) => InterruptedPrompt::PartlyAnswered { provider },
        None if turn.sent && !is_lost => InterruptedPrompt::NotInNative { provider },
        None => return interruption_decision(turn),
    };
    Decision::TurnInterrupted {
        turn: turn.number,
        prompt,
    }
}
