//! Archiving of native sessions, and restoring of copies.

use std::path::Path;

use jiff::Timestamp;
use segue_catalog::{Archive, Entry, KeepError, Kept, NativeSession, Saved, Times, WentWith};
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{Candidate, MatchedBy, Pick, Project, Session, pick};
use segue_store::Retag;

use super::Restored;
use super::delete::{named, natives_of};
use crate::adopt::Beside;
use crate::native::keeper;
use crate::{Conversation, ConversationId, Engine, EngineError, Fitting};

/// Returns how a text matches the id of a session of segue that was deleted. `None` if it does not match.
fn candidate(text: &str, session: &SessionId) -> Option<Candidate> {
    let id = session.as_str();
    let by = match () {
        () if id == text => MatchedBy::Id,
        () if id.starts_with(text) => MatchedBy::Prefix,
        () if id.ends_with(text) => MatchedBy::Suffix,
        () => return None,
    };
    let id = session.clone();
    Some(Candidate { id, by })
}

/// Returns `true` if a copy is of a native session that was deleted with this session of segue.
fn went_with(copy: &Entry, session: &SessionId) -> bool {
    let gone = copy.manifest.went_with.as_ref();
    gone.is_some_and(|gone| gone.id == *session)
}

impl Engine {
    /// Returns the native sessions of a conversation that still exist.
    pub async fn natives_of(
        &self,
        conversation: &Conversation,
    ) -> Result<Vec<NativeSession>, EngineError> {
        let session = match conversation {
            Conversation::Native(native) => return Ok(vec![native.session.clone()]),
            Conversation::Session(session, _) => session,
        };
        let mut all = Vec::new();
        for (provider, id) in natives_of(&self.store.legs(&session.id).await?) {
            if self.reads(&provider) {
                let named = format!("{}:{id}", keeper(&provider));
                let found = self.lookup_native(&named).await?.into_iter();
                let found = found.map(|native| native.session);
                all.extend(found.filter(|session| session.head.id == id));
            }
        }
        Ok(all)
    }

    /// Returns the native sessions of one agent, or of all, that were last used before a time.
    pub async fn natives_before(
        &self,
        provider: Option<&ProviderId>,
        before: Option<Timestamp>,
    ) -> Vec<NativeSession> {
        let provider = provider.map(keeper);
        self.with_catalog(move |catalog| {
            let mut sessions = catalog.sessions(provider.as_ref(), None).sessions;
            sessions.retain(|session| {
                // Agents apply one time or the other, so the earlier one counts.
                let used = session.head.updated_at.min(session.found.modified);
                !catalog.only_archived(session) && before.is_none_or(|before| used < before)
            });
            sessions
        })
        .await
    }

    /// Returns `true` if the archive has the current state of a native session.
    pub async fn is_archived(&self, session: &NativeSession) -> Result<bool, EngineError> {
        let (session, archive) = (session.clone(), self.archive_of()?.clone());
        let saved = self.with_catalog(move |catalog| {
            catalog.only_archived(&session) || catalog.is_saved(&session, &archive)
        });
        Ok(saved.await)
    }

    /// Returns `true` if the agent no longer has a native session, so that only the archive has it.
    #[must_use]
    pub fn only_archived(&self, session: &NativeSession) -> bool {
        self.catalog.only_archived(session)
    }

    fn archive_of(&self) -> Result<&Archive, EngineError> {
        Ok(&self.upkeep()?.archive)
    }

    /// Copies a native session to the archive, unless the archive has its current state.
    pub async fn archive(&self, session: &NativeSession) -> Result<Saved, EngineError> {
        let (session, archive) = (session.clone(), self.archive_of()?.clone());
        let at = (self.world.now)();
        let saved = self.with_catalog(move |catalog| {
            if catalog.only_archived(&session)
                && let Some(entry) = archive.entry(&session.provider, &session.head.id)?
            {
                return Ok(Saved::Already(entry));
            }
            catalog.save(&session, &archive, at)
        });
        Ok(saved.await?)
    }

    /// Returns all copies in the archive and in the trash, and the errors for those that could not be read.
    pub fn copies(&self) -> Result<(Vec<Entry>, Vec<KeepError>), EngineError> {
        let upkeep = self.upkeep()?;
        let (mut all, mut unreadable) = upkeep.archive.list();
        let (discarded, more) = upkeep.trash.list();
        all.extend(discarded);
        unreadable.extend(more);
        Ok((all, unreadable))
    }

