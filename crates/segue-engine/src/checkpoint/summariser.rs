//! Summarisers: a model adds statements to a checkpoint, as far as the record supports them.
//!
//! The summariser runs without a lease on the session, so that no prompt waits for it ([`Compactor::propose_summary`]). A
//! short second operation applies its answer to the checkpoint that is active by then
//! ([`Compactor::apply_summary_proposal`]).

mod request;

use std::sync::Arc;
use std::time::Duration;

use segue_core::checkpoint::{
    Checkpoint, CheckpointDelta, CheckpointReason, CheckpointVersion, ItemAuthor, Summary,
    TranscriptChunk, assign_item_ids, parse_summary, render_checkpoint, split_transcript,
    summary_prompt,
};
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::session::{Decision, GuardAction, Session, UnusedSummary};
use segue_providers::Agent;
use segue_store::NewCheckpoint;

use crate::CompactionError;
use crate::checkpoint::Compactor;
use crate::context::run_blocking;
use crate::leg::open_leg::guard_decisions;
use crate::session::lease::LeaseGuard;

/// Maximum number of tokens of the record in one request. Less if the agent's budget is small.
const MAX_SUMMARY_CHUNK_TOKENS: u64 = 60_000;

/// Maximum number of requests for one record. The start of a longer record is not sent, so the checkpoint contains only
/// what was extracted from it without a model.
const MAX_SUMMARY_CHUNKS: usize = 6;

/// An agent that refines checkpoints, with its timeout.
#[derive(Clone)]
pub struct Summariser {
    /// The agent. segue asks it to use no tools and gives it none. The caller has to disable the agent's own tools.
    pub agent: Arc<dyn Agent>,
    /// Timeout of one request. It applies to the opening, and separately to the exchange with all retries.
    pub timeout: Duration,
}

/// The checked answer of a summariser, which is not saved yet.
#[derive(Debug, Clone)]
pub struct SummaryProposal {
    session: SessionId,
    provider: ProviderId,
    /// Version that the summariser received.
    base: CheckpointVersion,
    base_checkpoint: Checkpoint,
    /// The summary, or the reason why the answer is unusable.
    summary: Result<Summary, UnusedSummary>,
    /// Number of the last turn that the summariser received completely, in a request that it answered usably.
    last_read_turn: u32,
    /// Number of chunks at the start of the record that were not sent.
    omitted_chunks: usize,
    /// Actions that protected native sessions.
    guard_actions: Vec<GuardAction>,
}

/// Result of applying a proposal.
#[derive(Debug, Clone)]
pub struct SummaryOutcome {
    /// The new version. `None` if the proposal changed nothing.
    pub created: Option<(CheckpointVersion, Checkpoint)>,
    /// Decisions that report the result.
    pub decisions: Vec<Decision>,
}

impl Compactor {
    /// Returns the active version if it covers turns that no summariser has read. `None` if it does not.
    pub async fn unread_version(
        &self,
        session: &SessionId,
    ) -> Result<Option<CheckpointVersion>, CompactionError> {
        let session = self.context.require_session(session).await?;
        let unread = self.unread_checkpoint(&session).await?;
        Ok(unread.map(|(version, ..)| version))
    }

