//! Application of changes in a native session to the record, with decisions that report them.

use segue_catalog::NativeTurn;
use segue_core::reconcile::completed;
use segue_core::session::{
    Decision, DecisionKind, LegEnd, Session, Turn, TurnState, close_open_calls,
};
use segue_store::{AdoptedTurn, Finish, Lease, Memory, StoreError, TakenIn};

use super::{Ahead, News, Standing};
use crate::adopt::made_elsewhere;
use crate::hold::Hold;
use crate::native::keeper;
use crate::pieces::joined;
use crate::recover::{interrupted, went_away};
use crate::{Engine, EngineError};

impl Engine {
    pub(super) async fn apply(
        &self,
        session: Session,
        hold: &Hold,
        mut news: News,
        ahead: Ahead,
    ) -> Result<(Session, Vec<Decision>), EngineError> {
        let now = (self.world.now)();
        let who = keeper(&news.leg.provider);
        let mut told = Vec::new();
        let mut taken = TakenIn {
            leg: news.leg.id,
            finish: None,
            back_to: None,
            turns: Vec::new(),
            at: now,
        };
        if let Some((turn, native)) = &news.cut_off {
            taken.finish = Some((turn.id, self.completion(turn, native.as_ref()).await?));
            told.push(recovered(
                turn,
                native.as_ref(),
                &news.standing,
                who.as_str(),
            ));
        }
        let made = std::mem::take(&mut news.turns).into_iter();
        let mut made: Vec<AdoptedTurn> = made.map(|turn| made_elsewhere(turn, now)).collect();
        match &news.standing {
            Standing::Level => {
                if !made.is_empty() {
                    let turns = turns_in_words(made.len());
                    told.push(outside(format!("took in {turns} made in {who} itself")));
                }
                taken.turns = std::mem::take(&mut made);
            }
            Standing::Back { to, dropped } if ahead != Ahead::Else => {
                taken.back_to = Some(to.id);
                let text = went_back(&session, to, *dropped, made.len(), who.as_str());
                told.push(outside(text));
                taken.turns = std::mem::take(&mut made);
            }
            Standing::Back { .. } | Standing::Apart(_) | Standing::Gone | Standing::Cut => {}
        }
        if news.compacted && (ahead != Ahead::Else || !taken.turns.is_empty()) {
            let memory = Memory::Smaller;
            self.store
                .note_memory(&hold.lease, news.leg.id, memory)
                .await?;
            let text = format!(
                "{who} made its own context smaller; the next prompt tells it again what must not be forgotten"
            );
            told.push(Decision::new(DecisionKind::Compacted, text));
        }
        if taken.finish.is_some() || taken.back_to.is_some() || !taken.turns.is_empty() {
            self.store.take_in(&hold.lease, taken).await?;
        }
        if let Some((turn, Some(native))) = &news.cut_off {
            let mark = native.until.to_string();
            self.store.mark_end(&hold.lease, turn.id, &mark).await?;
        }
        if ahead != Ahead::Else {
            told.extend(self.part_ways(&session, hold, &news, made, ahead).await?);
        }
        Ok((self.existing(&session.id).await?, told))
    }

    /// Detaches a session from a native session that has diverged, is missing or is truncated. Turns that diverged
    /// become another session.
    async fn part_ways(
        &self,
        session: &Session,
        hold: &Hold,
        news: &News,
        made: Vec<AdoptedTurn>,
        ahead: Ahead,
    ) -> Result<Option<Decision>, EngineError> {
        let from = match &news.standing {
            Standing::Level | Standing::Back { .. } => return Ok(None),
            standing @ (Standing::Gone | Standing::Cut) => {
                return self.lose(&hold.lease, &news.leg, standing, ahead).await;
            }
            Standing::Apart(_) if made.is_empty() => return Ok(None),
            Standing::Apart(from) => from,
        };
        let text = format!(
            "{} made in {} itself after turn {}, where this session is not any more; go on there with",
            were(made.len()),
            keeper(&news.leg.provider),
            from.n
        );
        let taken = TakenIn {
            leg: news.leg.id,
            finish: None,
            back_to: Some(from.id),
            turns: made,
            at: (self.world.now)(),
        };
        let aside = self.take_aside(session, &hold.lease, taken).await?;
        Ok(Some(outside(format!(
            "{text}: segue session resume {}",
            aside.id
        ))))
    }

