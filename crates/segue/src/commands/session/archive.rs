//! The commands `segue session archive` and `segue session restore`.

use std::time::SystemTime;

use jiff::{Timestamp, Zoned};
use segue_catalog::{Entry, Kept, NativeSession, Saved, Times};
use segue_core::session::{SessionRef, Title};
use segue_core::time_input::parse_when;
use segue_engine::Restored;
use serde_json::{Value, json};

use super::list::not_a_time;
use crate::app::App;
use crate::cli::{ArchiveArgs, RestoreArgs};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Style, Table, ago, bytes, one_line, print, say};

pub(super) async fn run(app: &App, args: &ArchiveArgs) -> Result<(), CliError> {
    if args.list {
        return list(app, args);
    }
    let sessions = chosen(app, args).await?;
    if args.dry_run {
        return tell_plan(app, &sessions, args).await;
    }
    let mut done = Vec::new();
    let mut failed: Option<CliError> = None;
    for session in &sessions {
        match app.engine.archive(session).await {
            Ok(saved) => {
                if !args.json {
                    print(&in_words(&saved, args));
                }
                done.push(saved_json(&saved));
            }
            // The other sessions are archived even if one cannot be copied.
            Err(error) => {
                let error = CliError::from(error);
                let mark = Style::stderr().red("segue:");
                say(&format!(
                    "{mark} {} was not archived: {}",
                    name(session),
                    error.message
                ));
                failed.get_or_insert(error);
            }
        }
    }
    if args.json {
        print_json(&done);
    } else if sessions.is_empty() {
        say("there is nothing to archive");
    } else if args.all {
        print(&summary(&done));
    }
    match failed {
        Some(error) if args.all => Err(CliError {
            message: format!(
                "{} of {} could not be archived",
                sessions.len() - done.len(),
                sessions.len()
            ),
            ..error
        }),
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Returns the native sessions that the arguments select.
async fn chosen(app: &App, args: &ArchiveArgs) -> Result<Vec<NativeSession>, CliError> {
    if args.all {
        if let Some(provider) = &args.provider
            && !app.engine.knows(provider)
        {
            let known = app.engine.known_providers().join(", ");
            return Err(CliError::usage(format!("nobody here is called {provider}"))
                .hint(format!("there are: {known}")));
        }
        let before = args.older_than.as_deref();
        let before = before
            .map(|text| parse_when(text, &Zoned::now()).map_err(|error| not_a_time(&error)))
            .transpose()?;
        return Ok(app
            .engine
            .natives_before(args.provider.as_ref(), before)
            .await);
    }
    let mut sessions = Vec::new();
    for id in &args.ids {
        let conversation = app.find_any(id).await?;
        let natives = app.engine.natives_of(&conversation).await?;
        if natives.is_empty() {
            return Err(CliError::failed(format!(
                "no agent has anything of {}",
                conversation.id()
            ))
            .hint("what segue has of it is in its own store, which no agent cleans up"));
        }
        sessions.extend(natives);
    }
    Ok(sessions)
}

fn name(session: &NativeSession) -> String {
    format!("{}:{}", session.provider, session.head.id)
}

fn entry_name(entry: &Entry) -> String {
    format!("{}:{}", entry.manifest.provider, entry.manifest.id)
}

async fn tell_plan(
    app: &App,
    sessions: &[NativeSession],
    args: &ArchiveArgs,
) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for session in sessions {
        let archived = app.engine.is_archived(session).await?;
        rows.push(json!({
            "provider": session.provider.as_str(),
            "native_session_id": session.head.id.as_str(),
            "archived": archived,
        }));
        if !args.json {
            let what = if archived {
                "Already archived:"
            } else {
                "Would archive"
            };
            print(&format!("{what} {} ({})", name(session), title(session)));
        }
    }
    if args.json {
        print_json(&rows);
    } else if sessions.is_empty() {
        say("there is nothing to archive");
    }
    Ok(())
}

fn title(session: &NativeSession) -> String {
    let title = session.head.title.as_ref();
    title.map_or_else(|| "no title".to_owned(), |title| one_line(title.as_str()))
}

fn in_words(saved: &Saved, args: &ArchiveArgs) -> String {
    let entry = saved.entry();
    let (id, title) = (entry_name(entry), title(&entry.session()));
    match saved {
        Saved::New(_) | Saved::Renewed(_) => {
            let again = if matches!(saved, Saved::Renewed(_)) {
                " again"
            } else {
                ""
            };
            let (size, packed) = (bytes(entry.manifest.size()), bytes(entry.packed_size()));
            format!("Archived {id} ({title}){again}: {size} in {packed}.")
        }
        Saved::Already(_) if args.all => format!("Already archived: {id} ({title})."),
        Saved::Already(_) => format!("{id} ({title}) is already archived as it is."),
    }
}

fn summary(done: &[Value]) -> String {
    let count = |what: &str| done.iter().filter(|row| row["outcome"] == what).count();
    let (new, again) = (count("archived"), count("renewed"));
    format!("{} archived, {} as before.", new + again, count("already"))
}

fn entry_json(entry: &Entry) -> Value {
    let (manifest, head) = (&entry.manifest, &entry.manifest.head);
    json!({
        "provider": manifest.provider.as_str(),
        "native_session_id": manifest.id.as_str(),
        "kept": entry.kept.as_str(),
        "path": entry.path.display().to_string(),
        "title": head.title.as_ref().map(Title::as_str),
        "cwd": head.cwd,
        "turns": manifest.turns,
        "created_at": head.created_at.map(|at| at.to_string()),
        "updated_at": head.updated_at.to_string(),
        "copied_at": manifest.at.to_string(),
        "bytes": manifest.size(),
        "packed_bytes": entry.packed_size(),
        "files": manifest.files.iter().map(|file| file.piece.name.display().to_string()).collect::<Vec<_>>(),
    })
}

fn saved_json(saved: &Saved) -> Value {
    let mut row = entry_json(saved.entry());
    row["outcome"] = match saved {
        Saved::New(_) => "archived",
        Saved::Renewed(_) => "renewed",
        Saved::Already(_) => "already",
    }
    .into();
    row
}

fn list(app: &App, args: &ArchiveArgs) -> Result<(), CliError> {
    let (mut copies, unreadable) = app.engine.copies()?;
    if let Some(provider) = &args.provider {
        copies.retain(|entry| entry.manifest.provider == *provider);
    }
    for error in unreadable {
        let mark = Style::stderr().yellow("segue:");
        let error = CliError::failed("a copy can't be read").because(&error);
        say(&format!("{mark} {}", error.message));
    }
    if args.json {
        print_json(&copies.iter().map(entry_json).collect::<Vec<_>>());
        return Ok(());
    }
    if copies.is_empty() {
        say("there are no copies; `segue session archive ID` makes one");
        return Ok(());
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["ID", "KEPT IN", "COPIED", "SIZE", "TITLE"]);
    for entry in &copies {
        table.row(&[
            entry_name(entry),
            entry.kept.as_str().to_owned(),
            ago(entry.manifest.at, now),
            bytes(entry.packed_size()),
            title(&entry.session()),
        ]);
    }
    table.print();
    Ok(())
}

pub(super) async fn restore(app: &App, args: &RestoreArgs) -> Result<(), CliError> {
    let SessionRef::Text(text) = &args.id else {
        return Err(
            CliError::usage("to bring a session back, name it by its id")
                .hint("`segue session archive --list` shows all copies"),
        );
    };
    let copies = app.engine.find_copies(text).await?;
    let times = if args.touch {
        Times::Now(SystemTime::now())
    } else {
        Times::Kept
    };
    for entry in &copies {
        let restored = app.engine.restore(entry, times, &app.project).await?;
        tell_restored(&restored, args);
    }
    Ok(())
}

fn tell_restored(restored: &Restored, args: &RestoreArgs) {
    let entry = &restored.entry;
    if args.json {
        let paths = |paths: &[std::path::PathBuf]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        print_json(&json!({
            "restored": entry_name(entry),
            "from": entry.kept.as_str(),
            "files": paths(&restored.files),
            "unchanged": paths(&restored.there),
            "taken_back_by_agent": restored.taken_back,
            "session_id": restored.session.as_ref().map(|session| session.id.as_str()),
        }));
        return;
    }
    let (id, title) = (entry_name(entry), title(&entry.session()));
    if restored.files.is_empty() && restored.taken_back == 0 {
        print(&format!(
            "{id} ({title}) is there as it was; nothing had to be put back."
        ));
        return;
    }
    let from = match entry.kept {
        Kept::Archive => "from the archive, which keeps its copy",
        Kept::Trash => "from the trash",
    };
    print(&format!("Restored {id} ({title}) {from}."));
    for path in &restored.files {
        print(&format!("  {}", path.display()));
    }
    if let Some(session) = &restored.session {
        let tags = session.tags.iter().map(|tag| format!(" #{tag}"));
        let tags: String = tags.collect();
        let title = one_line(session.title.as_str());
        print(&format!(
            "It is session {} again ({title}){tags}.",
            session.id
        ));
    }
    let provider = entry.manifest.provider.as_str();
    if let Some(command) = segue_agents::known::resume_command(provider, &entry.manifest.id) {
        print(&format!(
            "Go on with: {command}   or: segue chat --resume {id} \"…\""
        ));
    }
}
