//! The commands `segue session archive` and `segue session restore`.

use std::time::SystemTime;

use jiff::Timestamp;
use segue_api::archive::{
    ArchivableNative, ArchiveChange, ArchivedNative, CopyStorage, ListedCopy, RestoredNative,
};
use segue_catalog::{
    ArchiveOutcome, ArchivedSession, CopyLocation, NativeSession, RestoredFileTimes,
};
use segue_core::session::{SessionRef, Title};
use segue_engine::{RestoreOutcome, Upkeep};

use super::{check_provider, parse_time};
use crate::app::App;
use crate::cli::{ArchiveArgs, RestoreArgs};
use crate::error::CliError;
use crate::json_output::{path_json, print_json};
use crate::terminal::{
    Style, Table, eprint_line, eprint_note, format_age, format_bytes, format_plural, print_line,
    to_single_line,
};

pub(super) async fn run(app: &App, args: &ArchiveArgs) -> Result<(), CliError> {
    let upkeep = app.engine.upkeep();
    if args.list {
        return list_copies(upkeep, args).await;
    }
    let sessions = select_sessions(app, args).await?;
    if sessions.is_empty() && !args.json {
        eprint_line("no sessions to archive");
        return Ok(());
    }
    if args.dry_run {
        return print_archive_plan(upkeep, &sessions, args).await;
    }
    let mut outcomes = Vec::new();
    let mut first_error: Option<CliError> = None;
    for session in &sessions {
        match upkeep.archive_native(session).await {
            Ok(outcome) => {
                if !args.json {
                    print_line(&format_outcome(&outcome));
                }
                outcomes.push(outcome);
            }
            // The other sessions are archived even if one cannot be copied.
            Err(error) => {
                let error = CliError::from(error);
                let prefix = Style::stderr().red("segue:");
                let (id, message) = (qualified_id(session), &error.message);
                eprint_line(&format!("{prefix} cannot archive {id}: {message}"));
                first_error.get_or_insert(error);
            }
        }
    }
    if args.json {
        print_json(&outcomes.iter().map(outcome_json).collect::<Vec<_>>());
    } else if args.all {
        print_line(&format_summary(&outcomes));
    }
    match first_error {
        Some(error) if args.all => {
            let failed = sessions.len() - outcomes.len();
            let sessions = format_plural(sessions.len(), "session");
            Err(CliError {
                message: format!("cannot archive {failed} of {sessions}"),
                ..error
            })
        }
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Returns the native sessions that the arguments select.
async fn select_sessions(app: &App, args: &ArchiveArgs) -> Result<Vec<NativeSession>, CliError> {
    let upkeep = app.engine.upkeep();
    if args.all {
        let provider = args.provider.as_ref();
        check_provider(app, provider)?;
        let cutoff = parse_time(args.older_than.as_deref())?;
        return Ok(upkeep.natives_unused_since(provider, cutoff).await);
    }
    let mut sessions = Vec::new();
    for id in &args.ids {
        let conversation = app.find_conversation(id).await?;
        let natives = upkeep.list_conversation_natives(&conversation).await?;
        if natives.is_empty() {
            return Err(CliError::failed(format!(
                "cannot archive session {}: segue cannot read the files of its agent",
                conversation.id()
            ))
            .with_hint("archive sessions of claude, codex, gemini or opencode; segue's own record needs no copy"));
        }
        sessions.extend(natives);
    }
    Ok(sessions)
}

/// Returns the id of a native session with the name of its provider: `claude:ID`.
fn qualified_id(session: &NativeSession) -> String {
    format!("{}:{}", session.provider, session.head.id)
}

/// Returns the qualified id of a native session with its title: `claude:ID (TITLE)`.
fn describe_native(session: &NativeSession) -> String {
    format!("{} ({})", qualified_id(session), native_title(session))
}

fn native_title(session: &NativeSession) -> String {
    let title = session
        .head
        .title
        .as_ref()
        .map_or("no title", Title::as_str);
    to_single_line(title)
}

async fn print_archive_plan(
    upkeep: &Upkeep,
    sessions: &[NativeSession],
    args: &ArchiveArgs,
) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for session in sessions {
        let archived = upkeep.is_archived(session).await?;
        rows.push(ArchivableNative {
            provider: session.provider.clone(),
            native_session_id: session.head.id.clone(),
            archived,
        });
        if !args.json {
            let action = if archived {
                "Already archived:"
            } else {
                "Would archive"
            };
            print_line(&format!("{action} {}", describe_native(session)));
        }
    }
    if args.json {
        print_json(&rows);
    }
    Ok(())
}

fn format_outcome(outcome: &ArchiveOutcome) -> String {
    let copy = outcome.entry();
    let native = describe_native(&copy.native_session());
    let action = match outcome {
        ArchiveOutcome::Created(_) => "Archived",
        ArchiveOutcome::Updated(_) => "Updated the archived copy of",
        ArchiveOutcome::Unchanged(_) => return format!("Already archived: {native}."),
    };
    let size = format_bytes(copy.manifest.size());
    let packed_size = format_bytes(copy.packed_size());
    format!("{action} {native}: {size}, compressed to {packed_size}.")
}

fn format_summary(outcomes: &[ArchiveOutcome]) -> String {
    let is_unchanged = |outcome: &&ArchiveOutcome| matches!(outcome, ArchiveOutcome::Unchanged(_));
    let unchanged = outcomes.iter().filter(is_unchanged).count();
    let archived = outcomes.len() - unchanged;
    format!("{archived} archived, {unchanged} unchanged.")
}

/// Encodes a copy of a native session in the archive or in the trash.
fn copy_json(copy: &ArchivedSession) -> ListedCopy {
    let (manifest, head) = (&copy.manifest, &copy.manifest.head);
    let files = manifest.files.iter().map(|file| &file.artifact);
    ListedCopy {
        provider: manifest.provider.clone(),
        native_session_id: manifest.id.clone(),
        kept: storage_json(copy.location),
        path: path_json(&copy.path),
        title: head.title.as_ref().map(|title| title.as_str().to_owned()),
        cwd: head.cwd.clone(),
        turns: manifest.turns,
        created_at: head.created_at,
        updated_at: head.updated_at,
        copied_at: manifest.at,
        bytes: manifest.size(),
        packed_bytes: copy.packed_size(),
        files: files.map(|file| path_json(&file.relative_path)).collect(),
    }
}

fn storage_json(location: CopyLocation) -> CopyStorage {
    match location {
        CopyLocation::Archive => CopyStorage::Archive,
        CopyLocation::Trash => CopyStorage::Trash,
    }
}

/// Encodes the copy of a session, and whether it is new, updated or unchanged.
fn outcome_json(outcome: &ArchiveOutcome) -> ArchivedNative {
    ArchivedNative {
        copy: copy_json(outcome.entry()),
        outcome: match outcome {
            ArchiveOutcome::Created(_) => ArchiveChange::Archived,
            ArchiveOutcome::Updated(_) => ArchiveChange::Renewed,
            ArchiveOutcome::Unchanged(_) => ArchiveChange::Already,
        },
    }
}

/// Lists the copies in the archive and in the trash.
async fn list_copies(upkeep: &Upkeep, args: &ArchiveArgs) -> Result<(), CliError> {
    let (mut copies, read_errors) = upkeep.list_copies().await?;
    if let Some(provider) = &args.provider {
        copies.retain(|copy| copy.manifest.provider == *provider);
    }
    for error in read_errors {
        eprint_note(
            &CliError::failed("cannot read a copy")
                .with_cause(&error)
                .message,
        );
    }
    if args.json {
        print_json(&copies.iter().map(copy_json).collect::<Vec<_>>());
        return Ok(());
    }
    if copies.is_empty() {
        eprint_line("no copies; create one with `segue session archive ID`");
        return Ok(());
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["ID", "LOCATION", "COPIED", "SIZE", "TITLE"]);
    for copy in &copies {
        let session = copy.native_session();
        table.add_row(&[
            qualified_id(&session),
            copy.location.as_str().to_owned(),
            format_age(copy.manifest.at, now),
            format_bytes(copy.packed_size()),
            native_title(&session),
        ]);
    }
    table.print();
    Ok(())
}

pub(super) async fn restore_copies(app: &App, args: &RestoreArgs) -> Result<(), CliError> {
    let SessionRef::Text(text) = &args.id else {
        return Err(CliError::usage("restoring needs the ID of a session")
            .with_hint("run `segue session archive --list` to find the ID"));
    };
    let upkeep = app.engine.upkeep();
    let copies = upkeep.find_copies(text).await?;
    let file_times = if args.touch {
        RestoredFileTimes::Current(SystemTime::now())
    } else {
        RestoredFileTimes::Original
    };
    for copy in &copies {
        let restoring = upkeep.restore_copy(copy, file_times, &app.project);
        print_restore_outcome(&restoring.await?, args);
    }
    Ok(())
}

fn print_restore_outcome(outcome: &RestoreOutcome, args: &RestoreArgs) {
    let copy = &outcome.entry;
    let native = copy.native_session();
    let id = qualified_id(&native);
    if args.json {
        let existing_files = outcome.existing_files.iter();
        print_json(&RestoredNative {
            restored: id,
            from: storage_json(copy.location),
            files: outcome.files.iter().map(|path| path_json(path)).collect(),
            unchanged: existing_files.map(|path| path_json(path)).collect(),
            taken_back_by_agent: outcome.imported_count,
            session_id: outcome.session.as_ref().map(|session| session.id.clone()),
        });
        return;
    }
    let name = describe_native(&native);
    if outcome.files.is_empty() && outcome.imported_count == 0 {
        print_line(&format!(
            "Nothing to restore: {name} exists and is unchanged."
        ));
        return;
    }
    let source = match copy.location {
        CopyLocation::Archive => "from the archive; the archived copy remains",
        CopyLocation::Trash => "from the trash",
    };
    print_line(&format!("Restored {name} {source}."));
    for path in &outcome.files {
        print_line(&format!("  {}", path.display()));
    }
    if let Some(session) = &outcome.session {
        let tags = session.tags.iter().map(|tag| format!(" #{tag}"));
        let tags: String = tags.collect();
        let (id, title) = (&session.id, to_single_line(session.title.as_str()));
        print_line(&format!("It belongs to session {id} ({title}){tags}."));
    }
    let provider = native.provider.as_str();
    if let Some(command) = segue_providers::exec::resume_command(provider, &native.head.id) {
        print_line(&format!(
            "Resume it with: {command}   or: segue chat --resume {id} \"…\""
        ));
    }
}
