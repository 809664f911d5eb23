//! Index of the catalog: updated from the files of agents and from segue's own sessions, and queried for lists.

use std::sync::Arc;
use std::time::Duration;

use segue_catalog::index::{
    IndexError, IndexFilter, IndexedSession, NativeStatus, OwnSession, OwnSessionStamp, OwnTurn,
    Progress, RefreshOutcome,
};
use segue_catalog::{Catalog, Index, NativeSession};
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Project, Session, TurnState, Usage};
use segue_store::{SessionFilter, SessionStamp};

use crate::context::run_blocking;
use crate::library::Library;
use crate::library::conversations::format_unreadable;
use crate::native::storage_provider;
use crate::{LibraryError, NativeEntry};

/// Details of a native session that the index adds to its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedDetails {
    /// Number of turns.
    pub turns: u32,
    /// Token usage of all turns.
    pub usage: Usage,
    /// Model that answered last.
    pub model: Option<String>,
    /// Status of the session: live, archived or deleted.
    pub status: NativeStatus,
}

/// Freshness that a caller requires of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// As current as the files: the index is updated first.
    Fresh,
    /// As the index has it, without reading files. If the engine has no index, the files are read.
    AsIndexed,
    /// As current as the files, without using the index.
    Scanned,
}

/// A function that receives the progress of a refresh.
pub type ProgressCallback = Arc<dyn Fn(Progress) + Send + Sync>;

/// State of the index after a refresh, which decides whether a caller reads the index or the agents' files.
#[derive(Debug)]
pub struct IndexView {
    /// Freshness to request: [`Freshness::Scanned`] if the index cannot be used.
    pub freshness: Freshness,
    /// Agents whose files could not all be found or read, with the reason.
    pub unreadable: Vec<(ProviderId, String)>,
    /// Reason why the index may lack the latest changes. `None` if it is up to date, or was not refreshed.
    pub refresh_failure: Option<RefreshFailure>,
}

/// Reason why a refresh of the index failed.
#[derive(Debug)]
pub enum RefreshFailure {
    /// The index is being written by another process.
    Busy,
    /// The index could not be written.
    Failed(IndexError),
}

impl IndexView {
    /// Returns the view for a caller that reads the index without a refresh.
    #[must_use]
    pub fn as_indexed() -> Self {
        Self {
            freshness: Freshness::AsIndexed,
            unreadable: Vec::new(),
            refresh_failure: None,
        }
    }
}

/// Number of segue's own sessions that are indexed in one batch.
const OWN_SESSION_BATCH_SIZE: usize = 50;

impl Library {
    /// Maximum time to wait for another process that is updating the index. After that, segue reads the files instead.
    pub const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(3);