    /// Ends a leg whose native session cannot be resumed, before its agent tries to resume it.
    async fn lose(
        &self,
        lease: &Lease,
        leg: &segue_core::session::Leg,
        standing: &Standing,
        ahead: Ahead,
    ) -> Result<Option<Decision>, EngineError> {
        let who = keeper(&leg.provider);
        let what = match (standing, ahead) {
            // Opening the agent may restore it, because segue stores copies of Gemini CLI's sessions.
            (Standing::Gone, _) if who.as_str() == "gemini" => return Ok(None),
            // A strict prompt accepts no other native session, so the agent itself reports that it cannot resume this
            // one.
            (Standing::Gone, Ahead::Prompt { strict: true }) => return Ok(None),
            (Standing::Gone, _) => "does not have its own session any more",
            (_, _) => "does not have all of its own session any more",
        };
        let at = (self.world.now)();
        self.store.end_leg(lease, leg.id, LegEnd::Lost, at).await?;
        let id = leg.native_id.as_ref().map_or("-", |id| id.as_str());
        let text = format!("{who} {what} ({id}); a new one is told what segue has of it");
        Ok(Some(Decision::new(DecisionKind::Opened, text)))
    }

    /// Determines how an interrupted turn ended, from the native record.
    async fn completion(
        &self,
        turn: &Turn,
        native: Option<&NativeTurn>,
    ) -> Result<Finish, EngineError> {
        let Some(native) = native else {
            return self.closing(turn).await;
        };
        let now = (self.world.now)();
        let recorded = self.store.messages(turn.id).await?;
        let on_record = recorded.len();
        let mut messages = match joined(recorded.clone()) {
            whole if whole.len() == on_record => completed(whole, native.messages.clone()),
            // The answer is stored in several chunks because of its length, so the recorded messages stay as they are.
            _ => recorded.clone(),
        };
        let finished = native.state == TurnState::Finished;
        messages.extend(close_open_calls(&messages, now));
        let changed = (0..).zip(messages).filter(|(seq, message)| {
            let known = usize::try_from(*seq).ok().and_then(|seq| recorded.get(seq));
            !message.complete || known != Some(message)
        });
        Ok(Finish {
            state: if finished {
                TurnState::Finished
            } else {
                TurnState::Interrupted
            },
            messages: changed.collect(),
            usage: native.usage,
            failure: (!finished).then(went_away),
            at: native.ended_at.unwrap_or(now).max(turn.started_at),
        })
    }

    /// Creates a session from turns that continue a turn which is no longer on the path to the head.
    async fn take_aside(
        &self,
        session: &Session,
        lease: &Lease,
        taken: TakenIn,
    ) -> Result<Session, EngineError> {
        let title = session.title.marked("elsewhere");
        loop {
            // The new session has no purpose, so that a request by purpose finds the original session.
            let new = self.new_session(&session.project, &title, None, &session.provider);
            let me = self.world.me.clone();
            match self.store.take_aside(lease, new, me, taken.clone()).await {
                Err(StoreError::Exists(_)) => {}
                outcome => return Ok(outcome?),
            }
        }
    }
}

fn outside(text: String) -> Decision {
    Decision::new(DecisionKind::Outside, text)
}

fn turns_in_words(count: usize) -> String {
    match count {
        1 => "a turn that was".to_owned(),
        _ => format!("{count} turns that were"),
    }
}

fn were(count: usize) -> String {
    match count {
        1 => "a turn was".to_owned(),
        _ => format!("{count} turns were"),
    }
}

fn recovered(turn: &Turn, native: Option<&NativeTurn>, standing: &Standing, who: &str) -> Decision {
    let what = match native {
        Some(native) if native.state == TurnState::Finished => {
            format!("its answer is taken from {who}'s own record")
        }
        Some(_) => format!(
            "the prompt is not sent again, and what there is of an answer is taken from {who}'s own record"
        ),
        None if turn.sent && !matches!(standing, Standing::Gone | Standing::Cut) => {
            format!("{who} has no record of its prompt, which is not sent again")
        }
        None => return interrupted(turn),
    };
    let text = format!("turn {} was interrupted: {what}", turn.n);
    Decision::new(DecisionKind::Recovered, text)
}

fn went_back(session: &Session, to: &Turn, dropped: usize, new: usize, who: &str) -> String {
    let goes_on = match new {
        0 => String::new(),
        1 => ", and a turn made there".to_owned(),
        _ => format!(", and {new} turns made there"),
    };
    format!(
        "{who} itself went back to turn {}: this session follows{goes_on}; {} dropped by that, and `segue session undo {}` brings back what was",
        to.n,
        were(dropped),
        session.id
    )
}
