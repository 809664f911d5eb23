//! Guard that protects native sessions from Gemini CLI itself.
//!
//! Gemini CLI 0.61 writes an empty twin next to a session that it resumes in a later minute, and at its next start
//! deletes every session that has a twin. A session that is loaded over ACP in the minute of its creation is restarted
//! in its own file. Around each process that it starts, segue therefore copies the session, removes the twin that the
//! process made, and restores what was destroyed. segue never restores a session that was neither requested nor at
//! risk: a session that Gemini CLI deletes because of its age, or that the user deletes, stays deleted. Errors in this
//! module never fail a turn; they are reported to the user.

mod danger;
mod files;
mod links;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_core::id::NativeId;

pub(super) use self::danger::Danger;
use self::files::{
    PutBack, copy, copy_directory, entries, last_written, names_in, put_back, replace,
};
use super::chats::{Chats, SessionFile};
use super::record::{self, Mend};
use crate::Outside;

/// Directory that records what each process of Gemini CLI may destroy; no session id begins with a dot.
const ENDANGERED: &str = ".endangered";

/// Time after which the copy of an unused session is removed.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Guard of all sessions in one home of Gemini CLI.
#[derive(Debug)]
pub(super) struct Keep {
    /// Home of Gemini CLI.
    home: PathBuf,
    /// Directory of segue's copies.
    kept: PathBuf,
    outside: Outside,
}

impl Keep {
    pub(super) fn new(home: PathBuf, kept: PathBuf, outside: Outside) -> Self {
        Self {
            home,
            kept,
            outside,
        }
    }

    pub(super) fn chats(&self, cwd: &Path) -> Option<Chats> {
        Chats::of(&self.home, cwd)
    }

    /// Repairs the damage of earlier processes, and prepares for the damage of a process that is about to start, to
    /// resume `id` if given. Returns the actions taken.
    pub(super) fn before(&self, cwd: &Path, id: Option<&NativeId>) -> (Danger, Vec<String>) {
        let mut told = self.settle(|_| true);
        let danger = Danger::new(&self.endangered(), &self.home, self.outside.random);
        self.provide(&danger, cwd, id, &mut told);
        self.forget_old(id);
        (danger, told)
    }

    /// Prepares for this process to become Gemini CLI itself and to resume `id`. No segue process runs when that
    /// process ends, so the next segue process must find everything that it needs. Returns the actions taken.
    pub(super) fn entrust(&self, cwd: &Path, id: &NativeId) -> Vec<String> {
        let mut told = self.settle(|_| true);
        let danger = Danger::new(&self.endangered(), &self.home, self.outside.random).entrusted();
        self.provide(&danger, cwd, Some(id), &mut told);
        self.forget_old(Some(id));
        if let Some(chats) = self.chats(cwd) {
            let copies = self.copies(&chats, id);
            links::make(&chats, id, &copies);
            if !names_in(&copies).is_empty() {
                told.push(format!(
                    "kept a copy of Gemini session {}; if Gemini CLI deletes it, the next segue puts it back",
                    short(id)
                ));
            }
        }
        told
    }

    /// Repairs what Gemini CLI did after a process of segue had become Gemini CLI. Returns the actions taken.
    pub(super) fn settle_entrusted(&self) -> Vec<String> {
        self.settle(Danger::is_entrusted)
    }

    /// Repairs the damage of processes that have ended and whose damage no segue process has repaired.
    fn settle(&self, which: impl Fn(&Danger) -> bool) -> Vec<String> {
        let mut told = Vec::new();
        let abandoned = Danger::abandoned(&self.endangered(), &self.home).into_iter();
        for danger in abandoned.filter(which) {
            for (chats, id) in danger.ours() {
                self.tend(&chats, &id, &mut told);
                links::remove(&self.copies(&chats, &id));
            }
            danger.settle(&mut told);
        }
        told
    }

    fn endangered(&self) -> PathBuf {
        self.kept.join(ENDANGERED)
    }

    /// Copies what a process that is about to start may destroy.
    fn provide(&self, danger: &Danger, cwd: &Path, id: Option<&NativeId>, told: &mut Vec<String>) {
        if let Some(chats) = self.chats(cwd) {
            if let Some(id) = id {
                self.tend(&chats, id, told);
                if let Err(error) = danger.note(&chats.project, id) {
                    told.push(no_copy(id, &error));
                }
            }
            copy_endangered(danger, &chats, id, told);
        }
    }

