//! Reconciliation of the record with the native session: interrupted turns, turns made outside segue, rewinds and
//! losses are applied to the record before the session is resumed.

mod apply;
mod place;

use jiff::Timestamp;
use segue_catalog::{
    Catalog, Mark, NativeSession, NativeTurn, ReadError, Start, conversation, since,
};
use segue_core::reconcile::{Changed, Ours, Theirs, Verdict, verdict, whose};
use segue_core::session::{Decision, Leg, Message, Session, Turn, TurnState, can_go_on};
use segue_store::StoreError;

use self::place::Place;
use crate::hold::Hold;
use crate::{Engine, EngineError};

/// Operation for which a session is reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A prompt. It resumes the native session or, unless it is `strict`, starts another one.
    Prompt {
        /// Whether the prompt fails if the native session cannot be resumed.
        strict: bool,
    },
    /// Any other operation. Only changes that are certain are applied.
    Else,
}

/// Changes in a native session that the record does not contain.
struct News {
    leg: Leg,
    /// Interrupted turn, if any, with its counterpart in the native session.
    cut_off: Option<(Turn, Option<NativeTurn>)>,
    /// Turns that were made outside segue.
    turns: Vec<NativeTurn>,
    /// Alignment of the native session with the session.
    standing: Standing,
    /// Whether the agent compacted its own context.
    compacted: bool,
}

/// Alignment of a native session with the session that uses it.
enum Standing {
    /// Both are at the same turn.
    Level,
    /// The native session was rewound to turn `to`, which `dropped` finished turns of the session follow.
    Back { to: Turn, dropped: usize },
    /// The head was moved to another path; the native session continues from this turn.
    Apart(Turn),
    /// The native session no longer exists.
    Gone,
    /// The native session is truncated: recorded turns are missing from it.
    Cut,
}

/// Turns that were read from a native session.
struct Read {
    turns: Vec<NativeTurn>,
    changed: Changed,
    compacted: bool,
}

impl Engine {
    /// Reconciles a session under its lease, and returns it with the decisions.
    pub(crate) async fn bring_up_to_date(
        &self,
        session: Session,
        hold: &Hold,
        ahead: Ahead,
    ) -> Result<(Session, Vec<Decision>), EngineError> {
        if let Some(news) = self.news(&session).await? {
            return self.apply(session, hold, news, ahead).await;
        }
        let recovered = self.recover(&session, &hold.lease).await?;
        let session = self.existing(&session.id).await?;
        Ok((session, recovered.into_iter().collect()))
    }

    /// Adds the turns that were made in the agent's own program to a session, and returns it with the decisions.
    /// Returns the session unchanged if it is in use, or if the native session did not just gain turns after the head.
    pub async fn refreshed(
        &self,
        session: Session,
    ) -> Result<(Session, Vec<Decision>), EngineError> {
        let adds = |news: &News| {
            news.cut_off.is_none()
                && !news.turns.is_empty()
                && matches!(news.standing, Standing::Level)
        };
        if session.head_state == Some(TurnState::Running)
            || !self.news(&session).await?.as_ref().is_some_and(adds)
        {
            return Ok((session, Vec::new()));
        }
        let (hold, taken_over) = match self.hold(&session.id).await {
            Err(EngineError::Store(StoreError::Held { .. })) => return Ok((session, Vec::new())),
            held => held?,
        };
        let outcome = async {
            let session = self.existing(&session.id).await?;
            let (session, told) = self.bring_up_to_date(session, &hold, Ahead::Else).await?;
            let decisions: Vec<Decision> = taken_over.into_iter().chain(told).collect();
            self.note_all(&hold, &decisions).await?;
            Ok((session, decisions))
        }
        .await;
        hold.release().await;
        outcome
    }

    /// Returns `true` if recorded turns are missing from the native session.
    pub(crate) async fn is_cut(&self, session: &Session) -> Result<bool, EngineError> {
        let news = self.news(session).await?;
        Ok(news.is_some_and(|news| matches!(news.standing, Standing::Cut)))
    }

    /// Returns `true` if another program added turns to the native session since a time, or rewound it.
    pub(crate) async fn went_on_since(
        &self,
        session: &Session,
        since: Timestamp,
    ) -> Result<bool, EngineError> {
        let news = self.news(session).await?;
        Ok(news.is_some_and(|news| {
            let later = |turn: &NativeTurn| turn.started_at.is_none_or(|at| at >= since);
            news.turns.iter().any(later) || matches!(news.standing, Standing::Back { .. })
        }))
    }

