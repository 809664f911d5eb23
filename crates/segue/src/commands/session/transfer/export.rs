//! `segue session export`: export to dagent folders, JSON or Markdown.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segue_api::transfer::{
    ExportResult, ExportedContent, ExportedFile, ExportedFileChange, ExportedSession,
};
use segue_core::id::{FeatureId, SessionId};
use segue_core::scope::TaskId;
use segue_core::session::Session;
use segue_engine::{ExportOutcome, count_tokens};
use segue_formats::{PortableSession, dagent, markdown};
use segue_store::SessionFilter;

use crate::app::App;
use crate::cli::{ExportArgs, ExportFormatArg};
use crate::error::CliError;
use crate::json_output::{self, path_json, print_json};
use crate::terminal::{eprint_line, format_plural, print_line, strip_control_chars};

/// Default directory of an export.
const DEFAULT_EXPORT_DIR: &str = "segue-export";

/// A file of an export: its path, its text, and the change that writing it makes.
type ExportTarget<'a> = (PathBuf, &'a str, ExportedFileChange);

pub(in super::super) async fn run(app: &App, args: &ExportArgs) -> Result<ExitCode, CliError> {
    let sessions = select_sessions(app, args).await?;
    if sessions.is_empty() && !args.json {
        eprint_line("no sessions to export");
        return Ok(ExitCode::SUCCESS);
    }
    let to_stdout = args.to.is_none() && !args.dry_run && !args.json;
    if let ([session], true) = (
        sessions.as_slice(),
        to_stdout && args.format != ExportFormatArg::Dagent,
    ) {
        let (_, text) = render_single_file(app, session, args.format).await?;
        print_line(text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let (files, summaries) = render_files(app, sessions, args.format).await?;
    let target_dir = args.to.as_deref();
    let target_dir = target_dir.unwrap_or(Path::new(DEFAULT_EXPORT_DIR));
    let targets = files.iter().map(|(path, text)| {
        let target_path = target_dir.join(path);
        let change = file_change(&target_path, text);
        (target_path, text.as_str(), change)
    });
    let targets: Vec<ExportTarget<'_>> = targets.collect();
    ensure_no_conflict(&targets, args)?;
    for (path, text, change) in &targets {
        if !args.dry_run && *change != ExportedFileChange::Unchanged {
            super::write_atomically(path, text).map_err(|error| {
                CliError::failed(format!("cannot write {}", path.display())).with_cause(&error)
            })?;
        }
    }
    print_export(args, target_dir, summaries, &targets);
    Ok(ExitCode::SUCCESS)
}

/// Returns the selected sessions. Reconciles those that the user named.
async fn select_sessions(app: &App, args: &ExportArgs) -> Result<Vec<Session>, CliError> {
    if args.ids.is_empty() {
        let filter = SessionFilter {
            project: Some(app.project.key.clone()),
            feature: args.feature.clone(),
            ..SessionFilter::default()
        };
        let sessions = app.engine.library().all_sessions(&filter).await?;
        if let (true, Some(feature)) = (sessions.is_empty(), &args.feature) {
            let error = CliError::failed(format!(
                "no sessions for feature `{feature}` in this project"
            ));
            return Err(
                error.with_hint("run `segue session list` to see the sessions and their purposes")
            );
        }
        return Ok(sessions);
    }
    let mut sessions: Vec<Session> = Vec::new();
    for id in &args.ids {
        let session = app.reconcile_session(app.find_session(id).await?).await;
        if !sessions.iter().any(|selected| selected.id == session.id) {
            sessions.push(session);
        }
    }
    Ok(sessions)
}

/// Returns the files by path, and a summary of each session.
async fn render_files(
    app: &App,
    sessions: Vec<Session>,
    format: ExportFormatArg,
) -> Result<(BTreeMap<String, String>, Vec<ExportedSession>), CliError> {
    let mut summaries = Vec::new();
    if format != ExportFormatArg::Dagent {
        let mut files = BTreeMap::new();
        for session in &sessions {
            let (path, text) = render_single_file(app, session, format).await?;
            files.insert(path, text);
            summaries.push(ExportedSession {
                id: session.id.clone(),
                name: session.id.to_string(),
                content: ExportedContent::Transcript {
                    turns: session.turns,
                },
            });
        }
        return Ok((files, summaries));
    }
    let mut exports = Vec::new();
    for session in sessions {
        let id = session.id.clone();
        exports.push((id, app.engine.sessions().export_session(session).await?));
    }
    make_names_unique(&mut exports);
    for (id, export) in &exports {
        let session = &export.session;
        summaries.push(ExportedSession {
            id: id.clone(),
            name: session.name.clone(),
            content: ExportedContent::Dagent {
                messages: session.messages.len(),
                archived: session.compacted_messages.len(),
                left_out: export.omitted_messages,
                checkpoint: session.checkpoint.as_ref().map(|recap| recap.version),
            },
        });
    }
    let portable_sessions = exports.into_iter().map(|(_, export)| export.session);
    let portable_sessions: Vec<PortableSession> = portable_sessions.collect();
    let files = dagent::render_files(&portable_sessions, &count_tokens);
    Ok((files, summaries))
}

/// Makes names unique: if the files of a session would overwrite those of an earlier session, it is named by its id.
fn make_names_unique(exports: &mut [(SessionId, ExportOutcome)]) {
    let mut used_names: HashSet<(Option<FeatureId>, Option<TaskId>, String)> = HashSet::new();
    let mut sorted: Vec<&mut (SessionId, ExportOutcome)> = exports.iter_mut().collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (id, ExportOutcome { session, .. }) in sorted {
        let scope = session.purpose.as_ref().map(|purpose| &purpose.scope);
        let feature = scope.and_then(|scope| scope.feature().cloned());
        let task = scope.and_then(|scope| Some(scope.task()?.0.clone()));
        if !used_names.insert((feature, task, session.name.clone())) {
            session.name = id.to_string();
        }
    }
}

/// Renders one session as one file.
async fn render_single_file(
    app: &App,
    session: &Session,
    format: ExportFormatArg,
) -> Result<(String, String), CliError> {
    let id = session.id.to_string();
    let transcript = app.engine.library().transcript(session.clone()).await?;
    if format == ExportFormatArg::Markdown {
        let turns = transcript.turns.iter();
        let turns = turns.map(|entry| (&entry.turn, entry.messages.as_slice()));
        return Ok((format!("{id}.md"), markdown::render_session(session, turns)));
    }
    let text = serde_json::to_string_pretty(&json_output::transcript_json(transcript));
    let text = text.map_err(|error| CliError::failed("cannot write JSON").with_cause(&error))?;
    Ok((format!("{id}.json"), text + "\n"))
}

/// Returns the change that writing a text to a path makes.
fn file_change(path: &Path, text: &str) -> ExportedFileChange {
    match fs::read(path) {
        Ok(content) if content == text.as_bytes() => ExportedFileChange::Unchanged,
        Ok(_) => ExportedFileChange::Replaced,
        Err(_) if path.symlink_metadata().is_ok() => ExportedFileChange::Replaced,
        Err(_) => ExportedFileChange::Written,
    }
}

/// Fails if an existing file would be overwritten with different content without `--force`.
fn ensure_no_conflict(targets: &[ExportTarget<'_>], args: &ExportArgs) -> Result<(), CliError> {
    let targets = targets.iter();
    let mut conflicts = targets.filter(|(.., change)| *change == ExportedFileChange::Replaced);
    let Some((first, ..)) = conflicts.next().filter(|_| !args.force) else {
        return Ok(());
    };
    let conflict = match conflicts.count() {
        0 => "already exists".to_owned(),
        remaining => format!(
            "and {} already exist",
            format_plural(remaining, "more file")
        ),
    };
    let path = first.display();
    let message = format!("{path} {conflict} with different content; nothing was written");
    let hint = "use `--to DIR` for another directory, or `--force` to overwrite";
    Err(CliError::failed(message).with_hint(hint))
}

fn print_export(
    args: &ExportArgs,
    target_dir: &Path,
    sessions: Vec<ExportedSession>,
    targets: &[ExportTarget<'_>],
) {
    if args.json {
        let files = targets.iter().map(|(path, _, change)| ExportedFile {
            path: path_json(path),
            outcome: *change,
        });
        print_json(&ExportResult {
            to: path_json(target_dir),
            dry_run: args.dry_run,
            sessions,
            files: files.collect(),
        });
        return;
    }
    if args.dry_run {
        for (path, _, change) in targets {
            let change = match change {
                ExportedFileChange::Written => "new",
                ExportedFileChange::Unchanged => "unchanged",
                ExportedFileChange::Replaced => "replaced",
            };
            let line = format!("{change:<9}  {}", path.display());
            print_line(&strip_control_chars(&line));
        }
    }
    let count = |wanted| {
        let targets = targets.iter();
        targets.filter(|(.., change)| *change == wanted).count()
    };
    let verb = if args.dry_run {
        "Would export"
    } else {
        "Exported"
    };
    print_line(&strip_control_chars(&format!(
        "{verb} {} to {}: {}, {} replaced, {} unchanged.",
        format_plural(sessions.len(), "session"),
        target_dir.display(),
        format_plural(count(ExportedFileChange::Written), "new file"),
        count(ExportedFileChange::Replaced),
        count(ExportedFileChange::Unchanged)
    )));
    let omitted_counts = sessions.iter().map(|session| match session.content {
        ExportedContent::Dagent { left_out, .. } => left_out,
        ExportedContent::Transcript { .. } => 0,
    });
    let omitted: usize = omitted_counts.sum();
    if omitted > 0 {
        let messages = format_plural(omitted, "message");
        eprint_line(&format!(
            "omitted {messages} without text (tool calls, tool results, thoughts): this format contains only text"
        ));
    }
}
