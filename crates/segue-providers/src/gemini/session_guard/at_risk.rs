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

use segue_core::agent::ProcessIdentity;
use segue_core::id::NativeId;
use segue_core::session::{GuardAction, RestoreCause};
use serde::{Deserialize, Serialize};

use super::atomic_files::{self, FileRestoreOutcome, list_chat_file_names};
use crate::gemini::chat_dir::ProjectChats;
use crate::gemini::chat_file;
use crate::reader::artifacts::list_names;
use crate::{ProcessStatus, identify_process, process_status};

const OWNER_FILE_NAME: &str = "owner";

/// A record of what is at risk. Its directory is created with the first entry.
#[derive(Debug)]
pub(in crate::gemini) struct AtRiskSessions {
    directory: PathBuf,
    /// Home of Gemini CLI.
    home: PathBuf,
    /// Whether the owner becomes Gemini CLI itself, so that no segue process repairs the damage when the owner ends.
    unattended: bool,
}

/// Process that a record belongs to.
#[derive(Serialize, Deserialize)]
struct RecordOwner {
    host: String,
    pid: u32,
    started: String,
    home: PathBuf,
    #[serde(default)]
    #[serde(rename = "entrusted")]
    unattended: bool,
}

impl AtRiskSessions {
    /// Creates the record for a process that is about to start.
    pub(super) fn new(root: &Path, home: &Path, random: fn() -> u32) -> Self {
        static RECORD_COUNT: AtomicU32 = AtomicU32::new(0);
        // In containers that share a home, several processes can have the same id.
        let name = format!(
            "{}-{:08x}-{}",
            std::process::id(),
            random(),
            RECORD_COUNT.fetch_add(1, Ordering::Relaxed)
        );
        Self {
            directory: root.join(name),
            home: home.to_owned(),
            unattended: false,
        }
    }

    /// Marks the record as that of a process that becomes Gemini CLI itself.
    pub(super) fn into_unattended(self) -> Self {
        Self {
            unattended: true,
            ..self
        }
    }

    /// Returns `true` if the owner became Gemini CLI itself.
    pub(super) fn is_unattended(&self) -> bool {
        self.unattended
    }

    /// Returns the records whose owners have ended.
    pub(super) fn list_abandoned(root: &Path, home: &Path) -> Vec<Self> {
        let records = list_names(root).into_iter().filter_map(|name| {
            let directory = root.join(name);
            let owner = read_owner(&directory)?;
            let identity = ProcessIdentity {
                host: owner.host,
                pid: owner.pid,
                start_time: owner.started,
            };
            let is_abandoned =
                owner.home == home && process_status(&identity) == ProcessStatus::Dead;
            is_abandoned.then_some(Self {
                directory,
                home: owner.home,
                unattended: owner.unattended,
            })
        });
        records.collect()
    }

    /// Creates the directory. Writes the owner first, so that a directory with other entries always names its owner.
    fn create(&self) -> io::Result<()> {
        let path = self.directory.join(OWNER_FILE_NAME);
        if path.exists() {
            return Ok(());
        }
        let identity = identify_process(std::process::id())
            .ok_or_else(|| io::Error::other("cannot identify the current process"))?;
        let owner = RecordOwner {
            host: identity.host,
            pid: identity.pid,
            started: identity.start_time,
            home: self.home.clone(),
            unattended: self.unattended,
        };
        atomic_files::write_copy(serde_json::to_string(&owner)?.as_bytes(), &path)
    }

    /// Records which session is segue's own.
    pub(super) fn record_own_session(&self, project: &str, id: &NativeId) -> io::Result<()> {
        self.create()?;
        atomic_files::write_copy(b"", &self.directory.join(project).join(id.as_str()))
    }

    /// Copies a file of a session that is not segue's own.
    pub(super) fn copy_session_file(
        &self,
        project: &str,
        name: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.create()?;
        atomic_files::write_copy(bytes, &self.directory.join(project).join(name))
    }

    /// Returns the sessions that are recorded as segue's own.
    pub(super) fn own_sessions(&self) -> Vec<(ProjectChats, NativeId)> {
        let projects = self.list_projects().into_iter();
        projects
            .flat_map(|chats| {
                let mut names = list_names(&self.directory.join(&chats.project));
                names.retain(|name| chat_file::parse_file_name(name).is_none());
                let ids = names
                    .into_iter()
                    .filter_map(|name| NativeId::parse(&name).ok());
                ids.map(|id| (chats.clone(), id)).collect::<Vec<_>>()
            })
            .collect()
    }

    fn list_projects(&self) -> Vec<ProjectChats> {
        let mut names = list_names(&self.directory);
        names.retain(|name| self.directory.join(name).is_dir());
        let project_names = names.into_iter();
        project_names
            .filter_map(|project| ProjectChats::for_project(&self.home, project))
            .collect()
    }

    /// Restores missing files of other sessions, and deletes the record. If a file cannot be restored, the record
    /// remains.
    pub(super) fn restore_other_sessions(&self, actions: &mut Vec<GuardAction>) {
        let mut has_failures = false;
        for chats in self.list_projects() {
            let copies_dir = self.directory.join(&chats.project);
            for name in list_chat_file_names(&copies_dir) {
                let Some(short_id) = chat_file::parse_file_name(&name).map(|name| name.short_id)
                else {
                    continue;
                };
                let path = chats.directory.join(&name);
                let result = match fs::read(copies_dir.join(&name)) {
                    Ok(_) if path.exists() => Ok(FileRestoreOutcome::NotNeeded),
                    Ok(bytes) => atomic_files::restore_file(&bytes, &path),
                    // A different segue process has restored the file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        Ok(FileRestoreOutcome::NotNeeded)
                    }
                    Err(error) => Err(error),
                };
                match result {
                    Ok(FileRestoreOutcome::NotNeeded) => {}
                    Ok(FileRestoreOutcome::Restored) => {
                        actions.push(GuardAction::SessionRestored {
                            short_id: short_id.to_owned(),
                            cause: RestoreCause::DeletedByAgent,
                        });
                    }
                    Err(error) => {
                        has_failures = true;
                        actions.push(GuardAction::RestoreFailed {
                            short_id: short_id.to_owned(),
                            error: error.to_string(),
                        });
                    }
                }
            }
        }
        if !has_failures {
            // A record that cannot be removed is processed a second time at the next start, without effect.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn read_owner(directory: &Path) -> Option<RecordOwner> {
    serde_json::from_slice(&fs::read(directory.join(OWNER_FILE_NAME)).ok()?).ok()
}

/// Removes the copies of a session from all records, whichever process they belong to.
pub(super) fn remove_recorded_copies(root: &Path, id: &NativeId) -> io::Result<()> {
    for record_name in list_names(root) {
        for project in list_names(&root.join(&record_name)) {
            let copies_dir = root.join(&record_name).join(project);
            for name in list_names(&copies_dir) {
                let path = copies_dir.join(&name);
                let is_copy = chat_file::is_file_of(&name, id)
                    && fs::read(&path).is_ok_and(|bytes| {
                        chat_file::parse_chat_file(&bytes).session_id.as_deref()
                            == Some(id.as_str())
                    });
                if is_copy || name == id.as_str() {
                    atomic_files::ignore_not_found(fs::remove_file(path))?;
                }
            }
        }
    }
    Ok(())
}
