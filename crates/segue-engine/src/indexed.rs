//! Index of the catalog: updated from the files of agents and from segue's own sessions, and queried for lists.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use segue_catalog::index::{
    IndexError, OwnMark, OwnSession, OwnTurn, Progress, Refreshed, Row, State, Which, Work,
};
use segue_catalog::{Catalog, Index, NativeSession};
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Session, TurnState, Usage};
use segue_store::Filter;

use crate::native::keeper;
use crate::{Engine, EngineError, Native};

/// Details of a native session that the index adds to its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
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
    pub state: State,
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

/// Outcome of an update of the index.
#[derive(Debug)]
pub enum Caught {
    /// The index is up to date, after this work.
    Up(Work),
    /// A different process is updating the index.
    Busy,
}

/// Number of segue's own sessions that are indexed in one batch.
const OWN: usize = 50;

impl Engine {
    /// Maximum time to wait for another process that is updating the index. After that, segue reads the files instead.
    pub const PATIENCE: Duration = Duration::from_secs(3);

    /// Returns the index; `None` if the engine has none.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.index.as_deref()
    }

    /// Updates the index with everything that was written since the last update, and passes the progress to `tell`.
    /// `None` if the engine has no index.
    pub async fn refresh(
        &self,
        tell: Arc<dyn Fn(Progress) + Send + Sync>,
    ) -> Result<Option<Caught>, EngineError> {
        self.refresh_within(Self::PATIENCE, tell).await
    }

    /// Updates the index as [`Engine::refresh`] does, but waits for another process for at most `patience`.
    pub async fn refresh_within(
        &self,
        patience: Duration,
        tell: Arc<dyn Fn(Progress) + Send + Sync>,
    ) -> Result<Option<Caught>, EngineError> {
        let Some(index) = self.index.clone() else {
            return Ok(None);
        };
        let now = (self.world.now)();
        let natives = move |catalog: &Catalog| index.refresh(catalog, now, patience, tell.as_ref());
        let refreshed = match self.with_catalog(natives).await? {
            Refreshed::Done(work) => Caught::Up(work),
            Refreshed::Busy => return Ok(Some(Caught::Busy)),
        };
        self.refresh_own().await?;
        Ok(Some(refreshed))
    }

    /// Updates segue's own sessions in the index, and removes those that no longer exist.
    async fn refresh_own(&self) -> Result<(), EngineError> {
        let Some(index) = self.index.clone() else {
            return Ok(());
        };
        let known = index.own_marks()?.into_iter();
        let mut known: HashMap<String, OwnMark> =
            known.map(|mark| (mark.id.clone(), mark)).collect();
        let mut changed = Vec::new();
        for mark in self.store.marks().await? {
            let before = known.remove(mark.id.as_str());
            let as_before = before.is_some_and(|before| {
                before.updated_at == mark.updated_at.as_millisecond()
                    && before.head == mark.head.map(|head| head.0)
                    && before.title.as_ref() == Some(&mark.title)
            });
            if as_before {
                continue;
            }
            if let Some(session) = self.store.session(&mark.id).await? {
                changed.push(self.news_of(&index, session).await?);
            }
            if changed.len() >= OWN {
                take_own(self, &index, &mut changed).await?;
            }
        }
        take_own(self, &index, &mut changed).await?;
        for id in known.into_keys() {
            if let Ok(id) = SessionId::parse(&id) {
                let index = Arc::clone(&index);
                self.with_catalog(move |_| index.forget_own(&id, Self::PATIENCE))
                    .await?;
            }
        }
        Ok(())
    }

    /// Returns a session with the turns that the index does not contain yet.
    async fn news_of(&self, index: &Index, session: Session) -> Result<OwnSession, EngineError> {
        let turns = self.store.turns(&session.id).await?;
        let finished = turns
            .into_iter()
            .filter(|turn| turn.state != TurnState::Running);
        let finished: Vec<_> = finished.collect();
        let known = index.own_turns(&session.id)?;
        let same = known
            .iter()
            .zip(&finished)
            .take_while(|(known, turn)| **known == turn.id.0.to_string())
            .count();
        let mut turns = Vec::new();
        for turn in finished.iter().skip(same) {
            turns.push(OwnTurn {
                id: turn.id.0.to_string(),
                at: turn.ended_at.unwrap_or(turn.started_at),
                messages: self.store.messages(turn.id).await?,
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
            keep: u32::try_from(same).unwrap_or(u32::MAX),
            turns,
        })
    }

    /// Removes a deleted native session from the index, with all of its text.
    pub(crate) async fn forget_indexed(&self, session: &NativeSession) {
        if let Some(index) = self.index.clone() {
            let (provider, id) = (session.provider.clone(), session.head.id.clone());
            let forget = move |_: &Catalog| index.forget(provider.as_str(), &id, Self::PATIENCE);
            // If the write fails, the next update marks the session as deleted.
            let _ = self.with_catalog(forget).await;
        }
    }

    /// Returns from the index the newest native sessions that match a filter and that no session of segue uses. The
    /// inner error means that the index is not used, with the reason if the user should see it.
    pub(crate) async fn indexed(
        &self,
        filter: &Filter,
        limit: u32,
        freshness: Freshness,
    ) -> Result<Result<Indexed, Option<String>>, EngineError> {
        let Some(index) = self.index.clone() else {
            return Ok(Err(None));
        };
        let mut unreadable = Vec::new();
        match freshness {
            Freshness::AsIndexed => {}
            Freshness::Scanned => return Ok(Err(None)),
            Freshness::Fresh => match self.refresh(Arc::new(|_| ())).await {
                Ok(Some(Caught::Up(work))) => {
                    let walked = work.unreadable.into_iter();
                    unreadable.extend(walked.map(|(provider, error)| (provider, error.in_full())));
                }
                Ok(_) => return Ok(Err(None)),
                Err(EngineError::Index(error)) => return Ok(Err(Some(error.in_full()))),
                Err(error) => return Err(error),
            },
        }
        let natives = self.pages(&index, filter, limit).await;
        let known = natives.and_then(|natives| Ok((natives, index.failures()?)));
        let (natives, failed) = match known {
            Ok(known) => known,
            Err(EngineError::Index(IndexError::Missing)) => return Ok(Err(None)),
            Err(EngineError::Index(error)) => return Ok(Err(Some(error.in_full()))),
            Err(error) => return Err(error),
        };
        let failed = failed.into_iter();
        unreadable.extend(failed.map(|failure| (failure.provider, failure.why)));
        Ok(Ok(Indexed {
            natives,
            unreadable,
        }))
    }

    async fn pages(
        &self,
        index: &Arc<Index>,
        filter: &Filter,
        limit: u32,
    ) -> Result<Vec<Native>, EngineError> {
        // Only segue stores purposes and tags, so no native session matches a filter on these.
        if filter.is_own() {
            return Ok(Vec::new());
        }
        let which = Which {
            provider: filter.provider.as_ref().map(keeper),
            project: filter.project.clone(),
            since: filter.since,
            ..Which::default()
        };
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        // Reads a few more, because some native sessions belong to sessions of segue and are omitted.
        let page = limit.saturating_add(20);
        let mut natives: Vec<Native> = Vec::new();
        let mut after = 0;
        while natives.len() < wanted {
            // Reading a page takes less time than starting another thread.
            let rows: Vec<Row> = index.list(&which, page, after)?;
            let last = rows.len() < page as usize;
            let rows = rows.into_iter().map(Native::from).collect();
            natives.extend(self.not_carried(rows).await?);
            after = after.saturating_add(page);
            if last {
                break;
            }
        }
        Ok(natives)
    }
}

/// Writes the collected sessions to the index.
async fn take_own(
    engine: &Engine,
    index: &Arc<Index>,
    changed: &mut Vec<OwnSession>,
) -> Result<(), EngineError> {
    let changed = std::mem::take(changed);
    if !changed.is_empty() {
        let index = Arc::clone(index);
        let take = move |_: &Catalog| index.take_own(&changed, Engine::PATIENCE);
        engine.with_catalog(take).await?;
    }
    Ok(())
}

/// Native sessions from the index.
pub(crate) struct Indexed {
    pub(crate) natives: Vec<Native>,
    pub(crate) unreadable: Vec<(ProviderId, String)>,
}

impl From<Row> for Native {
    fn from(row: Row) -> Self {
        Self {
            session: row.session,
            project: row.project,
            known: Some(Box::new(Known {
                turns: row.turns,
                messages: row.messages,
                usage: row.usage,
                model: row.model,
                last_prompt: row.last_prompt,
                state: row.state,
            })),
        }
    }
}

impl From<IndexError> for EngineError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}
