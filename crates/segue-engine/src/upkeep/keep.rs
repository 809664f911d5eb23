//! Archiving native sessions, and bringing copies back.

use std::path::Path;

use jiff::Timestamp;
use segue_catalog::{Archive, Entry, KeepError, Kept, NativeSession, Saved, Times};
use segue_core::ProviderId;

use super::Restored;
use super::delete::{named, natives_of};
use crate::native::keeper;
use crate::{Conversation, Engine, EngineError, Fitting};

impl Engine {
    /// The native sessions of a conversation that are still there.
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

    /// The native sessions of one agent, or of all, that nobody used since then.
    pub async fn natives_before(
        &self,
        provider: Option<&ProviderId>,
        before: Option<Timestamp>,
    ) -> Vec<NativeSession> {
        let provider = provider.map(keeper);
        self.with_catalog(move |catalog| {
            let mut sessions = catalog.sessions(provider.as_ref(), None).sessions;
            sessions.retain(|session| {
                // Agents go by one or the other.
                let used = session.head.updated_at.min(session.found.modified);
                !catalog.only_archived(session) && before.is_none_or(|before| used < before)
            });
            sessions
        })
        .await
    }

    /// Whether the archive has a native session as it is now.
    pub async fn is_archived(&self, session: &NativeSession) -> Result<bool, EngineError> {
        let (session, archive) = (session.clone(), self.archive_of()?.clone());
        let saved = self.with_catalog(move |catalog| {
            catalog.only_archived(&session) || catalog.is_saved(&session, &archive)
        });
        Ok(saved.await)
    }

    fn archive_of(&self) -> Result<&Archive, EngineError> {
        Ok(&self.upkeep()?.archive)
    }

    /// Copies a native session into the archive, unless it is there as it is.
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

    /// All copies, in the archive and in the trash, and what could not be read of them.
    pub fn copies(&self) -> Result<(Vec<Entry>, Vec<KeepError>), EngineError> {
        let upkeep = self.upkeep()?;
        let (mut all, mut unreadable) = upkeep.archive.list();
        let (discarded, more) = upkeep.trash.list();
        all.extend(discarded);
        unreadable.extend(more);
        Ok((all, unreadable))
    }

    /// The newest copy of the session that a text means: an id or its beginning, also as `claude:ID`.
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

    /// Puts a copy back where the session was. A copy in the trash is not needed any more then.
    pub async fn restore(&self, entry: &Entry, times: Times) -> Result<Restored, EngineError> {
        let upkeep = self.upkeep()?.clone();
        let manifest = &entry.manifest;
        let (provider, id) = (&manifest.provider, &manifest.id);
        let Some(home) = self.catalog.home_of(provider) else {
            return Err(EngineError::Unread(provider.clone()));
        };
        let home = home.to_owned();
        let rows = manifest.are_rows();
        if rows && self.is_live(provider, id).await? {
            return Err(KeepError::Differs(home.join(id.as_str())).into());
        }
        let exports = upkeep.exports.join(format!("{provider}-{id}"));
        let (copy, to) = (entry.clone(), exports.clone());
        let put_back = self.with_catalog(move |_| copy.restore(&home, &to, times));
        let put_back = put_back.await?;
        if !put_back.exports.is_empty() {
            let outcome = self.hand_over(entry, &put_back.exports).await;
            // They are made again when they are needed.
            let _ = std::fs::remove_dir_all(&exports);
            outcome?;
        }
        if !self.is_live(provider, id).await? {
            return Err(EngineError::NotBack(named(&entry.session())));
        }
        if entry.kept == Kept::Trash {
            upkeep.trash.purge(entry)?;
        }
        Ok(Restored {
            entry: entry.clone(),
            taken_back: put_back.exports.len(),
            files: put_back.files,
            there: put_back.there,
        })
    }

    /// Has an agent take sessions back that are in its database.
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
        // The agent would take it for a session of wherever it is started.
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

    /// Removes all copies of a session for good.
    pub fn purge_copies(&self, entry: &Entry) -> Result<(), EngineError> {
        Ok(super::delete::purge_copies(
            self.upkeep()?,
            &entry.session(),
        )?)
    }
}
