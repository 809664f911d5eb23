//! Reconciliation of the record with the native session: interrupted turns, turns made outside segue, rewinds and
//! losses are applied to the record before the session is resumed.

mod apply;
pub(crate) mod recovery;
mod reopen;

use std::sync::Arc;

use jiff::Timestamp;
use segue_catalog::{
    Catalog, Mark, NativeSession, NativeTurn, ReadError, ReadStart, read_tail, read_turns,
};
use segue_core::id::SessionId;
use segue_core::reconcile::{
    NativeChange, NativePrompt, NativeVerdict, RecordedPrompt, judge_native_session,
    match_native_turns,
};
use segue_core::session::{
    Decision, Leg, Message, Session, SessionSnapshot, Turn, TurnState, can_resume_leg,
};
use segue_store::StoreError;

use crate::AccessError;
use crate::context::EngineContext;
use crate::native::NativeLocation;
use crate::session::lease::LeaseGuard;

/// Operation for which a session is reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReconcileMode {
    /// A prompt. It resumes the native session or, unless it is `strict`, starts another one.
    Prompt {
        /// Whether the prompt fails if the native session cannot be resumed.
        strict: bool,
    },
    /// Any other operation. Only changes that are certain are applied.
    Other,
}

/// A session whose lease is acquired and that is reconciled with its native session.
pub(crate) struct ReconciledSession {
    pub(crate) guard: LeaseGuard,
    pub(crate) snapshot: SessionSnapshot,
    /// Decisions that were made and logged.
    pub(crate) decisions: Vec<Decision>,
}

/// Changes in a native session that the record does not contain.
struct Divergence {
    leg: Leg,
    /// Interrupted turn, if any, with its counterpart in the native session.
    interrupted: Option<(Turn, Option<NativeTurn>)>,
    /// Turns that were made outside segue.
    new_turns: Vec<NativeTurn>,
    /// Alignment of the native session with the session.
    alignment: NativeAlignment,
    /// Whether the agent compacted its own context.
    compacted: bool,
}

/// Alignment of a native session with the session that uses it.
enum NativeAlignment {
    /// Both are at the same turn.
    Aligned,
    /// The native session was rewound to turn `to`, which `dropped` finished turns of the session follow.
    Rewound { to: Turn, dropped: usize },
    /// The head was moved to another path; the native session continues from this turn.
    Diverged(Turn),
    /// The native session no longer exists.
    Missing,
    /// The native session is truncated: recorded turns are missing from it.
    Truncated,
}

/// Turns that were read from a native session.
struct NativeTail {
    turns: Vec<NativeTurn>,
    change: NativeChange,
    compacted: bool,
}

/// Component that applies changes in native sessions to the record.
#[derive(Clone)]
pub struct Reconciler {
    pub(crate) context: Arc<EngineContext>,
}

impl Reconciler {
    pub(crate) fn new(context: &Arc<EngineContext>) -> Self {
        Self {
            context: Arc::clone(context),
        }
    }

    /// Reconciles a session under its lease. Returns its current state with the decisions.
    pub(crate) async fn reconcile(
        &self,
        snapshot: SessionSnapshot,
        guard: &LeaseGuard,
        mode: ReconcileMode,
    ) -> Result<(SessionSnapshot, Vec<Decision>), AccessError> {
        let id = snapshot.session.id.clone();
        let decisions = match self.read_divergence(&snapshot).await? {
            Some(divergence) => {
                let session = &snapshot.session;
                tracing::info!(
                    new_turns = divergence.new_turns.len(),
                    is_interrupted = divergence.interrupted.is_some(),
                    "native session changed outside segue"
                );
                self.apply_divergence(session, guard, divergence, mode)
                    .await?
            }
            None if snapshot.session.head_state == Some(TurnState::Running) => {
                let recovered = self.recover_interrupted_turn(&snapshot, &guard.lease);
                recovered.await?.into_iter().collect()
            }
            None => return Ok((snapshot, Vec::new())),
        };
        Ok((self.context.require_snapshot(&id).await?, decisions))
    }

