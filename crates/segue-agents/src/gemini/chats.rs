//! Location of a directory's sessions in the home of Gemini CLI: `tmp/<project>/chats`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use serde::Deserialize;

use super::record::{self, Story};

/// Sessions of one project.
#[derive(Debug, Clone)]
pub(super) struct Chats {
    /// Directory of the session files.
    pub(super) directory: PathBuf,
    /// Gemini CLI's name of the project.
    pub(super) project: String,
}

/// A session file.
pub(super) struct SessionFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) story: Story,
}

#[derive(Deserialize)]
struct Projects {
    projects: HashMap<PathBuf, String>,
}

impl Chats {
    /// Finds the sessions of `cwd`; `None` if Gemini CLI was never used in it.
    pub(super) fn of(home: &Path, cwd: &Path) -> Option<Self> {
        let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let projects = fs::read(home.join("projects.json")).ok();
        let named = projects
            .and_then(|json| serde_json::from_slice::<Projects>(&json).ok())
            .and_then(|file| file.projects.get(&real).or(file.projects.get(cwd)).cloned());
        Self::named(home, named.or_else(|| marked(home, &real))?)
    }

    /// Finds the sessions of a project by the name that Gemini CLI gave it; `None` if the name is not a file name.
    pub(super) fn named(home: &Path, project: String) -> Option<Self> {
        // A name must not lead out of the directory.
        let is_name = Path::new(&project).file_name() == Some(project.as_ref());
        is_name.then(|| Self {
            directory: home.join("tmp").join(&project).join("chats"),
            project,
        })
    }

    /// Returns the names of all session files, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| record::name(name).is_some()).collect();
        names.sort();
        names
    }

    /// Reads a session file; `None` if it no longer exists.
    pub(super) fn read(&self, name: &str) -> Option<SessionFile> {
        let path = self.directory.join(name);
        let bytes = fs::read(&path).ok()?;
        Some(SessionFile {
            name: name.to_owned(),
            story: record::read(&bytes),
            path,
            bytes,
        })
    }

    /// Reads all files of a session.
    pub(super) fn files(&self, id: &NativeId) -> Vec<SessionFile> {
        let short = record::short(id.as_str());
        let names = self.names().into_iter();
        names
            .filter(|name| record::name(name).is_some_and(|name| name.short == short))
            .filter_map(|name| self.read(&name))
            .filter(|file| {
                file.story
                    .id
                    .as_deref()
                    .is_none_or(|own| own == id.as_str())
            })
            .collect()
    }
}

/// Returns the project whose directory names `cwd` as its root.
fn marked(home: &Path, cwd: &Path) -> Option<String> {
    let entries = fs::read_dir(home.join("tmp")).ok()?;
    let mut found = entries.filter_map(|entry| {
        let directory = entry.ok()?.path();
        let root = fs::read_to_string(directory.join(".project_root")).ok()?;
        (Path::new(root.trim_end_matches(['\n', '\r'])) == cwd)
            .then(|| directory.file_name()?.to_str().map(str::to_owned))
            .flatten()
    });
    found.next()
}
