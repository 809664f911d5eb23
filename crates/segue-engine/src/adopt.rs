//! A native session becomes one of ours, with all that was said in it.

use std::ops::ControlFlow;

use segue_agents::known::KNOWN;
use segue_catalog::NativeTurn;
use segue_core::{
    Decision, DecisionKind, Message, NativeId, Part, Project, ProviderId, Purpose, Role, Sent,
    Session, SessionId, Title, TurnState,
};
use segue_store::{Adopted, AdoptedTurn, NewSession, StoreError};

use crate::native::keeper;
use crate::{Engine, EngineError, Native, counted};

/// What a native session is called that nobody named and in which nothing was said.
const NAMELESS: &str = "a session without a name";

/// What is known of a native session beside what it tells of itself.
#[derive(Clone, Copy)]
pub(crate) enum Beside<'a> {
    /// Nothing.
    Nothing,
    /// What it is for, and why.
    Purpose(&'a Purpose, &'a str),
    /// Which session of ours it carried before that was deleted, and what that was called.
    Was(&'a SessionId, &'a Title),
}

/// What a native session tells of itself.
struct Told {
    /// What it is called, where it is called anything.
    title: Option<Title>,
    /// What its tags say that it is for.
    purpose: Option<Purpose>,
    /// What was said in it.
    turns: Vec<AdoptedTurn>,
    /// Where it belongs.
    project: Project,
}

impl Engine {
    /// The session that carries a native one; it is made now, out of all that was said there, if there is none yet. It
    /// is then for what its own tags say, or else for the purpose it is known to have `beside`. That it was made is noted
    /// in its log, and to be said.
    pub(crate) async fn adopt(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        project: &Project,
        beside: Beside<'_>,
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
        let told = match &found {
            Some(native) => self.told_by(native, project)?,
            // Only the agent itself knows what was said there.
            None => Told {
                title: None,
                purpose: None,
                turns: Vec::new(),
                project: project.clone(),
            },
        };
        let (turns, at_home) = (told.turns, told.project);
        let (known, why, was) = match beside {
            Beside::Nothing => (None, String::new(), None),
            Beside::Purpose(purpose, why) => {
                let why = format!(", for {purpose}, since {why}");
                (Some(purpose), why, None)
            }
            Beside::Was(session, title) => (None, String::new(), Some((session, title))),
        };
        let purpose = told.purpose.as_ref().or(known);
        let title = was.map(|(_, title)| title.clone()).or(told.title);
        let title = title.unwrap_or_else(|| Title::from_prompt(NAMELESS));
        let count = turns.len();
        let native = Adopted {
            native_id: id.clone(),
            turns,
        };
        let new = self.free_session(&at_home, &title, purpose, provider);
        let mut new = new.await?;
        if let Some((before, _)) = was
            && self.store.session(before).await?.is_none()
        {
            new.id = before.clone();
        }
        let session = new.id.clone();
        match self.store.adopt(new, self.world.me.clone(), native).await {
            // Somebody else was quicker.
            Err(StoreError::Carried(carrier)) => Ok((self.existing(&carrier).await?, None)),
            Err(error) => Err(error.into()),
            Ok(lease) => {
                let s = if count == 1 { "" } else { "s" };
                let text = format!(
                    "took {named} over as session {session}, with its {count} turn{s}{why}"
                );
                let decision = Decision::new(DecisionKind::Session, text);
                let at = (self.world.now)();
                let noted = self.store.note(&lease, &decision, at).await;
                self.store.release(&lease).await?;
                noted?;
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
        let provider = self.driver_to_be(keeper);
        let id = &native.session.head.id;
        self.adopt(&provider, id, here, Beside::Nothing).await
    }

    /// Who drives the sessions of an agent, or will.
    pub(crate) fn driver_to_be(&self, keeper: &ProviderId) -> ProviderId {
        self.driver(keeper).unwrap_or_else(|| usual_driver(keeper))
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

    /// What a native session tells of itself.
    fn told_by(&self, native: &Native, here: &Project) -> Result<Told, EngineError> {
        let survey = self.survey(&native.session)?;
        let mut turns = Vec::new();
        let mut purpose = None;
        let now = (self.world.now)();
        self.replay(&native.session, &survey, 0, &mut |n, mut turn| {
            if n == 0 {
                purpose = bare(&mut turn);
            }
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
        Ok(Told {
            title,
            purpose,
            turns,
            project,
        })
    }
}

/// Leaves of a first prompt what the person said; tells what its tags say. What the agent was told before it is
/// kept behind it, in our own name: where nothing else is left, that is all there is of what was said before.
pub(crate) fn bare(turn: &mut NativeTurn) -> Option<Purpose> {
    let prompt = turn.messages.first_mut()?;
    let at = prompt.at;
    let text = prompt.parts.iter_mut().find_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    })?;
    let sent = Sent::read(text);
    let (purpose, brief) = (sent.purpose, sent.brief.to_owned());
    *text = sent.prompt.to_owned();
    if !brief.is_empty() {
        let told = Message::text(Role::System, brief, at);
        turn.messages.insert(1, told);
    }
    purpose
}

/// A turn that was made elsewhere. Its prompt is bare, unless it only begins with what might be tags: those count in a
/// native session's first prompt.
pub(crate) fn made_elsewhere(mut turn: NativeTurn, now: jiff::Timestamp) -> AdoptedTurn {
    let prompt = turn.messages.first().map(Message::words);
    if prompt.is_some_and(|prompt| !Sent::read(&prompt).brief.is_empty()) {
        bare(&mut turn);
    }
    adopted(turn, now)
}

fn adopted(mut turn: NativeTurn, now: jiff::Timestamp) -> AdoptedTurn {
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
