//! Adoption: a native session becomes a session of segue, with all its turns.

use std::ops::ControlFlow;

use segue_catalog::{NativeTurn, ReadError};
use segue_core::brief::FirstPrompt;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::scope::{Purpose, PurposeEvidence};
use segue_core::session::{
    AdoptionPurpose, Decision, Message, Part, Project, Role, Session, Title, TurnState,
};
use segue_store::{AdoptedSession, AdoptedTurn, StoreError};

use crate::native::{read_native_outline, read_native_turns};
use crate::resolve::Resolver;
use crate::{NativeEntry, ResolveError, token_count};

/// Title of an adopted session that has neither a title nor a prompt.
const UNTITLED_SESSION_TITLE: &str = "untitled session";

/// Information about a native session that its own files do not contain.
#[derive(Clone, Copy)]
pub(crate) enum AdoptionHint<'a> {
    /// No information.
    Empty,
    /// Purpose of the native session, and the evidence for it.
    Purpose(&'a Purpose, PurposeEvidence),
    /// Id and title of the deleted session that used the native session before.
    DeletedSession(&'a SessionId, &'a Title),
}

/// Information that the files of a native session contain.
struct AdoptionSource {
    /// Title; `None` if the native session has neither a title nor a prompt.
    title: Option<Title>,
    /// Purpose in the tags of the first prompt; `None` if it has no tags.
    purpose: Option<Purpose>,
    /// Turns, in the form in which the store adopts them.
    turns: Vec<AdoptedTurn>,
    /// Project in which the native session works.
    project: Project,
}

impl Resolver {
    /// Returns the session that uses a native session. If no session does, creates one from all turns of the native
    /// session. The purpose of the new session is the one in the native session's own tags, or else the one in
    /// `hint`. The decision to create it is logged in the session, and returned so that the caller can report it.
    pub(crate) async fn adopt_by_id(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        project: &Project,
        hint: AdoptionHint<'_>,
    ) -> Result<(Session, Option<Decision>), ResolveError> {
        if let Some(session) = self.session_using_native(provider, id).await? {
            return Ok((session, None));
        }
        let source = self.find_adoption_source(provider, id, project).await?;
        let (hinted, deleted_session) = match hint {
            AdoptionHint::Empty => (None, None),
            AdoptionHint::Purpose(purpose, evidence) => (Some((purpose, evidence)), None),
            AdoptionHint::DeletedSession(session, title) => (None, Some((session, title))),
        };
        let hinted_purpose = hinted.map(|(purpose, _)| purpose);
        let purpose = source.purpose.as_ref().or(hinted_purpose);
        let title = deleted_session
            .map(|(_, title)| title.clone())
            .or(source.title);
        let title = title.unwrap_or_else(|| Title::from_prompt(UNTITLED_SESSION_TITLE));
        let count = source.turns.len();
        let (context, store) = (&self.context, &self.context.store);
        let mut new = context.new_session(&source.project, &title, purpose, provider);
        if let Some((deleted_id, _)) = deleted_session {
            new.id = deleted_id.clone();
        }
        // The id is checked first, because the turns are too large to pass to the store twice.
        while store.session(&new.id).await?.is_some() {
            new.id = context.draw_session_id(new.at);
        }
        let session = new.id.clone();
        let adoption = AdoptedSession {
            native_id: id.clone(),
            turns: source.turns,
        };
        let owner = context.environment.process.clone();
        match store.adopt_native_session(new, owner, adoption).await {
            // A concurrent process adopted the native session first.
            Err(StoreError::NativeAttached(existing_id)) => {
                Ok((context.require_session(&existing_id).await?, None))
            }
            Err(error) => Err(error.into()),
            Ok(lease) => {
                let decision = Decision::SessionAdopted {
                    provider: provider.clone(),
                    native_id: id.clone(),
                    session: session.clone(),
                    turns: u64::try_from(count).unwrap_or(u64::MAX),
                    matched: hinted.map(|(purpose, evidence)| AdoptionPurpose {
                        purpose: purpose.clone(),
                        evidence,
                    }),
                };
                let logged = store.log_decision(&lease, &decision, context.now()).await;
                store.release_lease(&lease).await?;
                logged?;
                let session = context.require_session(&session).await?;
                Ok((session, Some(decision)))
            }
        }
    }

