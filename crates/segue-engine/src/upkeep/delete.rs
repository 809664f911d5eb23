//! Deletion in two phases: a plan that changes nothing, and its execution.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use segue_catalog::{
    ArchiveError, ArchivedSession, DeletedWith, NativeSession, SessionArtifacts, SessionLabels,
    Trash,
};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Leg, MatchedBy, Session, SkipReason, TitleSource};
use segue_providers::busy::{self, ProcessFilter, ProcessUsingSession};
use segue_providers::remove_session_copies;

use super::{
    ArchiveService, DeleteMethod, DeleteMode, DeleteOutcome, DeletePlan, DeleteScope,
    PlannedDeletion, SkippedNative,
};
use crate::context::run_blocking;
use crate::library::Library;
use crate::native::storage_provider;
use crate::upkeep::Upkeep;
use crate::{AccessError, Conversation, UpkeepError};

/// Seconds after the last write in which a process may still be using a session.
const RECENT_WRITE_SECONDS: i64 = 10;

impl Upkeep {
    /// Plans the deletion of a conversation. Changes nothing.
    pub async fn plan_delete(
        &self,
        conversation: &Conversation,
        scope: DeleteScope,
        mode: DeleteMode,
    ) -> Result<DeletePlan, UpkeepError> {
        let mut plan = DeletePlan {
            session: None,
            natives: Vec::new(),
            rehearsal_files: Vec::new(),
            skipped: Vec::new(),
            scope,
            mode,
        };
        match conversation {
            Conversation::Native(native) => {
                let planning = self.plan_native_deletion(native.session.clone());
                plan.natives.push(planning.await?);
            }
            Conversation::Session(session, _) => {
                plan.session = Some((**session).clone());
                let legs = self.context.store.legs(&session.id).await?;
                for (provider, id) in collect_natives(&legs) {
                    let planning = self.plan_leg_deletion(session, &provider, &id, &mut plan);
                    planning.await?;
                }
            }
        }
        Ok(plan)
    }

    /// Returns `true` if native sessions of the agent appear in lists. Those of other agents can be reached only
    /// through segue's record.
    #[must_use]
    pub fn can_list_sessions(&self, provider: &ProviderId) -> bool {
        self.context.natives.can_read_sessions(provider)
    }

    /// Adds a native session on which a session ran to the plan.
    async fn plan_leg_deletion(
        &self,
        session: &Session,
        provider: &ProviderId,
        id: &NativeId,
        plan: &mut DeletePlan,
    ) -> Result<(), UpkeepError> {
        // A native session that segue cannot read is identified by the configured provider.
        let agent = if self.can_list_sessions(provider) {
            storage_provider(provider)
        } else {
            provider.clone()
        };
        let mut skip = |reason| {
            plan.skipped.push(SkippedNative {
                provider: agent.clone(),
                id: id.clone(),
                reason,
            });
        };
        let is_rehearsal = *provider == ProviderId::rehearsal();
        if !is_rehearsal && !self.can_list_sessions(provider) {
            skip(SkipReason::StorageUnknown);
        } else if let Some(session) = self.find_other_session(session, &agent, id).await? {
            skip(SkipReason::UsedBySession { session });
        } else if is_rehearsal {
            // The directory that contains the trash also contains the files of the built-in agent.
            let directory = self.archive_service()?.trash.sibling_path("rehearsal");
            let path = directory.join(format!("{id}.jsonl"));
            plan.rehearsal_files
                .extend(path.exists().then(|| (id.clone(), path)));
        } else if let Some(session) = self.find_dependent_fork(session, &agent, id).await? {
            skip(SkipReason::NeededByFork { session });
        } else {
            let natives = self.find_natives(provider, id).await?;
            if let Some(native) = natives.into_iter().next() {
                plan.natives.push(self.plan_native_deletion(native).await?);
            }
        }
        Ok(())
    }

