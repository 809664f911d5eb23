//! Archiving of native sessions, and restoring of copies.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use segue_catalog::{
    ArchiveError, ArchiveOutcome, ArchivedSession, CopyLocation, DeletedWith, NativeSession,
    RestoredFileTimes,
};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{MatchedBy, Project, RefCandidate, RefMatch, Session, best_ref_match};
use segue_store::TagChange;

use super::RestoreOutcome;
use super::delete::{collect_natives, purge_session_copies};
use crate::context::run_blocking;
use crate::native::storage_provider;
use crate::resolve::adopt::AdoptionHint;
use crate::upkeep::Upkeep;
use crate::{Conversation, ConversationId, ResolveError, SessionMatch, UpkeepError};

/// Returns how a text matches the id of a session of segue that was deleted. `None` if it does not match.
fn match_deleted_session(text: &str, session: &SessionId) -> Option<RefCandidate> {
    let id = session.as_str();
    let matched_by = match () {
        () if id == text => MatchedBy::Id,
        () if id.starts_with(text) => MatchedBy::Prefix,
        () if id.ends_with(text) => MatchedBy::Suffix,
        () => return None,
    };
    let id = session.clone();
    Some(RefCandidate { id, matched_by })
}

/// Returns `true` if a copy is of a native session that was deleted with this session of segue.
fn is_deleted_with(copy: &ArchivedSession, session: &SessionId) -> bool {
    let deleted_with = copy.manifest.deleted_with.as_ref();
    deleted_with.is_some_and(|deleted| deleted.id == *session)
}

/// Finds the first copy of the session that a text means: an id or its prefix, also as `claude:ID`.
fn match_copy(mut all: Vec<ArchivedSession>, text: &str) -> Result<ArchivedSession, UpkeepError> {
    let qualified = text
        .split_once(':')
        .and_then(|(name, native_id)| Some((Some(ProviderId::parse(name).ok()?), native_id)));
    let (provider, id) = qualified.unwrap_or((None, text));
    all.retain(|entry| {
        let is_provider = |provider: &ProviderId| *provider == entry.manifest.provider;
        entry.manifest.id.as_str().starts_with(id) && provider.as_ref().is_none_or(is_provider)
    });
    if all.iter().any(|entry| entry.manifest.id.as_str() == id) {
        all.retain(|entry| entry.manifest.id.as_str() == id);
    }
    let matches = all
        .iter()
        .map(|entry| SessionMatch::from(&entry.native_session()));
    let candidates = unique_matches(matches.collect());
    match all.into_iter().next() {
        None => Err(UpkeepError::NoCopy(text.to_owned())),
        Some(entry) if candidates.len() == 1 => Ok(entry),
        Some(_) => {
            let text = text.to_owned();
            Err(ResolveError::Ambiguous { text, candidates }.into())
        }
    }
}

/// Removes later matches of the same conversation.
fn unique_matches(matches: Vec<SessionMatch>) -> Vec<SessionMatch> {
    let mut unique: Vec<SessionMatch> = Vec::new();
    for candidate in matches {
        if !unique.iter().any(|existing| existing.id == candidate.id) {
            unique.push(candidate);
        }
    }
    unique
}

impl Upkeep {
    /// Returns the native sessions of a conversation that still exist.
    pub async fn list_conversation_natives(
        &self,
        conversation: &Conversation,
    ) -> Result<Vec<NativeSession>, UpkeepError> {
        let session = match conversation {
            Conversation::Native(native) => return Ok(vec![native.session.clone()]),
            Conversation::Session(session, _) => session,
        };
        let mut all = Vec::new();
        for (provider, id) in collect_natives(&self.context.store.legs(&session.id).await?) {
            if self.can_list_sessions(&provider) {
                all.extend(self.find_natives(&provider, &id).await?);
            }
        }
        Ok(all)
    }

    /// Returns the native sessions of one agent, or of all, that were last used before a time.
    pub async fn natives_unused_since(
        &self,
        provider: Option<&ProviderId>,
        before: Option<Timestamp>,
    ) -> Vec<NativeSession> {
        let provider = provider.map(storage_provider);
        self.context
            .natives
            .with_catalog(move |catalog| {
                let mut sessions = catalog.list_sessions(provider.as_ref(), None).sessions;
                sessions.retain(|session| {
                    // Agents apply one time or the other, so the earlier one counts.
                    let last_used = session.head.updated_at.min(session.location.modified);
                    !catalog.is_only_archived(session)
                        && before.is_none_or(|before| last_used < before)
                });
                sessions
            })
            .await
    }

    /// Returns `true` if the archive has the current state of a native session.
    pub async fn is_archived(&self, session: &NativeSession) -> Result<bool, UpkeepError> {
        let (session, archive) = (session.clone(), self.archive_service()?.archive.clone());
        let saved = self.context.natives.with_catalog(move |catalog| {
            catalog.is_only_archived(&session) || catalog.is_archived(&session, &archive)
        });
        Ok(saved.await)
    }

