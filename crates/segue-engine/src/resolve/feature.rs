//! Lookup of a session by the name of a feature.

use segue_core::id::FeatureId;
use segue_core::scope::Scope;
use segue_core::session::Session;
use segue_store::{PageRequest, SessionFilter};

use super::SessionMatch;
use crate::ResolveError;
use crate::resolve::Resolver;

/// Maximum number of a feature's sessions that are read.
const MAX_FEATURE_SESSIONS: u32 = 100;

impl Resolver {
    /// Finds the session of a feature among those that match a filter: the newest one with turns, and the feature's own
    /// session before those of its tasks and roles.
    ///
    /// Fails with [`ResolveError::Ambiguous`] if several agents have such a session.
    pub(super) async fn find_feature_session(
        &self,
        feature: &FeatureId,
        filter: SessionFilter,
    ) -> Result<Option<Session>, ResolveError> {
        let own_filter = SessionFilter {
            purpose: Some(Scope::Feature(feature.clone()).into()),
            ..filter.clone()
        };
        let any_filter = SessionFilter {
            feature: Some(feature.clone()),
            ..filter
        };
        let own_sessions = self.find_with_and_without_turns(&own_filter).await?;
        let any_sessions = self.find_with_and_without_turns(&any_filter).await?;
        // A session without turns is used only if there is no other.
        for mut sessions in [
            own_sessions.0,
            any_sessions.0,
            own_sessions.1,
            any_sessions.1,
        ] {
            let mut providers = Vec::new();
            sessions.retain(|session| {
                let is_first = !providers.contains(&session.provider);
                providers.push(session.provider.clone());
                is_first
            });
            match sessions.as_slice() {
                [] => {}
                [session] => return Ok(Some(session.clone())),
                several => {
                    return Err(ResolveError::Ambiguous {
                        text: format!("feature:{feature}"),
                        candidates: several.iter().map(SessionMatch::from).collect(),
                    });
                }
            }
        }
        Ok(None)
    }

    /// Returns the matching sessions, newest first: those with turns, and those without.
    async fn find_with_and_without_turns(
        &self,
        filter: &SessionFilter,
    ) -> Result<(Vec<Session>, Vec<Session>), ResolveError> {
        let page = self
            .context
            .store
            .list_sessions(filter, PageRequest::first(MAX_FEATURE_SESSIONS))
            .await?;
        let sessions = page.sessions.into_iter();
        Ok(sessions.partition(|session| session.turns > 0))
    }

    /// Returns the newest matching session that has turns.
    pub(super) async fn newest_with_turns(
        &self,
        filter: &SessionFilter,
    ) -> Result<Option<Session>, ResolveError> {
        let (with_turns, _) = self.find_with_and_without_turns(filter).await?;
        Ok(with_turns.into_iter().next())
    }
}
