//! Where Gemini CLI keeps the sessions of a directory: `tmp/<project>/chats` in its home.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use segue_core::NativeId;
use serde::Deserialize;

use super::record::{self, Story};

/// The sessions of one project.
#[derive(Debug, Clone)]
pub(super) struct Chats {
    /// The directory of the files.
    pub(super) directory: PathBuf,
    /// What Gemini CLI calls the project.
    pub(super) project: String,
}

/// One file of a session.
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
    /// Those of `cwd`; none if Gemini CLI was never used there.
    pub(super) fn of(home: &Path, cwd: &Path) -> Option<Self> {
        let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let projects = fs::read(home.join("projects.json")).ok();
        let named = projects
            .and_then(|json| serde_json::from_slice::<Projects>(&json).ok())
            .and_then(|file| file.projects.get(&real).or(file.projects.get(cwd)).cloned());
        Self::named(home, named.or_else(|| marked(home, &real))?)
    }

    /// Those of a project by the name that Gemini CLI gave it.
    pub(super) fn named(home: &Path, project: String) -> Option<Self> {
        // A name, and not a way out of the directory.
        let is_name = Path::new(&project).file_name() == Some(project.as_ref());
        is_name.then(|| Self {
            directory: home.join("tmp").join(&project).join("chats"),
            project,
        })
    }

    /// The names of all session files.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| record::name(name).is_some()).collect();
        names.sort();
        names
    }

    /// A file, unless it is gone by now.
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

    /// All files of a session.
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

/// The project whose directory says that it is that of `cwd`.
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