    /// Repairs these sessions after the end of a process that may have touched them.
    pub(super) fn after(&self, danger: &Danger, cwd: &Path, ids: &[NativeId]) -> Vec<String> {
        let mut told = Vec::new();
        if let Some(chats) = self.chats(cwd) {
            for id in ids {
                self.tend(&chats, id, &mut told);
            }
        }
        danger.settle(&mut told);
        told
    }

    /// Updates segue's copy of a session whose process may still be running.
    pub(super) fn copy(&self, cwd: &Path, id: &NativeId) -> Vec<String> {
        let mut told = Vec::new();
        if let Some(chats) = self.chats(cwd) {
            self.copy_session(&chats, id, &chats.files(id), &mut told);
        }
        told
    }

    /// Removes the empty twins of a session.
    pub(super) fn sweep(&self, cwd: &Path, id: &NativeId) -> Vec<String> {
        let mut told = Vec::new();
        if let Some(chats) = self.chats(cwd) {
            sweep(&chats.files(id), id, &mut told);
        }
        told
    }

    /// Returns the number of seconds until a session can be loaded safely; `None` if it can be loaded now.
    pub(super) fn seconds_to_wait(&self, cwd: &Path, id: &NativeId) -> Option<i64> {
        let chats = self.chats(cwd)?;
        let short = record::short(id.as_str());
        let now = (self.outside.now)();
        let names = chats.names().into_iter();
        names
            .filter_map(|file| {
                let name = record::name(&file).filter(|name| name.short == short)?;
                record::left_of(name.minute, now)
            })
            .max()
    }

    /// Returns the number of input tokens in the last request of a session.
    pub(super) fn context_tokens(&self, cwd: &Path, id: &NativeId) -> Option<u64> {
        let files = self.chats(cwd)?.files(id);
        let mut tokens = files.iter().filter_map(|file| file.story.context_tokens);
        tokens.next_back()
    }

    /// Repairs a session, removes its twins, and updates segue's copy.
    fn tend(&self, chats: &Chats, id: &NativeId, told: &mut Vec<String>) {
        let copies = self.copies(chats, id);
        if let Err(error) = links::follow(chats, &copies) {
            told.push(no_copy(id, &error));
        }
        mend(chats, id, &copies, told);
        let files = chats.files(id);
        sweep(&files, id, told);
        self.copy_session(chats, id, &files, told);
    }

    fn copies(&self, chats: &Chats, id: &NativeId) -> PathBuf {
        self.kept.join(id.as_str()).join(&chats.project)
    }

    fn copy_session(
        &self,
        chats: &Chats,
        id: &NativeId,
        files: &[SessionFile],
        told: &mut Vec<String>,
    ) {
        let copies = self.copies(chats, id);
        for file in files.iter().filter(|file| file.story.said) {
            let to = copies.join(&file.name);
            // The remainder of a file must not replace the complete copy.
            let kept = fs::read(&to).ok();
            if record::mend(Some(&file.bytes), kept.as_deref()) != Mend::Nothing {
                continue;
            }
            if let Err(error) = copy(&file.bytes, &to) {
                told.push(no_copy(id, &error));
            }
        }
        if !files.is_empty() {
            // The files of subagents are not part of the session itself, so errors are ignored.
            let _ = copy_directory(
                &chats.directory.join(id.as_str()),
                &copies.join(id.as_str()),
            );
        }
    }

