//! Feature and tasks of a session, read from the files in `.dagent` directories.
//!
//! A feature has a directory with `feature.json`, its spec in `feature-spec.md`, and its tasks in `dag.json`
//! (`{nodes, connections}`) or as `nodes/TASK/task.json`. The files belong to another program: segue only reads them,
//! and only copies their content into the context.

use std::fs;
use std::path::{Path, PathBuf};

use segue_core::brief::{FeatureContext, TaskContext, TaskSummary, excerpt};
use serde_json::Value;

use super::ContextInputs;
use super::documents::DocumentBudget;

/// Maximum number of tasks in a context.
const MAX_CONTEXT_TASKS: usize = 60;

/// Maximum number of tasks, and of names in a directory, that are read.
const MAX_READ_ENTRIES: usize = 1_000;

/// Maximum size of a JSON file, in bytes.
const MAX_JSON_BYTES: u64 = 4 << 20;

/// Maximum length of a description in the list of tasks, in bytes.
const MAX_SUMMARY_DESCRIPTION_BYTES: usize = 1_000;

/// Maximum length of the description of the session's own task, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 8_000;

const SPEC_FILE_NAMES: [&str; 2] = ["feature-spec.md", "spec.md"];

/// A task from the files, with the ids of the tasks that it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TaskNode {
    summary: TaskSummary,
    dependencies: Vec<String>,
}

/// Returns the paths of all files that are read, with their names.
pub(super) fn list_source_files(inputs: &ContextInputs) -> Vec<(String, PathBuf)> {
    let Some(dagent_dir) = find_dagent_dir(inputs) else {
        return Vec::new();
    };
    let named_file = |name: &str| (name.to_owned(), dagent_dir.join(name));
    let mut files = vec![named_file("feature.json"), named_file("dag.json")];
    files.extend(SPEC_FILE_NAMES.map(named_file));
    let task_files = list_task_files(&dagent_dir).into_iter();
    files.extend(task_files.map(|(id, path)| (format!("nodes/{id}/task.json"), path)));
    files
}

/// Reads the feature and the task of a session. Without files, they consist of their ids.
pub(super) fn read_feature_and_task(
    inputs: &ContextInputs,
    budget: &mut DocumentBudget,
    notes: &mut Vec<String>,
) -> (Option<FeatureContext>, Option<TaskContext>) {
    let dagent_dir = find_dagent_dir(inputs);
    let dir = dagent_dir.as_deref();
    let tasks = dir.map_or_else(Vec::new, |dir| read_tasks(dir, notes));
    let feature = inputs.scope.feature().map(|id| {
        let feature_json = dir.and_then(|dir| read_json(&dir.join("feature.json"), notes));
        let name = feature_json.and_then(|value| text_field(&value, "name"));
        let spec = dir.and_then(|dir| {
            let mut specs = SPEC_FILE_NAMES.iter();
            specs.find_map(|name| budget.read_document(name, &dir.join(name), notes))
        });
        let summaries = tasks.iter().take(MAX_CONTEXT_TASKS).map(|node| {
            let description = node.summary.description.as_deref();
            TaskSummary {
                description: description
                    .map(|text| excerpt(text, MAX_SUMMARY_DESCRIPTION_BYTES).to_owned()),
                ..node.summary.clone()
            }
        });
        FeatureContext {
            name: name.unwrap_or_else(|| id.to_string()),
            spec,
            tasks: summaries.collect(),
            more_tasks: u32::try_from(tasks.len().saturating_sub(MAX_CONTEXT_TASKS))
                .unwrap_or(u32::MAX),
        }
    });
    let task = inputs
        .scope
        .task()
        .map(|(id, _)| build_task_context(id.as_str(), &tasks));
    (feature, task)
}

/// Builds the context of a task from all tasks of its feature. Without a file, it consists of the task's id.
fn build_task_context(id: &str, nodes: &[TaskNode]) -> TaskContext {
    let Some(node) = nodes.iter().find(|node| node.summary.id == id) else {
        return TaskContext {
            title: id.to_owned(),
            ..TaskContext::default()
        };
    };
    let without_description = |node: &TaskNode| TaskSummary {
        description: None,
        ..node.summary.clone()
    };
    let to_summary = |id: &String| match nodes.iter().find(|node| node.summary.id == *id) {
        Some(node) => without_description(node),
        None => TaskSummary {
            id: id.clone(),
            title: id.clone(),
            ..TaskSummary::default()
        },
    };
    let depends_on_task =
        |node: &&TaskNode| node.dependencies.iter().any(|dependency| dependency == id);
    TaskContext {
        title: node.summary.title.clone(),
        description: node.summary.description.clone().unwrap_or_default(),
        dependencies: node.dependencies.iter().map(to_summary).collect(),
        dependents: nodes
            .iter()
            .filter(depends_on_task)
            .map(without_description)
            .collect(),
    }
}