    /// Adopts a native session. The decision is logged in the new session, and returned so that the caller can report
    /// it; `None` if a session uses the native session already.
    pub async fn adopt_native(
        &self,
        native: &NativeEntry,
        current_project: &Project,
    ) -> Result<(Session, Option<Decision>), ResolveError> {
        let native_provider = &native.session.provider;
        let provider = self.context.agents.driver_or_default(native_provider);
        let id = &native.session.head.id;
        self.adopt_by_id(&provider, id, current_project, AdoptionHint::Empty)
            .await
    }

    /// Returns the session whose active leg runs on this native session; `None` if no session does.
    pub(crate) async fn session_using_native(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<Session>, ResolveError> {
        for candidate in self.context.store.ref_candidates(id.as_str()).await? {
            let session = self.context.require_session(&candidate.id).await?;
            if session.provider == *provider && session.native_id.as_ref() == Some(id) {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    /// Returns the information in the files of a native session. It is empty if segue cannot read them.
    async fn find_adoption_source(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        project: &Project,
    ) -> Result<AdoptionSource, ResolveError> {
        let natives = &self.context.natives;
        if natives.can_read_sessions(provider)
            && let Some(native) = natives.find_native(provider, id).await?
        {
            return Ok(self.read_adoption_source(&native, project).await?);
        }
        // segue cannot read the messages of this native session; only its agent can.
        Ok(AdoptionSource {
            title: None,
            purpose: None,
            turns: Vec::new(),
            project: project.clone(),
        })
    }

    /// Reads a native session. `fallback_project` is the project if the native session's files name none.
    async fn read_adoption_source(
        &self,
        native: &NativeEntry,
        fallback_project: &Project,
    ) -> Result<AdoptionSource, ReadError> {
        let head = &native.session.head;
        let (cwd, key) = (head.cwd.as_ref(), native.project.as_ref());
        let project = Project {
            cwd: cwd.unwrap_or(&fallback_project.cwd).clone(),
            key: key.unwrap_or(&fallback_project.key).clone(),
        };
        let (session, now) = (native.session.clone(), self.context.now());
        let reading = self.context.natives.with_catalog(move |catalog| {
            let outline = read_native_outline(catalog, &session)?;
            let mut turns = Vec::new();
            let mut purpose = None;
            read_native_turns(catalog, &session, &outline, 0, &mut |n, mut turn| {
                if n == 0 {
                    purpose = split_brief_from_prompt(&mut turn);
                }
                turns.push(adopt_turn(turn, now));
                ControlFlow::Continue(())
            })?;
            Ok((outline.title, purpose, turns))
        });
        let (title, purpose, turns) = reading.await?;
        let prompt_title = head.first_prompt.as_deref().map(Title::from_prompt);
        Ok(AdoptionSource {
            title: title.or_else(|| head.title.clone()).or(prompt_title),
            purpose,
            turns,
            project,
        })
    }
}

/// Reduces a first prompt to the text that the user wrote, and returns the purpose in its tags. The brief before that
/// text becomes a system message after the prompt, because it may be all that remains of the earlier conversation.
pub(crate) fn split_brief_from_prompt(turn: &mut NativeTurn) -> Option<Purpose> {
    let prompt = turn.messages.first_mut()?;
    let at = prompt.at;
    let text = prompt.parts.iter_mut().find_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    })?;
    let first_prompt = FirstPrompt::parse(text);
    let (purpose, brief) = (first_prompt.purpose, first_prompt.brief.to_owned());
    *text = first_prompt.prompt.to_owned();
    if !brief.is_empty() {
        let brief_message = Message::from_text(Role::System, brief, at);
        turn.messages.insert(1, brief_message);
    }
    purpose
}

/// Converts a turn that was made outside segue, and removes a brief from its prompt. A prompt without a brief stays
/// unchanged even if it begins with text that looks like tags, because tags count only in a native session's first
/// prompt.
pub(crate) fn adopt_outside_turn(mut turn: NativeTurn, now: jiff::Timestamp) -> AdoptedTurn {
    let prompt = turn.messages.first().map(Message::plain_text);
    if prompt.is_some_and(|prompt| !FirstPrompt::parse(&prompt).brief.is_empty()) {
        split_brief_from_prompt(&mut turn);
    }
    adopt_turn(turn, now)
}

fn adopt_turn(mut turn: NativeTurn, now: jiff::Timestamp) -> AdoptedTurn {
    turn.messages.iter_mut().for_each(|message| {
        token_count::count_message_tokens(message);
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
