//! Project context, in the JSON fields of the dagent layout: project, feature and task.

use segue_core::brief::{Commit, Context, Document, TaskSummary};
use serde_json::{Value, json};

/// Renders the project. Documents that were not found are omitted.
pub(super) fn project(context: &Context) -> Value {
    let structure = &context.structure;
    let mut project = json!({
        "structure": {
            "srcDirs": structure.src_dirs,
            "configFiles": structure.config_files,
            "hasTests": structure.has_tests,
            "hasDocs": structure.has_docs,
        },
        "recentCommits": context.commits.iter().map(commit).collect::<Vec<_>>(),
    });
    // The layout has one field for the instructions to agents, whichever agent the document is for.
    let for_agents = ["CLAUDE.md", "AGENTS.md", "GEMINI.md"];
    let found = for_agents.iter().find_map(|name| document(context, name));
    for (field, text) in [
        ("claudeMd", found),
        ("projectMd", document(context, "PROJECT.md")),
    ] {
        if let Some(text) = text {
            project[field] = text.into();
        }
    }
    project
}

/// Renders the feature; `None` if its files were not found.
pub(super) fn feature(context: &Context) -> Option<Value> {
    let found = context.feature.as_ref()?;
    let mut feature = json!({
        "name": found.name,
        "tasks": found.tasks.iter().map(task_summary).collect::<Vec<_>>(),
    });
    if let Some(spec) = &found.spec {
        feature["spec"] = spec.text.as_str().into();
    }
    Some(feature)
}

/// Renders the task; `None` if its files were not found.
pub(super) fn task(context: &Context) -> Option<Value> {
    let task = context.task.as_ref()?;
    Some(json!({
        "title": task.title,
        "description": task.description,
        "dependencies": task.dependencies.iter().map(task_summary).collect::<Vec<_>>(),
        "dependents": task.dependents.iter().map(task_summary).collect::<Vec<_>>(),
    }))
}

fn document<'a>(context: &'a Context, name: &str) -> Option<&'a str> {
    let found = context
        .documents
        .iter()
        .find(|document| document.name == name);
    found.map(|document: &Document| document.text.as_str())
}

fn commit(commit: &Commit) -> Value {
    json!({ "hash": commit.hash, "message": commit.message, "author": commit.author, "date": commit.date })
}

fn task_summary(task: &TaskSummary) -> Value {
    let mut told = json!({ "id": task.id, "title": task.title, "status": task.status });
    if let Some(description) = &task.description {
        told["description"] = description.as_str().into();
    }
    told
}
