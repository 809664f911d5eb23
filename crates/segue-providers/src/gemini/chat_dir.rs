//! Location of a directory's sessions in the home of Gemini CLI: `tmp/<project>/chats`.

use std::fs;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;

use super::chat_file::{self, ChatFileState};
use super::session_guard::list_chat_file_names;
use super::working_directory::{read_project_names, read_project_root};

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

impl ProjectChats {
    /// Finds the sessions of `cwd`; `None` if Gemini CLI was never used in it.
    pub(super) fn find_for_directory(home: &Path, cwd: &Path) -> Option<Self> {
        let canonical_cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let mut names = read_project_names(home);
        let mut find_name = |path: &Path| names.remove(path.to_str()?);
        let project_name = find_name(&canonical_cwd).or_else(|| find_name(cwd));
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
        let mut names = list_chat_file_names(&self.directory);
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
        let names = self.list_file_names().into_iter();
        names
            .filter(|name| chat_file::is_file_of(name, id))
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
        let root = read_project_root(&directory)?;
        (Path::new(&root) == cwd)
            .then(|| directory.file_name()?.to_str().map(str::to_owned))
            .flatten()
    });
    matching_names.next()
}
