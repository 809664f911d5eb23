//! Feature and tasks of a session, read from the files in `.dagent` directories.
//!
//! A feature has a directory with `feature.json`, its spec in `feature-spec.md`, and its tasks in `dag.json`
//! (`{nodes, connections}`) or as `nodes/TASK/task.json`. The files belong to another program: segue only reads them,
//! and only copies their content into the context.

use std::fs;
use std::path::{Path, PathBuf};

use segue_core::brief::{FeatureContext, TaskContext, TaskSummary, excerpt};
use serde_json::Value;

use super::Place;
use super::documents::Room;

/// Maximum number of tasks in a context; `READ` limits how many are read.
const TASKS: usize = 60;
const READ: usize = 1_000;

/// Maximum size of a JSON file, in bytes.
const LONGEST: u64 = 4 << 20;

/// Maximum length of a description in the list of tasks, in bytes; `LONG` limits that of the session's own task.
const SHORT: usize = 1_000;
const LONG: usize = 8_000;

const SPECS: [&str; 2] = ["feature-spec.md", "spec.md"];

/// A task from the files, with the ids of the tasks that it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    summary: TaskSummary,
    waits_for: Vec<String>,
}

/// Returns the paths of all files that are read, with their names.
pub(super) fn places(place: &Place) -> Vec<(String, PathBuf)> {
    let Some(home) = home(place) else {
        return Vec::new();
    };
    let named = |name: &str| (name.to_owned(), home.join(name));
    let mut places = vec![named("feature.json"), named("dag.json")];
    places.extend(SPECS.map(named));
    for (id, path) in task_files(&home) {
        places.push((format!("nodes/{id}/task.json"), path));
    }
    places
}

/// Reads the feature and the task of a session. Without files, they consist of their ids.
pub(super) fn read(
    place: &Place,
    room: &mut Room,
    notes: &mut Vec<String>,
) -> (Option<FeatureContext>, Option<TaskContext>) {
    let home = home(place);
    let tasks = home
        .as_deref()
        .map_or_else(Vec::new, |home| nodes(home, notes));
    let feature = place.scope.feature().map(|id| {
        let about = home
            .as_deref()
            .map(|home| json(&home.join("feature.json"), notes));
        let name = about.flatten().and_then(|about| text(&about, "name"));
        let spec = home.as_deref().and_then(|home| {
            let mut specs = SPECS.iter();
            specs.find_map(|name| room.take(name, &home.join(name), notes))
        });
        let told = tasks.iter().take(TASKS).map(|node| TaskSummary {
            description: shortened(node.summary.description.as_deref()),
            ..node.summary.clone()
        });
        FeatureContext {
            name: name.unwrap_or_else(|| id.to_string()),
            spec,
            tasks: told.collect(),
            more_tasks: u32::try_from(tasks.len().saturating_sub(TASKS)).unwrap_or(u32::MAX),
        }
    });
    let task = place.scope.task().map(|(id, _)| task(id.as_str(), &tasks));
    (feature, task)
}

/// Builds the context of a task from all tasks of its feature. Without a file, it consists of the task's id.
fn task(id: &str, nodes: &[Node]) -> TaskContext {
    let Some(node) = nodes.iter().find(|node| node.summary.id == id) else {
        return TaskContext {
            title: id.to_owned(),
            ..TaskContext::default()
        };
    };
    let brief = |summary: &TaskSummary| TaskSummary {
        description: None,
        ..summary.clone()
    };
    let known = |id: &String| {
        let known = nodes.iter().find(|node| node.summary.id == *id);
        known.map_or_else(
            || TaskSummary {
                id: id.clone(),
                title: id.clone(),
                ..TaskSummary::default()
            },
            |node| brief(&node.summary),
        )
    };
    let waiting = nodes
        .iter()
        .filter(|node| node.waits_for.iter().any(|for_whom| for_whom == id));
    TaskContext {
        title: node.summary.title.clone(),
        description: node.summary.description.clone().unwrap_or_default(),
        dependencies: node.waits_for.iter().map(known).collect(),
        dependents: waiting.map(|node| brief(&node.summary)).collect(),
    }
}

/// Returns the `.dagent` directory of the feature, or that of the project if the session has a task and no feature.
/// `None` if the directory does not exist.
fn home(place: &Place) -> Option<PathBuf> {
    let own = [place.cwd.join(".dagent"), place.root.join(".dagent")];
    let own = own.into_iter();
    let Some(feature) = place.scope.feature() else {
        let mut own = own;
        return own
            .find(|home| home.is_dir())
            .filter(|_| place.scope.task().is_some());
    };
    let name = feature.as_str();
    // The name becomes part of a path only if it cannot lead out of the directory.
    if name.starts_with('.') || name.contains(['/', '\\', '\0']) {
        return None;
    }
    let trees = place.root.join(".dagent-worktrees");
    let features = place.root.join(".dagent/features");
    let mut places = vec![
        trees.join(name).join(".dagent"),
        features.join(name),
        features.join("backlog").join(name),
        features.join("archived").join(name),
    ];
    let pools = sorted(&trees).into_iter();
    places.extend(pools.map(|pool| trees.join(pool).join(".dagent/features").join(name)));
    let known = places.into_iter().find(|home| home.is_dir());
    known.or_else(|| {
        let mut own = own;
        own.find(|home| is_of(home, name))
    })
}

