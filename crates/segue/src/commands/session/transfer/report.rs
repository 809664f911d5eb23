//! Import of sessions, and the report of the results as text or JSON.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use segue_api::error::SegueErrorClass;
use segue_api::transfer::{ImportFailure, ImportResult, ImportedEntry, ImportedEntryOutcome};
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::Project;
use segue_engine::{ImportConflict, ImportMatch, ImportOutcome};
use segue_formats::{ImportDifference, ParsedSession, PortableSession};

use crate::app::App;
use crate::commands::session;
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::{path_json, print_json};
use crate::terminal::{Style, eprint_line, format_plural, print_line, strip_control_chars};

/// Options of an import.
pub(super) struct ImportOptions<'a> {
    pub(super) format: &'static str,
    pub(super) provider: Option<&'a ProviderId>,
    pub(super) dry_run: bool,
    pub(super) json: bool,
}

/// Result for one session.
pub(super) struct ImportEntry {
    source: ParsedSession,
    outcome: ImportEntryOutcome,
    backup: Option<String>,
}

enum ImportEntryOutcome {
    Imported(SessionId),
    Planned,
    AlreadyPresent(SessionId),
    Empty,
    Failed(String),
}

impl ImportEntryOutcome {
    fn to_json(&self) -> ImportedEntryOutcome {
        match self {
            Self::Imported(_) => ImportedEntryOutcome::Imported,
            Self::Planned => ImportedEntryOutcome::WouldImport,
            Self::AlreadyPresent(_) => ImportedEntryOutcome::Already,
            Self::Empty => ImportedEntryOutcome::Nothing,
            Self::Failed(_) => ImportedEntryOutcome::Failed,
        }
    }
}

/// Hint for sessions that could not be read.
const FAILED_IMPORT_HINT: &str =
    "fix the files and run the command again; it skips sessions that are already present";

/// Checks that the provider of the imported sessions is known.
pub(super) fn check_provider(app: &App, provider: Option<&ProviderId>) -> Result<(), CliError> {
    provider.map_or(Ok(()), |provider| session::check_provider(app, provider))
}

/// Imports one session, unless this is a dry run. `make_backup` copies the source file before the import.
pub(super) async fn import_session(
    app: &App,
    options: &ImportOptions<'_>,
    mut source: ParsedSession,
    project: &Project,
    make_backup: impl FnOnce() -> Result<Option<String>, CliError>,
) -> Result<ImportEntry, CliError> {
    let mut backup = None;
    let outcome = match &mut source.session {
        Err(reason) => ImportEntryOutcome::Failed(reason.clone()),
        Ok(session) if is_empty_session(session) => ImportEntryOutcome::Empty,
        Ok(session) => {
            source
                .remarks
                .extend(session.limit_times_to(Timestamp::now()));
            match app.engine.sessions().match_import(project, session).await? {
                ImportMatch::Complete(session_id) => ImportEntryOutcome::AlreadyPresent(session_id),
                ImportMatch::Conflicting(conflicts) => {
                    let conflict_remarks = conflicts
                        .iter()
                        .map(|conflict| describe_conflict(conflict, session));
                    source.remarks.extend(conflict_remarks);
                    if options.dry_run {
                        ImportEntryOutcome::Planned
                    } else {
                        backup = make_backup()?;
                        import_new_session(app, options, session, project).await?
                    }
                }
            }
        }
    };
    Ok(ImportEntry {
        source,
        outcome,
        backup,
    })
}

async fn import_new_session(
    app: &App,
    options: &ImportOptions<'_>,
    session: &PortableSession,
    project: &Project,
) -> Result<ImportEntryOutcome, CliError> {
    let importing =
        app.engine
            .sessions()
            .import_session(session, options.format, project, options.provider);
    Ok(match importing.await? {
        ImportOutcome::Imported(session, _) => ImportEntryOutcome::Imported(session.id),
        ImportOutcome::AlreadyPresent(session_id) => ImportEntryOutcome::AlreadyPresent(session_id),
        ImportOutcome::Empty => ImportEntryOutcome::Empty,
    })
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
pub(super) fn print_report(
    options: &ImportOptions<'_>,
    root: &Path,
    entries: &[ImportEntry],
    remarks: &[String],
) -> ExitCode {
    let count = |outcome: ImportedEntryOutcome| {
        let entries = entries.iter();
        entries
            .filter(|entry| entry.outcome.to_json() == outcome)
            .count()
    };
    let failed = count(ImportedEntryOutcome::Failed);
    let imported = count(ImportedEntryOutcome::Imported);
    let already = count(ImportedEntryOutcome::Already);
    let error = (failed > 0).then(|| {
        format!(
            "cannot read {failed} of {}",
            format_plural(entries.len() as u64, "session")
        )
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
            let show_remarks = !matches!(entry.outcome, ImportEntryOutcome::AlreadyPresent(_));
            for remark in entry.source.remarks.iter().filter(|_| show_remarks) {
                print_line(&style.dim(&strip_control_chars(&format!("  {remark}"))));
            }
        }
        for remark in remarks {
            print_line(&style.dim(&strip_control_chars(remark)));
        }
        if entries.is_empty() {
            let expected = if options.format == "dagent" {
                "`.dagent` directory with sessions"
            } else {
                "`.dagent` directory with chat.json or session.json"
            };
            eprint_line(&format!(
                "nothing to import from {}: found no {expected}",
                root.display()
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
    let name = &entry.source.name;
    let details = entry
        .source
        .session
        .as_ref()
        .map(|session| format_details(session));
    let details = details.unwrap_or_default();
    match &entry.outcome {
        ImportEntryOutcome::Imported(id) => format!("{id}  imported: {name}  {details}"),
        ImportEntryOutcome::Planned => format!("would import: {name}  {details}"),
        ImportEntryOutcome::AlreadyPresent(id) => format!("{id}  already present: {name}"),
        ImportEntryOutcome::Empty => format!("empty: {name}"),
        ImportEntryOutcome::Failed(reason) => format!("failed: {}: {reason}", entry.source.path),
    }
}

fn format_details(session: &PortableSession) -> String {
    let messages = format_plural(count_messages(session) as u64, "message");
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
    let (id, error) = match &entry.outcome {
        ImportEntryOutcome::Imported(id) | ImportEntryOutcome::AlreadyPresent(id) => {
            (Some(id.clone()), None)
        }
        ImportEntryOutcome::Planned | ImportEntryOutcome::Empty => (None, None),
        ImportEntryOutcome::Failed(reason) => (None, Some(reason.clone())),
    };
    let checkpoint = session.and_then(|session| session.checkpoint.as_ref());
    ImportedEntry {
        name: entry.source.name.clone(),
        path: entry.source.path.clone(),
        outcome: entry.outcome.to_json(),
        session_id: id,
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
        error,
    }
}
