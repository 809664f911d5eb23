//! Import of sessions, and the report of the results as text or JSON.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use segue_api::error::SegueErrorClass;
use segue_api::transfer::{ImportFailure, ImportResult, ImportedEntry, ImportedEntryOutcome};
use segue_core::id::SessionId;
use segue_core::session::Project;
use segue_engine::{ImportConflict, ImportMatch, ImportOutcome};
use segue_formats::{ImportDifference, ParsedSession, PortableSession};

use crate::app::App;
use crate::cli::ImportOptionArgs;
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::{path_json, print_json};
use crate::terminal::{Style, eprint_line, format_plural, print_line, strip_control_chars};

/// Result for one session.
pub(super) struct ImportEntry {
    source: ParsedSession,
    outcome: ImportedEntryOutcome,
    /// The imported session, or the one that was already present.
    session_id: Option<SessionId>,
    backup: Option<String>,
}

/// Hint for sessions that could not be read.
const FAILED_IMPORT_HINT: &str =
    "fix the files and run the command again; it skips sessions that are already present";

/// Imports one session into a project, unless this is a dry run. `make_backup` copies the source file before the import.
pub(super) async fn import_session(
    app: &App,
    options: &ImportOptionArgs,
    mut source: ParsedSession,
    (project, format): (&Project, &str),
    make_backup: impl FnOnce() -> Result<Option<String>, CliError>,
) -> Result<ImportEntry, CliError> {
    let sessions = app.engine.sessions();
    let mut backup = None;
    let (outcome, session_id) = match &mut source.session {
        Err(_) => (ImportedEntryOutcome::Failed, None),
        Ok(session) if is_empty_session(session) => (ImportedEntryOutcome::Nothing, None),
        Ok(session) => {
            let remarks = &mut source.remarks;
            remarks.extend(session.limit_times_to(Timestamp::now()));
            match sessions.match_import(project, session).await? {
                ImportMatch::Complete(id) => (ImportedEntryOutcome::Already, Some(id)),
                ImportMatch::Conflicting(conflicts) => {
                    let conflicts = conflicts.iter();
                    remarks.extend(conflicts.map(|conflict| describe_conflict(conflict, session)));
                    if options.dry_run {
                        (ImportedEntryOutcome::WouldImport, None)
                    } else {
                        backup = make_backup()?;
                        let provider = options.provider.as_ref();
                        let importing = sessions.import_session(session, format, project, provider);
                        entry_outcome(importing.await?)
                    }
                }
            }
        }
    };
    Ok(ImportEntry {
        source,
        outcome,
        session_id,
        backup,
    })
}

fn entry_outcome(outcome: ImportOutcome) -> (ImportedEntryOutcome, Option<SessionId>) {
    match outcome {
        ImportOutcome::Imported(session, _) => (ImportedEntryOutcome::Imported, Some(session.id)),
        ImportOutcome::AlreadyPresent(id) => (ImportedEntryOutcome::Already, Some(id)),
        ImportOutcome::Empty => (ImportedEntryOutcome::Nothing, None),
    }
}

/// Describes an existing session with the same name, and how it differs from the imported one.
fn describe_conflict(conflict: &ImportConflict, imported: &PortableSession) -> String {
    let message_count = count_messages(imported);
    let difference = match conflict.missing {
        ImportDifference::Messages(0) => "none of these messages".to_owned(),
        ImportDifference::Messages(present) => {
            format!("only {present} of these {message_count} messages")
        }
        ImportDifference::Checkpoint => "another checkpoint".to_owned(),
        ImportDifference::Purpose => "another purpose".to_owned(),
    };
    let id = &conflict.id;
    format!("a separate session: {id} has the same name, but {difference}")
}

fn is_empty_session(session: &PortableSession) -> bool {
    session.compacted_messages.is_empty()
        && session.messages.is_empty()
        && session.checkpoint.is_none()
}

