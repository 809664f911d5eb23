//! Keeps native sessions from the program they belong to.
//!
//! Gemini CLI 0.61 writes an empty twin beside a session that it resumes in a later minute, and at its next start
//! deletes every session that has one; and a session that is loaded over ACP in the minute it was made is begun anew in
//! its own file. So around each process of ours the session is copied, the twin that our process made is removed, and
//! what was destroyed is put back. That is never a session which nobody asked for and nothing endangered: what Gemini CLI
//! deletes for its age, or the user by hand, stays deleted. Nothing here fails a turn: what can't be done is told.

mod danger;
mod files;
mod links;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use segue_core::NativeId;

pub(super) use self::danger::Danger;
use self::files::{
    PutBack, copy, copy_directory, entries, last_written, names_in, put_back, replace,
};
use super::chats::{Chats, SessionFile};
use super::record::{self, Mend};
use crate::Outside;

/// Where is what each process of Gemini CLI may destroy; no id begins so.
const ENDANGERED: &str = ".endangered";

/// How long the copy of a session is kept that is not used any more.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The guard of all sessions in one home of Gemini CLI.
#[derive(Debug)]
pub(super) struct Keep {
    /// Gemini CLI's home.
    home: PathBuf,
    /// Where our copies are.
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

    /// Before a process is started, to go on with `id` if there is one: what an earlier one has done is mended, what
    /// this one may do is provided for. Tells what was done.
    pub(super) fn before(&self, cwd: &Path, id: Option<&NativeId>) -> (Danger, Vec<String>) {
        let mut told = self.settle(|_| true);
        let danger = Danger::new(&self.endangered(), &self.home, self.outside.random);
        self.provide(&danger, cwd, id, &mut told);
        self.forget_old(id);
        (danger, told)
    }

    /// Before this process becomes Gemini CLI itself, to go on with `id`: nobody will be there when that ends, so the
    /// next segue has to find what it needs. Tells what was done.
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

    /// Mends what Gemini CLI did after a process of ours had become it. Tells what was done.
    pub(super) fn settle_entrusted(&self) -> Vec<String> {
        self.settle(Danger::is_entrusted)
    }

    /// Mends what was done by processes that are gone and that nobody has looked after.
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

    /// Copies what a process may destroy that is to be started.
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

    /// After the process has ended that may have touched these sessions.
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

    /// Brings our copy of a session up to date, whose process may still run.
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

    /// The seconds for which a session can't be loaded without harm.
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

    /// The size of the last request of a session.
    pub(super) fn context_tokens(&self, cwd: &Path, id: &NativeId) -> Option<u64> {
        let files = self.chats(cwd)?.files(id);
        let mut tokens = files.iter().filter_map(|file| file.story.context_tokens);
        tokens.next_back()
    }

    /// Mends a session, removes its twins, and brings our copy up to date.
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
            // What is left of a file must not take the place of the whole.
            let kept = fs::read(&to).ok();
            if record::mend(Some(&file.bytes), kept.as_deref()) != Mend::Nothing {
                continue;
            }
            if let Err(error) = copy(&file.bytes, &to) {
                told.push(no_copy(id, &error));
            }
        }
        if !files.is_empty() {
            // What its helpers did is no part of the conversation, so it is only worth a try.
            let _ = copy_directory(
                &chats.directory.join(id.as_str()),
                &copies.join(id.as_str()),
            );
        }
    }

    /// Removes the copies of sessions that were not used for long, but not that of the one that is used now.
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
                // The next start tries again.
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

/// Copies the sessions that the next start of Gemini CLI will delete because of a twin, whoever made that.
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

/// Puts back what a session has lost, as far as our copies tell.
fn mend(chats: &Chats, id: &NativeId, copies: &Path, told: &mut Vec<String>) {
    let files = chats.files(id);
    let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let kept_names = names_in(copies);
    names.extend(kept_names.iter().map(String::as_str));
    names.sort_unstable();
    names.dedup();
    for name in names {
        let now = files.iter().find(|file| file.name == name);
        // A session that goes on in another file needs none of the old ones.
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
                // What its helpers did goes the same way.
                let _ = copy_directory(
                    &copies.join(id.as_str()),
                    &chats.directory.join(id.as_str()),
                );
                match put_back(&bytes, &path) {
                    // Who deleted it can't be told.
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

/// Removes empty files of a session that has another one with something in it.
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
