//! Summarisers: a model adds statements to a checkpoint, as far as the record supports them.
//!
//! The summariser runs without a lease on the session, so that no prompt waits for it ([`Engine::propose`]). A short
//! second operation applies its answer to the checkpoint that is active by then ([`Engine::take_up`]).

mod asking;

use std::sync::Arc;
use std::time::Duration;

use segue_agents::Agent;
use segue_core::checkpoint::{
    Author, Checkpoint, Delta, Objection, Occasion, Piece, Summary, Version, newly_numbered,
    pieces, question, summary, written,
};
use segue_core::id::{ProviderId, SessionId, TurnId};
use segue_core::number_format::figure;
use segue_core::session::{Decision, DecisionKind, Session};
use segue_store::NewVersion;

use crate::error::moment;
use crate::hold::Hold;
use crate::{Engine, EngineError};

/// Maximum number of tokens of the record in one request. Less if the agent's budget is small.
const PIECE: u64 = 60_000;

/// Maximum number of requests for one record. The start of a longer record is not sent, so the checkpoint contains only
/// what was extracted from it without a model.
const PIECES: usize = 6;

/// An agent that refines checkpoints, with its timeout.
#[derive(Clone)]
pub struct Summariser {
    /// The agent. segue asks it to use no tools and gives it none. The caller has to disable the agent's own tools.
    pub agent: Arc<dyn Agent>,
    /// Timeout of one request. It applies to the opening, and separately to the exchange with all retries.
    pub patience: Duration,
}

/// The checked answer of a summariser, which is not saved yet.
#[derive(Debug, Clone)]
pub struct Proposal {
    session: SessionId,
    by: ProviderId,
    /// Version that the summariser received.
    base: Version,
    seen: Checkpoint,
    /// The summary, or the reason why the answer is unusable.
    said: Result<Summary, String>,
    /// Number of the last turn that the summariser received completely, in a request that it answered usably.
    read: u32,
    /// Number of chunks at the start of the record that were not sent.
    left_out: usize,
    /// Actions that protected native sessions.
    protected: Vec<String>,
}

/// Result of applying a proposal.
#[derive(Debug, Clone)]
pub struct TakenUp {
    /// The new version. `None` if the proposal changed nothing.
    pub made: Option<(Version, Checkpoint)>,
    /// Decisions that report the result.
    pub decisions: Vec<Decision>,
}

impl Proposal {
    /// Returns the number of the version that the summariser received.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.base.n
    }
}

impl Engine {
    /// Returns the active version if it covers turns that no summariser has read. `None` if it does not.
    pub async fn unread(&self, session: &SessionId) -> Result<Option<Version>, EngineError> {
        let session = self.existing(session).await?;
        let unread = self.unread_in(&session).await?;
        Ok(unread.map(|(version, ..)| version))
    }

    /// Sends the active checkpoint and its unread turns to a summariser, and checks the answer.
    ///
    /// `None` if there is no checkpoint, or if a summariser has read all of its turns. Acquires no lease and changes
    /// nothing.
    pub async fn propose(
        &self,
        session: &SessionId,
        summariser: &Summariser,
    ) -> Result<Option<Proposal>, EngineError> {
        let session = self.existing(session).await?;
        let Some((base, seen, read)) = self.unread_in(&session).await? else {
            return Ok(None);
        };
        let by = summariser.agent.provider().clone();
        let budget = self.budget_of(&by).await?;
        let mut said = self.store.said_since(base.turn, read).await?;
        said.retain(|turn| turn.n <= base.covers);
        let turns = self.told_turns(said).await;
        let mut record = pieces(&turns, PIECE.min(budget / 2), &segue_tokens::count);
        let left_out = record.len().saturating_sub(PIECES);
        record.drain(..left_out);
        let mut proposal = Proposal {
            session: session.id.clone(),
            by,
            base,
            seen,
            said: Err("there is nothing to sum up".to_owned()),
            read,
            left_out,
            protected: Vec::new(),
        };
        if let Some(why) = self.rests_until(&proposal.by).await? {
            proposal.said = Err(why);
        } else {
            let reading = self.read(&session, summariser, &record, &mut proposal);
            reading.await?;
        }
        Ok(Some(proposal))
    }

    /// Applies a summariser's proposal to the checkpoint that is active now. Drops what no longer fits that checkpoint.
    pub async fn take_up(&self, proposal: Proposal) -> Result<TakenUp, EngineError> {
        let (hold, taken_over) = self.hold(&proposal.session).await?;
        let taken = self.take_up_held(&hold, proposal).await;
        hold.release().await;
        let mut taken = taken?;
        taken.decisions.splice(0..0, taken_over);
        Ok(taken)
    }

    /// Returns the active version, its checkpoint, and the number of the last turn that a summariser has read. `None`
    /// if all turns were read.
    async fn unread_in(
        &self,
        session: &Session,
    ) -> Result<Option<(Version, Checkpoint, u32)>, EngineError> {
        let Some(head) = session.head else {
            return Ok(None);
        };
        let Some((base, seen)) = self.store.checkpoint_at(&session.id, head).await? else {
            return Ok(None);
        };
        let read = self.read_until(&session.id, head).await?;
        Ok((base.covers > read).then_some((base, seen, read)))
    }

