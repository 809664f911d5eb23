//! Lookup of the session that a typed reference means.

use std::fmt;

use jiff::Timestamp;
use segue_catalog::NativeSession;
use segue_core::brief::FirstPrompt;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{
    Decision, MatchedBy, Project, RefMatch, Session, SessionRef, best_ref_match,
};
use segue_store::{PageRequest, SessionFilter, StoreError};

use crate::{Conversation, ConversationId, Engine, EngineError, NativeEntry};

/// Context in which a reference is resolved.
#[derive(Debug, Clone)]
pub struct RefContext {
    /// Current project.
    pub project: Project,
    /// Conversations of the last list that was shown, for references by number.
    pub last_list: Vec<ConversationId>,
}

/// A conversation that an ambiguous text may mean, with details that distinguish it from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMatch {
    /// Id of the conversation.
    pub id: ConversationId,
    /// Title, or the first prompt of a native session without a title. `None` if it has neither.
    pub title: Option<String>,
    /// Time of the last activity.
    pub updated_at: Timestamp,
    /// Agent of the conversation. `None` if the id contains it.
    pub agent: Option<ProviderId>,
}

impl fmt::Display for SessionMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl From<&Session> for SessionMatch {
    fn from(session: &Session) -> Self {
        Self {
            id: ConversationId::Session(session.id.clone()),
            title: Some(session.title.as_str().to_owned()),
            updated_at: session.updated_at,
            agent: Some(session.provider.clone()),
        }
    }
}

impl From<&NativeEntry> for SessionMatch {
    fn from(native: &NativeEntry) -> Self {
        Self::from(&native.session)
    }
}

impl From<&NativeSession> for SessionMatch {
    fn from(native: &NativeSession) -> Self {
        let head = &native.head;
        let title = head.title.as_ref().map(|title| title.as_str().to_owned());
        Self {
            id: ConversationId::Native(native.provider.clone(), head.id.clone()),
            title: title.or_else(|| {
                let prompt = head.first_prompt.as_deref();
                prompt.map(|prompt| FirstPrompt::user_prompt(prompt).to_owned())
            }),
            updated_at: head.updated_at,
            agent: None,
        }
    }
}

impl Engine {
    /// Finds the session that a typed reference means. Fails if only a native session matches, which is not adopted.
    pub async fn find_session(
        &self,
        reference: &SessionRef,
        context: &RefContext,
    ) -> Result<Session, EngineError> {
        match self.find_own_session(reference, context).await {
            Err(EngineError::NoMatch(text)) if matches!(reference, SessionRef::Text(_)) => {
                let natives = self.lookup_natives(&text).await?;
                Err(match natives.as_slice() {
                    [] => EngineError::NoMatch(text),
                    [native] => EngineError::NotAdopted(native.id()),
                    several => EngineError::Ambiguous {
                        text,
                        candidates: several.iter().map(SessionMatch::from).collect(),
                    },
                })
            }
            outcome => outcome,
        }
    }

    /// Finds the session that a typed reference means. A native session is adopted with all its messages, which the
    /// decision reports.
    pub async fn find_or_adopt(
        &self,
        reference: &SessionRef,
        context: &RefContext,
    ) -> Result<(Session, Option<Decision>), EngineError> {
        match self.find_conversation(reference, context).await? {
            Conversation::Session(session, _) => Ok((*session, None)),
            Conversation::Native(native) => self.adopt_native(&native, &context.project).await,
        }
    }

    /// Finds the session of segue that a typed reference means.
    pub(crate) async fn find_own_session(
        &self,
        reference: &SessionRef,
        context: &RefContext,
    ) -> Result<Session, EngineError> {
        let project_filter = SessionFilter {
            project: Some(context.project.key.clone()),
            ..SessionFilter::default()
        };
        let no_match = |text: String| move || EngineError::NoMatch(text);
        match reference {
            SessionRef::Latest => self
                .newest_session(project_filter)
                .await?
                .ok_or_else(no_match("latest".into())),
            SessionRef::Feature(feature) => {
                let session = self.find_feature_session(feature, project_filter).await?;
                session.ok_or_else(no_match(format!("feature:{feature}")))
            }
            SessionRef::Number(number) => {
                let entry = number
                    .checked_sub(1)
                    .and_then(|index| context.last_list.get(index));
                match entry {
                    Some(ConversationId::Session(id)) => self.require_session(id).await,
                    Some(native) => Err(EngineError::NotAdopted(native.clone())),
                    None => Err(EngineError::NoListEntry {
                        number: *number,
                        list_len: context.last_list.len(),
                    }),
                }
            }
            SessionRef::Text(text) => match self.find_ref_match(text).await? {
                RefMatch::Unique(id) => self.require_session(&id).await,
                RefMatch::None => Err(EngineError::NoMatch(text.clone())),
                RefMatch::Ambiguous(ids) => {
                    let mut candidates = Vec::with_capacity(ids.len());
                    for id in ids {
                        candidates.push(SessionMatch::from(&self.require_session(&id).await?));
                    }
                    Err(EngineError::Ambiguous {
                        text: text.clone(),
                        candidates,
                    })
                }
            },
        }
    }

    /// Finds the session that a text means. In `PROVIDER:ID`, the id is a native one.
    async fn find_ref_match(&self, text: &str) -> Result<RefMatch, EngineError> {
        let parts = text.split_once(':');
        let Some((provider, id)) = parts.filter(|(_, id)| !id.is_empty()) else {
            return Ok(best_ref_match(&self.store.ref_candidates(text).await?));
        };
        let mut matching = Vec::new();
        for candidate in self.store.ref_candidates(id).await? {
            if matches!(
                candidate.matched_by,
                MatchedBy::Id | MatchedBy::Alias | MatchedBy::Prefix | MatchedBy::Suffix
            ) {
                continue;
            }
            let legs = self.store.legs(&candidate.id).await?;
            if legs.iter().any(|leg| leg.provider.as_str() == provider) {
                matching.push(candidate);
            }
        }
        Ok(best_ref_match(&matching))
    }

    pub(crate) async fn require_session(&self, id: &SessionId) -> Result<Session, EngineError> {
        let session = self.store.session(id).await?;
        session.ok_or_else(|| StoreError::NoSession(id.clone()).into())
    }

    pub(super) async fn newest_session(
        &self,
        filter: SessionFilter,
    ) -> Result<Option<Session>, EngineError> {
        let page = self
            .store
            .list_sessions(&filter, PageRequest::first(1))
            .await?;
        Ok(page.sessions.into_iter().next())
    }
}
