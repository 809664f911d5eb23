//! Index of the catalog: updated from the files of agents and from segue's own sessions, and queried for lists.

use std::sync::Arc;
use std::time::Duration;

use segue_catalog::index::{
    IndexError, IndexFilter, IndexedSession, NativeStatus, OwnSession, OwnSessionStamp, OwnTurn,
    Progress, RefreshOutcome, RefreshStats,
};
use segue_catalog::{Catalog, Index, NativeSession};
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Project, Session, TurnState, Usage};
use segue_store::{SessionFilter, SessionStamp};

use crate::context::run_blocking;
use crate::library::Library;
use crate::native::storage_provider;
use crate::{LibraryError, NativeEntry};

/// Details of a native session that the index adds to its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedDetails {
    /// Number of turns.
    pub turns: u32,
    /// Number of messages.
    pub messages: u32,
    /// Token usage of all turns.
    pub usage: Usage,
    /// Model that answered last.
    pub model: Option<String>,
    /// Beginning of the last prompt.
    pub last_prompt: Option<String>,
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

/// Outcome of an update of the index.
#[derive(Debug)]
pub enum IndexSync {
    /// The index is up to date, after this work.
    UpToDate(RefreshStats),
    /// A different process is updating the index.
    Busy,
}

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

    fn without_index(refresh_failure: Option<RefreshFailure>) -> Self {
        Self {
            freshness: Freshness::Scanned,
            unreadable: Vec::new(),
            refresh_failure,
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
        let stats = match refreshing.await {
            Ok(Some(IndexSync::UpToDate(stats))) => stats,
            Ok(Some(IndexSync::Busy)) => {
                return Ok(IndexView::without_index(Some(RefreshFailure::Busy)));
            }
            Ok(None) => return Ok(IndexView::without_index(None)),
            Err(LibraryError::Index(error)) => {
                return Ok(IndexView::without_index(Some(RefreshFailure::Failed(
                    error,
                ))));
            }
            Err(error) => return Err(error),
        };
        let unreadable = stats.unreadable.into_iter();
        let mut view = IndexView {
            unreadable: unreadable
                .map(|(provider, error)| (provider, error.format_error_chain()))
                .collect(),
            ..IndexView::as_indexed()
        };
        if let Some(index) = self.context.index.clone() {
            let project = project.cloned();
            let earlier = run_blocking(move || {
                if let Some(project) = project {
                    // An error is ignored, because a later refresh updates the project of a directory that moved.
                    let _ = index.update_project(&project.cwd, &project.key, Duration::ZERO);
                }
                // Errors of earlier refreshes, for files that this refresh did not retry.
                index.unreadable_sources().unwrap_or_default()
            });
            let earlier = earlier.await.into_iter();
            let reasons = earlier.map(|source| (source.provider, source.reason));
            view.unreadable.extend(reasons);
        }
        view.unreadable.sort();
        view.unreadable.dedup();
        Ok(view)
    }

    /// Updates the index with everything that was written since the last update, and passes the progress to
    /// `on_progress`. Waits for another process that updates it for at most `lock_timeout`. `None` if the engine has no
    /// index.
    pub async fn refresh_index(
        &self,
        lock_timeout: Duration,
        on_progress: ProgressCallback,
    ) -> Result<Option<IndexSync>, LibraryError> {
        let Some(index) = self.context.index.clone() else {
            return Ok(None);
        };
        let now = self.context.now();
        let refresh_natives = move |catalog: &Catalog| {
            index.refresh(catalog, now, lock_timeout, on_progress.as_ref())
        };
        let sync = match self.context.natives.with_catalog(refresh_natives).await? {
            RefreshOutcome::Completed(work) => IndexSync::UpToDate(work),
            RefreshOutcome::Busy => return Ok(Some(IndexSync::Busy)),
        };
        self.refresh_own_sessions().await?;
        Ok(Some(sync))
    }

    /// Updates segue's own sessions in the index, and removes those that no longer exist.
    async fn refresh_own_sessions(&self) -> Result<(), LibraryError> {
        let Some(index) = self.context.index.clone() else {
            return Ok(());
        };
        let stamps = self.context.store.session_stamps().await?.into_iter();
        let current: Vec<_> = stamps.map(own_session_stamp).collect();
        let reader = Arc::clone(&index);
        let changes = run_blocking(move || reader.compare_own_sessions(&current)).await?;
        let mut batch = Vec::new();
        for id in changes
            .changed
            .iter()
            .filter_map(|id| SessionId::parse(id).ok())
        {
            if let Some(session) = self.context.store.session(&id).await? {
                batch.push(self.load_index_update(&index, session).await?);
            }
            if batch.len() >= OWN_SESSION_BATCH_SIZE {
                self.write_index_batch(&index, &mut batch).await?;
            }
        }
        self.write_index_batch(&index, &mut batch).await?;
        for id in changes
            .removed
            .iter()
            .filter_map(|id| SessionId::parse(id).ok())
        {
            let index = Arc::clone(&index);
            self.context
                .natives
                .with_catalog(move |_| index.remove_own_session(&id, Self::INDEX_LOCK_TIMEOUT))
                .await?;
        }
        Ok(())
    }

    /// Writes the collected sessions to the index.
    async fn write_index_batch(
        &self,
        index: &Arc<Index>,
        batch: &mut Vec<OwnSession>,
    ) -> Result<(), LibraryError> {
        let batch = std::mem::take(batch);
        if !batch.is_empty() {
            let index = Arc::clone(index);
            let write =
                move |_: &Catalog| index.index_own_sessions(&batch, Self::INDEX_LOCK_TIMEOUT);
            self.context.natives.with_catalog(write).await?;
        }
        Ok(())
    }

    /// Returns a session with the turns that the index does not contain yet.
    async fn load_index_update(
        &self,
        index: &Arc<Index>,
        session: Session,
    ) -> Result<OwnSession, LibraryError> {
        let turns = self.context.store.turns(&session.id).await?;
        let finished = turns
            .into_iter()
            .filter(|turn| turn.state != TurnState::Running);
        let finished: Vec<_> = finished.collect();
        let (reader, id) = (Arc::clone(index), session.id.clone());
        let indexed_turns = run_blocking(move || reader.own_turn_ids(&id)).await?;
        let unchanged = indexed_turns
            .iter()
            .zip(&finished)
            .take_while(|(indexed, turn)| **indexed == turn.id.0.to_string())
            .count();
        let mut turns = Vec::new();
        for turn in finished.iter().skip(unchanged) {
            turns.push(OwnTurn {
                id: turn.id.0.to_string(),
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
            head: session.head.map(|head| head.0),
            valid_turns: u32::try_from(unchanged).unwrap_or(u32::MAX),
            new_turns: turns,
        })
    }

    /// Removes a deleted native session from the index, with all of its text.
    pub(crate) async fn remove_native_from_index(&self, session: &NativeSession) {
        if let Some(index) = self.context.index.clone() {
            let (provider, id) = (session.provider.clone(), session.head.id.clone());
            let remove = move |_: &Catalog| {
                index.remove_native_session(provider.as_str(), &id, Self::INDEX_LOCK_TIMEOUT)
            };
            // If the write fails, the next update marks the session as deleted.
            let _ = self.context.natives.with_catalog(remove).await;
        }
    }

    /// Returns from the index the newest native sessions that match a filter and that no session of segue uses. The
    /// inner error means that the index is not used, with the reason if the user should see it.
    pub(crate) async fn list_indexed_natives(
        &self,
        filter: &SessionFilter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<Result<IndexedNatives, Option<String>>, LibraryError> {
        let Some(index) = self.context.index.clone() else {
            return Ok(Err(None));
        };
        let mut unreadable = Vec::new();
        match freshness {
            Freshness::AsIndexed => {}
            Freshness::Scanned => return Ok(Err(None)),
            Freshness::Fresh => {
                let view = self.refresh_view(None, Arc::new(|_| ())).await?;
                match view.refresh_failure {
                    None => unreadable = view.unreadable,
                    Some(RefreshFailure::Busy) => return Ok(Err(None)),
                    Some(RefreshFailure::Failed(error)) => {
                        return Ok(Err(Some(error.format_error_chain())));
                    }
                }
            }
        }
        let natives = self.load_indexed_pages(&index, filter, limit).await;
        let listing = natives.and_then(|natives| Ok((natives, index.unreadable_sources()?)));
        let (natives, failed) = match listing {
            Ok(listed) => listed,
            Err(LibraryError::Index(IndexError::Missing)) => return Ok(Err(None)),
            Err(LibraryError::Index(error)) => return Ok(Err(Some(error.format_error_chain()))),
            Err(error) => return Err(error),
        };
        let failed = failed.into_iter();
        unreadable.extend(failed.map(|failure| (failure.provider, failure.reason)));
        Ok(Ok(IndexedNatives {
            natives,
            unreadable,
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
            let rows: Vec<IndexedSession> = index.list_sessions(&index_filter, page, offset)?;
            let is_last_page = rows.len() < page as usize;
            let rows = rows.into_iter().map(NativeEntry::from).collect();
            natives.extend(self.filter_unattached(rows).await?);
            offset = offset.saturating_add(page);
            if is_last_page {
                break;
            }
        }
        Ok(natives)
    }

    /// Removes a session of segue with all its text from the index.
    pub(crate) async fn remove_session_from_index(&self, id: &SessionId) {
        if let Some(index) = self.context.index.clone() {
            let id = id.clone();
            // If the index cannot be written now, a search that finds the session removes it.
            let remove = move |_: &Catalog| index.remove_own_session(&id, Self::INDEX_LOCK_TIMEOUT);
            let _ = self.context.natives.with_catalog(remove).await;
        }
    }
}

/// Native sessions from the index.
pub(crate) struct IndexedNatives {
    pub(crate) natives: Vec<NativeEntry>,
    pub(crate) unreadable: Vec<(ProviderId, String)>,
}

fn own_session_stamp(stamp: SessionStamp) -> OwnSessionStamp {
    OwnSessionStamp {
        id: stamp.id.to_string(),
        updated_at: stamp.updated_at.as_millisecond(),
        head: stamp.head.map(|head| head.0),
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
                messages: row.messages,
                usage: row.usage,
                model: row.model,
                last_prompt: row.last_prompt,
                status: row.status,
            })),
        }
    }
}