    /// Logs decisions in a session.
    pub(crate) async fn note_all(
        &self,
        hold: &Hold,
        decisions: &[Decision],
    ) -> Result<(), EngineError> {
        for decision in decisions {
            let at = (self.world.now)();
            self.store.note(&hold.lease, decision, at).await?;
        }
        Ok(())
    }

    /// Returns the changes in a session's native session; `None` if there are none or they cannot be determined.
    async fn news(&self, session: &Session) -> Result<Option<News>, EngineError> {
        let legs = self.store.legs(&session.id).await?;
        let last = legs.into_iter().next_back();
        let Some(leg) = last.filter(|leg| leg.ended.is_none() && self.reads(&leg.provider)) else {
            return Ok(None);
        };
        let Some(native_id) = leg.native_id.clone() else {
            return Ok(None);
        };
        let warm = self.warm.has(&session.id).await;
        let native = match self.place_of(&leg.provider, &native_id, warm).await {
            Place::At(native) => native,
            // A native session in which segue never saw a record is not missing.
            Place::Nowhere if leg.mark.is_some() => {
                let chain = self.store.turns(&session.id).await?;
                return Ok(can_go_on(&leg, &chain).then(|| News {
                    cut_off: running(&chain).map(|turn| (turn.clone(), None)),
                    turns: Vec::new(),
                    standing: Standing::Gone,
                    compacted: false,
                    leg,
                }));
            }
            Place::Nowhere | Place::Unknown => return Ok(None),
        };
        let mark = leg.mark.as_deref().and_then(|mark| mark.parse().ok());
        let read = self.with_catalog(move |catalog| read(catalog, &native, mark));
        let Ok(read) = read.await else {
            return Ok(None);
        };
        let quiet = read.turns.is_empty() && read.changed == Changed::Grown;
        if quiet && !read.compacted && session.head_state != Some(TurnState::Running) {
            return Ok(None);
        }
        let chain = self.store.turns(&session.id).await?;
        self.compare(leg, chain, read).await.map(Some)
    }

    /// Compares the native turns with the recorded turns that lead to the head.
    async fn compare(&self, leg: Leg, chain: Vec<Turn>, read: Read) -> Result<News, EngineError> {
        let goes_on = can_go_on(&leg, &chain);
        let cut_off = running(&chain).cloned();
        // The turns that were sent to the native session may no longer lead to the head.
        let chain = match leg.tip.filter(|_| !goes_on) {
            Some(tip) => self.store.turns_to(tip).await?,
            None => chain,
        };
        // Messages that were added without an agent are in no native session.
        let sent_to_somebody = |turn: &Turn| !turn.is_added();
        let chain: Vec<Turn> = chain.into_iter().filter(sent_to_somebody).collect();
        let prompts = self.prompts(&chain, &read.turns).await?;
        let ours: Vec<Ours<'_>> = chain
            .iter()
            .zip(&prompts)
            .map(|(turn, prompt)| Ours {
                started_at: turn.started_at,
                ended_at: turn.ended_at,
                sent: turn.sent,
                prompt,
            })
            .collect();
        let said: Vec<String> = read.turns.iter().map(prompt_of).collect();
        let theirs: Vec<Theirs<'_>> = read
            .turns
            .iter()
            .zip(&said)
            .map(|(turn, prompt)| Theirs {
                started_at: turn.started_at,
                prompt,
            })
            .collect();
        let whose = whose(&ours, &theirs);
        let sent = chain.iter().position(|turn| Some(turn.id) == leg.tip);
        let finished: Vec<bool> = chain
            .iter()
            .take(sent.map_or(0, |sent| sent + 1))
            .map(|turn| turn.state == TurnState::Finished)
            .collect();
        let ended: Vec<bool> = read
            .turns
            .iter()
            .map(|turn| !matches!(turn.state, TurnState::Running | TurnState::Interrupted))
            .collect();
        let verdict = verdict(read.changed, &finished, &ended, &whose);
        let standing = standing_by(verdict, goes_on, &chain, &finished);
        let known = whose
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |at| at + 1);
        let last = chain.len().wrapping_sub(1);
        let is_cut_off = whose.iter().position(|of| *of == Some(last));
        let mut turns = read.turns;
        let mut new = turns.split_off(known.min(turns.len()));
        // A turn that began before the last prompt is not new, even if it matches no recorded turn.
        let sent_last = sent
            .and_then(|sent| chain.get(sent))
            .map(|turn| turn.started_at);
        new.retain(|turn| turn.started_at.is_none_or(|at| Some(at) > sent_last));
        let found = is_cut_off.filter(|_| goes_on && cut_off.is_some());
        let found = found.and_then(|at| turns.into_iter().nth(at));
        Ok(News {
            turns: self.without_unfinished(&leg, new).await,
            leg,
            cut_off: cut_off.map(|turn| (turn, found)),
            standing,
            compacted: read.compacted,
        })
    }

    /// Removes the last turn if another process is still running it, because only complete turns are applied.
    async fn without_unfinished(&self, leg: &Leg, mut turns: Vec<NativeTurn>) -> Vec<NativeTurn> {
        if let Some(last) = turns.last()
            && last.state == TurnState::Running
            && let Some(id) = &leg.native_id
            && self.stranger_in(&leg.provider, id).await.is_some()
        {
            turns.pop();
        }
        turns
    }

    /// Loads the prompts of those turns that only their prompts can identify; other prompts are empty.
    async fn prompts(
        &self,
        chain: &[Turn],
        theirs: &[NativeTurn],
    ) -> Result<Vec<String>, EngineError> {
        let untimed = theirs.iter().any(|turn| turn.started_at.is_none());
        let mut prompts = Vec::with_capacity(chain.len());
        for turn in chain {
            let needed = untimed || turn.ended_at.is_none();
            prompts.push(if needed {
                let messages = self.store.messages(turn.id).await?;
                messages.first().map(Message::words).unwrap_or_default()
            } else {
                String::new()
            });
        }
        Ok(prompts)
    }
}

