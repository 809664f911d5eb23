//! A native session becomes one of ours, with all that was said in it.

use std::ops::ControlFlow;

use segue_agents::known::KNOWN;
use segue_catalog::NativeTurn;
use segue_core::{
    Decision, DecisionKind, NativeId, Part, Project, ProviderId, Purpose, Session, Tagged, Title,
    TurnState,
};
use segue_store::{Adopted, AdoptedTurn, NewSession, StoreError};

use crate::native::keeper;
use crate::{Engine, EngineError, Native, counted};

/// What a native session is called that nobody named and in which nothing was said.
const NAMELESS: &str = "a session without a name";

impl Engine {
    /// The session that carries a native one; it is made now, out of all that was said there, if there is none yet. It
    /// is then for what its own tags say, or else for `purpose`.
    pub(crate) async fn adopt(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        project: &Project,
        purpose: Option<&Purpose>,
    ) -> Result<(Session, Option<Decision>), EngineError> {
        if let Some(session) = self.carrier(provider, id).await? {
            return Ok((session, None));
        }
        let named = format!("{provider}:{id}");
        let found = if self.reads(provider) {
            let theirs = format!("{}:{id}", keeper(provider));
            self.lookup_native(&theirs).await?.into_iter().next()
        } else {
            None
        };
        let (title, mut turns, at_home) = match &found {
            Some(native) => self.told_by(native, project)?,
            // Only the agent itself knows what was said there.
            None => (None, Vec::new(), project.clone()),
        };
        let tagged = untag(&mut turns);
        let purpose = tagged.as_ref().or(purpose);
        let title = title.unwrap_or_else(|| Title::from_prompt(NAMELESS));
        let count = turns.len();
        let native = Adopted {
            native_id: id.clone(),
            turns,
        };
        let new = self.free_session(&at_home, &title, purpose, provider);
        let new = new.await?;
        let session = new.id.clone();
        match self.store.adopt(new, self.world.me.clone(), native).await {
            // Somebody else was quicker.
            Err(StoreError::Carried(carrier)) => Ok((self.existing(&carrier).await?, None)),
            Err(error) => Err(error.into()),
            Ok(lease) => {
                self.store.release(&lease).await?;
                let text = format!(
                    "took {named} over as session {session}, with its {count} turn{}",
                    if count == 1 { "" } else { "s" }
                );
                let decision = Decision::new(DecisionKind::Session, text);
                let session = self.existing(&session).await?;
                Ok((session, Some(decision)))
            }
        }
    }

    /// The session of ours that a native one becomes; said, and noted in its log.
    pub async fn take_over(
        &self,
        native: &Native,
        here: &Project,
    ) -> Result<(Session, Option<Decision>), EngineError> {
        let keeper = &native.session.provider;
        let provider = self.driver(keeper).unwrap_or_else(|| usual_driver(keeper));
        let taken = self.adopt(&provider, &native.session.head.id, here, None);
        let taken = taken.await?;
        if let (session, Some(decision)) = &taken
            && let Ok((hold, _)) = self.hold(&session.id).await
        {
            let at = (self.world.now)();
            let noted = self.store.note(&hold.lease, decision, at).await;
            hold.release().await;
            noted?;
        }
        Ok(taken)
    }

    /// A session to be made now, under an id that is free: what it is made of is too large to be handed over twice.
    async fn free_session(
        &self,
        project: &Project,
        title: &Title,
        purpose: Option<&Purpose>,
        provider: &ProviderId,
    ) -> Result<NewSession, EngineError> {
        loop {
            let new = self.new_session(project, title, purpose, provider);
            if self.store.session(&new.id).await?.is_none() {
                return Ok(new);
            }
        }
    }

    /// The session of ours whose active leg is this native session.
    pub(crate) async fn carrier(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<Session>, EngineError> {
        for candidate in self.store.candidates(id.as_str()).await? {
            let session = self.existing(&candidate.id).await?;
            if session.provider == *provider && session.native_id.as_ref() == Some(id) {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// What a native session is called, what was said in it, and where it belongs.
    fn told_by(
        &self,
        native: &Native,
        here: &Project,
    ) -> Result<(Option<Title>, Vec<AdoptedTurn>, Project), EngineError> {
        let survey = self.survey(&native.session)?;
        let mut turns = Vec::new();
        let now = (self.world.now)();
        self.replay(&native.session, &survey, 0, &mut |_, turn| {
            turns.push(adopted(turn, now));
            ControlFlow::Continue(())
        })?;
        let head = &native.session.head;
        let first = head.first_prompt.as_deref().map(Title::from_prompt);
        let title = survey.title.or_else(|| head.title.clone()).or(first);
        let project = Project {
            cwd: head.cwd.clone().unwrap_or_else(|| here.cwd.clone()),
            key: native.project.clone().unwrap_or_else(|| here.key.clone()),
        };
        Ok((title, turns, project))
    }
}

/// Takes the tags off the first prompt, which are no words of the person; tells what they say.
fn untag(turns: &mut [AdoptedTurn]) -> Option<Purpose> {
    let prompt = turns.first_mut()?.messages.first_mut()?;
    let text = prompt.parts.iter_mut().find_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    })?;
    let tagged = Tagged::read(text)?;
    let (purpose, rest) = (tagged.purpose, tagged.rest.to_owned());
    *text = rest;
    Some(purpose)
}

pub(crate) fn adopted(mut turn: NativeTurn, now: jiff::Timestamp) -> AdoptedTurn {
    turn.messages.iter_mut().for_each(|message| {
        counted::count(message);
    });
    let started_at = turn.started_at.or(turn.ended_at).unwrap_or(now);
    AdoptedTurn {
        state: match turn.state {
            TurnState::Running => TurnState::Interrupted,
            ended => ended,
        },
        messages: turn.messages,
        usage: turn.usage,
        started_at,
        ended_at: turn.ended_at.unwrap_or(started_at),
        mark: Some(turn.until.to_string()),
    }
}

/// Who will drive the sessions of an agent that can't be driven now: itself, or what is to be configured for it.
fn usual_driver(keeper: &ProviderId) -> ProviderId {
    let direct = KNOWN.iter().any(|known| known.provider == keeper.as_str());
    let over_acp = ProviderId::parse(&format!("acp:{keeper}")).ok();
    over_acp
        .filter(|_| !direct)
        .unwrap_or_else(|| keeper.clone())
}