    /// Returns the number of the last turn that a summariser has read, among the turns that lead to `head`.
    async fn read_until(&self, id: &SessionId, head: TurnId) -> Result<u32, EngineError> {
        let versions = self.store.checkpoints(id).await?;
        let mut versions = versions
            .into_iter()
            .filter(|version| version.by == Author::Summary)
            .peekable();
        if versions.peek().is_none() {
            return Ok(0);
        }
        let chain = self.store.turns_to(head).await?;
        let leads = |version: &Version| chain.iter().any(|turn| turn.id == version.turn);
        let read = versions.filter(leads).map(|version| version.read);
        Ok(read.max().unwrap_or(0))
    }

    /// Returns the reason why an agent receives no prompts now. `None` if it is not in cooldown.
    async fn rests_until(&self, provider: &ProviderId) -> Result<Option<String>, EngineError> {
        let now = (self.world.now)();
        let rests = self.store.rests().await?;
        let mut rests = rests
            .into_iter()
            .filter(|rest| rest.provider == *provider && rest.until > now);
        Ok(rests
            .next()
            .map(|rest| format!("it rests until {}", moment(rest.until))))
    }

    /// Sends the record in chunks. If a chunk gets no usable answer, the answers to the chunks before it are used.
    async fn read(
        &self,
        session: &Session,
        summariser: &Summariser,
        record: &[Piece],
        proposal: &mut Proposal,
    ) -> Result<(), EngineError> {
        let room = self.room_of(session, &session.provider).await?;
        let (seen, covers) = (proposal.seen.clone(), proposal.base.covers);
        let mut known = seen.clone();
        let mut all = Summary::default();
        for piece in record {
            let asked = question(&known, &piece.text);
            let most = piece.tokens.min(room / 4);
            let check = |answer: &str| -> Result<Summary, Objection> {
                summary(answer, &known, &asked, most, &segue_tokens::count)
            };
            let cwd = session.project.cwd.as_str();
            let (said, protected) = asking::ask(summariser, cwd, &asked, check).await;
            proposal.protected.extend(protected);
            match said {
                Ok(said) => {
                    all.and(said, &known);
                    proposal.read = proposal.read.max(piece.told);
                }
                Err(why) => {
                    proposal.said = Err(why);
                    break;
                }
            }
            known = all.applied(&seen, &seen, covers, room, &segue_tokens::count);
        }
        if !all.stated.is_empty() {
            proposal.said = Ok(all);
        }
        Ok(())
    }

    async fn take_up_held(&self, hold: &Hold, proposal: Proposal) -> Result<TakenUp, EngineError> {
        let session = self.existing(&proposal.session).await?;
        let (made, text) = match &proposal.said {
            Ok(said) => self.apply_summary(hold, &session, &proposal, said).await?,
            Err(why) => (None, of_no_use(&proposal, why)),
        };
        let protected = proposal.protected.iter();
        let mut decisions: Vec<Decision> = protected
            .map(|line| Decision::new(DecisionKind::Protected, line.as_str()))
            .collect();
        decisions.push(Decision::new(DecisionKind::Compacted, text));
        self.note_all(hold, &decisions).await?;
        Ok(TakenUp { made, decisions })
    }

    /// Saves a new version that adds the summary to the active checkpoint. Returns the version, if it differs, and a
    /// line about the result.
    async fn apply_summary(
        &self,
        hold: &Hold,
        session: &Session,
        proposal: &Proposal,
        said: &Summary,
    ) -> Result<(Option<(Version, Checkpoint)>, String), EngineError> {
        let elsewhere = || of_no_use(proposal, "the session went back to before it");
        let Some(head) = session.head else {
            return Ok((None, elsewhere()));
        };
        let chain = self.store.turns_to(head).await?;
        let leads = chain.iter().any(|turn| turn.id == proposal.base.turn);
        let newest = self.store.checkpoint_at(&session.id, head).await?;
        let Some((newest, before)) = newest.filter(|_| leads) else {
            return Ok((None, elsewhere()));
        };
        let count = &segue_tokens::count;
        let room = self.room_of(session, &session.provider).await?;
        let after = said.applied(&proposal.seen, &before, proposal.base.covers, room, count);
        let after = newly_numbered(&before, after, self.last_item(&session.id).await?);
        if Delta::between(&before, &after).is_empty() {
            let why = "it had nothing to add that there is room for";
            return Ok((None, of_no_use(proposal, why)));
        }
        let new = NewVersion {
            turn: newest.turn,
            covers: newest.covers,
            checkpoint: after.clone(),
            tokens: count(&written(&after)),
            // The version replaces only the one before it: no turns were made since.
            replaced: newest.tokens,
            by: Author::Summary,
            why: Occasion::Summed,
            read: proposal.read,
            at: (self.world.now)(),
        };
        let version = self.store.add_checkpoint(&hold.lease, new, None).await?;
        let text = added(proposal, said, &version);
        Ok((Some((version, after)), text))
    }
}

/// Formats the result as one line.
fn added(proposal: &Proposal, said: &Summary, version: &Version) -> String {
    let settled = match said.settled.len() {
        0 => String::new(),
        n => format!(" and settled {n}"),
    };
    let but = match proposal.left_out {
        0 => "",
        _ => "; the beginning was too much to read",
    };
    format!(
        "{} added {} statement(s) to checkpoint {}{settled}: checkpoint {} has {} tokens{but}",
        proposal.by,
        said.stated.len(),
        proposal.base.n,
        version.n,
        figure(version.tokens)
    )
}

fn of_no_use(proposal: &Proposal, why: &str) -> String {
    format!(
        "{} added nothing to checkpoint {}: {why}; what was found without a model serves",
        proposal.by, proposal.base.n
    )
}
