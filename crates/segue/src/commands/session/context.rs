//! `segue session context`: the project context of a session.

use segue_core::brief::{Document, ProjectContext, TaskSummary};
use segue_core::number_format::format_count;
use segue_engine::{ContextRebuild, Conversation, EngineError, GatheredContext};
use serde_json::{Value, json};

use crate::app::App;
use crate::cli::ContextArgs;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{eprint_line, print_line, strip_control_chars};

pub(super) async fn run(app: &App, args: &ContextArgs) -> Result<(), CliError> {
    let session = match app.find_conversation(&args.session.id).await? {
        Conversation::Session(session, _) => *session,
        native @ Conversation::Native(_) => {
            return Err(EngineError::NotAdopted(native.id()).into());
        }
    };
    let role = app.engine.session_role(&session)?;
    let gathered = if args.refresh {
        app.engine.refresh_context(&session, true).await?
    } else {
        app.engine.current_context(&session, false).await?
    };
    if args.session.json {
        let mut object = context_json(&gathered);
        object["session_id"] = session.id.as_str().into();
        object["role"] = role.map(|role| role.name.as_str()).into();
        print_json(&object);
        return Ok(());
    }
    let text = gathered.cached.context.render();
    print_line(strip_control_chars(&text).trim_end());
    print_line("");
    print_line(&format!(
        "{} tokens; {}",
        format_count(gathered.cached.tokens),
        describe_rebuild(&gathered)
    ));
    if role.is_none() {
        eprint_line("agents do not receive this context, because the session has no role");
    }
    Ok(())
}

/// Describes when and why the context was collected.
fn describe_rebuild(gathered: &GatheredContext) -> String {
    let at = gathered.cached.at.strftime("%Y-%m-%d %H:%M:%S UTC");
    match &gathered.rebuild {
        ContextRebuild::NotNeeded => format!("collected at {at}"),
        ContextRebuild::First => "collected now".to_owned(),
        ContextRebuild::Requested => "collected again, without changes".to_owned(),
        ContextRebuild::SourcesChanged(names) => {
            format!(
                "collected again, because sources changed: {}",
                names.join(", ")
            )
        }
    }
}

fn context_json(gathered: &GatheredContext) -> Value {
    let ProjectContext {
        structure,
        documents,
        commits,
        feature,
        task,
        notes,
    } = &gathered.cached.context;
    let commits = commits.iter().map(|commit| {
        json!({ "hash": commit.hash, "message": commit.message, "author": commit.author, "date": commit.date })
    });
    let changed_sources = match &gathered.rebuild {
        ContextRebuild::SourcesChanged(names) => names.clone(),
        ContextRebuild::NotNeeded | ContextRebuild::First | ContextRebuild::Requested => Vec::new(),
    };
    json!({
        "project": {
            "structure": {
                "src_dirs": structure.src_dirs,
                "config_files": structure.config_files,
                "has_tests": structure.has_tests,
                "has_docs": structure.has_docs,
            },
            "documents": documents.iter().map(document_json).collect::<Vec<_>>(),
            "recent_commits": commits.collect::<Vec<_>>(),
        },
        "feature": feature.as_ref().map(|feature| json!({
            "name": feature.name,
            "spec": feature.spec.as_ref().map(document_json),
            "tasks": tasks_json(&feature.tasks),
            "more_tasks": feature.more_tasks,
        })),
        "task": task.as_ref().map(|task| json!({
            "title": task.title,
            "description": task.description,
            "dependencies": tasks_json(&task.dependencies),
            "dependents": tasks_json(&task.dependents),
        })),
        "notes": notes,
        "tokens": gathered.cached.tokens,
        "updated_at": gathered.cached.at.to_string(),
        "gathered": gathered.rebuild != ContextRebuild::NotNeeded,
        "changed": changed_sources,
    })
}

fn document_json(document: &Document) -> Value {
    json!({
        "name": document.name,
        "text": document.text,
        "bytes": document.size,
        "cut": document.is_truncated(),
    })
}

fn tasks_json(tasks: &[TaskSummary]) -> Vec<Value> {
    let task_json = |task: &TaskSummary| {
        json!({
            "id": task.id,
            "title": task.title,
            "status": task.status,
            "description": task.description,
        })
    };
    tasks.iter().map(task_json).collect()
}
