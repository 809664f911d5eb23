//! Deletion in two phases: a plan that changes nothing, and its execution.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use segue_agents::busy::{self, Busy, Whose};
use segue_agents::forget_kept;
use segue_catalog::{Called, Catalog, Entry, KeepError, NativeSession, Trash, WentWith};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::{Leg, MatchedBy, Session, TitleSource};

use super::{DeletePlan, Deleted, Doomed, Extent, Fate, Means, Spared, Upkeep};
use crate::native::keeper;
use crate::{Conversation, ConversationId, Engine, EngineError};

/// Seconds after the last write in which a process may still be using a session.
const FRESH: i64 = 10;

impl Engine {
    /// Plans the deletion of a conversation. Changes nothing.
    pub async fn plan_delete(
        &self,
        conversation: &Conversation,
        extent: Extent,
        fate: Fate,
    ) -> Result<DeletePlan, EngineError> {
        let mut plan = DeletePlan {
            session: None,
            natives: Vec::new(),
            rehearsed: Vec::new(),
            spared: Vec::new(),
            extent,
            fate,
        };
        match conversation {
            Conversation::Native(native) => {
                plan.natives.push(self.doom(native.session.clone()).await?);
            }
            Conversation::Session(session, _) => {
                plan.session = Some((**session).clone());
                for (provider, id) in natives_of(&self.store.legs(&session.id).await?) {
                    self.plan_leg(session, &provider, &id, &mut plan).await?;
                }
            }
        }
        Ok(plan)
    }

    /// Returns `true` if native sessions of the agent appear in lists. Those of other agents can be reached only
    /// through segue's record.
    #[must_use]
    pub fn lists(&self, provider: &ProviderId) -> bool {
        self.reads(provider)
    }

    /// Adds a native session on which a session ran to the plan.
    async fn plan_leg(
        &self,
        session: &Session,
        provider: &ProviderId,
        id: &NativeId,
        plan: &mut DeletePlan,
    ) -> Result<(), EngineError> {
        // A native session that segue cannot read is identified by the configured provider.
        let agent = if self.lists(provider) {
            keeper(provider)
        } else {
            provider.clone()
        };
        let mut spare = |why: String| {
            plan.spared.push(Spared {
                provider: agent.clone(),
                id: id.clone(),
                why,
            });
        };
        let ours = *provider == ProviderId::rehearsal();
        if !ours && !self.lists(provider) {
            spare(format!("only {agent} knows where it is"));
        } else if let Some(other) = self.other_user(session, &agent, id).await? {
            spare(format!("session {} runs on it too", other.id));
        } else if ours {
            let path = rehearsed(&self.upkeep()?.trash, id);
            plan.rehearsed
                .extend(path.exists().then(|| (id.clone(), path)));
        } else if let Some(fork) = self.branch_of(session, &agent, id).await? {
            spare(format!("session {fork} branches off from it"));
        } else {
            let named = format!("{agent}:{id}");
            let mut found = self.lookup_native(&named).await?;
            found.retain(|native| native.session.head.id == *id);
            if let Some(native) = found.into_iter().next() {
                plan.natives.push(self.doom(native.session).await?);
            }
        }
        Ok(())
    }

