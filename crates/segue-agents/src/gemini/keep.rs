//! Keeps native sessions from the program they belong to.
//!
//! Gemini CLI 0.61 writes an empty twin beside a session that it resumes in a later minute, and at its next start
//! deletes every session that has one; and a session that is loaded over ACP in the minute it was made is begun anew in
//! its own file. So around each process of ours the session is copied, the twin that our process made is removed, and
//! what was destroyed is put back. Nothing here fails a turn: what can't be done is told.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use segue_core::NativeId;

use super::chats::{Chats, SessionFile};
use super::record::{self, Mend};

/// Where copies of sessions are that others have put in danger; no id begins so.
const ENDANGERED: &str = ".endangered";

/// The guard of all sessions in one home of Gemini CLI.
#[derive(Debug)]
pub(super) struct Keep {
    /// Gemini CLI's home.
    home: PathBuf,
    /// Where our copies are.
    kept: PathBuf,
    now: fn() -> Timestamp,
}

/// What happened to a file that was missing.
enum PutBack {
    Done,
    /// Somebody else has made it again meanwhile.
    NotNeeded,
}

impl Keep {
    pub(super) fn new(home: PathBuf, kept: PathBuf, now: fn() -> Timestamp) -> Self {
        Self { home, kept, now }
    }

    pub(super) fn chats(&self, cwd: &Path) -> Option<Chats> {
        Chats::of(&self.home, cwd)
    }

    /// Before a process is started: what an earlier one has done is mended, what this one may do is provided for.
    /// Tells what was done.
    pub(super) fn before(&self, cwd: &Path, id: Option<&NativeId>) -> Vec<String> {
        let mut told = Vec::new();
        let Some(chats) = self.chats(cwd) else {
            return told;
        };
        if let Some(id) = id {
            self.tend(&chats, id, &mut told);
        }
        self.put_back_endangered(&chats, &mut told);
        self.copy_endangered(&chats, id, &mut told);
        told
    }

    /// After a process has ended.
    pub(super) fn after(&self, cwd: &Path, id: Option<&NativeId>) -> Vec<String> {
        let mut told = Vec::new();
        let Some(chats) = self.chats(cwd) else {
            return told;
        };
        if let Some(id) = id {
            self.tend(&chats, id, &mut told);
        }
        self.put_back_endangered(&chats, &mut told);
        self.forget_endangered(&chats);
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
        let now = (self.now)();
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
        let copies = self.kept.join(id.as_str()).join(&chats.project);
        mend(chats, id, &copies, told);
        let files = chats.files(id);
        sweep(&files, id, told);
        for file in files.iter().filter(|file| file.story.said) {
            if let Err(error) = copy(&file.bytes, &copies.join(&file.name)) {
                told.push(format!(
                    "could not keep a copy of Gemini session {}: {error}",
                    short(id)
                ));
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

    fn endangered(&self, chats: &Chats) -> PathBuf {
        self.kept.join(ENDANGERED).join(&chats.project)
    }

    /// Copies the sessions that the next start of Gemini CLI will delete because of a twin, whoever made that.
    fn copy_endangered(&self, chats: &Chats, ours: Option<&NativeId>, told: &mut Vec<String>) {
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
            let doomed =
                others.any(|other| chats.read(other).is_some_and(|other| !other.story.said));
            if doomed && let Err(error) = copy(&file.bytes, &self.endangered(chats).join(name)) {
                told.push(format!(
                    "could not keep a copy of Gemini session {id}, which Gemini CLI may delete: {error}"
                ));
            }
        }
    }

    fn put_back_endangered(&self, chats: &Chats, told: &mut Vec<String>) {
        let copies = self.endangered(chats);
        for name in names_in(&copies) {
            let path = chats.directory.join(&name);
            let Some(id) = record::name(&name).map(|name| name.short) else {
                continue;
            };
            let Ok(bytes) = fs::read(copies.join(&name)) else {
                continue;
            };
            if path.exists() {
                continue;
            }
            match put_back(&bytes, &path) {
                Ok(PutBack::Done) => told.push(format!(
                    "put back Gemini session {id}, which Gemini CLI had deleted"
                )),
                Ok(PutBack::NotNeeded) => {}
                Err(error) => {
                    told.push(format!("could not put back Gemini session {id}: {error}"));
                }
            }
        }
    }

    /// Drops the copies of what is safe again.
    fn forget_endangered(&self, chats: &Chats) {
        let copies = self.endangered(chats);
        for name in names_in(&copies) {
            if chats.directory.join(&name).exists() {
                let _ = fs::remove_file(copies.join(name));
            }
        }
    }
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
                    Ok(PutBack::Done) => (Ok(()), "which Gemini CLI had deleted"),
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

/// The session files in a directory of copies.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| record::name(name).is_some()).collect()
}

/// Writes a copy, unless it is there already.
fn copy(bytes: &[u8], to: &Path) -> io::Result<()> {
    let same_size = fs::metadata(to).is_ok_and(|file| file.len() == bytes.len() as u64);
    if same_size && fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    replace(bytes, to)
}

/// Copies the plain files of a directory, if there is one; those that are there already stay as they are.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let known = fs::metadata(&target).map(|file| file.len()).ok();
        let found = entry.metadata()?;
        if found.is_file() && known.is_none_or(|known| known < found.len()) {
            copy(&fs::read(entry.path())?, &target)?;
        }
    }
    Ok(())
}

/// Writes a file beside its place, under a name that Gemini CLI does not look at.
fn written_beside(bytes: &[u8], path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".segue-{}-{name}", std::process::id()));
    fs::write(&beside, bytes)?;
    Ok(beside)
}

/// Writes a file so that it is there whole or not at all.
fn replace(bytes: &[u8], path: &Path) -> io::Result<()> {
    let beside = written_beside(bytes, path)?;
    fs::rename(&beside, path).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// Likewise, but never over a file that is there.
fn put_back(bytes: &[u8], path: &Path) -> io::Result<PutBack> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let beside = written_beside(bytes, path)?;
    let linked = fs::hard_link(&beside, path);
    let _ = fs::remove_file(&beside);
    match linked {
        Ok(()) => Ok(PutBack::Done),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(PutBack::NotNeeded),
        // Not every file system has links.
        Err(_) => replace(bytes, path).map(|()| PutBack::Done),
    }
}

#[cfg(test)]
mod tests;
