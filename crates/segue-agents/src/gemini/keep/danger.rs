//! What one process of Gemini CLI may destroy, on disk, so that another segue can put it back if this one is killed.
//!
//! A directory each: who it belongs to in `owner`, and for each project the copies of others' sessions that have a twin,
//! and an empty file named by the id of the session that is ours. Nobody touches the directory of a process that lives:
//! what is safe for one is still in danger for another.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use segue_core::{NativeId, ProcessMark};
use serde::{Deserialize, Serialize};

use super::files::{self, PutBack, entries, names_in};
use crate::gemini::chats::Chats;
use crate::gemini::record;
use crate::{Life, life, mark_of};

const OWNER: &str = "owner";

/// One such directory; it is made when there is something to put into it.
#[derive(Debug)]
pub(in crate::gemini) struct Danger {
    directory: PathBuf,
    /// Gemini CLI's home.
    home: PathBuf,
    /// Whether its owner becomes Gemini CLI itself, so that nobody settles it when that ends.
    entrusted: bool,
}

/// Whose it is.
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
    /// One for a process that will be started.
    pub(super) fn new(root: &Path, home: &Path, random: fn() -> u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // In containers that share a home, many a process has the same number.
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

    /// The same, for a process that becomes Gemini CLI itself.
    pub(super) fn entrusted(self) -> Self {
        Self {
            entrusted: true,
            ..self
        }
    }

    /// Whether its owner became Gemini CLI itself.
    pub(super) fn is_entrusted(&self) -> bool {
        self.entrusted
    }

    /// Those whose owners are dead.
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

    /// Makes the directory; whoever sees anything else in it sees its owner.
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

    /// Notes which session is ours.
    pub(super) fn note(&self, project: &str, id: &NativeId) -> io::Result<()> {
        self.make()?;
        files::copy(b"", &self.directory.join(project).join(id.as_str()))
    }

    /// Copies a file of a session that is somebody else's.
    pub(super) fn copy(&self, project: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.make()?;
        files::copy(bytes, &self.directory.join(project).join(name))
    }

    /// The sessions that were noted as ours.
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

    /// Puts back what has vanished of others' sessions, and forgets what is there. What can't be put back stays here.
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
                    // Another segue was faster.
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
            // What can't be removed is settled again at the next start, to no effect.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn owner_of(directory: &Path) -> Option<Owner> {
    serde_json::from_slice(&fs::read(directory.join(OWNER)).ok()?).ok()
}

/// Removes the copies of a session from all directories, whoever they belong to.
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
