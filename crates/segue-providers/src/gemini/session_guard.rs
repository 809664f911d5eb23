//! Guard that protects native sessions from Gemini CLI itself.
//!
//! Gemini CLI 0.61 writes an empty twin next to a session that it resumes in a later minute, and at its next start
//! deletes every session that has a twin. A session that is loaded over ACP in the minute of its creation is restarted
//! in its own file. Around each process that it starts, segue therefore copies the session, removes the twin that the
//! process made, and restores what was destroyed. segue never restores a session that was neither requested nor at
//! risk: a session that Gemini CLI deletes because of its age, or that the user deletes, stays deleted. Errors in this
//! module never fail a turn; they are reported to the user.

mod at_risk;
mod atomic_files;
mod hard_links;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_core::id::NativeId;
use segue_core::session::{GuardAction, RestoreCause};

pub(super) use self::at_risk::AtRiskSessions;
pub(super) use self::atomic_files::list_chat_file_names;
use self::atomic_files::{
    FileRestoreOutcome, copy_directory_files, last_write_time, restore_file, write_atomically,
    write_copy,
};
use super::chat_dir::{ChatFile, ProjectChats};
use super::chat_file::{self, ChatFileRepair, short_id};
use crate::SystemFns;
use crate::reader::artifacts::list_names;

/// Directory that records what each process of Gemini CLI may destroy; no session id begins with a dot.
const AT_RISK_DIR: &str = ".endangered";

/// Time after which the copy of an unused session is removed.
const COPY_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Guard of all sessions in one home of Gemini CLI.
#[derive(Debug)]
pub(super) struct SessionGuard {
    /// Home of Gemini CLI.
    home: PathBuf,
    /// Directory of segue's copies.
    copies_root: PathBuf,
    system: SystemFns,
}

impl SessionGuard {
    pub(super) fn new(home: PathBuf, copies_root: PathBuf, system: SystemFns) -> Self {
        Self {
            home,
            copies_root,
            system,
        }
    }

    pub(super) fn find_chats(&self, cwd: &Path) -> Option<ProjectChats> {
        ProjectChats::find_for_directory(&self.home, cwd)
    }

    /// Repairs the damage of earlier processes, and prepares for the damage of a process that is about to start, to
    /// resume `id` if given. Returns the actions taken.
    pub(super) fn prepare_for_start(
        &self,
        cwd: &Path,
        id: Option<&NativeId>,
    ) -> (AtRiskSessions, Vec<GuardAction>) {
        let mut actions = self.repair_abandoned(|_| true);
        let at_risk = AtRiskSessions::new(&self.at_risk_dir(), &self.home, self.system.random);
        self.copy_sessions_at_risk(&at_risk, cwd, id, &mut actions);
        self.remove_old_copies(id);
        (at_risk, actions)
    }

    /// Prepares for this process to become Gemini CLI itself and to resume `id`. No segue process runs when that
    /// process ends, so the next segue process must find everything that it needs. Returns the actions taken.
    pub(super) fn prepare_handover(&self, cwd: &Path, id: &NativeId) -> Vec<GuardAction> {
        let mut actions = self.repair_abandoned(|_| true);
        let at_risk = AtRiskSessions::new(&self.at_risk_dir(), &self.home, self.system.random)
            .into_unattended();
        self.copy_sessions_at_risk(&at_risk, cwd, Some(id), &mut actions);
        self.remove_old_copies(Some(id));
        if let Some(chats) = self.find_chats(cwd) {
            let copies_dir = self.session_copies_dir(&chats, id);
            hard_links::create_links(&chats, id, &copies_dir);
            if !list_chat_file_names(&copies_dir).is_empty() {
                actions.push(GuardAction::CopySaved {
                    short_id: short_id(id).to_owned(),
                });
            }
        }
        actions
    }