/// Returns `true` if the `.dagent` directory of a worktree belongs to a feature.
fn is_of(home: &Path, feature: &str) -> bool {
    let about = json(&home.join("feature.json"), &mut Vec::new());
    about.is_some_and(|about| about["id"] == feature || about["name"] == feature)
}

/// Returns the names in a directory, sorted, at most `READ` of them.
fn sorted(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(READ).collect();
    names.sort_unstable();
    names
}

/// Returns the files of tasks, with the ids of the tasks.
fn task_files(home: &Path) -> Vec<(String, PathBuf)> {
    let nodes = home.join("nodes");
    let files = sorted(&nodes).into_iter().map(|id| {
        let path = nodes.join(&id).join("task.json");
        (id, path)
    });
    files.filter(|(_, path)| path.is_file()).collect()
}

/// Reads all tasks: those in `dag.json`, completed from their own files, and those that have only a file of their own.
fn nodes(home: &Path, notes: &mut Vec<String>) -> Vec<Node> {
    let dag = json(&home.join("dag.json"), notes).unwrap_or_default();
    let mut tasks: Vec<Node> = Vec::new();
    for value in dag["nodes"].as_array().into_iter().flatten().take(READ) {
        tasks.extend(text(value, "id").map(|id| node(id, value)));
    }
    for (id, path) in task_files(home) {
        let Some(value) = json(&path, notes) else {
            continue;
        };
        let new = node(id, &value);
        match tasks
            .iter_mut()
            .find(|node| node.summary.id == new.summary.id)
        {
            Some(known) => known.complete(new),
            None => tasks.push(new),
        }
    }
    for connection in dag["connections"].as_array().into_iter().flatten() {
        let (from, to) = (text(connection, "from"), text(connection, "to"));
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        if from == to {
            continue;
        }
        let waiting = tasks.iter_mut().find(|node| node.summary.id == to);
        if let Some(waiting) = waiting
            && !waiting.waits_for.contains(&from)
        {
            waiting.waits_for.push(from);
        }
    }
    tasks
}

impl Node {
    /// Adds the fields of the same task from another file. The status of the other file takes precedence.
    fn complete(&mut self, other: Self) {
        let (known, new) = (&mut self.summary, other.summary);
        if known.title == known.id {
            known.title = new.title;
        }
        known.status = new.status.or(known.status.take());
        known.description = known.description.take().or(new.description);
        for id in other.waits_for {
            if !self.waits_for.contains(&id) {
                self.waits_for.push(id);
            }
        }
    }
}

/// Parses a task; fields of an unexpected type are omitted.
fn node(id: String, value: &Value) -> Node {
    let title = text(value, "title").or_else(|| text(value, "name"));
    let description = ["description", "spec"];
    let description = description.iter().find_map(|name| text(value, name));
    let status = ["currentState", "status"];
    let waits_for = value["dependencies"].as_array().into_iter().flatten();
    Node {
        waits_for: waits_for
            .filter_map(|id| id.as_str().map(str::to_owned))
            // A task's dependency on itself is meaningless.
            .filter(|for_whom| *for_whom != id)
            .collect(),
        summary: TaskSummary {
            title: title.unwrap_or_else(|| id.clone()),
            status: status.iter().find_map(|name| text(value, name)),
            description: description.map(|text| excerpt(&text, LONG).to_owned()),
            id,
        },
    }
}

fn shortened(text: Option<&str>) -> Option<String> {
    text.map(|text| excerpt(text, SHORT).to_owned())
}

fn text(value: &Value, name: &str) -> Option<String> {
    let text = value[name].as_str().filter(|text| !text.trim().is_empty());
    text.map(str::to_owned)
}

/// Parses a JSON file. `None` if it does not exist. If it cannot be read, adds the reason to `notes` and returns
/// `None`.
fn json(path: &Path, notes: &mut Vec<String>) -> Option<Value> {
    let about = path.metadata().ok()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let read = || -> Result<Value, String> {
        if !about.is_file() || about.len() > LONGEST {
            return Err("it is no file, or too large".to_owned());
        }
        let bytes = fs::read(path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    };
    read()
        .map_err(|why| notes.push(format!("{name} can't be read: {why}")))
        .ok()
}
