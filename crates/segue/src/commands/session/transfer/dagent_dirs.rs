//! Search for dagent folders and their files. Symbolic links are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use segue_catalog::project_at;
use segue_core::session::Project;
use segue_formats::dagent::Folder;

use crate::error::CliError;

/// Maximum size of a file. A larger file is not a conversation and might not fit into memory.
const LARGEST: u64 = 512 * 1024 * 1024;

const FOLDER: &str = ".dagent";
const WORKTREES: &str = ".dagent-worktrees";

/// Resolves a path from the command line. Fails if it does not exist.
pub(super) fn existing(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(|error| {
        CliError::usage(format!("cannot look at {}", path.display()))
            .because(&error)
            .hint("name something that is there: a project, a worktree of a feature, or the `.dagent` in it")
    })
}

/// Returns the dagent folders at or below a path, sorted: the path itself, a folder in it, or folders in its worktrees.
pub(super) fn folders(place: &Path) -> Vec<PathBuf> {
    // A project may contain directories with the same names as a dagent folder, but with another meaning.
    let holds = [FOLDER, WORKTREES].map(|name| place.join(name).is_dir());
    let itself = (holds == [false, false]).then(|| place.to_owned());
    let mut found: Vec<PathBuf> = itself.into_iter().chain([place.join(FOLDER)]).collect();
    let worktrees = if place.file_name().is_some_and(|name| name == WORKTREES) {
        place.to_owned()
    } else {
        place.join(WORKTREES)
    };
    found.extend(directories(&worktrees).map(|worktree| worktree.join(FOLDER)));
    // Later versions of dagent store features in subdirectories by stage.
    let features = found
        .iter()
        .flat_map(|folder| directories(&folder.join("features")));
    let features: Vec<PathBuf> = features.collect();
    let further = features.iter().flat_map(|stage| directories(stage));
    let further: Vec<PathBuf> = further.collect();
    found.extend(features);
    found.extend(further);
    found.retain(|folder| is_folder(folder));
    found.dedup();
    found
}

fn is_folder(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    ["feature.json", "sessions", "nodes", "chat.json"]
        .into_iter()
        .any(has)
}

/// Returns the subdirectories of a directory, sorted.
pub(super) fn directories(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    entries(directory).into_iter().filter(|path| {
        path.symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir())
    })
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Reads the relevant files of a folder.
pub(super) fn folder(path: &Path) -> Folder {
    let mut files = BTreeMap::new();
    let mut take = |file: &Path| {
        let name = file.strip_prefix(path).ok().and_then(Path::to_str);
        if let (Some(name), Some(text)) = (name, text(file)) {
            files.insert(name.to_owned(), text);
        }
    };
    take(&path.join("feature.json"));
    for file in entries(&path.join("sessions")) {
        take(&file);
    }
    for node in directories(&path.join("nodes")) {
        take(&node.join("task.json"));
        for file in entries(&node.join("sessions")) {
            take(&file);
        }
    }
    Folder {
        feature: feature_at(path),
        files,
    }
}

/// Reads the text of a file, or the reason why it cannot be read. `None` if it is not a regular file.
pub(super) fn text(file: &Path) -> Option<Result<String, String>> {
    let metadata = file.symlink_metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    if metadata.len() > LARGEST {
        return Some(Err(format!(
            "it has {} bytes, which is too much",
            metadata.len()
        )));
    }
    Some(match fs::read(file) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

/// Returns the feature of a folder, derived from its path.
pub(super) fn feature_at(folder: &Path) -> Option<String> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let is =
        |path: Option<&Path>, wanted: &str| path.and_then(name).is_some_and(|name| name == wanted);
    let above = folder.parent();
    if is(Some(folder), FOLDER) {
        return above
            .filter(|above| is(above.parent(), WORKTREES))
            .and_then(name);
    }
    let in_features = is(above, "features") || is(above.and_then(Path::parent), "features");
    in_features.then(|| name(folder)).flatten()
}

/// Returns the project of the sessions of a folder: the repository around the folder, if the folder is at a location
/// that dagent uses; else the current project.
pub(super) fn project_of(folder: &Path, here: &Project) -> Project {
    let around = folder.ancestors().filter(|path| {
        path.file_name()
            .is_some_and(|name| name == FOLDER || name == WORKTREES)
    });
    let mut around = around.filter_map(Path::parent);
    let repository = around.find(|path| segue_catalog::is_work_tree_root(path));
    let project = repository.and_then(project_at);
    project.unwrap_or_else(|| here.clone())
}