    /// Adds the turns that were made in the agent's own program to a session, and returns it with the decisions.
    /// Returns the session unchanged if it is in use, or if the native session did not just gain turns after the head.
    pub async fn reconcile_if_idle(
        &self,
        session: Session,
    ) -> Result<(Session, Vec<Decision>), AccessError> {
        let only_adds_turns = |divergence: &Divergence| {
            divergence.interrupted.is_none()
                && !divergence.new_turns.is_empty()
                && matches!(divergence.alignment, NativeAlignment::Aligned)
        };
        if session.head_state == Some(TurnState::Running) {
            return Ok((session, Vec::new()));
        }
        let snapshot = self.context.require_snapshot(&session.id).await?;
        let divergence = self.read_divergence(&snapshot).await?;
        if !divergence.as_ref().is_some_and(only_adds_turns) {
            return Ok((session, Vec::new()));
        }
        let acquiring = self.acquire_lease_and_reconcile(&session.id, ReconcileMode::Other);
        let reconciled = match acquiring.await {
            Err(AccessError::Store(StoreError::Leased { .. })) => return Ok((session, Vec::new())),
            acquired => acquired?,
        };
        reconciled.guard.release().await;
        Ok((reconciled.snapshot.session, reconciled.decisions))
    }

    /// Acquires the lease of a session, reconciles it with its native session, and closes an interrupted turn. Logs the
    /// decisions.
    pub(crate) async fn acquire_lease_and_reconcile(
        &self,
        id: &SessionId,
        mode: ReconcileMode,
    ) -> Result<ReconciledSession, AccessError> {
        let (guard, takeover) = self.context.leases.acquire_lease(id).await?;
        let reconciled = async {
            let snapshot = self.context.require_snapshot(id).await?;
            let (snapshot, reconcile_decisions) = self.reconcile(snapshot, &guard, mode).await?;
            let decisions: Vec<Decision> =
                takeover.into_iter().chain(reconcile_decisions).collect();
            self.context.log_decisions(&guard.lease, &decisions).await?;
            Ok((snapshot, decisions))
        }
        .await;
        match reconciled {
            Ok((snapshot, decisions)) => Ok(ReconciledSession {
                guard,
                snapshot,
                decisions,
            }),
            Err(error) => {
                guard.release().await;
                Err(error)
            }
        }
    }

    /// Returns `true` if recorded turns are missing from the native session.
    pub(crate) async fn is_native_truncated(
        &self,
        snapshot: &SessionSnapshot,
    ) -> Result<bool, AccessError> {
        let divergence = self.read_divergence(snapshot).await?;
        let alignment = divergence.map(|divergence| divergence.alignment);
        Ok(matches!(alignment, Some(NativeAlignment::Truncated)))
    }

    /// Returns `true` if another program added turns to the native session since a time, or rewound it.
    pub(crate) async fn has_native_activity_since(
        &self,
        snapshot: &SessionSnapshot,
        since: Timestamp,
    ) -> Result<bool, AccessError> {
        let divergence = self.read_divergence(snapshot).await?;
        Ok(divergence.is_some_and(|divergence| {
            let is_later = |turn: &NativeTurn| turn.started_at.is_none_or(|at| at >= since);
            divergence.new_turns.iter().any(is_later)
                || matches!(divergence.alignment, NativeAlignment::Rewound { .. })
        }))
    }