    /// Removes the copies of sessions that were not used for a long time, except that of `used`.
    fn forget_old(&self, used: Option<&NativeId>) {
        let Ok(limit) = (self.outside.now)().checked_sub(KEPT_FOR) else {
            return;
        };
        let is_session = |name: &String| {
            NativeId::parse(name).is_ok() && used.is_none_or(|used| used.as_str() != name)
        };
        let sessions = entries(&self.kept).into_iter().filter(is_session);
        let sessions = sessions.map(|name| self.kept.join(name));
        let endangered = self.endangered();
        let left_behind = entries(&endangered).into_iter();
        let left_behind = left_behind.map(|name| endangered.join(name));
        for path in sessions.chain(left_behind) {
            let written = last_written(&path).and_then(|time| Timestamp::try_from(time).ok());
            if written.is_some_and(|written| written < limit) {
                // The next start retries.
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}

/// Removes all copies of a session.
pub(super) fn forget(kept: &Path, id: &NativeId) -> io::Result<()> {
    files::removed(fs::remove_dir_all(kept.join(id.as_str())))?;
    danger::forget(&kept.join(ENDANGERED), id)
}

/// Copies the sessions that the next start of Gemini CLI will delete because of a twin, whichever program made the
/// twin.
fn copy_endangered(
    danger: &Danger,
    chats: &Chats,
    ours: Option<&NativeId>,
    told: &mut Vec<String>,
) {
    let names = chats.names();
    let short_of = |name: &str| record::name(name).map(|name| name.short.to_owned());
    for (n, name) in names.iter().enumerate() {
        let Some(id) = short_of(name) else { continue };
        let is_ours = ours.is_some_and(|ours| short(ours) == id);
        let others = names
            .iter()
            .enumerate()
            .filter(|(m, other)| *m != n && short_of(other).as_deref() == Some(id.as_str()));
        let mut others = others.map(|(_, other)| other).peekable();
        if is_ours || others.peek().is_none() {
            continue;
        }
        let Some(file) = chats.read(name).filter(|file| file.story.said) else {
            continue;
        };
        let doomed = others.any(|other| chats.read(other).is_some_and(|other| !other.story.said));
        if doomed && let Err(error) = danger.copy(&chats.project, name, &file.bytes) {
            told.push(format!(
                "could not keep a copy of Gemini session {id}, which Gemini CLI may delete: {error}"
            ));
        }
    }
}

fn no_copy(id: &NativeId, error: &io::Error) -> String {
    format!(
        "could not keep a copy of Gemini session {}: {error}",
        short(id)
    )
}

fn short(id: &NativeId) -> &str {
    record::short(id.as_str())
}

/// Restores what a session has lost, from segue's copies.
fn mend(chats: &Chats, id: &NativeId, copies: &Path, told: &mut Vec<String>) {
    let files = chats.files(id);
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let kept_names = names_in(copies);
    names.extend(kept_names.iter().map(String::as_str));
    names.sort_unstable();
    names.dedup();
    for name in names {
        let now = files.iter().find(|file| file.name == name);
        // A session that continues in another file does not need the old ones.
        let elsewhere = files
            .iter()
            .any(|file| file.story.said && file.name != name);
        if elsewhere && now.is_none_or(|file| !file.story.said) {
            continue;
        }
        let kept = fs::read(copies.join(name)).ok();
        let mend = record::mend(now.map(|file| file.bytes.as_slice()), kept.as_deref());
        let path = chats.directory.join(name);
        let (done, what) = match mend {
            Mend::Nothing => continue,
            Mend::PutBack(bytes) if now.is_none() => {
                // Restore the files of subagents as well.
                let _ = copy_directory(
                    &copies.join(id.as_str()),
                    &chats.directory.join(id.as_str()),
                );
                match put_back(&bytes, &path) {
                    // The program that deleted the file is unknown.
                    Ok(PutBack::Done) => (Ok(()), "which had been deleted"),
                    Ok(PutBack::NotNeeded) => continue,
                    Err(error) => (Err(error), ""),
                }
            }
            Mend::PutBack(bytes) => (replace(&bytes, &path), "which Gemini CLI had emptied"),
            Mend::Undo(bytes) => (replace(&bytes, &path), "which Gemini CLI had begun anew"),
            Mend::Join(bytes) => (
                replace(&bytes, &path),
                "which Gemini CLI had deleted while it was in use",
            ),
        };
        told.push(match done {
            Ok(()) => format!("put back Gemini session {}, {what}", short(id)),
            Err(error) => format!("could not put back Gemini session {}: {error}", short(id)),
        });
    }
}

/// Removes the empty files of a session that also has a file with messages.
fn sweep(files: &[SessionFile], id: &NativeId, told: &mut Vec<String>) {
    if !files.iter().any(|file| file.story.said) {
        return;
    }
    for twin in files
        .iter()
        .filter(|file| file.story.is_empty_of(id.as_str()))
    {
        match fs::remove_file(&twin.path) {
            Ok(()) => told.push(format!(
                "removed an empty twin of Gemini session {0}, for which Gemini CLI would have deleted {0}",
                short(id)
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => told.push(format!(
                "could not remove an empty twin of Gemini session {}: {error}",
                short(id)
            )),
        }
    }
}

#[cfg(test)]
mod tests;