/// Prints the results. Fails if a session could not be read, but only after the others were imported.
/// `expected` names the files that the import looks for.
pub(super) fn print_report(
    options: &ImportOptionArgs,
    root: &Path,
    expected: &str,
    entries: &[ImportEntry],
    remarks: &[String],
) -> ExitCode {
    let count = |outcome: ImportedEntryOutcome| {
        let entries = entries.iter();
        entries.filter(|entry| entry.outcome == outcome).count()
    };
    let failed = count(ImportedEntryOutcome::Failed);
    let imported = count(ImportedEntryOutcome::Imported);
    let already = count(ImportedEntryOutcome::Already);
    let error = (failed > 0).then(|| {
        let sessions = format_plural(entries.len(), "session");
        format!("cannot read {failed} of {sessions}")
    });
    if options.json {
        print_json(&ImportResult {
            from: path_json(root),
            dry_run: options.dry_run,
            entries: entries.iter().map(entry_json).collect(),
            remarks: remarks.to_vec(),
            imported,
            already,
            failed,
            error: error.as_ref().map(|message| ImportFailure {
                class: SegueErrorClass::Failed,
                message: message.clone(),
                hint: FAILED_IMPORT_HINT.to_owned(),
            }),
        });
    } else {
        let style = Style::stdout();
        for entry in entries {
            print_line(&strip_control_chars(&format_entry(entry)));
            // Remarks on an imported session were printed when it was imported.
            let show_remarks = entry.outcome != ImportedEntryOutcome::Already;
            for remark in entry.source.remarks.iter().filter(|_| show_remarks) {
                print_line(&style.dim(&strip_control_chars(&format!("  {remark}"))));
            }
        }
        for remark in remarks {
            print_line(&style.dim(&strip_control_chars(remark)));
        }
        if entries.is_empty() {
            let root = root.display();
            eprint_line(&format!(
                "nothing to import from {root}: found no {expected}"
            ));
        } else {
            let imported = if options.dry_run {
                let planned = count(ImportedEntryOutcome::WouldImport);
                format!("{planned} to import")
            } else {
                format!("{imported} imported")
            };
            print_line(&format!(
                "{imported}, {already} already present, {} empty, {failed} failed.",
                count(ImportedEntryOutcome::Nothing)
            ));
        }
    }
    match error {
        None => ExitCode::SUCCESS,
        Some(message) => CliError::failed(message)
            .with_hint(FAILED_IMPORT_HINT)
            .report(Frontend::Shell),
    }
}

fn format_entry(entry: &ImportEntry) -> String {
    let ParsedSession { name, path, .. } = &entry.source;
    let session = match &entry.source.session {
        Ok(session) => session,
        Err(reason) => return format!("failed: {path}: {reason}"),
    };
    let (id, details) = (entry.session_id.as_ref(), format_details(session));
    let id = id.map_or("", SessionId::as_str);
    match entry.outcome {
        ImportedEntryOutcome::Imported => format!("{id}  imported: {name}  {details}"),
        ImportedEntryOutcome::WouldImport => format!("would import: {name}  {details}"),
        ImportedEntryOutcome::Already => format!("{id}  already present: {name}"),
        ImportedEntryOutcome::Nothing | ImportedEntryOutcome::Failed => format!("empty: {name}"),
    }
}

fn format_details(session: &PortableSession) -> String {
    let messages = format_plural(count_messages(session), "message");
    let checkpoint_note = if session.checkpoint.is_some() {
        ", a checkpoint"
    } else {
        ""
    };
    let purpose = session.purpose.as_ref();
    let purpose = purpose.map_or(String::new(), |purpose| format!(", {purpose}"));
    format!("({messages}{checkpoint_note}{purpose})")
}

fn count_messages(session: &PortableSession) -> usize {
    session.compacted_messages.len() + session.messages.len()
}

fn entry_json(entry: &ImportEntry) -> ImportedEntry {
    let session = entry.source.session.as_ref().ok();
    let purpose = session.and_then(|session| session.purpose.as_ref());
    let scope = purpose.map(|purpose| &purpose.scope);
    let task = scope.and_then(|scope| scope.task());
    let checkpoint = session.and_then(|session| session.checkpoint.as_ref());
    ImportedEntry {
        name: entry.source.name.clone(),
        path: entry.source.path.clone(),
        outcome: entry.outcome,
        session_id: entry.session_id.clone(),
        messages: session.map(|session| count_messages(session)),
        checkpoint: checkpoint.map(|recap| recap.version),
        feature: scope.and_then(|scope| scope.feature().cloned()),
        task: task.map(|(task, _)| task.clone()),
        task_state: task.map(|(_, state)| state.clone()),
        role: purpose.and_then(|purpose| purpose.role.clone()),
        created_at: session.map(|session| session.created_at),
        updated_at: session.map(|session| session.updated_at),
        backup: entry.backup.clone(),
        remarks: entry.source.remarks.clone(),
        error: entry.source.session.as_ref().err().cloned(),
    }
}