    /// Finds the newest copy of the session that a text means: an id or its prefix, also as `claude:ID`.
    pub fn find_copy(&self, text: &str) -> Result<Entry, EngineError> {
        let (mut all, _) = self.copies()?;
        all.sort_by_key(|entry| std::cmp::Reverse(entry.manifest.at));
        let provider = text
            .split_once(':')
            .and_then(|(name, rest)| Some((ProviderId::parse(name).ok()?, rest)));
        let (provider, id) = provider.map_or((None, text), |(name, rest)| (Some(name), rest));
        all.retain(|entry| {
            let manifest = &entry.manifest;
            manifest.id.as_str().starts_with(id)
                && provider
                    .as_ref()
                    .is_none_or(|provider| *provider == manifest.provider)
        });
        if all.iter().any(|entry| entry.manifest.id.as_str() == id) {
            all.retain(|entry| entry.manifest.id.as_str() == id);
        }
        let mut candidates: Vec<Fitting> = Vec::new();
        for entry in &all {
            let fitting = Fitting::from(&entry.session());
            if !candidates.iter().any(|known| known.id == fitting.id) {
                candidates.push(fitting);
            }
        }
        match (candidates.len(), all.into_iter().next()) {
            (1, Some(entry)) => Ok(entry),
            (0, _) | (_, None) => Err(EngineError::NoCopy(text.to_owned())),
            _ => Err(EngineError::Ambiguous {
                text: text.to_owned(),
                candidates,
            }),
        }
    }

    /// Finds the newest copies of the sessions that a text means: one native session, or all native sessions on which a
    /// session of segue runs, or ran when it was deleted.
    pub async fn find_copies(&self, text: &str) -> Result<Vec<Entry>, EngineError> {
        let none = match self.find_copy(text) {
            Ok(copy) => return Ok(vec![copy]),
            Err(EngineError::NoCopy(text)) => EngineError::NoCopy(text),
            Err(error) => return Err(error),
        };
        let (mut all, _) = self.copies()?;
        all.sort_by_key(|entry| std::cmp::Reverse(entry.manifest.at));
        let gone = all
            .iter()
            .filter_map(|entry| candidate(text, &entry.manifest.went_with.as_ref()?.id));
        let mut candidates: Vec<Candidate> = gone.collect();
        candidates.extend(self.store.candidates(text).await?);
        let session = match pick(&candidates) {
            Pick::One(session) => session,
            Pick::None => return Err(none),
            Pick::Ambiguous(_) => return Err(self.ambiguous(text, &all, &candidates).await?),
        };
        let legs = match self.store.session(&session).await? {
            Some(_) => natives_of(&self.store.legs(&session).await?),
            None => Vec::new(),
        };
        let mut found: Vec<Entry> = Vec::new();
        for entry in all {
            let (provider, id) = (&entry.manifest.provider, &entry.manifest.id);
            let is_its = went_with(&entry, &session)
                || legs
                    .iter()
                    .any(|(of, leg)| keeper(of) == *provider && leg == id);
            let same =
                |known: &Entry| (&known.manifest.provider, &known.manifest.id) == (provider, id);
            if is_its && !found.iter().any(same) {
                found.push(entry);
            }
        }
        if found.is_empty() {
            return Err(none);
        }
        Ok(found)
    }

    /// Builds the error for a text that matches several sessions of segue.
    async fn ambiguous(
        &self,
        text: &str,
        copies: &[Entry],
        fitting: &[Candidate],
    ) -> Result<EngineError, EngineError> {
        let mut candidates: Vec<Fitting> = Vec::new();
        for candidate in fitting {
            let known = self.store.session(&candidate.id).await?;
            let mut copies = copies.iter();
            let copy = copies.find(|entry| went_with(entry, &candidate.id));
            let fitting = match (known, copy) {
                (Some(session), _) => Fitting::from(&session),
                (None, Some(copy)) => Fitting {
                    id: ConversationId::Session(candidate.id.clone()),
                    ..Fitting::from(&copy.session())
                },
                (None, None) => continue,
            };
            if !candidates.iter().any(|known| known.id == fitting.id) {
                candidates.push(fitting);
            }
        }
        let text = text.to_owned();
        Ok(EngineError::Ambiguous { text, candidates })
    }

