//! Lookup in the catalog, used if the store has no session for a feature or a task: a native session that had this
//! purpose.

use std::path::Path;

use segue_catalog::index::State;
use segue_core::id::{NativeId, ProviderId};
use segue_core::scope::{Evidence, Purpose, Scope, Sighting, is_recent};
use segue_core::session::{DecisionKind, Session, StepKind};
use segue_store::Filter;

use super::Trail;
use crate::adopt::Beside;
use crate::{ChatRequest, Engine, EngineError, Freshness, Native};

/// A native session that had the purpose, and the agent that can resume it.
struct Found {
    provider: ProviderId,
    id: NativeId,
    by: Evidence,
}

impl Engine {
    /// Adopts the newest native session of the last seven days that had the purpose and is not attached to a session of
    /// segue.
    pub(super) async fn known_again(
        &self,
        request: &ChatRequest,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        trail: &mut Trail,
    ) -> Result<Option<Session>, EngineError> {
        if purpose.scope == Scope::Project {
            return Ok(None);
        }
        let natives = self.recent_natives(&request.project.key, provider).await?;
        let looked_at = natives.len();
        let found = self.newest_of(purpose, natives, provider);
        let Some(found) = found else {
            let text = format!(
                "{looked_at} native sessions of the last 7 days that carry none of segue's, none of them for {purpose}"
            );
            trail.step(StepKind::Catalog, text);
            return Ok(None);
        };
        let Found { provider, id, by } = found;
        let why = match (by, purpose.heading()) {
            (Evidence::Tag, Some(heading)) => format!("its first prompt begins with {heading}"),
            (Evidence::Tag, None) | (Evidence::Title, _) => "it is called so".to_owned(),
        };
        let text = format!(
            "{looked_at} native sessions of the last 7 days that carry none of segue's; the newest for {purpose} is \
             {provider}:{id}, since {why}"
        );
        trail.step(StepKind::Catalog, text);
        self.refuse_strangers_in(&provider, &id).await?;
        let beside = Beside::Purpose(purpose, &why);
        let adopted = self.adopt(&provider, &id, &request.project, beside);
        let (session, adopted) = adopted.await?;
        if adopted.is_none() {
            let text = format!("continuing session {} for {purpose}", session.id);
            trail.decide(DecisionKind::Continued, text);
        }
        trail.done.extend(adopted);
        Ok(Some(session))
    }

    /// Returns the native sessions of a project that were active in the last seven days and are not attached to a
    /// session of segue.
    async fn recent_natives(
        &self,
        project: &str,
        provider: Option<&ProviderId>,
    ) -> Result<Vec<Native>, EngineError> {
        let now = (self.world.now)();
        let filter = Filter {
            project: Some(project.to_owned()),
            provider: provider.cloned(),
            since: now.checked_sub(segue_core::scope::RECENT).ok(),
            ..Filter::default()
        };
        // Building an index takes longer than reading the few files that were written recently.
        let whole = self.index().is_some_and(segue_catalog::Index::is_whole);
        let freshness = if whole {
            Freshness::Fresh
        } else {
            Freshness::Scanned
        };
        let natives = match self.indexed(&filter, u32::MAX, freshness).await? {
            Ok(indexed) => indexed.natives,
            Err(_) => self.natives(&filter).await?.0,
        };
        let fits = |native: &Native| is_recent(native.session.head.updated_at, now);
        Ok(natives.into_iter().filter(fits).collect())
    }

    /// Returns the newest of the native sessions that had the purpose and can be resumed.
    fn newest_of(
        &self,
        purpose: &Purpose,
        mut natives: Vec<Native>,
        provider: Option<&ProviderId>,
    ) -> Option<Found> {
        let now = (self.world.now)();
        natives.sort_by_key(|native| std::cmp::Reverse(native.session.head.updated_at));
        natives.into_iter().find_map(|native| {
            let head = &native.session.head;
            let seen = Sighting {
                first_prompt: head.first_prompt.as_deref(),
                title: head.title.as_ref(),
                updated_at: head.updated_at,
            };
            let by = purpose.is_that_of(&seen, now)?;
            // An archived session, or one whose directory no longer exists, is not resumed.
            let known = native.known.as_ref().map(|known| known.state);
            let put_away = native.session.found.archived || known == Some(State::Archived);
            let at_home = head.cwd.as_ref().is_some_and(|cwd| Path::new(cwd).is_dir());
            let driver = match provider {
                Some(provider) => Some(provider.clone()),
                None => self.driver(&native.session.provider),
            };
            let free = !put_away && at_home;
            driver.filter(|_| free).map(|provider| Found {
                provider,
                id: head.id.clone(),
                by,
            })
        })
    }
}
