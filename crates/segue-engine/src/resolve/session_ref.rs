//! Lookup of the session that a typed reference means.

use std::fmt;

use jiff::Timestamp;
use segue_catalog::NativeSession;
use segue_core::brief::FirstPrompt;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{
    Decision, MatchedBy, Project, RefMatch, Session, SessionRef, best_ref_match,
};
use segue_store::SessionFilter;

use crate::resolve::Resolver;
use crate::{Conversation, ConversationId, Freshness, NativeEntry, ResolveError};

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
            id: ConversationId::from(native),
            title: title.or_else(|| {
                let prompt = head.first_prompt.as_deref();
                prompt.map(|prompt| FirstPrompt::user_prompt(prompt).to_owned())
            }),
            updated_at: head.updated_at,
            agent: None,
        }
    }
}

impl Resolver {
    /// Finds the session that a typed reference means. Fails if only a native session matches, which is not adopted.
    pub async fn find_session(
        &self,
        reference: &SessionRef,
        context: &RefContext,
    ) -> Result<Session, ResolveError> {
        match self.find_own_session(reference, context).await {
            Err(ResolveError::NoMatch(text)) if matches!(reference, SessionRef::Text(_)) => {
                let natives = self.context.natives.lookup_natives(&text).await?;
                Err(match natives.as_slice() {
                    [] => ResolveError::NoMatch(text),
                    [native] => ResolveError::NotAdopted(native.id()),
                    several => ResolveError::Ambiguous {
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
    ) -> Result<(Session, Option<Decision>), ResolveError> {
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
    ) -> Result<Session, ResolveError> {
        let project_filter = SessionFilter::in_project(&context.project.key);
        let found = match reference {
            SessionRef::Latest => self.context.newest_session(project_filter).await?,
            SessionRef::Feature(feature) => {
                self.find_feature_session(feature, project_filter).await?
            }
            SessionRef::Number(number) => {
                let index = number.checked_sub(1);
                match index.and_then(|index| context.last_list.get(index)) {
                    Some(ConversationId::Session(id)) => {
                        Some(self.context.require_session(id).await?)
                    }
                    Some(native) => return Err(ResolveError::NotAdopted(native.clone())),
                    None => {
                        return Err(ResolveError::NoListEntry {
                            number: *number,
                            list_len: context.last_list.len(),
                        });
                    }
                }
            }
            SessionRef::Text(text) => match self.find_ref_match(text).await? {
                RefMatch::Unique(id) => Some(self.context.require_session(&id).await?),
                RefMatch::None => None,
                RefMatch::Ambiguous(ids) => {
                    let mut candidates = Vec::with_capacity(ids.len());
                    for id in ids {
                        let session = self.context.require_session(&id).await?;
                        candidates.push(SessionMatch::from(&session));
                    }
                    return Err(ResolveError::Ambiguous {
                        text: text.clone(),
                        candidates,
                    });
                }
            },
        };
        found.ok_or_else(|| {
            ResolveError::NoMatch(match reference {
                SessionRef::Latest => "latest".to_owned(),
                SessionRef::Feature(feature) => format!("feature:{feature}"),
                SessionRef::Number(number) => number.to_string(),
                SessionRef::Text(text) => text.clone(),
            })
        })
    }

    /// Finds the session that a text means. In `PROVIDER:ID`, the id is a native one.
    async fn find_ref_match(&self, text: &str) -> Result<RefMatch, ResolveError> {
        let store = &self.context.store;
        let parts = text.split_once(':');
        let Some((provider, id)) = parts.filter(|(_, id)| !id.is_empty()) else {
            return Ok(best_ref_match(&store.ref_candidates(text).await?));
        };
        let mut matching = Vec::new();
        for candidate in store.ref_candidates(id).await? {
            if matches!(
                candidate.matched_by,
                MatchedBy::Id | MatchedBy::Alias | MatchedBy::Prefix | MatchedBy::Suffix
            ) {
                continue;
            }
            let legs = store.legs(&candidate.id).await?;
            if legs.iter().any(|leg| leg.provider.as_str() == provider) {
                matching.push(candidate);
            }
        }
        Ok(best_ref_match(&matching))
    }

    /// Finds the conversation that a typed reference names. `claude:ID` names a native session.
    pub async fn find_conversation(
        &self,
        reference: &SessionRef,
        ref_context: &RefContext,
    ) -> Result<Conversation, ResolveError> {
        if matches!(reference, SessionRef::Latest) {
            let project_filter = SessionFilter::in_project(&ref_context.project.key);
            let listing = self
                .library
                .list_conversations(&project_filter, 1, Freshness::Fresh);
            let newest = listing.await?.rows.into_iter().next();
            return newest.ok_or_else(|| ResolveError::NoMatch("latest".into()));
        }
        let text = match self.find_own_session(reference, ref_context).await {
            Ok(session) => {
                let status = self.context.leases.session_status(&session).await?;
                return Ok(Conversation::Session(Box::new(session), status));
            }
            Err(ResolveError::NoMatch(text)) => text,
            Err(ResolveError::NotAdopted(id)) => id.to_string(),
            Err(error) => return Err(error),
        };
        let mut natives = self.context.natives.lookup_natives(&text).await?;
        let missing = match (natives.len(), reference) {
            (0, SessionRef::Number(_)) => ResolveError::ListEntryMissing(text.clone()),
            (0, _) if self.is_indexed(&text) => ResolveError::Deleted(text.clone()),
            (0, _) => return Err(ResolveError::NoMatch(text)),
            (1, _) => return Ok(Conversation::Native(Box::new(natives.remove(0)))),
            _ => {
                return Err(ResolveError::Ambiguous {
                    text,
                    candidates: natives.iter().map(SessionMatch::from).collect(),
                });
            }
        };
        // A file that contains no conversation any more explains why.
        let natives = &self.context.natives;
        let explanation = natives.with_catalog(move |catalog| catalog.find_read_error(&text));
        Err(explanation.await.map_or(missing, ResolveError::from))
    }

    /// Returns `true` if the index contains a native session with this id, which the caller could not find.
    fn is_indexed(&self, text: &str) -> bool {
        let (provider, id) = match text.split_once(':') {
            Some((provider, id)) => (ProviderId::parse(provider).ok(), id),
            None => (None, text),
        };
        let (Ok(id), Some(index)) = (NativeId::parse(id), &self.context.index) else {
            return false;
        };
        let has_row =
            |provider: &ProviderId| matches!(index.find_session(provider, &id), Ok(Some(_)));
        let readable = self.context.natives.catalog.providers();
        let mut readable = readable.filter_map(|name| ProviderId::parse(name).ok());
        provider.map_or_else(
            || readable.any(|provider| has_row(&provider)),
            |provider| has_row(&provider),
        )
    }
}
