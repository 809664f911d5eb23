//! Adoption: a native session becomes a session of segue, with all its turns.

use std::ops::ControlFlow;

use segue_agents::known::KNOWN;
use segue_catalog::NativeTurn;
use segue_core::brief::Sent;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, DecisionKind, Message, Part, Project, Role, Session, Title, TurnState,
};
use segue_store::{Adopted, AdoptedTurn, NewSession, StoreError};

use crate::native::keeper;
use crate::{Engine, EngineError, Native, counted};

/// Title of an adopted session that has neither a title nor a prompt.
const NAMELESS: &str = "a session without a name";

/// Information about a native session that its own files do not contain.
#[derive(Clone, Copy)]
pub(crate) enum Beside<'a> {
    /// No information.
    Nothing,
    /// Purpose of the native session, and the evidence for it.
    Purpose(&'a Purpose, &'a str),
    /// Id and title of the deleted session that used the native session before.
    Was(&'a SessionId, &'a Title),
}

/// Information that the files of a native session contain.
struct Told {
    /// Title; `None` if the native session has neither a title nor a prompt.
    title: Option<Title>,
    /// Purpose in the tags of the first prompt; `None` if it has no tags.
    purpose: Option<Purpose>,
    /// Turns, in the form in which the store adopts them.
    turns: Vec<AdoptedTurn>,
    /// Project in which the native session works.
    project: Project,
}

impl Engine {
    /// Returns the session that uses a native session. If no session does, creates one from all turns of the native
    /// session. The purpose of the new session is the one in the native session's own tags, or else the one in
    /// `beside`. The decision to create it is logged in the session, and returned so that the caller can report it.
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
            // segue cannot read the messages of this native session; only its agent can.
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
            // A concurrent process adopted the native session first.
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

    /// Adopts a native session. The decision is logged in the new session, and returned so that the caller can report
    /// it; `None` if a session uses the native session already.
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

    /// Returns the provider that drives the native sessions of `keeper`, or that will once it is configured.
    pub(crate) fn driver_to_be(&self, keeper: &ProviderId) -> ProviderId {
        self.driver(keeper).unwrap_or_else(|| usual_driver(keeper))
    }

    /// Prepares a session under a free id. The id is checked first, because the turns are too large to pass to the
    /// store twice.
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

    /// Returns the session whose active leg runs on this native session; `None` if no session does.
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

    /// Reads a native session. `here` is the project if the native session's files name none.
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

/// Reduces a first prompt to the text that the user wrote, and returns the purpose in its tags. The brief before that
/// text becomes a system message after the prompt, because it may be all that remains of the earlier conversation.
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

/// Converts a turn that was made outside segue, and removes a brief from its prompt. A prompt without a brief stays
/// unchanged even if it begins with text that looks like tags, because tags count only in a native session's first
/// prompt.
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

/// Returns the provider that will drive the sessions of an agent that segue cannot drive now: the agent itself if segue
/// has built-in support for it, or else `acp:NAME`, which the user has to configure.
fn usual_driver(keeper: &ProviderId) -> ProviderId {
    let direct = KNOWN.iter().any(|known| known.provider == keeper.as_str());
    let over_acp = ProviderId::parse(&format!("acp:{keeper}")).ok();
    over_acp
        .filter(|_| !direct)
        .unwrap_or_else(|| keeper.clone())
}
