//! Location of a directory's sessions in the home of Gemini CLI: `tmp/<project>/chats`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use serde::Deserialize;

use super::chat_file::{self, ChatFileState};

/// Sessions of one project.
#[derive(Debug, Clone)]
pub(super) struct ProjectChats {
    /// Directory of the session files.
    pub(super) directory: PathBuf,
    /// Gemini CLI's name of the project.
    pub(super) project: String,
}

/// A session file.
pub(super) struct ChatFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) state: ChatFileState,
}

#[derive(Deserialize)]
struct GeminiProjectsFile {
    projects: HashMap<PathBuf, String>,
}

impl ProjectChats {
    /// Finds the sessions of `cwd`; `None` if Gemini CLI was never used in it.
    pub(super) fn find_for_directory(home: &Path, cwd: &Path) -> Option<Self> {
        let canonical_cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let projects = fs::read(home.join("projects.json")).ok();
        let project_name = projects
            .and_then(|json| serde_json::from_slice::<GeminiProjectsFile>(&json).ok())
            .and_then(|file| {
                file.projects
                    .get(&canonical_cwd)
                    .or(file.projects.get(cwd))
                    .cloned()
            });
        Self::for_project(
            home,
            project_name.or_else(|| find_marked_project(home, &canonical_cwd))?,
        )
    }

    /// Finds the sessions of a project by the name that Gemini CLI gave it; `None` if the name is not a file name.
    pub(super) fn for_project(home: &Path, project: String) -> Option<Self> {
        // A name must not lead out of the directory.
        let is_file_name = Path::new(&project).file_name() == Some(project.as_ref());
        is_file_name.then(|| Self {
            directory: home.join("tmp").join(&project).join("chats"),
            project,
        })
    }

    /// Returns the names of all session files, sorted.
    pub(super) fn list_file_names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names
            .filter(|name| chat_file::parse_file_name(name).is_some())
            .collect();
        names.sort();
        names
    }

    /// Reads a session file; `None` if it no longer exists.
    pub(super) fn read_file(&self, name: &str) -> Option<ChatFile> {
        let path = self.directory.join(name);
        let bytes = fs::read(&path).ok()?;
        Some(ChatFile {
            name: name.to_owned(),
            state: chat_file::parse_chat_file(&bytes),
            path,
            bytes,
        })
    }

    /// Reads all files of a session.
    pub(super) fn read_session_files(&self, id: &NativeId) -> Vec<ChatFile> {
        let short_id = chat_file::short_id(id.as_str());
        let names = self.list_file_names().into_iter();
        names
            .filter(|name| {
                chat_file::parse_file_name(name).is_some_and(|name| name.short_id == short_id)
            })
            .filter_map(|name| self.read_file(&name))
            .filter(|file| {
                file.state
                    .session_id
                    .as_deref()
                    .is_none_or(|file_id| file_id == id.as_str())
            })
            .collect()
    }
}

/// Returns the project whose directory names `cwd` as its root.
fn find_marked_project(home: &Path, cwd: &Path) -> Option<String> {
    let entries = fs::read_dir(home.join("tmp")).ok()?;
    let mut matching_names = entries.filter_map(|entry| {
        let directory = entry.ok()?.path();
        let root = fs::read_to_string(directory.join(".project_root")).ok()?;
        (Path::new(root.trim_end_matches(['\n', '\r'])) == cwd)
            .then(|| directory.file_name()?.to_str().map(str::to_owned))
            .flatten()
    });
    matching_names.next()
}