    /// Repairs what Gemini CLI did after a process of segue had become Gemini CLI. Returns the actions taken.
    pub(super) fn repair_handed_over(&self) -> Vec<GuardAction> {
        self.repair_abandoned(AtRiskSessions::is_unattended)
    }

    /// Repairs the damage of processes that have ended and whose damage no segue process has repaired.
    fn repair_abandoned(&self, filter: impl Fn(&AtRiskSessions) -> bool) -> Vec<GuardAction> {
        let mut actions = Vec::new();
        let abandoned = AtRiskSessions::list_abandoned(&self.at_risk_dir(), &self.home).into_iter();
        for at_risk in abandoned.filter(filter) {
            for (chats, id) in at_risk.own_sessions() {
                self.repair_and_copy(&chats, &id, &mut actions);
                hard_links::remove_links(&self.session_copies_dir(&chats, &id));
            }
            at_risk.restore_other_sessions(&mut actions);
        }
        actions
    }

    fn at_risk_dir(&self) -> PathBuf {
        self.copies_root.join(AT_RISK_DIR)
    }

    /// Copies what a process that is about to start may destroy.
    fn copy_sessions_at_risk(
        &self,
        at_risk: &AtRiskSessions,
        cwd: &Path,
        id: Option<&NativeId>,
        actions: &mut Vec<GuardAction>,
    ) {
        if let Some(chats) = self.find_chats(cwd) {
            if let Some(id) = id {
                self.repair_and_copy(&chats, id, actions);
                if let Err(error) = at_risk.record_own_session(&chats.project, id) {
                    actions.push(copy_failure(id, &error));
                }
            }
            copy_twinned_sessions(at_risk, &chats, id, actions);
        }
    }

    /// Repairs these sessions after the end of a process that may have touched them.
    pub(super) fn repair_after_exit(
        &self,
        at_risk: &AtRiskSessions,
        cwd: &Path,
        ids: &[NativeId],
    ) -> Vec<GuardAction> {
        let mut actions = Vec::new();
        if let Some(chats) = self.find_chats(cwd) {
            for id in ids {
                self.repair_and_copy(&chats, id, &mut actions);
            }
        }
        at_risk.restore_other_sessions(&mut actions);
        actions
    }

    /// Updates segue's copy of a session whose process may still be running.
    pub(super) fn update_copy(&self, cwd: &Path, id: &NativeId) -> Vec<GuardAction> {
        let mut actions = Vec::new();
        if let Some(chats) = self.find_chats(cwd) {
            self.copy_session(&chats, id, &chats.read_session_files(id), &mut actions);
        }
        actions
    }

    /// Removes the empty twins of a session.
    pub(super) fn remove_twins(&self, cwd: &Path, id: &NativeId) -> Vec<GuardAction> {
        let mut actions = Vec::new();
        if let Some(chats) = self.find_chats(cwd) {
            remove_twin_files(&chats.read_session_files(id), id, &mut actions);
        }
        actions
    }

    /// Returns the number of seconds until a session can be loaded safely; `None` if it can be loaded now.
    pub(super) fn seconds_to_wait(&self, cwd: &Path, id: &NativeId) -> Option<i64> {
        let chats = self.find_chats(cwd)?;
        let now = (self.system.now)();
        let names = chats.list_file_names().into_iter();
        names
            .filter_map(|file| {
                let name = chat_file::parse_file_name(&file)
                    .filter(|name| name.short_id == short_id(id))?;
                chat_file::seconds_left_in_minute(name.minute, now)
            })
            .max()
    }

    /// Returns the number of input tokens in the last request of a session.
    pub(super) fn context_tokens(&self, cwd: &Path, id: &NativeId) -> Option<u64> {
        let files = self.find_chats(cwd)?.read_session_files(id);
        let mut tokens = files.iter().filter_map(|file| file.state.context_tokens);
        tokens.next_back()
    }

