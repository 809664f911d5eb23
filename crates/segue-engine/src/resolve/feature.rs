//! Lookup of a session by the name of a feature.

use segue_core::id::FeatureId;
use segue_core::scope::Scope;
use segue_core::session::Session;
use segue_store::{Filter, Page};

use super::Fitting;
use crate::{Engine, EngineError};

/// Maximum number of a feature's sessions that are read.
const LOOKED_AT: u32 = 100;

impl Engine {
    /// Finds the session of a feature among those that match a filter: the newest one with turns, and the feature's own
    /// session before those of its tasks and roles.
    ///
    /// Fails with [`EngineError::Ambiguous`] if several agents have such a session.
    pub(super) async fn of_feature(
        &self,
        feature: &FeatureId,
        among: Filter,
    ) -> Result<Option<Session>, EngineError> {
        let own = Filter {
            purpose: Some(Scope::Feature(feature.clone()).into()),
            ..among.clone()
        };
        let any = Filter {
            feature: Some(feature.clone()),
            ..among
        };
        let own = self.said_and_blank(&own).await?;
        let any = self.said_and_blank(&any).await?;
        // A session without turns is used only if there is no other.
        for mut found in [own.0, any.0, own.1, any.1] {
            let mut agents = Vec::new();
            found.retain(|session| {
                let first = !agents.contains(&session.provider);
                agents.push(session.provider.clone());
                first
            });
            match found.as_slice() {
                [] => {}
                [session] => return Ok(Some(session.clone())),
                several => {
                    return Err(EngineError::Ambiguous {
                        text: format!("feature:{feature}"),
                        candidates: several.iter().map(Fitting::from).collect(),
                    });
                }
            }
        }
        Ok(None)
    }

    /// Returns the matching sessions, newest first: those with turns, and those without.
    async fn said_and_blank(
        &self,
        filter: &Filter,
    ) -> Result<(Vec<Session>, Vec<Session>), EngineError> {
        let found = self.store.find(filter, Page::first(LOOKED_AT)).await?;
        let found = found.sessions.into_iter();
        Ok(found.partition(|session| session.turns > 0))
    }

    /// Returns the newest matching session that has turns.
    pub(super) async fn newest_said(
        &self,
        filter: &Filter,
    ) -> Result<Option<Session>, EngineError> {
        let (said, _) = self.said_and_blank(filter).await?;
        Ok(said.into_iter().next())
    }
}
