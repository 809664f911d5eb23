//! Lookup in the catalog, used if the store has no session for a feature or a task: a native session that had this
//! purpose.

use std::path::Path;

use segue_catalog::Index;
use segue_catalog::index::NativeStatus;
use segue_core::id::ProviderId;
use segue_core::scope::{NATIVE_MATCH_WINDOW, NativeSummary, Purpose, Scope, is_recent};
use segue_core::session::{Decision, PurposeNative, ResolutionStep, Session};
use segue_store::SessionFilter;

use super::ResolutionTrace;
use crate::resolve::Resolver;
use crate::resolve::adopt::AdoptionHint;
use crate::{ChatRequest, Freshness, NativeEntry, ResolveError};

impl Resolver {
    /// Adopts the newest native session of the last seven days that had the purpose and is not attached to a session of
    /// segue.
    pub(super) async fn adopt_matching_native(
        &self,
        request: &ChatRequest,
        purpose: &Purpose,
        provider: Option<&ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<Option<Session>, ResolveError> {
        if purpose.scope == Scope::Project {
            return Ok(None);
        }
        let natives = self.recent_natives(&request.project.key, provider).await?;
        let candidates = u64::try_from(natives.len()).unwrap_or(u64::MAX);
        let found = self.newest_purpose_match(purpose, natives, provider);
        trace.steps.push(ResolutionStep::CatalogSearched {
            purpose: purpose.clone(),
            candidates,
            found: found.clone(),
        });
        let Some(found) = found else {
            return Ok(None);
        };
        let (provider, id) = (&found.provider, &found.native_id);
        let natives = &self.context.natives;
        natives.ensure_no_foreign_process(provider, id).await?;
        let hint = AdoptionHint::Purpose(purpose, found.evidence);
        let adoption = self.adopt_by_id(provider, id, &request.project, hint);
        let (session, decision) = adoption.await?;
        if decision.is_none() {
            trace.decisions.push(Decision::SessionContinued {
                session: session.id.clone(),
                title: None,
                purpose: Some(purpose.clone()),
            });
        }
        trace.logged_decisions.extend(decision);
        Ok(Some(session))
    }

    /// Returns the native sessions of a project that were active in the last seven days and are not attached to a
    /// session of segue.
    async fn recent_natives(
        &self,
        project: &str,
        provider: Option<&ProviderId>,
    ) -> Result<Vec<NativeEntry>, ResolveError> {
        let now = self.context.now();
        let filter = SessionFilter {
            provider: provider.cloned(),
            since: now.checked_sub(NATIVE_MATCH_WINDOW).ok(),
            ..SessionFilter::in_project(project)
        };
        // Building an index takes longer than reading the few files that were written recently.
        let index = self.library.index();
        let freshness = if index.is_some_and(Index::has_completed_refresh) {
            Freshness::Fresh
        } else {
            Freshness::Scanned
        };
        let listing = self
            .library
            .list_unattached_natives(&filter, u32::MAX, freshness)
            .await?;
        let is_active = |native: &NativeEntry| is_recent(native.session.head.updated_at, now);
        Ok(listing.natives.into_iter().filter(is_active).collect())
    }

    /// Returns the newest of the native sessions that had the purpose and can be resumed.
    fn newest_purpose_match(
        &self,
        purpose: &Purpose,
        mut natives: Vec<NativeEntry>,
        provider: Option<&ProviderId>,
    ) -> Option<PurposeNative> {
        let now = self.context.now();
        natives.sort_by_key(|native| std::cmp::Reverse(native.session.head.updated_at));
        natives.into_iter().find_map(|native| {
            let head = &native.session.head;
            let summary = NativeSummary {
                first_prompt: head.first_prompt.as_deref(),
                title: head.title.as_ref(),
                updated_at: head.updated_at,
            };
            let evidence = purpose.match_native(&summary, now)?;
            // An archived session, or one whose directory no longer exists, is not resumed.
            let status = native.details.as_ref().map(|details| details.status);
            let is_archived =
                native.session.location.archived || status == Some(NativeStatus::Archived);
            let has_directory = head.cwd.as_ref().is_some_and(|cwd| Path::new(cwd).is_dir());
            let driver = match provider {
                Some(provider) => Some(provider.clone()),
                None => self.context.agents.find_driver(&native.session.provider),
            };
            let is_resumable = !is_archived && has_directory;
            driver
                .filter(|_| is_resumable)
                .map(|provider| PurposeNative {
                    provider,
                    native_id: head.id.clone(),
                    evidence,
                })
        })
    }
}