    /// Finds another session that runs, or ran, on a native session.
    async fn find_other_session(
        &self,
        session: &Session,
        agent: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<SessionId>, UpkeepError> {
        for candidate in self.context.store.ref_candidates(id.as_str()).await? {
            if candidate.matched_by != MatchedBy::NativeId || candidate.id == session.id {
                continue;
            }
            let legs = self.context.store.legs(&candidate.id).await?;
            let uses_native = |leg: &Leg| {
                leg.native_id.as_ref() == Some(id) && storage_provider(&leg.provider) == *agent
            };
            if legs.iter().any(uses_native) {
                return Ok(Some(candidate.id));
            }
        }
        Ok(None)
    }

    /// Finds a fork of a session whose native session needs this one, because Codex does not copy the history of a
    /// branch.
    async fn find_dependent_fork(
        &self,
        session: &Session,
        agent: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<SessionId>, UpkeepError> {
        if *agent != ProviderId::codex() {
            return Ok(None);
        }
        let mut forks = self.context.store.lineage(&session.id).await?.forks;
        while let Some(fork) = forks.pop() {
            for (provider, native) in collect_natives(&self.context.store.legs(&fork.id).await?) {
                let natives = self.find_natives(&provider, &native).await?;
                let is_branch = |native: &NativeSession| {
                    native.head.forked_from.as_deref() == Some(id.as_str())
                };
                if natives.iter().any(is_branch) {
                    return Ok(Some(fork.id));
                }
            }
            forks.extend(self.context.store.lineage(&fork.id).await?.forks);
        }
        Ok(None)
    }

    /// Determines how a native session would be deleted, and whether a process uses it.
    async fn plan_native_deletion(
        &self,
        session: NativeSession,
    ) -> Result<PlannedDeletion, UpkeepError> {
        let service = self.archive_service()?.clone();
        let now = self.context.now();
        let planning = self.context.natives.with_catalog(move |catalog| {
            let (provider, id) = (&session.provider, &session.head.id);
            let is_archived = matches!(service.archive.find_entry(provider, id), Ok(Some(_)));
            let mut planned = PlannedDeletion {
                session,
                artifacts: None,
                method: DeleteMethod::ArchiveCopy,
                process: None,
                seconds_since_write: None,
                is_archived,
            };
            if catalog.is_only_archived(&planned.session) {
                return Ok(planned);
            }
            let (provider, id) = (&planned.session.provider, &planned.session.head.id);
            let artifacts = catalog.collect_artifacts(&planned.session)?;
            planned.method = match service.native_cli(provider) {
                Some(cli) => DeleteMethod::AgentCommand(cli.delete_command(id)),
                None if artifacts.is_stored_in_database() => DeleteMethod::NoProgram,
                None => DeleteMethod::Files,
            };
            planned.process = find_process(id, &artifacts);
            let modified = artifacts.modified();
            planned.seconds_since_write = modified
                .map(|at| now.duration_since(at).as_secs())
                .filter(|seconds| (0..RECENT_WRITE_SECONDS).contains(seconds));
            planned.artifacts = Some(artifacts);
            Ok(planned)
        });
        planning.await.map_err(UpkeepError::Archive)
    }

    /// Executes a plan. Fails if a process uses one of the native sessions.
    pub async fn delete_conversation(
        &self,
        plan: &DeletePlan,
    ) -> Result<DeleteOutcome, UpkeepError> {
        for planned in &plan.natives {
            self.ensure_not_in_use(planned).await?;
            if planned.method == DeleteMethod::NoProgram {
                return Err(UpkeepError::NoProgram(planned.session.provider.clone()));
            }
        }
        let acquired = match &plan.session {
            Some(session) => Some(self.context.leases.acquire_lease(&session.id).await?),
            None => None,
        };
        let outcome = async {
            let mut natives = Vec::new();
            // A later session may be a branch of an earlier one, and Codex does not delete a session from which others
            // branch.
            for planned in plan.natives.iter().rev() {
                let copy = self.delete_native(planned, plan).await?;
                let session = &planned.session;
                // A copy that protects the session would restore it. A copy that cannot be removed now is removed once
                // it is old.
                let guard_dir = &self.archive_service()?.guard_dir;
                let _ = remove_session_copies(guard_dir, &session.head.id);
                self.library.remove_native_from_index(session).await;
                natives.push((planned.id(), planned.method.clone(), copy));
            }
            natives.reverse();
            for (_, path) in &plan.rehearsal_files {
                remove_file_if_exists(path)?;
            }
            if let Some((guard, _)) = &acquired
                && plan.scope == DeleteScope::Everything
            {
                self.context.store.delete_session(&guard.lease).await?;
                self.library
                    .remove_session_from_index(&guard.lease.session, Library::INDEX_LOCK_TIMEOUT)
                    .await;
            }
            Ok::<_, UpkeepError>(natives)
        }
        .await;
        let mut decisions = Vec::new();
        if let Some((guard, takeover)) = acquired {
            guard.release().await;
            decisions.extend(takeover);
        }
        Ok(DeleteOutcome {
            natives: outcome?,
            decisions,
        })
    }

    /// Fails if a process uses a session now, because the user may have taken time to confirm the plan.
    async fn ensure_not_in_use(&self, planned: &PlannedDeletion) -> Result<(), UpkeepError> {
        let Some(artifacts) = planned.artifacts.clone() else {
            return Ok(());
        };
        let id = planned.session.head.id.clone();
        match run_blocking(move || find_process(&id, &artifacts)).await {
            Some(ProcessUsingSession { pid, program }) => Err(AccessError::InUse {
                id: planned.id(),
                pid,
                program,
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Deletes one native session. Returns the path of its copy. `None` if there is no copy.
    async fn delete_native(
        &self,
        planned: &PlannedDeletion,
        plan: &DeletePlan,
    ) -> Result<Option<PathBuf>, UpkeepError> {
        let service = self.archive_service()?.clone();
        let natives = &self.context.natives;
        let (mode, at) = (plan.mode, self.context.now());
        let deleted_with = plan.deleted_with(planned);
        let session = planned.session.clone();
        if planned.method == DeleteMethod::ArchiveCopy {
            let deleting = run_blocking(move || {
                let trashed = delete_copy(&service, &session, mode, at)?;
                Ok(trashed
                    .map(|entry| record_deleted_with(&service.trash, entry, deleted_with).path))
            });
            return deleting.await;
        }
        let copy = match mode {
            DeleteMode::Purge => None,
            DeleteMode::Trash => {
                let (session, trash) = (session.clone(), service.trash.clone());
                let copying = natives.with_catalog(move |catalog| {
                    let copied = catalog.copy_to_trash(&session, &trash, at)?;
                    Ok::<_, ArchiveError>(record_deleted_with(&trash, copied, deleted_with))
                });
                Some(copying.await?)
            }
        };
        if let Err(error) = self.ensure_not_in_use(planned).await {
            // The session is not deleted, so its copy is not needed.
            if let Some(copy) = copy {
                let _ = run_blocking(move || service.trash.purge(&copy)).await;
            }
            return Err(error);
        }
        let (provider, id) = (&planned.session.provider, &planned.session.head.id);
        let copied = copy.clone();
        if let Some(cli) = service.native_cli(provider) {
            let unchanged_check = natives.with_catalog(move |catalog| {
                let current = catalog.collect_artifacts(&session)?;
                match copied {
                    Some(copied) if !copied.manifest.is_up_to_date(&current) => {
                        Err(ArchiveError::Changing(session.location.path))
                    }
                    Some(_) | None => Ok(()),
                }
            });
            unchanged_check.await?;
            cli.delete_session(id, working_directory(&planned.session))
                .await?;
        } else {
            let removing = natives
                .with_catalog(move |catalog| catalog.remove_session(&session, copied.as_ref()));
            removing.await?;
        }
        if natives.is_live(provider, id).await {
            return Err(UpkeepError::NotDeleted(planned.id()));
        }
        if mode == DeleteMode::Purge {
            let session = planned.session.clone();
            run_blocking(move || purge_session_copies(&service, &session)).await?;
        }
        Ok(copy.map(|entry| entry.path))
    }
}

/// Returns a process that uses a native session with these files.
fn find_process(id: &NativeId, artifacts: &SessionArtifacts) -> Option<ProcessUsingSession> {
    let files: Vec<PathBuf> = artifacts.own_files().collect();
    busy::find_process_using_session(id, &files, &artifacts.home, ProcessFilter::All)
}

/// Returns the native sessions of the legs, without duplicates.
pub(super) fn collect_natives(legs: &[Leg]) -> Vec<(ProviderId, NativeId)> {
    let mut all = Vec::new();
    for leg in legs {
        let native = leg.native_id.clone().map(|id| (leg.provider.clone(), id));
        all.extend(native.filter(|native| !all.contains(native)));
    }
    all
}

/// Removes a file. A missing file is not an error.
fn remove_file_if_exists(path: &Path) -> Result<(), ArchiveError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(ArchiveError::Io {
            action: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Returns the directory in which an agent's program runs for a session: that of the session if it exists, else `/`.
fn working_directory(session: &NativeSession) -> &Path {
    let cwd = Path::new(session.head.cwd.as_deref().unwrap_or_default());
    if cwd.is_dir() { cwd } else { Path::new("/") }
}

impl DeletePlan {
    /// Returns the session of segue that is deleted with a native session, with its title and tags if they were set.
    ///
    /// Only the native session that it used last gets title and tags, because only that one can become the session when
    /// it is restored.
    fn deleted_with(&self, planned: &PlannedDeletion) -> Option<DeletedWith> {
        let session = self.session.as_ref()?;
        let last = self.natives.last().map(PlannedDeletion::id);
        let is_last = last == Some(planned.id()) && self.scope == DeleteScope::Everything;
        let title = &session.title;
        // A title that comes from the agent is restored with the agent's files.
        let is_own_title = title.source() != TitleSource::Prompt
            && planned.session.head.title.as_ref() != Some(title);
        let has_labels = is_own_title || !session.tags.is_empty();
        let labels = (is_last && has_labels).then(|| SessionLabels {
            title: title.clone(),
            tags: session.tags.clone(),
        });
        let id = session.id.clone();
        Some(DeletedWith { id, labels })
    }
}

/// Adds the session of segue to a copy, so that the copy can be found by it. If this fails, the copy remains usable.
fn record_deleted_with(
    trash: &Trash,
    copy: ArchivedSession,
    deleted_with: Option<DeletedWith>,
) -> ArchivedSession {
    let updated =
        deleted_with.and_then(|session| trash.record_deleted_with(copy.clone(), session).ok());
    updated.unwrap_or(copy)
}

/// Deletes a session that only the archive has.
fn delete_copy(
    service: &ArchiveService,
    session: &NativeSession,
    mode: DeleteMode,
    at: jiff::Timestamp,
) -> Result<Option<ArchivedSession>, ArchiveError> {
    let entry = service
        .archive
        .find_entry(&session.provider, &session.head.id)?;
    match (entry, mode) {
        (None, _) => Ok(None),
        (Some(entry), DeleteMode::Trash) => {
            service.archive.remove_unpacked(&entry);
            Ok(Some(service.trash.move_archived(&entry, at)?))
        }
        (Some(_), DeleteMode::Purge) => {
            purge_session_copies(service, session)?;
            Ok(None)
        }
    }
}

/// Removes all copies of a session.
pub(super) fn purge_session_copies(
    service: &ArchiveService,
    session: &NativeSession,
) -> Result<(), ArchiveError> {
    let ArchiveService { archive, trash, .. } = service;
    if let Some(entry) = archive.find_entry(&session.provider, &session.head.id)? {
        archive.remove(&entry)?;
    }
    for entry in trash.list().0 {
        if entry.manifest.provider == session.provider && entry.manifest.id == session.head.id {
            trash.purge(&entry)?;
        }
    }
    Ok(())
}
