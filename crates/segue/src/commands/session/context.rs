//! `segue session context`: the project context of a session.

use segue_core::brief::{Context, Document, TaskSummary};
use segue_core::number_format::figure;
use segue_engine::{Conversation, EngineError, Gathered, Gathering};
use serde_json::{Value, json};

use crate::app::App;
use crate::cli::ContextArgs;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{clean, print, say};

pub(super) async fn run(app: &App, args: &ContextArgs) -> Result<(), CliError> {
    let session = match app.find_any(&args.one.id).await? {
        Conversation::Session(session, _) => *session,
        native @ Conversation::Native(_) => {
            return Err(EngineError::OnlyNative(native.id()).into());
        }
    };
    let role = app.engine.role_of(&session)?;
    let gathered = if args.refresh {
        app.engine.refresh_context(&session, true).await?
    } else {
        app.engine.context_of(&session, false).await?
    };
    if args.one.json {
        let mut shape = shape(&gathered);
        shape["session_id"] = session.id.as_str().into();
        shape["role"] = role.map(|role| role.name.as_str()).into();
        print_json(&shape);
        return Ok(());
    }
    let text = gathered.kept.context.written();
    print(clean(&text).trim_end());
    print("");
    print(&format!(
        "{} tokens; {}",
        figure(gathered.kept.tokens),
        words(&gathered)
    ));
    if role.is_none() {
        say("the session has no role, so that no agent is told this");
    }
    Ok(())
}

/// Describes when and why the context was gathered.
fn words(gathered: &Gathered) -> String {
    let at = gathered.kept.at.strftime("%Y-%m-%d %H:%M:%S UTC");
    match &gathered.why {
        Gathering::Kept => format!("as it was gathered at {at}"),
        Gathering::First => "gathered now".to_owned(),
        Gathering::Asked => "gathered anew, and nothing had changed".to_owned(),
        Gathering::Changed(names) => {
            format!("gathered anew, since it changed: {}", names.join(", "))
        }
    }
}

fn shape(gathered: &Gathered) -> Value {
    let Context {
        structure,
        documents,
        commits,
        feature,
        task,
        notes,
    } = &gathered.kept.context;
    let commits = commits.iter().map(|commit| {
        json!({ "hash": commit.hash, "message": commit.message, "author": commit.author, "date": commit.date })
    });
    let changed = match &gathered.why {
        Gathering::Changed(names) => names.clone(),
        Gathering::Kept | Gathering::First | Gathering::Asked => Vec::new(),
    };
    json!({
        "project": {
            "structure": {
                "src_dirs": structure.src_dirs,
                "config_files": structure.config_files,
                "has_tests": structure.has_tests,
                "has_docs": structure.has_docs,
            },
            "documents": documents.iter().map(document).collect::<Vec<_>>(),
            "recent_commits": commits.collect::<Vec<_>>(),
        },
        "feature": feature.as_ref().map(|feature| json!({
            "name": feature.name,
            "spec": feature.spec.as_ref().map(document),
            "tasks": tasks(&feature.tasks),
            "more_tasks": feature.more_tasks,
        })),
        "task": task.as_ref().map(|task| json!({
            "title": task.title,
            "description": task.description,
            "dependencies": tasks(&task.dependencies),
            "dependents": tasks(&task.dependents),
        })),
        "notes": notes,
        "tokens": gathered.kept.tokens,
        "updated_at": gathered.kept.at.to_string(),
        "gathered": gathered.why != Gathering::Kept,
        "changed": changed,
    })
}

fn document(document: &Document) -> Value {
    json!({
        "name": document.name,
        "text": document.text,
        "bytes": document.size,
        "cut": document.is_cut(),
    })
}

fn tasks(tasks: &[TaskSummary]) -> Vec<Value> {
    let shape = |task: &TaskSummary| {
        json!({
            "id": task.id,
            "title": task.title,
            "status": task.status,
            "description": task.description,
        })
    };
    tasks.iter().map(shape).collect()
}