    /// Returns `true` if the agent no longer has a native session, so that only the archive has it.
    #[must_use]
    pub fn is_only_archived(&self, session: &NativeSession) -> bool {
        self.context.natives.catalog.is_only_archived(session)
    }

    /// Copies a native session to the archive, unless the archive has its current state.
    pub async fn archive_native(
        &self,
        session: &NativeSession,
    ) -> Result<ArchiveOutcome, UpkeepError> {
        let (session, archive) = (session.clone(), self.archive_service()?.archive.clone());
        let at = self.context.now();
        let saved = self.context.natives.with_catalog(move |catalog| {
            if catalog.is_only_archived(&session)
                && let Some(entry) = archive.find_entry(&session.provider, &session.head.id)?
            {
                return Ok(ArchiveOutcome::Unchanged(entry));
            }
            catalog.archive_session(&session, &archive, at)
        });
        Ok(saved.await?)
    }

    /// Returns all copies in the archive and in the trash, and the errors for those that could not be read.
    pub async fn list_copies(
        &self,
    ) -> Result<(Vec<ArchivedSession>, Vec<ArchiveError>), UpkeepError> {
        let service = self.archive_service()?.clone();
        let listing = run_blocking(move || {
            let (mut all, mut unreadable) = service.archive.list();
            let (discarded, trash_errors) = service.trash.list();
            all.extend(discarded);
            unreadable.extend(trash_errors);
            (all, unreadable)
        });
        Ok(listing.await)
    }

    /// Finds the newest copy of the session that a text means: an id or its prefix, also as `claude:ID`.
    pub async fn find_copy(&self, text: &str) -> Result<ArchivedSession, UpkeepError> {
        match_copy(self.list_newest_copies().await?, text)
    }

    async fn list_newest_copies(&self) -> Result<Vec<ArchivedSession>, UpkeepError> {
        let (mut all, _) = self.list_copies().await?;
        all.sort_by_key(|entry| std::cmp::Reverse(entry.manifest.at));
        Ok(all)
    }

    /// Finds the newest copies of the sessions that a text means: one native session, or all native sessions on which a
    /// session of segue runs, or ran when it was deleted.
    pub async fn find_copies(&self, text: &str) -> Result<Vec<ArchivedSession>, UpkeepError> {
        let all = self.list_newest_copies().await?;
        let no_copy_error = match match_copy(all.clone(), text) {
            Ok(copy) => return Ok(vec![copy]),
            Err(error @ UpkeepError::NoCopy(_)) => error,
            Err(error) => return Err(error),
        };
        let deleted = all.iter().filter_map(|entry| {
            match_deleted_session(text, &entry.manifest.deleted_with.as_ref()?.id)
        });
        let mut candidates: Vec<RefCandidate> = deleted.collect();
        candidates.extend(self.context.store.ref_candidates(text).await?);
        let session = match best_ref_match(&candidates) {
            RefMatch::Unique(session) => session,
            RefMatch::None => return Err(no_copy_error),
            RefMatch::Ambiguous(_) => {
                return Err(self.ambiguous_error(text, &all, &candidates).await?);
            }
        };
        let legs = match self.context.store.session(&session).await? {
            Some(_) => collect_natives(&self.context.store.legs(&session).await?),
            None => Vec::new(),
        };
        let mut session_copies: Vec<ArchivedSession> = Vec::new();
        for entry in all {
            let is_copy_of = |provider: &ProviderId, id: &NativeId| {
                *provider == entry.manifest.provider && *id == entry.manifest.id
            };
            let belongs_to_session = is_deleted_with(&entry, &session)
                || legs
                    .iter()
                    .any(|(provider, id)| is_copy_of(&storage_provider(provider), id));
            let is_older_copy = session_copies
                .iter()
                .any(|newer| is_copy_of(&newer.manifest.provider, &newer.manifest.id));
            if belongs_to_session && !is_older_copy {
                session_copies.push(entry);
            }
        }
        if session_copies.is_empty() {
            return Err(no_copy_error);
        }
        Ok(session_copies)
    }

    /// Builds the error for a text that matches several sessions of segue.
    async fn ambiguous_error(
        &self,
        text: &str,
        copies: &[ArchivedSession],
        matches: &[RefCandidate],
    ) -> Result<UpkeepError, UpkeepError> {
        let mut candidates = Vec::new();
        for candidate in matches {
            let stored = self.context.store.session(&candidate.id).await?;
            let mut copies = copies.iter();
            let copy = copies.find(|entry| is_deleted_with(entry, &candidate.id));
            let session_match = match stored {
                Some(session) => Some(SessionMatch::from(&session)),
                None => copy.map(|copy| SessionMatch {
                    id: ConversationId::Session(candidate.id.clone()),
                    ..SessionMatch::from(&copy.native_session())
                }),
            };
            candidates.extend(session_match);
        }
        let (text, candidates) = (text.to_owned(), unique_matches(candidates));
        Ok(ResolveError::Ambiguous { text, candidates }.into())
    }