    /// Sends the active checkpoint and its unread turns to a summariser, and checks the answer.
    ///
    /// `None` if there is no checkpoint, or if a summariser has read all of its turns. Acquires no lease and changes
    /// nothing.
    pub async fn propose_summary(
        &self,
        session: &SessionId,
        summariser: &Summariser,
    ) -> Result<Option<SummaryProposal>, CompactionError> {
        let session = self.context.require_session(session).await?;
        let Some((base, base_checkpoint, last_read_turn)) =
            self.unread_checkpoint(&session).await?
        else {
            return Ok(None);
        };
        let provider = summariser.agent.provider().clone();
        let budget = self.briefs.provider_budget(&provider).await?;
        let later_turns = self.context.store.turns_after(base.turn, last_read_turn);
        let mut unread_turns = later_turns.await?;
        unread_turns.retain(|turn| turn.number <= base.covers);
        let turns = self.briefs.load_brief_turns(unread_turns).await;
        let chunk_tokens = MAX_SUMMARY_CHUNK_TOKENS.min(budget / 2);
        let splitting =
            run_blocking(move || split_transcript(&turns, chunk_tokens, &segue_tokens::count));
        let mut chunks = splitting.await;
        let omitted_chunks = chunks.len().saturating_sub(MAX_SUMMARY_CHUNKS);
        chunks.drain(..omitted_chunks);
        let mut proposal = SummaryProposal {
            session: session.id.clone(),
            provider,
            base,
            base_checkpoint,
            summary: Err(UnusedSummary::NoTurns),
            last_read_turn,
            omitted_chunks,
            guard_actions: Vec::new(),
        };
        let (now, cooldowns) = (self.context.now(), self.context.store.cooldowns().await?);
        let mut active = cooldowns.iter().filter(|cooldown| cooldown.until > now);
        if let Some(cooldown) = active.find(|cooldown| cooldown.provider == proposal.provider) {
            let until = cooldown.until;
            proposal.summary = Err(UnusedSummary::Cooldown { until });
        } else {
            let summarising = self.summarise_chunks(&session, summariser, &chunks, &mut proposal);
            summarising.await?;
        }
        Ok(Some(proposal))
    }

    /// Applies a summariser's proposal to the checkpoint that is active now. Drops what no longer fits that checkpoint.
    pub async fn apply_summary_proposal(
        &self,
        proposal: SummaryProposal,
    ) -> Result<SummaryOutcome, CompactionError> {
        let (guard, takeover) = self.context.leases.acquire_lease(&proposal.session).await?;
        let applied = self.apply_proposal_under_lease(&guard, proposal).await;
        guard.release().await;
        let mut outcome = applied?;
        outcome.decisions.splice(0..0, takeover);
        Ok(outcome)
    }

    /// Returns the active version, its checkpoint, and the number of the last turn that a summariser has read. `None`
    /// if all turns were read.
    async fn unread_checkpoint(
        &self,
        session: &Session,
    ) -> Result<Option<(CheckpointVersion, Checkpoint, u32)>, CompactionError> {
        let Some((head, base, base_checkpoint)) = self.active_checkpoint(session).await? else {
            return Ok(None);
        };
        let last_read_turn = self.last_summarised_turn(&session.id, head).await?;
        Ok((base.covers > last_read_turn).then_some((base, base_checkpoint, last_read_turn)))
    }

    /// Returns the number of the last turn that a summariser has read, among the turns that lead to `head`.
    async fn last_summarised_turn(
        &self,
        id: &SessionId,
        head: TurnId,
    ) -> Result<u32, CompactionError> {
        let mut versions = self.context.store.checkpoints(id).await?;
        versions.retain(|version| version.author == ItemAuthor::Summariser);
        if versions.is_empty() {
            return Ok(0);
        }
        let chain = self.context.store.turns_up_to(head).await?;
        versions.retain(|version| chain.iter().any(|turn| turn.id == version.turn));
        let read_turns = versions.iter().map(|version| version.last_read_turn);
        Ok(read_turns.max().unwrap_or(0))
    }

    /// Sends the record in chunks. If a chunk gets no usable answer, the answers to the chunks before it are used.
    async fn summarise_chunks(
        &self,
        session: &Session,
        summariser: &Summariser,
        chunks: &[TranscriptChunk],
        proposal: &mut SummaryProposal,
    ) -> Result<(), CompactionError> {
        let budget = self.briefs.checkpoint_budget(session, &session.provider);
        let max_tokens = budget.await?;
        let (base_checkpoint, covers) = (proposal.base_checkpoint.clone(), proposal.base.covers);
        let mut checkpoint = base_checkpoint.clone();
        let mut merged = Summary::default();
        for chunk in chunks {
            let prompt = summary_prompt(&checkpoint, &chunk.text);
            let max_summary_tokens = chunk.tokens.min(max_tokens / 4);
            let count = &segue_tokens::count;
            let check = |answer: &str| {
                parse_summary(answer, &checkpoint, &prompt, max_summary_tokens, count)
            };
            let cwd = session.project.cwd.as_str();
            let (result, guard_actions) =
                request::request_summary(summariser, cwd, &prompt, &check).await;
            proposal.guard_actions.extend(guard_actions);
            match result {
                Ok(chunk_summary) => {
                    merged.append(chunk_summary, &checkpoint);
                    proposal.last_read_turn = proposal.last_read_turn.max(chunk.last_complete_turn);
                }
                Err(reason) => {
                    proposal.summary = Err(reason);
                    break;
                }
            }
            let (summary, base) = (merged.clone(), base_checkpoint.clone());
            let applying = run_blocking(move || {
                summary.apply(&base, &base, covers, max_tokens, &segue_tokens::count)
            });
            checkpoint = applying.await;
        }
        if !merged.statements.is_empty() {
            proposal.summary = Ok(merged);
        }
        Ok(())
    }