/// Derives the alignment from a verdict. `finished` are the turns of the chain that the native session was sent.
fn standing_by(verdict: Verdict, goes_on: bool, chain: &[Turn], finished: &[bool]) -> Standing {
    match (verdict, goes_on) {
        (Verdict::Cut, _) => Standing::Cut,
        (Verdict::BackTo(kept), true) => {
            let dropped = finished.iter().skip(kept + 1).filter(|done| **done).count();
            let to = chain.get(kept).cloned();
            to.map_or(Standing::Cut, |to| Standing::Back { to, dropped })
        }
        (Verdict::BackTo(kept), false) => {
            let to = chain.get(kept).cloned();
            to.map_or(Standing::Cut, Standing::Apart)
        }
        (Verdict::Whole, false) => {
            let last = chain.last().cloned();
            last.map_or(Standing::Level, Standing::Apart)
        }
        (Verdict::Whole, true) => Standing::Level,
    }
}

/// Returns the last turn if it is still recorded as running. For the owner of the lease it was interrupted, because no
/// other process runs it.
fn running(chain: &[Turn]) -> Option<&Turn> {
    chain.last().filter(|turn| turn.state == TurnState::Running)
}

fn prompt_of(turn: &NativeTurn) -> String {
    turn.messages
        .first()
        .map(Message::words)
        .unwrap_or_default()
}

/// Reads the records after a mark. Reads the complete native session if there is no mark, if the mark is lost, or if a
/// rewind follows it.
fn read(catalog: &Catalog, native: &NativeSession, mark: Option<Mark>) -> Result<Read, ReadError> {
    let mut changed = Changed::Grown;
    let mut compacted = false;
    if let Some(mark) = mark {
        match catalog.records(native, &Start::After(mark)) {
            Ok(mut records) => {
                let since = since(records.as_mut())?;
                if !since.rewound {
                    return Ok(Read {
                        turns: since.turns,
                        changed,
                        compacted: since.compacted,
                    });
                }
                (changed, compacted) = (Changed::Rewound, since.compacted);
            }
            Err(ReadError::MarkLost { .. }) => changed = Changed::Lost,
            Err(error) => return Err(error),
        }
    }
    let mut records = catalog.records(native, &Start::Beginning)?;
    let turns = conversation(records.as_mut())?.into_turns();
    Ok(Read {
        turns,
        changed,
        compacted,
    })
}