    /// Restores a copy to the location of the session.
    ///
    /// If a session of segue with a title or tags was deleted with it, that session is recreated. A copy in the trash
    /// is then removed, because it is no longer needed.
    pub async fn restore_copy(
        &self,
        entry: &ArchivedSession,
        times: RestoredFileTimes,
        current_project: &Project,
    ) -> Result<RestoreOutcome, UpkeepError> {
        let service = self.archive_service()?.clone();
        let manifest = &entry.manifest;
        let (provider, id) = (&manifest.provider, &manifest.id);
        let home = self.context.natives.catalog.provider_home(provider);
        let home = home.ok_or_else(|| UpkeepError::ProviderUnreadable(provider.clone()))?;
        let natives = &self.context.natives;
        let conversation_id = ConversationId::Native(provider.clone(), id.clone());
        if manifest.is_stored_in_database() && natives.is_live(provider, id).await {
            return Err(UpkeepError::AlreadyExists(conversation_id));
        }
        let exports = service.exports_dir.join(format!("{provider}-{id}"));
        let (copy, home, to) = (entry.clone(), home.to_owned(), exports.clone());
        let restoring = run_blocking(move || {
            // A restore that was killed may have left files, which must not be imported.
            let _ = std::fs::remove_dir_all(&to);
            copy.restore(&home, &to, times)
        });
        let restored = restoring.await?;
        if !restored.exports.is_empty() {
            let outcome = self.import_into_agent(entry, &restored.exports).await;
            // A later restore recreates them.
            let _ = run_blocking(move || std::fs::remove_dir_all(&exports)).await;
            outcome?;
        }
        if !natives.is_live(provider, id).await {
            return Err(UpkeepError::NotRestored(conversation_id));
        }
        // Must precede the removal of the copy, which has the only record of the title and tags.
        let session = self.adopt_restored_native(entry, current_project).await?;
        if entry.location == CopyLocation::Trash {
            let copy = entry.clone();
            run_blocking(move || service.trash.purge(&copy)).await?;
        }
        Ok(RestoreOutcome {
            entry: entry.clone(),
            imported_count: restored.exports.len(),
            files: restored.files,
            existing_files: restored.existing,
            session,
        })
    }

    /// Adopts a restored native session with its old title and tags. `None` if the copy contains neither.
    async fn adopt_restored_native(
        &self,
        entry: &ArchivedSession,
        current_project: &Project,
    ) -> Result<Option<Session>, UpkeepError> {
        let manifest = &entry.manifest;
        let Some(DeletedWith {
            id: deleted_id,
            labels: Some(labels),
        }) = &manifest.deleted_with
        else {
            return Ok(None);
        };
        let provider = self.context.agents.driver_or_default(&manifest.provider);
        let hint = AdoptionHint::DeletedSession(deleted_id, &labels.title);
        let (session, _) = self
            .resolver
            .adopt_by_id(&provider, &manifest.id, current_project, hint)
            .await?;
        // The session may exist with another title, if an earlier restore was interrupted.
        let store = &self.context.store;
        if session.title != labels.title {
            store.rename_session(&session.id, &labels.title).await?;
        }
        let tags = TagChange {
            add: labels.tags.clone(),
            ..TagChange::default()
        };
        Ok(Some(store.change_tags(&session.id, tags).await?))
    }

    /// Lets an agent import sessions into its database.
    async fn import_into_agent(
        &self,
        entry: &ArchivedSession,
        exports: &[PathBuf],
    ) -> Result<(), UpkeepError> {
        let service = self.archive_service()?;
        let provider = &entry.manifest.provider;
        let cli = service.native_cli(provider);
        let cli = cli.ok_or_else(|| UpkeepError::NoProgram(provider.clone()))?;
        // The agent assigns the session to the directory in which it is started.
        let cwd = entry.manifest.head.cwd.as_deref().unwrap_or_default();
        if !Path::new(cwd).is_dir() {
            return Err(UpkeepError::DirectoryMissing(cwd.to_owned()));
        }
        for export in exports {
            if !cli.import_session(export, Path::new(cwd)).await? {
                return Err(UpkeepError::NoProgram(provider.clone()));
            }
        }
        Ok(())
    }

    /// Removes all copies of a session permanently.
    pub async fn purge_copies(&self, entry: &ArchivedSession) -> Result<(), UpkeepError> {
        let (service, session) = (self.archive_service()?.clone(), entry.native_session());
        let purging = run_blocking(move || purge_session_copies(&service, &session));
        Ok(purging.await?)
    }
}