/// Returns the `.dagent` directory of the feature, or that of the project if the session has a task and no feature.
/// `None` if the directory does not exist.
fn find_dagent_dir(inputs: &ContextInputs) -> Option<PathBuf> {
    let mut local_dirs = [&inputs.cwd, &inputs.root]
        .map(|dir| dir.join(".dagent"))
        .into_iter();
    let Some(feature) = inputs.scope.feature() else {
        inputs.scope.task()?;
        return local_dirs.find(|dir| dir.is_dir());
    };
    let name = feature.as_str();
    // The name becomes part of a path only if it cannot lead out of the directory.
    if name.starts_with('.') || name.contains(['/', '\\', '\0']) {
        return None;
    }
    let worktrees = inputs.root.join(".dagent-worktrees");
    let features = inputs.root.join(".dagent/features");
    let mut candidates = vec![
        worktrees.join(name).join(".dagent"),
        features.join(name),
        features.join("backlog").join(name),
        features.join("archived").join(name),
    ];
    let pools = list_sorted_names(&worktrees).into_iter();
    candidates.extend(pools.map(|pool| worktrees.join(pool).join(".dagent/features").join(name)));
    let existing = candidates.into_iter().find(|dir| dir.is_dir());
    existing.or_else(|| local_dirs.find(|dir| is_feature_dir(dir, name)))
}

/// Returns `true` if the `.dagent` directory of a worktree belongs to a feature.
fn is_feature_dir(dir: &Path, feature: &str) -> bool {
    let feature_json = read_json(&dir.join("feature.json"), &mut Vec::new());
    feature_json.is_some_and(|value| value["id"] == feature || value["name"] == feature)
}

/// Returns the names in a directory, sorted, at most `MAX_READ_ENTRIES` of them.
fn list_sorted_names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(MAX_READ_ENTRIES).collect();
    names.sort_unstable();
    names
}

/// Returns the files of tasks, with the ids of the tasks.
fn list_task_files(dagent_dir: &Path) -> Vec<(String, PathBuf)> {
    let nodes_dir = dagent_dir.join("nodes");
    let files = list_sorted_names(&nodes_dir).into_iter().map(|id| {
        let path = nodes_dir.join(&id).join("task.json");
        (id, path)
    });
    files.filter(|(_, path)| path.is_file()).collect()
}

/// Reads all tasks: those in `dag.json`, completed from their own files, and those that have only a file of their own.
fn read_tasks(dagent_dir: &Path, notes: &mut Vec<String>) -> Vec<TaskNode> {
    let dag = read_json(&dagent_dir.join("dag.json"), notes).unwrap_or_default();
    let values = dag["nodes"].as_array().into_iter().flatten();
    let mut tasks: Vec<TaskNode> = values
        .take(MAX_READ_ENTRIES)
        .filter_map(|value| Some(parse_task(text_field(value, "id")?, value)))
        .collect();
    for (id, path) in list_task_files(dagent_dir) {
        let Some(value) = read_json(&path, notes) else {
            continue;
        };
        let new = parse_task(id, &value);
        let mut known = tasks.iter_mut();
        match known.find(|node| node.summary.id == new.summary.id) {
            Some(existing) => existing.merge(new),
            None => tasks.push(new),
        }
    }
    for connection in dag["connections"].as_array().into_iter().flatten() {
        let (from, to) = (text_field(connection, "from"), text_field(connection, "to"));
        if let (Some(from), Some(to)) = (from, to)
            && from != to
            && let Some(dependent) = tasks.iter_mut().find(|node| node.summary.id == to)
        {
            dependent.add_dependency(from);
        }
    }
    tasks
}

impl TaskNode {
    /// Adds the fields of the same task from another file. The status of the other file takes precedence.
    fn merge(&mut self, other: Self) {
        let (summary, new) = (&mut self.summary, other.summary);
        if summary.title == summary.id {
            summary.title = new.title;
        }
        summary.status = new.status.or(summary.status.take());
        summary.description = summary.description.take().or(new.description);
        for id in other.dependencies {
            self.add_dependency(id);
        }
    }

    fn add_dependency(&mut self, id: String) {
        if !self.dependencies.contains(&id) {
            self.dependencies.push(id);
        }
    }
}

/// Parses a task; fields of an unexpected type are omitted.
fn parse_task(id: String, value: &Value) -> TaskNode {
    let title = text_field(value, "title").or_else(|| text_field(value, "name"));
    let description = text_field(value, "description").or_else(|| text_field(value, "spec"));
    let status = text_field(value, "currentState").or_else(|| text_field(value, "status"));
    let dependencies = value["dependencies"].as_array().into_iter().flatten();
    TaskNode {
        dependencies: dependencies
            .filter_map(|id| id.as_str().map(str::to_owned))
            // A task's dependency on itself is meaningless.
            .filter(|dependency| *dependency != id)
            .collect(),
        summary: TaskSummary {
            title: title.unwrap_or_else(|| id.clone()),
            status,
            description: description.map(|text| excerpt(&text, MAX_DESCRIPTION_BYTES).to_owned()),
            id,
        },
    }
}

fn text_field(value: &Value, name: &str) -> Option<String> {
    let text = value[name].as_str().filter(|text| !text.trim().is_empty());
    text.map(str::to_owned)
}

/// Parses a JSON file. `None` if it does not exist. If it cannot be read, adds the reason to `notes` and returns
/// `None`.
fn read_json(path: &Path, notes: &mut Vec<String>) -> Option<Value> {
    let metadata = path.metadata().ok()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let read = || -> Result<Value, String> {
        if !metadata.is_file() || metadata.len() > MAX_JSON_BYTES {
            return Err("not a regular file, or too large".to_owned());
        }
        let bytes = fs::read(path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    };
    read()
        .map_err(|reason| notes.push(format!("cannot read {name}: {reason}")))
        .ok()
}