    /// Repairs a session, removes its twins, and updates segue's copy.
    fn repair_and_copy(&self, chats: &ProjectChats, id: &NativeId, actions: &mut Vec<GuardAction>) {
        let copies_dir = self.session_copies_dir(chats, id);
        if let Err(error) = hard_links::update_copies(chats, &copies_dir) {
            actions.push(copy_failure(id, &error));
        }
        restore_session(chats, id, &copies_dir, actions);
        let files = chats.read_session_files(id);
        remove_twin_files(&files, id, actions);
        self.copy_session(chats, id, &files, actions);
    }

    fn session_copies_dir(&self, chats: &ProjectChats, id: &NativeId) -> PathBuf {
        self.copies_root.join(id.as_str()).join(&chats.project)
    }

    fn copy_session(
        &self,
        chats: &ProjectChats,
        id: &NativeId,
        files: &[ChatFile],
        actions: &mut Vec<GuardAction>,
    ) {
        let copies_dir = self.session_copies_dir(chats, id);
        for file in files.iter().filter(|file| file.state.has_messages) {
            let copy_path = copies_dir.join(&file.name);
            // The remainder of a file must not replace the complete copy.
            let saved = fs::read(&copy_path).ok();
            if chat_file::plan_repair(Some(&file.bytes), saved.as_deref())
                != ChatFileRepair::NotNeeded
            {
                continue;
            }
            if let Err(error) = write_copy(&file.bytes, &copy_path) {
                actions.push(copy_failure(id, &error));
            }
        }
        if !files.is_empty() {
            // The files of subagents are not part of the session itself, so errors are ignored.
            let _ = copy_directory_files(
                &chats.directory.join(id.as_str()),
                &copies_dir.join(id.as_str()),
            );
        }
    }

