//! The record follows the native session: what was cut off, made elsewhere, taken back or lost there is known before
//! the session goes on.

mod apply;
mod place;

use jiff::Timestamp;
use segue_catalog::{
    Catalog, Mark, NativeSession, NativeTurn, ReadError, Start, conversation, since,
};
use segue_core::{
    Changed, Decision, Leg, Message, Ours, Session, Theirs, Turn, TurnState, Verdict, can_go_on,
    verdict, whose,
};
use segue_store::StoreError;

use self::place::Place;
use crate::hold::Hold;
use crate::{Engine, EngineError};

/// What a session is brought up to date for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A prompt, which goes on with the native session or, if it is `strict`, does not go on at all.
    Prompt {
        /// Whether nothing else will do.
        strict: bool,
    },
    /// Something else; only what is certain is done.
    Else,
}

/// What a native session has that the record lacks.
struct News {
    leg: Leg,
    /// The turn that was cut off, if one was, and what the native session has of it.
    cut_off: Option<(Turn, Option<NativeTurn>)>,
    /// The turns that were made elsewhere.
    turns: Vec<NativeTurn>,
    /// What the native session is worth.
    standing: Standing,
    /// Whether the agent made its own context smaller.
    compacted: bool,
}

/// Where a native session stands, compared with the session that it carries.
enum Standing {
    /// It is where the session is.
    Level,
    /// It went back to this turn; so many finished ones of the session came after it.
    Back { to: Turn, dropped: usize },
    /// The session is elsewhere: it was moved since, and the native session goes on from this turn.
    Apart(Turn),
    /// It is not there any more.
    Gone,
    /// It lacks what was said.
    Cut,
}

/// What was read of a native session.
struct Read {
    turns: Vec<NativeTurn>,
    changed: Changed,
    compacted: bool,
}

impl Engine {
    /// Brings a session that is held up to date; tells what was decided.
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

    /// A session as it is with what was said meanwhile in its agent's own program. Where somebody is at work in it, or
    /// it was moved, it stays as it is.
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

    /// Whether the native session of a session lacks what was said.
    pub(crate) async fn is_cut(&self, session: &Session) -> Result<bool, EngineError> {
        let news = self.news(session).await?;
        Ok(news.is_some_and(|news| matches!(news.standing, Standing::Cut)))
    }

    /// Whether somebody else went on in the native session of a session since a moment.
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

    /// Notes decisions in the log of a session.
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

    /// What the native session of a session has that its record lacks; none if nothing can be told.
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
            // What was never seen there can't be gone.
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

    /// Compares what was read with the turns that lead to the head.
    async fn compare(&self, leg: Leg, chain: Vec<Turn>, read: Read) -> Result<News, EngineError> {
        let goes_on = can_go_on(&leg, &chain);
        let cut_off = running(&chain).cloned();
        // What the native session was sent may not lead to the head any more.
        let chain = match leg.tip.filter(|_| !goes_on) {
            Some(tip) => self.store.turns_to(tip).await?,
            None => chain,
        };
        // What was added without an agent is in no native session.
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
        // What was there before is not new, even if nobody knows what it is.
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

    /// A turn that somebody is in the middle of is not taken in by half.
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

    /// The prompts of turns, as far as they are needed to tell them apart.
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

/// Where the native session is, by what became of it; `finished` are the turns of the chain that it was sent.
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

/// The turn that was cut off, if the last one was: whoever holds the session knows that nobody is at work in it.
fn running(chain: &[Turn]) -> Option<&Turn> {
    chain.last().filter(|turn| turn.state == TurnState::Running)
}

fn prompt_of(turn: &NativeTurn) -> String {
    turn.messages
        .first()
        .map(Message::words)
        .unwrap_or_default()
}

/// Reads what follows a mark, or all of it where that does not tell enough.
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
