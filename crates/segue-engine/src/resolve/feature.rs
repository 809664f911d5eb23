//! The session that is meant by the name of a feature.

use segue_core::{FeatureId, Scope, Session};
use segue_store::{Filter, Page};

use super::Fitting;
use crate::{Engine, EngineError};

/// How many of a feature's sessions are looked at.
const LOOKED_AT: u32 = 100;

impl Engine {
    /// The session of a feature among those that fit a filter: the newest in which something was said, its own before
    /// those of its tasks and roles. Where several agents have one each, it has to be said which is meant.
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
        // One that is blank is meant only where there is no other.
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

    /// The sessions that fit, newest first: those in which something was said, and the others.
    async fn said_and_blank(
        &self,
        filter: &Filter,
    ) -> Result<(Vec<Session>, Vec<Session>), EngineError> {
        let found = self.store.find(filter, Page::first(LOOKED_AT)).await?;
        let found = found.sessions.into_iter();
        Ok(found.partition(|session| session.turns > 0))
    }

    /// The newest session that fits and in which something was said.
    pub(super) async fn newest_said(
        &self,
        filter: &Filter,
    ) -> Result<Option<Session>, EngineError> {
        let (said, _) = self.said_and_blank(filter).await?;
        Ok(said.into_iter().next())
    }
}