    /// Removes the copies of sessions that were not used for a long time, except that of `current_id`.
    fn remove_old_copies(&self, current_id: Option<&NativeId>) {
        let Ok(limit) = (self.system.now)().checked_sub(COPY_RETENTION) else {
            return;
        };
        let is_session = |name: &String| {
            NativeId::parse(name).is_ok()
                && current_id.is_none_or(|current_id| current_id.as_str() != name)
        };
        let sessions = list_names(&self.copies_root).into_iter().filter(is_session);
        let sessions = sessions.map(|name| self.copies_root.join(name));
        let at_risk_dir = self.at_risk_dir();
        let records = list_names(&at_risk_dir).into_iter();
        let records = records.map(|name| at_risk_dir.join(name));
        for path in sessions.chain(records) {
            let last_write = last_write_time(&path).and_then(|time| Timestamp::try_from(time).ok());
            if last_write.is_some_and(|last_write| last_write < limit) {
                // The next start retries.
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}

/// Removes all copies of a session.
pub(super) fn remove_copies(copies_root: &Path, id: &NativeId) -> io::Result<()> {
    atomic_files::ignore_not_found(fs::remove_dir_all(copies_root.join(id.as_str())))?;
    at_risk::remove_recorded_copies(&copies_root.join(AT_RISK_DIR), id)
}

/// Copies the sessions that the next start of Gemini CLI will delete because of a twin, whichever program made the
/// twin.
fn copy_twinned_sessions(
    at_risk: &AtRiskSessions,
    chats: &ProjectChats,
    own_id: Option<&NativeId>,
    actions: &mut Vec<GuardAction>,
) {
    let names = chats.list_file_names();
    let parse_short_id =
        |name: &str| chat_file::parse_file_name(name).map(|name| name.short_id.to_owned());
    for (index, name) in names.iter().enumerate() {
        let Some(file_short_id) = parse_short_id(name) else {
            continue;
        };
        let is_own = own_id.is_some_and(|own_id| short_id(own_id) == file_short_id);
        let siblings = names.iter().enumerate().filter(|(sibling_index, sibling)| {
            *sibling_index != index
                && parse_short_id(sibling).as_deref() == Some(file_short_id.as_str())
        });
        let mut siblings = siblings.map(|(_, sibling)| sibling).peekable();
        if is_own || siblings.peek().is_none() {
            continue;
        }
        let Some(file) = chats.read_file(name).filter(|file| file.state.has_messages) else {
            continue;
        };
        let has_twin = siblings.any(|sibling| {
            chats
                .read_file(sibling)
                .is_some_and(|sibling| !sibling.state.has_messages)
        });
        if has_twin && let Err(error) = at_risk.copy_session_file(&chats.project, name, &file.bytes)
        {
            actions.push(GuardAction::CopyFailed {
                short_id: file_short_id,
                error: error.to_string(),
                is_at_risk: true,
            });
        }
    }
}

fn copy_failure(id: &NativeId, error: &io::Error) -> GuardAction {
    GuardAction::CopyFailed {
        short_id: short_id(id).to_owned(),
        error: error.to_string(),
        is_at_risk: false,
    }
}

/// Restores what a session has lost, from segue's copies.
fn restore_session(
    chats: &ProjectChats,
    id: &NativeId,
    copies_dir: &Path,
    actions: &mut Vec<GuardAction>,
) {
    let files = chats.read_session_files(id);
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let copy_names = list_chat_file_names(copies_dir);
    names.extend(copy_names.iter().map(String::as_str));
    names.sort_unstable();
    names.dedup();
    for name in names {
        let current_file = files.iter().find(|file| file.name == name);
        // A session that continues in another file does not need the old ones.
        let continued_in_other_file = files
            .iter()
            .any(|file| file.state.has_messages && file.name != name);
        if continued_in_other_file && current_file.is_none_or(|file| !file.state.has_messages) {
            continue;
        }
        let saved = fs::read(copies_dir.join(name)).ok();
        let repair = chat_file::plan_repair(
            current_file.map(|file| file.bytes.as_slice()),
            saved.as_deref(),
        );
        let path = chats.directory.join(name);
        let (restored, cause) = match repair {
            ChatFileRepair::NotNeeded => continue,
            ChatFileRepair::Restoration(bytes) if current_file.is_none() => {
                // Restore the files of subagents as well.
                let _ = copy_directory_files(
                    &copies_dir.join(id.as_str()),
                    &chats.directory.join(id.as_str()),
                );
                match restore_file(&bytes, &path) {
                    // The program that deleted the file is unknown.
                    Ok(FileRestoreOutcome::Restored) => (Ok(()), RestoreCause::Deleted),
                    Ok(FileRestoreOutcome::NotNeeded) => continue,
                    Err(error) => (Err(error), RestoreCause::Deleted),
                }
            }
            ChatFileRepair::Restoration(bytes) => {
                (write_atomically(&bytes, &path), RestoreCause::Emptied)
            }
            ChatFileRepair::Rollback(bytes) => {
                (write_atomically(&bytes, &path), RestoreCause::Restarted)
            }
            ChatFileRepair::Concatenation(bytes) => {
                (write_atomically(&bytes, &path), RestoreCause::DeletedInUse)
            }
        };
        let short_id = short_id(id).to_owned();
        actions.push(match restored {
            Ok(()) => GuardAction::SessionRestored { short_id, cause },
            Err(error) => GuardAction::RestoreFailed {
                short_id,
                error: error.to_string(),
            },
        });
    }
}

/// Removes the empty files of a session that also has a file with messages.
fn remove_twin_files(files: &[ChatFile], id: &NativeId, actions: &mut Vec<GuardAction>) {
    if !files.iter().any(|file| file.state.has_messages) {
        return;
    }
    for twin in files
        .iter()
        .filter(|file| file.state.is_empty_file_of(id.as_str()))
    {
        match fs::remove_file(&twin.path) {
            Ok(()) => actions.push(GuardAction::DuplicateRemoved {
                short_id: short_id(id).to_owned(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => actions.push(GuardAction::DuplicateNotRemoved {
                short_id: short_id(id).to_owned(),
                error: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
