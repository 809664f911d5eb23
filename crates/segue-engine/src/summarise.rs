//! A summariser: a model adds to a checkpoint what takes reading, as far as the record bears it out.
//!
//! It is asked without a claim on the session, so that nobody waits for it ([`Engine::propose`]). What it said is taken up
//! in a moment ([`Engine::take_up`]), into whatever the checkpoint is by then.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use segue_agents::Agent;
use segue_core::{
    Author, Checkpoint, Decision, DecisionKind, Delta, Objection, Occasion, Piece, ProviderId,
    Session, SessionId, Summary, TurnId, Version, figure, newly_numbered, pieces, question,
    summary, written,
};
use segue_store::NewVersion;

use crate::error::moment;
use crate::hold::Hold;
use crate::{Engine, EngineError};

/// How many tokens of the record one request holds at most; less if the agent has less room.
const PIECE: u64 = 60_000;

/// How many requests a record is told in; of a longer one the beginning stays as it was found without a model.
const PIECES: usize = 6;

/// Who sums up, and how long that may take.
#[derive(Clone)]
pub struct Summariser {
    /// The agent. It is asked to use no tools and is given none; its own, where it has any, are the caller's to take away.
    pub agent: Arc<dyn Agent>,
    /// How long one request may take, the opening and each answer included.
    pub patience: Duration,
}

/// What a summariser said of a checkpoint: checked, and not kept yet.
#[derive(Debug, Clone)]
pub struct Proposal {
    session: SessionId,
    by: ProviderId,
    /// The version that it was shown.
    base: Version,
    seen: Checkpoint,
    /// What it said; or why that was of no use.
    said: Result<Summary, String>,
    /// The number of the last turn that it was shown to the end, of those that it said something of.
    read: u32,
    /// How many pieces at the beginning of the record it was not shown.
    left_out: usize,
    /// What was done to keep native sessions from harm.
    protected: Vec<String>,
}

/// What became of a proposal.
#[derive(Debug, Clone)]
pub struct TakenUp {
    /// The version that was made of it, if one was.
    pub made: Option<(Version, Checkpoint)>,
    /// What was decided, in words.
    pub decisions: Vec<Decision>,
}

impl Proposal {
    /// The version that the summariser was shown.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.base.n
    }
}

impl Engine {
    /// The version in force, if it sums up something that no summariser has read.
    pub async fn unread(&self, session: &SessionId) -> Result<Option<Version>, EngineError> {
        let session = self.existing(session).await?;
        let unread = self.unread_in(&session).await?;
        Ok(unread.map(|(version, ..)| version))
    }

    /// Has the checkpoint in force read and added to; none if there is none, or nothing in it that a summariser has not
    /// read. The session is not claimed meanwhile, and nothing is changed.
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

    /// Takes up what a summariser said, into the checkpoint as it is by now. What that does not bear any more is left.
    pub async fn take_up(&self, proposal: Proposal) -> Result<TakenUp, EngineError> {
        let (hold, taken_over) = self.hold(&proposal.session).await?;
        let taken = self.take_up_held(&hold, proposal).await;
        hold.release().await;
        let mut taken = taken?;
        taken.decisions.splice(0..0, taken_over);
        Ok(taken)
    }

    /// The version in force, what it says, and up to which turn that was read; none if all of it was.
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

    /// Up to which turn a summariser has read what leads to another turn.
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

    /// Why an agent is not asked now, if it rests.
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

    /// Has the record read, piece by piece. What was said of the pieces before one that came to nothing stays.
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

    /// Makes a version of the checkpoint in force and what was said; tells what was done.
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
            // Nothing was said since.
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

/// What was done, in one line.
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