    /// Returns the changes in a session's native session; `None` if there are none or they cannot be determined.
    async fn read_divergence(
        &self,
        snapshot: &SessionSnapshot,
    ) -> Result<Option<Divergence>, AccessError> {
        let session = &snapshot.session;
        let natives = &self.context.natives;
        let readable = |leg: &&Leg| natives.can_read_sessions(&leg.provider);
        let Some(leg) = snapshot.open_leg().filter(readable) else {
            return Ok(None);
        };
        let Some(native_id) = &leg.native_id else {
            return Ok(None);
        };
        let has_pooled_agent = self.context.agent_pool.contains(&session.id).await;
        let located = natives.locate_native(&leg.provider, native_id, has_pooled_agent);
        let native = match located.await {
            NativeLocation::Found(native) => native,
            // A native session in which segue never saw a record is not missing.
            NativeLocation::Missing if leg.mark.is_some() => {
                let chain = self.context.store.turns(&session.id).await?;
                return Ok(can_resume_leg(leg, &chain).then(|| Divergence {
                    interrupted: running_turn(&chain).map(|turn| (turn.clone(), None)),
                    new_turns: Vec::new(),
                    alignment: NativeAlignment::Missing,
                    compacted: false,
                    leg: leg.clone(),
                }));
            }
            NativeLocation::Missing | NativeLocation::Unknown => return Ok(None),
        };
        let mark = leg.mark.as_deref().and_then(|mark| mark.parse().ok());
        let tail = natives.with_catalog(move |catalog| read_native_tail(catalog, &native, mark));
        let Ok(tail) = tail.await else {
            return Ok(None);
        };
        let is_unchanged = tail.turns.is_empty() && tail.change == NativeChange::Grown;
        if is_unchanged && !tail.compacted && session.head_state != Some(TurnState::Running) {
            return Ok(None);
        }
        let chain = self.context.store.turns(&session.id).await?;
        self.compare_turns(leg.clone(), chain, tail).await.map(Some)
    }

    /// Compares the native turns with the recorded turns that lead to the head.
    async fn compare_turns(
        &self,
        leg: Leg,
        chain: Vec<Turn>,
        tail: NativeTail,
    ) -> Result<Divergence, AccessError> {
        let can_resume = can_resume_leg(&leg, &chain);
        let interrupted = running_turn(&chain).cloned();
        // The turns that were sent to the native session may no longer lead to the head.
        let chain = match leg.tip.filter(|_| !can_resume) {
            Some(tip) => self.context.store.turns_up_to(tip).await?,
            None => chain,
        };
        // Messages that were added without an agent are in no native session.
        let was_sent_to_agent = |turn: &Turn| !turn.is_added();
        let chain: Vec<Turn> = chain.into_iter().filter(was_sent_to_agent).collect();
        let prompts = self.load_prompts(&chain, &tail.turns).await?;
        let matched_indexes = match_turns(&chain, &prompts, &tail.turns);
        let tip_index = chain.iter().position(|turn| Some(turn.id) == leg.tip);
        let finished: Vec<bool> = chain
            .iter()
            .take(tip_index.map_or(0, |index| index + 1))
            .map(|turn| turn.state == TurnState::Finished)
            .collect();
        let ended: Vec<bool> = tail
            .turns
            .iter()
            .map(|turn| !matches!(turn.state, TurnState::Running | TurnState::Interrupted))
            .collect();
        let verdict = judge_native_session(tail.change, &finished, &ended, &matched_indexes);
        let alignment = derive_alignment(verdict, can_resume, &chain, &finished);
        let matched_count = matched_indexes
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |index| index + 1);
        let last_index = chain.len().wrapping_sub(1);
        let interrupted_index = matched_indexes
            .iter()
            .position(|index| *index == Some(last_index));
        let mut turns = tail.turns;
        let mut new = turns.split_off(matched_count.min(turns.len()));
        // A turn that began before the last prompt is not new, even if it matches no recorded turn.
        let tip = tip_index.and_then(|index| chain.get(index));
        let tip_started_at = tip.map(|turn| turn.started_at);
        new.retain(|turn| turn.started_at.is_none_or(|at| Some(at) > tip_started_at));
        let interrupted_native = interrupted_index
            .filter(|_| can_resume && interrupted.is_some())
            .and_then(|index| turns.into_iter().nth(index));
        Ok(Divergence {
            new_turns: self.drop_unfinished_turn(&leg, new).await,
            leg,
            interrupted: interrupted.map(|turn| (turn, interrupted_native)),
            alignment,
            compacted: tail.compacted,
        })
    }

    /// Removes the last turn if another process is still running it, because only complete turns are applied.
    async fn drop_unfinished_turn(&self, leg: &Leg, mut turns: Vec<NativeTurn>) -> Vec<NativeTurn> {
        let natives = &self.context.natives;
        if turns
            .last()
            .is_some_and(|last| last.state == TurnState::Running)
            && let Some(id) = &leg.native_id
            && natives
                .find_foreign_process(&leg.provider, id)
                .await
                .is_some()
        {
            turns.pop();
        }
        turns
    }

    /// Loads the prompts of those turns that only their prompts can identify; other prompts are empty.
    async fn load_prompts(
        &self,
        chain: &[Turn],
        native_turns: &[NativeTurn],
    ) -> Result<Vec<String>, AccessError> {
        let untimed = native_turns.iter().any(|turn| turn.started_at.is_none());
        let mut prompts = Vec::with_capacity(chain.len());
        for turn in chain {
            let is_needed = untimed || turn.ended_at.is_none();
            prompts.push(if is_needed {
                prompt_text(&self.context.store.messages(turn.id).await?)
            } else {
                String::new()
            });
        }
        Ok(prompts)
    }
}