    async fn apply_proposal_under_lease(
        &self,
        guard: &LeaseGuard,
        proposal: SummaryProposal,
    ) -> Result<SummaryOutcome, CompactionError> {
        let session = self.context.require_session(&proposal.session).await?;
        let applied = match &proposal.summary {
            Ok(summary) => {
                let applying = self.apply_summary(guard, &session, &proposal, summary);
                applying.await?.map(|created| (created, summary))
            }
            Err(reason) => Err(reason.clone()),
        };
        let (provider, base) = (proposal.provider.clone(), proposal.base.n);
        let decision = match &applied {
            Ok(((version, _), summary)) => Decision::SummaryApplied {
                provider,
                base,
                checkpoint: version.n,
                statements: summary.statements.len() as u64,
                settled: summary.settled_ids.len() as u64,
                tokens: version.tokens,
                is_beginning_omitted: proposal.omitted_chunks > 0,
            },
            Err(reason) => Decision::SummaryUnused {
                provider,
                base,
                reason: reason.clone(),
            },
        };
        let created = applied.ok().map(|(created, _)| created);
        let mut decisions: Vec<Decision> = guard_decisions(proposal.guard_actions).collect();
        decisions.push(decision);
        self.context.log_decisions(&guard.lease, &decisions).await?;
        Ok(SummaryOutcome { created, decisions })
    }

    /// Saves a new version that adds the summary to the active checkpoint. Returns the version, or the reason why the
    /// summary changes nothing.
    async fn apply_summary(
        &self,
        guard: &LeaseGuard,
        session: &Session,
        proposal: &SummaryProposal,
        summary: &Summary,
    ) -> Result<Result<(CheckpointVersion, Checkpoint), UnusedSummary>, CompactionError> {
        let Some((head, active_version, before)) = self.active_checkpoint(session).await? else {
            return Ok(Err(UnusedSummary::OffPath));
        };
        let chain = self.context.store.turns_up_to(head).await?;
        if !chain.iter().any(|turn| turn.id == proposal.base.turn) {
            return Ok(Err(UnusedSummary::OffPath));
        }
        let budget = self.briefs.checkpoint_budget(session, &session.provider);
        let max_tokens = budget.await?;
        let last_item_id = self.briefs.last_item_id(&session.id).await?;
        let (summary, base) = (summary.clone(), proposal.base_checkpoint.clone());
        let covers = proposal.base.covers;
        let (before, after, tokens) = run_blocking(move || {
            let count = &segue_tokens::count;
            let after = summary.apply(&base, &before, covers, max_tokens, count);
            let after = assign_item_ids(&before, after, last_item_id);
            let tokens = count(&render_checkpoint(&after));
            (before, after, tokens)
        })
        .await;
        if CheckpointDelta::between(&before, &after).is_empty() {
            return Ok(Err(UnusedSummary::NothingNew));
        }
        let new = NewCheckpoint {
            turn: active_version.turn,
            covers: active_version.covers,
            checkpoint: after.clone(),
            tokens,
            // The version replaces only the one before it: no turns were made since.
            replaced: active_version.tokens,
            author: ItemAuthor::Summariser,
            reason: CheckpointReason::Summarised,
            last_read_turn: proposal.last_read_turn,
            at: self.context.now(),
        };
        let version = self.context.store.add_checkpoint(&guard.lease, new).await?;
        Ok(Ok((version, after)))
    }
}
