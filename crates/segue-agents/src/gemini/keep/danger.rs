//! Record on disk of what one process of Gemini CLI may destroy, so that another segue process can restore it if this
//! one is killed.
//!
//! Each record is a directory. The file `owner` identifies the process that the record belongs to. For each project,
//! the directory contains copies of other sessions that have a twin, and an empty file named after the id of segue's
//! own session. segue never changes the directory of a running process, because a session that is safe from one process
//! may still be at risk from another.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use segue_core::agent::ProcessMark;
use segue_core::id::NativeId;
use serde::{Deserialize, Serialize};

use super::files::{self, PutBack, entries, names_in};
use crate::gemini::chats::Chats;
use crate::gemini::record;
use crate::{Life, life, mark_of};

const OWNER: &str = "owner";

/// A record of what is at risk. Its directory is created with the first entry.
#[derive(Debug)]
pub(in crate::gemini) struct Danger {
    directory: PathBuf,
    /// Home of Gemini CLI.
    home: PathBuf,
    /// Whether the owner becomes Gemini CLI itself, so that no segue process settles the record when the owner ends.
    entrusted: bool,
}

/// Process that a record belongs to.
#[derive(Serialize, Deserialize)]
struct Owner {
    host: String,
    pid: u32,
    started: String,
    home: PathBuf,
    #[serde(default)]
    entrusted: bool,
}

impl Danger {
    /// Creates the record for a process that is about to start.
    pub(super) fn new(root: &Path, home: &Path, random: fn() -> u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // In containers that share a home, several processes can have the same id.
        let name = format!(
            "{}-{:08x}-{}",
            std::process::id(),
            random(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        Self {
            directory: root.join(name),
            home: home.to_owned(),
            entrusted: false,
        }
    }

    /// Marks the record as that of a process that becomes Gemini CLI itself.
    pub(super) fn entrusted(self) -> Self {
        Self {
            entrusted: true,
            ..self
        }
    }

    /// Returns `true` if the owner became Gemini CLI itself.
    pub(super) fn is_entrusted(&self) -> bool {
        self.entrusted
    }

    /// Returns the records whose owners have ended.
    pub(super) fn abandoned(root: &Path, home: &Path) -> Vec<Self> {
        let all = entries(root).into_iter().filter_map(|name| {
            let directory = root.join(name);
            let owner = owner_of(&directory)?;
            let mark = ProcessMark {
                host: owner.host,
                pid: owner.pid,
                started: owner.started,
            };
            let abandoned = owner.home == home && life(&mark) == Life::Dead;
            abandoned.then_some(Self {
                directory,
                home: owner.home,
                entrusted: owner.entrusted,
            })
        });
        all.collect()
    }

    /// Creates the directory. Writes the owner first, so that a directory with other entries always names its owner.
    fn make(&self) -> io::Result<()> {
        let path = self.directory.join(OWNER);
        if path.exists() {
            return Ok(());
        }
        let mark = mark_of(std::process::id())
            .ok_or_else(|| io::Error::other("this process can't be named"))?;
        let owner = Owner {
            host: mark.host,
            pid: mark.pid,
            started: mark.started,
            home: self.home.clone(),
            entrusted: self.entrusted,
        };
        files::copy(serde_json::to_string(&owner)?.as_bytes(), &path)
    }

    /// Records which session is segue's own.
    pub(super) fn note(&self, project: &str, id: &NativeId) -> io::Result<()> {
        self.make()?;
        files::copy(b"", &self.directory.join(project).join(id.as_str()))
    }

    /// Copies a file of a session that is not segue's own.
    pub(super) fn copy(&self, project: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.make()?;
        files::copy(bytes, &self.directory.join(project).join(name))
    }

    /// Returns the sessions that are recorded as segue's own.
    pub(super) fn ours(&self) -> Vec<(Chats, NativeId)> {
        let projects = self.projects().into_iter();
        projects
            .flat_map(|chats| {
                let mut names = entries(&self.directory.join(&chats.project));
                names.retain(|name| record::name(name).is_none());
                let ids = names
                    .into_iter()
                    .filter_map(|name| NativeId::parse(&name).ok());
                ids.map(|id| (chats.clone(), id)).collect::<Vec<_>>()
            })
            .collect()
    }

    fn projects(&self) -> Vec<Chats> {
        let mut names = entries(&self.directory);
        names.retain(|name| self.directory.join(name).is_dir());
        let chats = names.into_iter();
        chats
            .filter_map(|project| Chats::named(&self.home, project))
            .collect()
    }

    /// Restores missing files of other sessions, and deletes the record. If a file cannot be restored, the record
    /// remains.
    pub(super) fn settle(&self, told: &mut Vec<String>) {
        let mut unsettled = false;
        for chats in self.projects() {
            let copies = self.directory.join(&chats.project);
            for name in names_in(&copies) {
                let Some(id) = record::name(&name).map(|name| name.short) else {
                    continue;
                };
                let path = chats.directory.join(&name);
                let put_back = match fs::read(copies.join(&name)) {
                    Ok(_) if path.exists() => Ok(PutBack::NotNeeded),
                    Ok(bytes) => files::put_back(&bytes, &path),
                    // A different segue process has restored the file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PutBack::NotNeeded),
                    Err(error) => Err(error),
                };
                match put_back {
                    Ok(PutBack::NotNeeded) => {}
                    Ok(PutBack::Done) => told.push(format!(
                        "put back Gemini session {id}, which Gemini CLI had deleted"
                    )),
                    Err(error) => {
                        unsettled = true;
                        told.push(format!("could not put back Gemini session {id}: {error}"));
                    }
                }
            }
        }
        if !unsettled {
            // A record that cannot be removed is settled a second time at the next start, without effect.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn owner_of(directory: &Path) -> Option<Owner> {
    serde_json::from_slice(&fs::read(directory.join(OWNER)).ok()?).ok()
}

/// Removes the copies of a session from all records, whichever process they belong to.
pub(super) fn forget(root: &Path, id: &NativeId) -> io::Result<()> {
    for danger in entries(root) {
        for project in entries(&root.join(&danger)) {
            let copies = root.join(&danger).join(project);
            for name in entries(&copies) {
                let path = copies.join(&name);
                let is_copy = record::name(&name)
                    .is_some_and(|name| name.short == record::short(id.as_str()))
                    && fs::read(&path)
                        .is_ok_and(|bytes| record::read(&bytes).id.as_deref() == Some(id.as_str()));
                if is_copy || name == id.as_str() {
                    files::removed(fs::remove_file(path))?;
                }
            }
        }
    }
    Ok(())
}
