//! Lookup of the session that a typed reference means.

use std::fmt;

use jiff::Timestamp;
use segue_catalog::NativeSession;
use segue_core::brief::Sent;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Decision, MatchedBy, Pick, Project, Session, SessionRef, pick};
use segue_store::{Filter, Page, StoreError};

use crate::{Conversation, ConversationId, Engine, EngineError, Native};

/// Context in which a reference is resolved.
#[derive(Debug, Clone)]
pub struct Standpoint {
    /// Current project.
    pub project: Project,
    /// Conversations of the last list that was shown, for references by number.
    pub last_list: Vec<ConversationId>,
}

/// A conversation that an ambiguous text may mean, with details that distinguish it from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitting {
    /// Id of the conversation.
    pub id: ConversationId,
    /// Title, or the first prompt of a native session without a title. `None` if it has neither.
    pub title: Option<String>,
    /// Time of the last activity.
    pub updated_at: Timestamp,
    /// Agent of the conversation. `None` if the id contains it.
    pub agent: Option<ProviderId>,
}

impl fmt::Display for Fitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl From<&Session> for Fitting {
    fn from(session: &Session) -> Self {
        Self {
            id: ConversationId::Session(session.id.clone()),
            title: Some(session.title.as_str().to_owned()),
            updated_at: session.updated_at,
            agent: Some(session.provider.clone()),
        }
    }
}

impl From<&Native> for Fitting {
    fn from(native: &Native) -> Self {
        Self::from(&native.session)
    }
}

impl From<&NativeSession> for Fitting {
    fn from(native: &NativeSession) -> Self {
        let head = &native.head;
        let title = head.title.as_ref().map(|title| title.as_str().to_owned());
        Self {
            id: ConversationId::Native(native.provider.clone(), head.id.clone()),
            title: title.or_else(|| {
                let prompt = head.first_prompt.as_deref();
                prompt.map(|prompt| Sent::words(prompt).to_owned())
            }),
            updated_at: head.updated_at,
            agent: None,
        }
    }
}

impl Engine {
    /// Finds the session that a typed reference means. Fails if only a native session matches, which is not adopted.
    pub async fn find(
        &self,
        reference: &SessionRef,
        standpoint: &Standpoint,
    ) -> Result<Session, EngineError> {
        match self.find_own(reference, standpoint).await {
            Err(EngineError::NoMatch(text)) if matches!(reference, SessionRef::Text(_)) => {
                let natives = self.lookup_native(&text).await?;
                Err(match natives.as_slice() {
                    [] => EngineError::NoMatch(text),
                    [native] => EngineError::OnlyNative(native.id()),
                    several => EngineError::Ambiguous {
                        text,
                        candidates: several.iter().map(Fitting::from).collect(),
                    },
                })
            }
            outcome => outcome,
        }
    }

    /// Finds the session that a typed reference means. A native session is adopted with all its messages, which the
    /// decision reports.
    pub async fn take(
        &self,
        reference: &SessionRef,
        standpoint: &Standpoint,
    ) -> Result<(Session, Option<Decision>), EngineError> {
        match self.find_any(reference, standpoint).await? {
            Conversation::Session(session, _) => Ok((*session, None)),
            Conversation::Native(native) => self.take_over(&native, &standpoint.project).await,
        }
    }

    /// Finds the session of segue that a typed reference means.
    pub(crate) async fn find_own(
        &self,
        reference: &SessionRef,
        standpoint: &Standpoint,
    ) -> Result<Session, EngineError> {
        let here = Filter {
            project: Some(standpoint.project.key.clone()),
            ..Filter::default()
        };
        let no_match = |text: String| move || EngineError::NoMatch(text);
        match reference {
            SessionRef::Latest => self
                .newest(here)
                .await?
                .ok_or_else(no_match("latest".into())),
            SessionRef::Feature(feature) => {
                let found = self.of_feature(feature, here).await?;
                found.ok_or_else(no_match(format!("feature:{feature}")))
            }
            SessionRef::Number(number) => {
                let listed = number
                    .checked_sub(1)
                    .and_then(|index| standpoint.last_list.get(index));
                match listed {
                    Some(ConversationId::Session(id)) => self.existing(id).await,
                    Some(native) => Err(EngineError::OnlyNative(native.clone())),
                    None => Err(EngineError::NoNumber {
                        number: *number,
                        listed: standpoint.last_list.len(),
                    }),
                }
            }
            SessionRef::Text(text) => match self.pick(text).await? {
                Pick::One(id) => self.existing(&id).await,
                Pick::None => Err(EngineError::NoMatch(text.clone())),
                Pick::Ambiguous(ids) => {
                    let mut candidates = Vec::with_capacity(ids.len());
                    for id in ids {
                        candidates.push(Fitting::from(&self.existing(&id).await?));
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
    async fn pick(&self, text: &str) -> Result<Pick, EngineError> {
        let named = text.split_once(':');
        let Some((provider, id)) = named.filter(|(_, id)| !id.is_empty()) else {
            return Ok(pick(&self.store.candidates(text).await?));
        };
        let mut fitting = Vec::new();
        for candidate in self.store.candidates(id).await? {
            if matches!(
                candidate.by,
                MatchedBy::Id | MatchedBy::Alias | MatchedBy::Prefix | MatchedBy::Suffix
            ) {
                continue;
            }
            let legs = self.store.legs(&candidate.id).await?;
            if legs.iter().any(|leg| leg.provider.as_str() == provider) {
                fitting.push(candidate);
            }
        }
        Ok(pick(&fitting))
    }

    pub(crate) async fn existing(&self, id: &SessionId) -> Result<Session, EngineError> {
        let session = self.store.session(id).await?;
        session.ok_or_else(|| StoreError::NoSession(id.clone()).into())
    }

    pub(super) async fn newest(&self, filter: Filter) -> Result<Option<Session>, EngineError> {
        let found = self.store.find(&filter, Page::first(1)).await?;
        Ok(found.sessions.into_iter().next())
    }
}
