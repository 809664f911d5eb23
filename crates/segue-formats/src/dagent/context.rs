//! Project context, in the JSON fields of the dagent layout: project, feature and task.

use segue_core::brief::{Commit, Document, ProjectContext, TaskSummary};
use serde_json::{Value, json};

/// Renders the project. Documents that were not found are omitted.
pub(super) fn render_project(context: &ProjectContext) -> Value {
    let structure = &context.structure;
    let mut project = json!({
        "structure": {
            "srcDirs": structure.src_dirs,
            "configFiles": structure.config_files,
            "hasTests": structure.has_tests,
            "hasDocs": structure.has_docs,
        },
        "recentCommits": context.commits.iter().map(render_commit).collect::<Vec<_>>(),
    });
    // The layout has one field for the instructions to agents, whichever agent the document is for.
    let instruction_files = ["CLAUDE.md", "AGENTS.md", "GEMINI.md"];
    let instructions = instruction_files
        .iter()
        .find_map(|name| find_document_text(context, name));
    for (field, text) in [
        ("claudeMd", instructions),
        ("projectMd", find_document_text(context, "PROJECT.md")),
    ] {
        if let Some(text) = text {
            project[field] = text.into();
        }
    }
    project
}

/// Renders the feature; `None` if its files were not found.
pub(super) fn render_feature(context: &ProjectContext) -> Option<Value> {
    let feature_context = context.feature.as_ref()?;
    let mut feature = json!({
        "name": feature_context.name,
        "tasks": feature_context.tasks.iter().map(render_task_summary).collect::<Vec<_>>(),
    });
    if let Some(spec) = &feature_context.spec {
        feature["spec"] = spec.text.as_str().into();
    }
    Some(feature)
}

/// Renders the task; `None` if its files were not found.
pub(super) fn render_task(context: &ProjectContext) -> Option<Value> {
    let task = context.task.as_ref()?;
    Some(json!({
        "title": task.title,
        "description": task.description,
        "dependencies": task.dependencies.iter().map(render_task_summary).collect::<Vec<_>>(),
        "dependents": task.dependents.iter().map(render_task_summary).collect::<Vec<_>>(),
    }))
}

fn find_document_text<'a>(context: &'a ProjectContext, name: &str) -> Option<&'a str> {
    let found = context
        .documents
        .iter()
        .find(|document| document.name == name);
    found.map(|document: &Document| document.text.as_str())
}

fn render_commit(commit: &Commit) -> Value {
    json!({ "hash": commit.hash, "message": commit.message, "author": commit.author, "date": commit.date })
}

fn render_task_summary(task: &TaskSummary) -> Value {
    let mut summary = json!({ "id": task.id, "title": task.title, "status": task.status });
    if let Some(description) = &task.description {
        summary["description"] = description.as_str().into();
    }
    summary
}