/// Derives the alignment from a verdict. `finished` are the turns of the chain that the native session was sent.
fn derive_alignment(
    verdict: NativeVerdict,
    can_resume: bool,
    chain: &[Turn],
    finished: &[bool],
) -> NativeAlignment {
    match verdict {
        NativeVerdict::Truncated => NativeAlignment::Truncated,
        NativeVerdict::RewoundTo(index) => match chain.get(index).cloned() {
            None => NativeAlignment::Truncated,
            Some(to) if can_resume => {
                let later = finished.iter().skip(index + 1);
                let dropped = later.filter(|done| **done).count();
                NativeAlignment::Rewound { to, dropped }
            }
            Some(to) => NativeAlignment::Diverged(to),
        },
        NativeVerdict::Complete => match chain.last().cloned() {
            Some(last) if !can_resume => NativeAlignment::Diverged(last),
            Some(_) | None => NativeAlignment::Aligned,
        },
    }
}

/// Returns the last turn if it is still recorded as running. For the owner of the lease it was interrupted, because no
/// other process runs it.
fn running_turn(chain: &[Turn]) -> Option<&Turn> {
    chain.last().filter(|turn| turn.state == TurnState::Running)
}

/// Returns the text of a turn's first message.
fn prompt_text(messages: &[Message]) -> String {
    let prompt = messages.first();
    prompt.map(Message::plain_text).unwrap_or_default()
}

/// Returns for each native turn the index of the recorded turn that it matches. `prompts` are those of the chain.
fn match_turns(
    chain: &[Turn],
    prompts: &[String],
    native_turns: &[NativeTurn],
) -> Vec<Option<usize>> {
    let recorded = chain
        .iter()
        .zip(prompts)
        .map(|(turn, prompt)| RecordedPrompt {
            started_at: turn.started_at,
            ended_at: turn.ended_at,
            sent: turn.sent,
            prompt,
        });
    let recorded: Vec<RecordedPrompt<'_>> = recorded.collect();
    let native_texts = native_turns.iter().map(|turn| prompt_text(&turn.messages));
    let native_texts: Vec<String> = native_texts.collect();
    let native = native_turns.iter().zip(&native_texts);
    let native: Vec<NativePrompt<'_>> = native
        .map(|(turn, prompt)| NativePrompt {
            started_at: turn.started_at,
            prompt,
        })
        .collect();
    match_native_turns(&recorded, &native)
}

/// Reads the records after a mark. Reads the complete native session if there is no mark, if the mark is lost, or if a
/// rewind follows it.
fn read_native_tail(
    catalog: &Catalog,
    native: &NativeSession,
    mark: Option<Mark>,
) -> Result<NativeTail, ReadError> {
    let mut change = NativeChange::Grown;
    let mut compacted = false;
    if let Some(mark) = mark {
        match catalog.open_records(native, &ReadStart::After(mark)) {
            Ok(mut records) => {
                let tail = read_tail(records.as_mut())?;
                compacted = tail.compacted;
                if !tail.rewound {
                    return Ok(NativeTail {
                        turns: tail.turns,
                        change,
                        compacted,
                    });
                }
                change = NativeChange::Rewound;
            }
            Err(ReadError::MarkNotFound { .. }) => change = NativeChange::Lost,
            Err(error) => return Err(error),
        }
    }
    let mut records = catalog.open_records(native, &ReadStart::Beginning)?;
    Ok(NativeTail {
        turns: read_turns(records.as_mut())?.into_turns(),
        change,
        compacted,
    })
}