    /// Returns the index; `None` if the engine has none.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.context.index.as_deref()
    }

    /// Refreshes the index for a caller that reads it next. `project` is the caller's project, whose directory may have
    /// moved to another repository.
    pub async fn refresh_view(
        &self,
        project: Option<&Project>,
        on_progress: ProgressCallback,
    ) -> Result<IndexView, LibraryError> {
        let refreshing = self.refresh_index(Self::INDEX_LOCK_TIMEOUT, on_progress);
        let refresh_failure = match refreshing.await {
            Ok(Some(RefreshOutcome::Completed(stats))) => {
                let mut view = IndexView::as_indexed();
                view.unreadable = format_unreadable(stats.unreadable);
                view.unreadable
                    .extend(self.update_indexed_project(project).await);
                view.unreadable.sort();
                view.unreadable.dedup();
                return Ok(view);
            }
            Ok(Some(RefreshOutcome::Busy)) => Some(RefreshFailure::Busy),
            Ok(None) => None,
            Err(LibraryError::Index(error)) => Some(RefreshFailure::Failed(error)),
            Err(error) => return Err(error),
        };
        Ok(IndexView {
            freshness: Freshness::Scanned,
            unreadable: Vec::new(),
            refresh_failure,
        })
    }

    /// Updates the project of the caller's directory in the index. Returns the errors of earlier refreshes, for files
    /// that the last refresh did not retry.
    async fn update_indexed_project(&self, project: Option<&Project>) -> Vec<(ProviderId, String)> {
        let Some(index) = self.context.index.clone() else {
            return Vec::new();
        };
        let project = project.cloned();
        run_blocking(move || {
            if let Some(project) = project {
                // An error is ignored, because a later refresh updates the project of a directory that moved.
                let _ = index.update_project(&project.cwd, &project.key, Duration::ZERO);
            }
            indexed_failures(&index).unwrap_or_default()
        })
        .await
    }

    /// Updates the index with everything that was written since the last update, and passes the progress to
    /// `on_progress`. Waits for another process that updates it for at most `lock_timeout`. `None` if the engine has no
    /// index.
    pub async fn refresh_index(
        &self,
        lock_timeout: Duration,
        on_progress: ProgressCallback,
    ) -> Result<Option<RefreshOutcome>, LibraryError> {
        let Some(index) = self.context.index.clone() else {
            return Ok(None);
        };
        let (native_index, now) = (Arc::clone(&index), self.context.now());
        let refresh_natives = move |catalog: &Catalog| {
            native_index.refresh(catalog, now, lock_timeout, on_progress.as_ref())
        };
        let outcome = self.context.natives.with_catalog(refresh_natives).await?;
        if matches!(outcome, RefreshOutcome::Completed(_)) {
            self.refresh_own_sessions(&index).await?;
        }
        Ok(Some(outcome))
    }

    /// Updates segue's own sessions in the index, and removes those that no longer exist.
    async fn refresh_own_sessions(&self, index: &Arc<Index>) -> Result<(), LibraryError> {
        let stamps = self.context.store.session_stamps().await?.into_iter();
        let current: Vec<_> = stamps.map(own_session_stamp).collect();
        let reader = Arc::clone(index);
        let changes = run_blocking(move || reader.compare_own_sessions(&current)).await?;
        let parse_ids = |ids: Vec<String>| {
            let parsed = ids.into_iter().filter_map(|id| SessionId::parse(&id).ok());
            parsed.collect::<Vec<SessionId>>()
        };
        for ids in parse_ids(changes.changed).chunks(OWN_SESSION_BATCH_SIZE) {
            let mut batch = Vec::new();
            for id in ids {
                if let Some(session) = self.context.store.session(id).await? {
                    batch.push(self.load_index_update(index, session).await?);
                }
            }
            if !batch.is_empty() {
                let index = Arc::clone(index);
                run_blocking(move || index.index_own_sessions(&batch, Self::INDEX_LOCK_TIMEOUT))
                    .await?;
            }
        }
        for id in parse_ids(changes.removed) {
            let index = Arc::clone(index);
            run_blocking(move || index.remove_own_session(&id, Self::INDEX_LOCK_TIMEOUT)).await?;
        }
        Ok(())
    }

    /// Returns a session with the turns that the index does not contain yet.
    async fn load_index_update(
        &self,
        index: &Arc<Index>,
        session: Session,
    ) -> Result<OwnSession, LibraryError> {
        let mut finished = self.context.store.turns(&session.id).await?;
        finished.retain(|turn| turn.state != TurnState::Running);
        let (reader, id) = (Arc::clone(index), session.id.clone());
        let indexed_turns = run_blocking(move || reader.own_turn_ids(&id)).await?;
        let unchanged = indexed_turns
            .iter()
            .zip(&finished)
            .take_while(|(indexed, turn)| **indexed == turn.id.to_string())
            .count();
        let mut turns = Vec::new();
        for turn in finished.iter().skip(unchanged) {
            turns.push(OwnTurn {
                id: turn.id.to_string(),
                at: turn.ended_at.unwrap_or(turn.started_at),
                messages: self.context.store.messages(turn.id).await?,
            });
        }
        Ok(OwnSession {
            id: session.id,
            title: session.title,
            provider: session.provider.to_string(),
            project: session.project.key,
            cwd: session.project.cwd,
            created_at: session.created_at,
            updated_at: session.updated_at,
            head: session.head.map(|head| head.to_bits().cast_signed()),
            valid_turns: u32::try_from(unchanged).unwrap_or(u32::MAX),
            new_turns: turns,
        })
    }

    /// Removes a deleted native session from the index, with all of its text.
    pub(crate) async fn remove_native_from_index(&self, session: &NativeSession) {
        if let Some(index) = self.context.index.clone() {
            let (provider, id) = (session.provider.clone(), session.head.id.clone());
            // If the write fails, the next update marks the session as deleted.
            let _ = run_blocking(move || {
                index.remove_native_session(provider.as_str(), &id, Self::INDEX_LOCK_TIMEOUT)
            })
            .await;
        }
    }

    /// Returns the newest native sessions that match a filter and that no session of segue uses: at most about `limit`
    /// from the index, or all from the agents' files if the index cannot be used.
    pub(crate) async fn list_unattached_natives(
        &self,
        filter: &SessionFilter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<NativeListing, LibraryError> {
        let index_error = match self.list_indexed_natives(filter, limit, freshness).await {
            Ok(Some(listing)) => return Ok(listing),
            Ok(None) | Err(LibraryError::Index(IndexError::Missing)) => None,
            Err(LibraryError::Index(error)) => Some(error.format_error_chain()),
            Err(error) => return Err(error),
        };
        let (natives, unreadable) = self.list_natives(filter).await;
        Ok(NativeListing {
            natives: self.filter_unattached(natives).await?,
            unreadable,
            index_error,
        })
    }

    /// Lists native sessions from the index. `None` if the engine has no index, if another process is updating it, or if
    /// the caller does not want it.
    async fn list_indexed_natives(
        &self,
        filter: &SessionFilter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<Option<NativeListing>, LibraryError> {
        let index = self.context.index.clone();
        let Some(index) = index.filter(|_| freshness != Freshness::Scanned) else {
            return Ok(None);
        };
        let mut unreadable = Vec::new();
        if freshness == Freshness::Fresh {
            let refreshing = self.refresh_index(Self::INDEX_LOCK_TIMEOUT, Arc::new(|_| ()));
            let Some(RefreshOutcome::Completed(stats)) = refreshing.await? else {
                return Ok(None);
            };
            unreadable = format_unreadable(stats.unreadable);
        }
        let natives = self.load_indexed_pages(&index, filter, limit).await?;
        unreadable.extend(indexed_failures(&index)?);
        Ok(Some(NativeListing {
            natives,
            unreadable,
            index_error: None,
        }))
    }

    async fn load_indexed_pages(
        &self,
        index: &Arc<Index>,
        filter: &SessionFilter,
        limit: u32,
    ) -> Result<Vec<NativeEntry>, LibraryError> {
        // Only segue stores purposes and tags, so no native session matches a filter on these.
        if filter.is_own_sessions_only() {
            return Ok(Vec::new());
        }
        let index_filter = IndexFilter {
            provider: filter.provider.as_ref().map(storage_provider),
            project: filter.project.clone(),
            since: filter.since,
            ..IndexFilter::default()
        };
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        // Reads a few more, because some native sessions belong to sessions of segue and are omitted.
        let page = limit.saturating_add(20);
        let mut natives: Vec<NativeEntry> = Vec::new();
        let mut offset = 0;
        while natives.len() < wanted {
            // Reading a page takes less time than starting another thread.
            let rows = index.list_sessions(&index_filter, page, offset)?;
            let is_last_page = rows.len() < page as usize;
            let rows = rows.into_iter().map(NativeEntry::from).collect();
            natives.extend(self.filter_unattached(rows).await?);
            if is_last_page {
                break;
            }
            offset = offset.saturating_add(page);
        }
        Ok(natives)
    }

    /// Removes a session of segue with all its text from the index.
    pub(crate) async fn remove_session_from_index(&self, id: &SessionId, lock_timeout: Duration) {
        if let Some(index) = self.context.index.clone() {
            let id = id.clone();
            // If the index cannot be written now, a search that finds the session removes it.
            let _ = run_blocking(move || index.remove_own_session(&id, lock_timeout)).await;
        }
    }
}

/// Native sessions of a list, and the reasons why some may be missing.
pub(crate) struct NativeListing {
    pub(crate) natives: Vec<NativeEntry>,
    /// Providers with sessions that could not be read, each with the reason.
    pub(crate) unreadable: Vec<(ProviderId, String)>,
    /// Reason why the index could not be used; `None` if the user need not know it.
    pub(crate) index_error: Option<String>,
}

/// Returns the files that a refresh of the index could not read.
fn indexed_failures(index: &Index) -> Result<Vec<(ProviderId, String)>, IndexError> {
    let sources = index.unreadable_sources()?.into_iter();
    let failures = sources.map(|source| (source.provider, source.reason));
    Ok(failures.collect())
}

fn own_session_stamp(stamp: SessionStamp) -> OwnSessionStamp {
    OwnSessionStamp {
        id: stamp.id.to_string(),
        updated_at: stamp.updated_at.as_millisecond(),
        head: stamp.head.map(|head| head.to_bits().cast_signed()),
        title: Some(stamp.title),
    }
}

impl From<IndexedSession> for NativeEntry {
    fn from(row: IndexedSession) -> Self {
        Self {
            session: row.session,
            project: row.project,
            details: Some(Box::new(IndexedDetails {
                turns: row.turns,
                usage: row.usage,
                model: row.model,
                status: row.status,
            })),
        }
    }
}