    /// Finds another session that runs, or ran, on a native session.
    async fn other_user(
        &self,
        session: &Session,
        agent: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<Session>, EngineError> {
        for candidate in self.store.candidates(id.as_str()).await? {
            if candidate.by != MatchedBy::NativeId || candidate.id == session.id {
                continue;
            }
            let legs = self.store.legs(&candidate.id).await?;
            let same = (agent.clone(), id.clone());
            let mut natives = natives_of(&legs).into_iter();
            if natives.any(|(provider, id)| (keeper(&provider), id) == same) {
                return Ok(Some(self.existing(&candidate.id).await?));
            }
        }
        Ok(None)
    }

    /// Finds a fork of a session whose native session needs this one, because Codex does not copy the history of a
    /// branch.
    async fn branch_of(
        &self,
        session: &Session,
        agent: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<SessionId>, EngineError> {
        if *agent != ProviderId::codex() {
            return Ok(None);
        }
        let mut forks = self.store.lineage(&session.id).await?.forks;
        while let Some(fork) = forks.pop() {
            for (provider, native) in natives_of(&self.store.legs(&fork.id).await?) {
                let named = format!("{}:{native}", keeper(&provider));
                let found = self.lookup_native(&named).await?.into_iter();
                let mut found = found.map(|native| native.session.head);
                if found.any(|head| {
                    head.id == native && head.forked_from.as_deref() == Some(id.as_str())
                }) {
                    return Ok(Some(fork.id));
                }
            }
            forks.extend(self.store.lineage(&fork.id).await?.forks);
        }
        Ok(None)
    }

    /// Determines how a native session would be deleted, and whether a process uses it.
    async fn doom(&self, session: NativeSession) -> Result<Doomed, EngineError> {
        let upkeep = self.upkeep()?.clone();
        let now = (self.world.now)();
        let doomed = self.with_catalog(move |catalog| {
            let (provider, id) = (&session.provider, &session.head.id);
            let archived = matches!(upkeep.archive.entry(provider, id), Ok(Some(_)));
            if catalog.only_archived(&session) {
                return Ok(Doomed {
                    session,
                    belongings: None,
                    means: Means::Copy,
                    busy: None,
                    fresh: None,
                    archived,
                });
            }
            let belongings = catalog.belongings(&session)?;
            let means = match upkeep.own(provider) {
                Some(own) => Means::Own(own.delete_command(id)),
                None if belongings.are_rows() => Means::NoProgram,
                None => Means::Files,
            };
            let files: Vec<PathBuf> = belongings.own_files().collect();
            let written = belongings
                .modified()
                .map(|at| now.duration_since(at).as_secs());
            Ok(Doomed {
                busy: busy::at_work(id, &files, &belongings.home, Whose::Anybodys),
                fresh: written.filter(|seconds| (0..FRESH).contains(seconds)),
                belongings: Some(belongings),
                means,
                archived,
                session,
            })
        });
        doomed.await.map_err(EngineError::Keep)
    }

    /// Executes a plan. Fails if a process uses one of the native sessions.
    pub async fn delete_conversation(&self, plan: &DeletePlan) -> Result<Deleted, EngineError> {
        for doomed in &plan.natives {
            self.refuse_if_busy(doomed).await?;
            if doomed.means == Means::NoProgram {
                return Err(EngineError::NoProgram(doomed.session.provider.clone()));
            }
        }
        let held = match &plan.session {
            Some(session) => Some(self.hold(&session.id).await?),
            None => None,
        };
        let outcome = async {
            let mut natives = Vec::new();
            // A later session may be a branch of an earlier one, and Codex does not delete a session from which others
            // branch.
            for doomed in plan.natives.iter().rev() {
                let copy = self.delete_native(doomed, plan).await?;
                // A copy that protects the session would restore it. A copy that cannot be removed now is removed once
                // it is old.
                let _ = forget_kept(&self.upkeep()?.kept, &doomed.session.head.id);
                self.forget_indexed(&doomed.session).await;
                natives.push((doomed.id(), doomed.means.clone(), copy));
            }
            natives.reverse();
            for (_, path) in &plan.rehearsed {
                remove(path)?;
            }
            if let Some((hold, _)) = &held
                && plan.extent == Extent::Everything
            {
                self.store.delete(&hold.lease).await?;
                self.forget_own_indexed(&hold.lease.session).await;
            }
            Ok::<_, EngineError>(natives)
        }
        .await;
        let mut decisions = Vec::new();
        if let Some((hold, taken_over)) = held {
            hold.release().await;
            decisions.extend(taken_over);
        }
        Ok(Deleted {
            natives: outcome?,
            decisions,
        })
    }

    /// Fails if a process uses a session now, because the user may have taken time to confirm the plan.
    async fn refuse_if_busy(&self, doomed: &Doomed) -> Result<(), EngineError> {
        let Some(belongings) = doomed.belongings.clone() else {
            return Ok(());
        };
        let id = doomed.session.head.id.clone();
        let look = self.with_catalog(move |_| {
            let files: Vec<PathBuf> = belongings.own_files().collect();
            busy::at_work(&id, &files, &belongings.home, Whose::Anybodys)
        });
        match look.await {
            Some(Busy { pid, program }) => Err(EngineError::InUse {
                id: doomed.id(),
                pid,
                program,
            }),
            None => Ok(()),
        }
    }

    /// Removes a session of segue with all its text from the index.
    pub(crate) async fn forget_own_indexed(&self, id: &SessionId) {
        if let Some(index) = self.index.clone() {
            let id = id.clone();
            // If the index cannot be written now, a search that finds the session removes it.
            let forget = move |_: &Catalog| index.forget_own(&id, Self::PATIENCE);
            let _ = self.with_catalog(forget).await;
        }
    }

    /// Deletes one native session. Returns the path of its copy. `None` if there is no copy.
    async fn delete_native(
        &self,
        doomed: &Doomed,
        plan: &DeletePlan,
    ) -> Result<Option<PathBuf>, EngineError> {
        let upkeep = self.upkeep()?.clone();
        let (fate, at) = (plan.fate, (self.world.now)());
        let goes_with = plan.goes_with(doomed);
        if doomed.means == Means::Copy {
            let moved = delete_copy(&upkeep, &doomed.session, fate, at)?;
            return Ok(moved.map(|entry| noted(&upkeep, entry, goes_with).path));
        }
        let session = doomed.session.clone();
        let trash = upkeep.trash.clone();
        let copy = match fate {
            Fate::Purge => None,
            Fate::Trash => {
                let copied =
                    self.with_catalog(move |catalog| catalog.discard(&session, &trash, at));
                Some(noted(&upkeep, copied.await?, goes_with))
            }
        };
        if let Err(error) = self.refuse_if_busy(doomed).await {
            // The session is not deleted, so its copy is not needed.
            if let Some(copy) = &copy {
                let _ = upkeep.trash.purge(copy);
            }
            return Err(error);
        }
        let id = &doomed.session.head.id;
        let (session, copied) = (doomed.session.clone(), copy.clone());
        if let Some(own) = upkeep.own(&doomed.session.provider) {
            let same = self.with_catalog(move |catalog| {
                let now = catalog.belongings(&session)?;
                let same = copied.is_none_or(|copied| copied.manifest.is_of(&now));
                same.then_some(())
                    .ok_or(KeepError::Changing(session.found.path))
            });
            same.await?;
            own.delete(id, directory(&doomed.session)).await?;
        } else {
            let removed =
                self.with_catalog(move |catalog| catalog.remove(&session, copied.as_ref()));
            removed.await?;
        }
        if self.is_live(&doomed.session.provider, id).await? {
            return Err(EngineError::StillThere(doomed.id()));
        }
        if fate == Fate::Purge {
            purge_copies(&upkeep, &doomed.session)?;
        }
        Ok(copy.map(|entry| entry.path))
    }

    /// Returns `true` if the agent has a session, and not only the archive.
    pub(super) async fn is_live(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<bool, EngineError> {
        let named = format!("{provider}:{id}");
        let id = id.clone();
        let live = self.with_catalog(move |catalog| {
            let found = catalog.lookup(&named).sessions.into_iter();
            let mut live = found.filter(|session| !catalog.only_archived(session));
            live.any(|session| session.head.id == id)
        });
        Ok(live.await)
    }
}

/// Returns the native sessions of the legs, without duplicates.
pub(super) fn natives_of(legs: &[Leg]) -> Vec<(ProviderId, NativeId)> {
    let mut all = Vec::new();
    for leg in legs {
        if let Some(id) = &leg.native_id {
            let native = (leg.provider.clone(), id.clone());
            if !all.contains(&native) {
                all.push(native);
            }
        }
    }
    all
}

/// Returns the file of a session of the built-in agent, in the directory that also contains the trash.
fn rehearsed(trash: &Trash, id: &NativeId) -> PathBuf {
    trash.beside("rehearsal").join(format!("{id}.jsonl"))
}

/// Removes a file. A missing file is not an error.
fn remove(path: &Path) -> Result<(), KeepError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(KeepError::Io {
            doing: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Returns the directory in which an agent's program runs for a session: that of the session if it exists, else `/`.
fn directory(session: &NativeSession) -> &Path {
    let cwd = session.head.cwd.as_deref().map(Path::new);
    cwd.filter(|cwd| cwd.is_dir()).unwrap_or(Path::new("/"))
}

impl DeletePlan {
    /// Returns the session of segue that is deleted with a native session, with its title and tags if they were set.
    ///
    /// Only the native session that it used last gets title and tags, because only that one can become the session when
    /// it is restored.
    fn goes_with(&self, doomed: &Doomed) -> Option<WentWith> {
        let session = self.session.as_ref()?;
        let last = self.natives.last().map(Doomed::id);
        let is_last = last == Some(doomed.id()) && self.extent == Extent::Everything;
        let title = &session.title;
        let is_given = title.source() != TitleSource::Prompt;
        // A title that comes from the agent is restored with the agent's files.
        let is_ours = is_given && doomed.session.head.title.as_ref() != Some(title);
        let is_called = is_ours || !session.tags.is_empty();
        let called = (is_last && is_called).then(|| Called {
            title: session.title.clone(),
            tags: session.tags.clone(),
        });
        let id = session.id.clone();
        Some(WentWith { id, called })
    }
}

/// Adds the session of segue to a copy, so that the copy can be found by it. If this fails, the copy remains usable.
fn noted(upkeep: &Upkeep, copy: Entry, goes_with: Option<WentWith>) -> Entry {
    let noted = goes_with.and_then(|session| upkeep.trash.note(copy.clone(), session).ok());
    noted.unwrap_or(copy)
}

/// Deletes a session that only the archive has.
fn delete_copy(
    upkeep: &Upkeep,
    session: &NativeSession,
    fate: Fate,
    at: jiff::Timestamp,
) -> Result<Option<Entry>, KeepError> {
    let entry = upkeep.archive.entry(&session.provider, &session.head.id)?;
    match (entry, fate) {
        (None, _) => Ok(None),
        (Some(entry), Fate::Trash) => {
            upkeep.archive.close(&entry);
            Ok(Some(upkeep.trash.take(&entry, at)?))
        }
        (Some(_), Fate::Purge) => {
            purge_copies(upkeep, session)?;
            Ok(None)
        }
    }
}

/// Removes all copies of a session.
pub(super) fn purge_copies(upkeep: &Upkeep, session: &NativeSession) -> Result<(), KeepError> {
    let Upkeep { archive, trash, .. } = upkeep;
    let is_of = |provider: &ProviderId, id: &NativeId| {
        *provider == session.provider && *id == session.head.id
    };
    if let Some(entry) = archive.entry(&session.provider, &session.head.id)? {
        archive.remove(&entry)?;
    }
    let discarded = trash.list().0.into_iter();
    for entry in discarded.filter(|entry| is_of(&entry.manifest.provider, &entry.manifest.id)) {
        trash.purge(&entry)?;
    }
    Ok(())
}

/// Returns the id of a native session.
pub(super) fn named(session: &NativeSession) -> ConversationId {
    ConversationId::Native(session.provider.clone(), session.head.id.clone())
}