    /// Restores a copy to the location of the session.
    ///
    /// If a session of segue with a title or tags was deleted with it, that session is recreated. A copy in the trash
    /// is then removed, because it is no longer needed.
    pub async fn restore(
        &self,
        entry: &Entry,
        times: Times,
        here: &Project,
    ) -> Result<Restored, EngineError> {
        let upkeep = self.upkeep()?.clone();
        let manifest = &entry.manifest;
        let (provider, id) = (&manifest.provider, &manifest.id);
        let Some(home) = self.catalog.home_of(provider) else {
            return Err(EngineError::Unread(provider.clone()));
        };
        let home = home.to_owned();
        let rows = manifest.are_rows();
        if rows && self.is_live(provider, id).await? {
            return Err(EngineError::There(named(&entry.session())));
        }
        let exports = upkeep.exports.join(format!("{provider}-{id}"));
        // A restore that was killed may have left files, which must not be imported.
        let _ = std::fs::remove_dir_all(&exports);
        let (copy, to) = (entry.clone(), exports.clone());
        let put_back = self.with_catalog(move |_| copy.restore(&home, &to, times));
        let put_back = put_back.await?;
        if !put_back.exports.is_empty() {
            let outcome = self.hand_over(entry, &put_back.exports).await;
            // A later restore recreates them.
            let _ = std::fs::remove_dir_all(&exports);
            outcome?;
        }
        if !self.is_live(provider, id).await? {
            return Err(EngineError::NotBack(named(&entry.session())));
        }
        // Must precede the removal of the copy, which has the only record of the title and tags.
        let session = self.called_again(entry, here).await?;
        if entry.kept == Kept::Trash {
            upkeep.trash.purge(entry)?;
        }
        Ok(Restored {
            entry: entry.clone(),
            taken_back: put_back.exports.len(),
            files: put_back.files,
            there: put_back.there,
            session,
        })
    }

    /// Adopts a restored native session with its old title and tags. `None` if the copy contains neither.
    async fn called_again(
        &self,
        entry: &Entry,
        here: &Project,
    ) -> Result<Option<Session>, EngineError> {
        let manifest = &entry.manifest;
        let Some(WentWith {
            id: was,
            called: Some(called),
        }) = &manifest.went_with
        else {
            return Ok(None);
        };
        let provider = self.driver_to_be(&manifest.provider);
        let beside = Beside::Was(was, &called.title);
        let (session, _) = self.adopt(&provider, &manifest.id, here, beside).await?;
        // The session may exist with another title, if an earlier restore was interrupted.
        if session.title != called.title {
            self.store.rename(&session.id, &called.title).await?;
        }
        let tags = Retag {
            add: called.tags.clone(),
            ..Retag::default()
        };
        Ok(Some(self.store.retag(&session.id, tags).await?))
    }

    /// Lets an agent import sessions into its database.
    async fn hand_over(
        &self,
        entry: &Entry,
        exports: &[std::path::PathBuf],
    ) -> Result<(), EngineError> {
        let upkeep = self.upkeep()?;
        let provider = &entry.manifest.provider;
        let own = upkeep.own(provider);
        let own = own.ok_or_else(|| EngineError::NoProgram(provider.clone()))?;
        let cwd = entry.manifest.head.cwd.as_deref().map(Path::new);
        // The agent assigns the session to the directory in which it is started.
        let cwd = cwd.filter(|cwd| cwd.is_dir());
        let cwd = cwd.ok_or_else(|| {
            EngineError::NoDirectory(entry.manifest.head.cwd.clone().unwrap_or_default())
        })?;
        for export in exports {
            if !own.take_back(export, cwd).await? {
                return Err(EngineError::NoProgram(provider.clone()));
            }
        }
        Ok(())
    }

    /// Removes all copies of a session permanently.
    pub fn purge_copies(&self, entry: &Entry) -> Result<(), EngineError> {
        Ok(super::delete::purge_copies(
            self.upkeep()?,
            &entry.session(),
        )?)
    }
}
