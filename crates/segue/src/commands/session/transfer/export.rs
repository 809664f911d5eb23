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

/// Current content of the path that a file is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetState {
    Missing,
    Identical,
    Different,
}

impl TargetState {
    /// Returns the result of writing to this path.
    fn to_json(self) -> ExportedFileChange {
        match self {
            Self::Missing => ExportedFileChange::Written,
            Self::Identical => ExportedFileChange::Unchanged,
            Self::Different => ExportedFileChange::Replaced,
        }
    }
}

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
    let target_dir = args
        .to
        .clone()
        .unwrap_or_else(|| PathBuf::from(DEFAULT_EXPORT_DIR));
    let targets: Vec<(PathBuf, &str, TargetState)> = files
        .iter()
        .map(|(path, text)| {
            let target_path = target_dir.join(path);
            let state = target_state(&target_path, text);
            (target_path, text.as_str(), state)
        })
        .collect();
    ensure_no_conflict(&targets, args)?;
    if !args.dry_run {
        for (target_path, text, _) in targets
            .iter()
            .filter(|(.., state)| *state != TargetState::Identical)
        {
            write_atomically(target_path, text)?;
        }
    }
    print_export(args, &target_dir, summaries, &targets);
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
    let (mut exports, mut omitted_counts) = (Vec::new(), Vec::new());
    for session in sessions {
        let id = session.id.clone();
        let ExportOutcome {
            session,
            omitted_messages,
        } = app.engine.sessions().export_session(session).await?;
        exports.push((id, session));
        omitted_counts.push(omitted_messages);
    }
    make_names_unique(&mut exports);
    for ((id, session), omitted_messages) in exports.iter().zip(omitted_counts) {
        summaries.push(ExportedSession {
            id: id.clone(),
            name: session.name.clone(),
            content: ExportedContent::Dagent {
                messages: session.messages.len(),
                archived: session.compacted_messages.len(),
                left_out: omitted_messages,
                checkpoint: session.checkpoint.as_ref().map(|recap| recap.version),
            },
        });
    }
    let portable_sessions: Vec<PortableSession> =
        exports.into_iter().map(|(_, session)| session).collect();
    Ok((
        dagent::render_files(&portable_sessions, &count_tokens),
        summaries,
    ))
}

/// Makes names unique: if the files of a session would overwrite those of an earlier session, it is named by its id.
fn make_names_unique(exports: &mut [(SessionId, PortableSession)]) {
    let mut used_names: HashSet<(Option<FeatureId>, Option<TaskId>, String)> = HashSet::new();
    let mut sorted: Vec<&mut (SessionId, PortableSession)> = exports.iter_mut().collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (id, session) in sorted {
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
        let turns = turns
            .map(|transcript_turn| (&transcript_turn.turn, transcript_turn.messages.as_slice()));
        return Ok((format!("{id}.md"), markdown::render_session(session, turns)));
    }
    let text = serde_json::to_string_pretty(&json_output::transcript_json(transcript));
    let text = text.map_err(|error| CliError::failed("cannot write JSON").with_cause(&error))?;
    Ok((format!("{id}.json"), text + "\n"))
}

fn target_state(path: &Path, text: &str) -> TargetState {
    match fs::read(path) {
        Ok(content) if content == text.as_bytes() => TargetState::Identical,
        Ok(_) => TargetState::Different,
        Err(_) if path.symlink_metadata().is_ok() => TargetState::Different,
        Err(_) => TargetState::Missing,
    }
}

/// Fails if an existing file would be overwritten with different content without `--force`.
fn ensure_no_conflict(
    targets: &[(PathBuf, &str, TargetState)],
    args: &ExportArgs,
) -> Result<(), CliError> {
    let conflicting = targets
        .iter()
        .filter(|(.., state)| *state == TargetState::Different);
    let conflicts: Vec<&PathBuf> = conflicting.map(|(path, ..)| path).collect();
    let Some(first) = conflicts.first().filter(|_| !args.force) else {
        return Ok(());
    };
    let conflict = match conflicts.len() - 1 {
        0 => " already exists".to_owned(),
        remaining => format!(
            " and {} already exist",
            format_plural(remaining as u64, "more file")
        ),
    };
    Err(CliError::failed(format!(
        "{}{conflict} with different content; nothing was written",
        first.display()
    ))
    .with_hint("use `--to DIR` for another directory, or `--force` to overwrite"))
}

/// Writes a file atomically.
fn write_atomically(path: &Path, text: &str) -> Result<(), CliError> {
    let write_file = || -> std::io::Result<()> {
        let directory = path.parent().unwrap_or(path);
        fs::create_dir_all(directory)?;
        let draft = directory.join(format!(".segue-export-{}", std::process::id()));
        fs::write(&draft, text)?;
        fs::rename(&draft, path).inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        })
    };
    write_file().map_err(|error| {
        CliError::failed(format!("cannot write {}", path.display())).with_cause(&error)
    })
}

fn print_export(
    args: &ExportArgs,
    target_dir: &Path,
    sessions: Vec<ExportedSession>,
    targets: &[(PathBuf, &str, TargetState)],
) {
    if args.json {
        let files = targets.iter().map(|(path, _, state)| ExportedFile {
            path: path_json(path),
            outcome: state.to_json(),
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
        for (path, _, state) in targets {
            print_line(&strip_control_chars(&format!(
                "{:<9}  {}",
                match state {
                    TargetState::Missing => "new",
                    TargetState::Identical => "unchanged",
                    TargetState::Different => "replaced",
                },
                path.display()
            )));
        }
    }
    let count = |wanted: TargetState| {
        targets
            .iter()
            .filter(|(.., state)| *state == wanted)
            .count()
    };
    let verb = if args.dry_run {
        "Would export"
    } else {
        "Exported"
    };
    print_line(&strip_control_chars(&format!(
        "{verb} {} to {}: {}, {} replaced, {} unchanged.",
        format_plural(sessions.len() as u64, "session"),
        target_dir.display(),
        format_plural(count(TargetState::Missing) as u64, "new file"),
        count(TargetState::Different),
        count(TargetState::Identical)
    )));
    let omitted_messages: usize = sessions
        .iter()
        .map(|session| match session.content {
            ExportedContent::Dagent { left_out, .. } => left_out,
            ExportedContent::Transcript { .. } => 0,
        })
        .sum();
    if omitted_messages > 0 {
        eprint_line(&format!(
            "omitted {} without text (tool calls, tool results, thoughts): this format contains only text",
            format_plural(omitted_messages as u64, "message")
        ));
    }
}
