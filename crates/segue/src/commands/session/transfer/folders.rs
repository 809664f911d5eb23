//! Finding the folders of that layout, and the files in them. Links are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use segue_catalog::project_at;
use segue_core::Project;
use segue_formats::dagent::Folder;

use crate::error::CliError;

/// More than this is no conversation, and would not fit into memory beside others.
const LARGEST: u64 = 512 * 1024 * 1024;

const FOLDER: &str = ".dagent";
const WORKTREES: &str = ".dagent-worktrees";

/// What is at a path that was typed; it must be there.
pub(super) fn existing(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(|error| {
        CliError::usage(format!("cannot look at {}", path.display()))
            .because(&error)
            .hint("name something that is there: a project, a worktree of a feature, or the `.dagent` in it")
    })
}

/// The folders at or below a place, in order: it may be one itself, hold one, or hold the worktrees that do.
pub(super) fn folders(place: &Path) -> Vec<PathBuf> {
    // A project may have directories of the same names as a folder has; there they mean something else.
    let holds = [FOLDER, WORKTREES].map(|name| place.join(name).is_dir());
    let itself = (holds == [false, false]).then(|| place.to_owned());
    let mut found: Vec<PathBuf> = itself.into_iter().chain([place.join(FOLDER)]).collect();
    let worktrees = if place.file_name().is_some_and(|name| name == WORKTREES) {
        place.to_owned()
    } else {
        place.join(WORKTREES)
    };
    found.extend(directories(&worktrees).map(|worktree| worktree.join(FOLDER)));
    // Later versions of that program have features in there, by how far they are.
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

/// The directories in a directory, in order.
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

/// What a folder has that matters.
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

/// The text of a file, or why it can't be had; none if there is no such file.
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

/// The feature that a folder is of, by its place.
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

/// The project that the sessions of a folder belong to: that of the repository around the folder, if it is in one where
/// that program keeps its folders; else the one we are in.
pub(super) fn project_of(folder: &Path, here: &Project) -> Project {
    let around = folder.ancestors().filter(|path| {
        path.file_name()
            .is_some_and(|name| name == FOLDER || name == WORKTREES)
    });
    let mut around = around.filter_map(Path::parent);
    let repository = around.find(|path| path.join(".git").symlink_metadata().is_ok());
    let project = repository.and_then(project_at);
    project.unwrap_or_else(|| here.clone())
}
