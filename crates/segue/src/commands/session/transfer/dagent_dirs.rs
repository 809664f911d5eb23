//! Search for dagent folders and their files. Symbolic links are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use segue_catalog::project_at;
use segue_core::session::Project;
use segue_formats::dagent::DagentFolder;

use crate::error::CliError;

/// Maximum size of a file. A larger file is not a conversation and might not fit into memory.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

const DAGENT_FOLDER_NAME: &str = ".dagent";
const WORKTREES_FOLDER_NAME: &str = ".dagent-worktrees";

/// Resolves a path from the command line. Fails if it does not exist.
pub(super) fn resolve_existing_path(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(|error| {
        CliError::usage(format!("cannot open {}", path.display()))
            .with_cause(&error)
            .with_hint("give the path of a project, of a worktree of a feature, or of its `.dagent` directory")
    })
}

/// Returns the dagent folders at or below a path, sorted: the path itself, a folder in it, or folders in its worktrees.
pub(super) fn find_dagent_folders(root: &Path) -> Vec<PathBuf> {
    // A project may contain directories with the same names as a dagent folder, but with another meaning.
    let has_folders =
        [DAGENT_FOLDER_NAME, WORKTREES_FOLDER_NAME].map(|name| root.join(name).is_dir());
    let itself = (has_folders == [false, false]).then(|| root.to_owned());
    let mut folders: Vec<PathBuf> = itself
        .into_iter()
        .chain([root.join(DAGENT_FOLDER_NAME)])
        .collect();
    let worktrees = if root.ends_with(WORKTREES_FOLDER_NAME) {
        root.to_owned()
    } else {
        root.join(WORKTREES_FOLDER_NAME)
    };
    folders
        .extend(list_subdirectories(&worktrees).map(|worktree| worktree.join(DAGENT_FOLDER_NAME)));
    // Later versions of dagent store features in subdirectories by stage.
    let features = folders
        .iter()
        .flat_map(|folder| list_subdirectories(&folder.join("features")));
    let features: Vec<PathBuf> = features.collect();
    let nested = features.iter().flat_map(|stage| list_subdirectories(stage));
    let nested: Vec<PathBuf> = nested.collect();
    folders.extend(features);
    folders.extend(nested);
    folders.retain(|folder| is_dagent_folder(folder));
    folders.dedup();
    folders
}

fn is_dagent_folder(folder: &Path) -> bool {
    let has_entry = |name: &str| folder.join(name).symlink_metadata().is_ok();
    ["feature.json", "sessions", "nodes", "chat.json"]
        .into_iter()
        .any(has_entry)
}

/// Returns the subdirectories of a directory, sorted.
pub(super) fn list_subdirectories(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    list_entries(directory).into_iter().filter(|path| {
        path.symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir())
    })
}

fn list_entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Reads the relevant files of a folder.
pub(super) fn read_folder(path: &Path) -> DagentFolder {
    let mut files = BTreeMap::new();
    let mut add_file = |file: &Path| {
        let name = file.strip_prefix(path).ok().and_then(Path::to_str);
        if let (Some(name), Some(text)) = (name, read_text(file)) {
            files.insert(name.to_owned(), text);
        }
    };
    add_file(&path.join("feature.json"));
    for file in list_entries(&path.join("sessions")) {
        add_file(&file);
    }
    for node in list_subdirectories(&path.join("nodes")) {
        add_file(&node.join("task.json"));
        for file in list_entries(&node.join("sessions")) {
            add_file(&file);
        }
    }
    DagentFolder {
        feature: feature_from_path(path),
        files,
    }
}

/// Reads the text of a file, or the reason why it cannot be read. `None` if it is not a regular file.
pub(super) fn read_text(file: &Path) -> Option<Result<String, String>> {
    let metadata = file.symlink_metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Some(Err(format!("file too large: {} bytes", metadata.len())));
    }
    Some(match fs::read(file) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

/// Returns the feature of a folder, derived from its path.
pub(super) fn feature_from_path(folder: &Path) -> Option<String> {
    let parent = folder.parent()?;
    let has_grandparent = |name| parent.parent().is_some_and(|path| path.ends_with(name));
    let feature = if folder.ends_with(DAGENT_FOLDER_NAME) {
        has_grandparent(WORKTREES_FOLDER_NAME).then_some(parent)
    } else {
        let is_in_features = parent.ends_with("features") || has_grandparent("features");
        is_in_features.then_some(folder)
    };
    Some(feature?.file_name()?.to_str()?.to_owned())
}

/// Returns the project of the sessions of a folder: the repository around the folder, if the folder is at a location
/// that dagent uses; else the current project.
pub(super) fn folder_project(folder: &Path, current_project: &Project) -> Project {
    let is_dagent_dir =
        |path: &&Path| path.ends_with(DAGENT_FOLDER_NAME) || path.ends_with(WORKTREES_FOLDER_NAME);
    let dagent_ancestors = folder.ancestors().filter(is_dagent_dir);
    let mut enclosing_dirs = dagent_ancestors.filter_map(Path::parent);
    let repository = enclosing_dirs.find(|path| segue_catalog::is_work_tree_root(path));
    let project = repository.and_then(project_at);
    project.unwrap_or_else(|| current_project.clone())
}
