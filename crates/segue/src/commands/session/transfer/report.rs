//! Import of sessions, and the report of the results as text or JSON.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::RoleName;
use segue_core::session::Project;
use segue_engine::{Import, Namesake, Present};
use segue_formats::{Lack, Portable, Read};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::CliError;
use crate::frontend::Front;
use crate::json_output::print_json;
use crate::terminal::{Style, clean, print, say};

/// Options of an import.
pub(super) struct Terms<'a> {
    pub(super) format: &'static str,
    pub(super) provider: Option<&'a ProviderId>,
    pub(super) dry_run: bool,
    pub(super) json: bool,
}

/// Result for one session.
pub(super) struct Entry {
    read: Read,
    outcome: Outcome,
    backup: Option<String>,
}

enum Outcome {
    Imported(SessionId),
    Would,
    Already(SessionId),
    Nothing,
    Failed(String),
}

impl Outcome {
    fn name(&self) -> &'static str {
        match self {
            Self::Imported(_) => "imported",
            Self::Would => "would_import",
            Self::Already(_) => "already",
            Self::Nothing => "nothing",
            Self::Failed(_) => "failed",
        }
    }
}

/// Hint for sessions that could not be read.
const HINT: &str = "what failed changed nothing; mend it, and do the same again";

/// Checks that the provider of the imported sessions is known.
pub(super) fn check(app: &App, provider: Option<&ProviderId>) -> Result<(), CliError> {
    match provider.filter(|provider| !app.engine.knows(provider)) {
        None => Ok(()),
        Some(provider) => {
            let known = app.engine.known_providers().join(", ");
            Err(CliError::usage(format!("nobody here is called {provider}"))
                .hint(format!("there are: {known}")))
        }
    }
}

/// Imports one session, unless this is a dry run. `keep` copies the source file before the import.
pub(super) async fn take(
    app: &App,
    terms: &Terms<'_>,
    mut read: Read,
    project: &Project,
    keep: impl FnOnce() -> Result<Option<String>, CliError>,
) -> Result<Entry, CliError> {
    let mut backup = None;
    let outcome = match &mut read.session {
        Err(why) => Outcome::Failed(why.clone()),
        Ok(session) if is_empty(session) => Outcome::Nothing,
        Ok(session) => {
            read.remarks.extend(session.bring_to(Timestamp::now()));
            match app.engine.known(project, session).await? {
                Present::All(there) => Outcome::Already(there),
                Present::Others(others) => {
                    let beside = others.iter().map(|other| beside(other, session));
                    read.remarks.extend(beside);
                    if terms.dry_run {
                        Outcome::Would
                    } else {
                        backup = keep()?;
                        taken(app, terms, session, project).await?
                    }
                }
            }
        }
    };
    Ok(Entry {
        read,
        outcome,
        backup,
    })
}

async fn taken(
    app: &App,
    terms: &Terms<'_>,
    session: &Portable,
    project: &Project,
) -> Result<Outcome, CliError> {
    let import = app
        .engine
        .import(session, terms.format, project, terms.provider);
    Ok(match import.await? {
        Import::Done(session, _) => Outcome::Imported(session.id),
        Import::Already(there) => Outcome::Already(there),
        Import::Nothing => Outcome::Nothing,
    })
}

/// Describes an existing session with the same name, and how it differs from the imported one.
fn beside(other: &Namesake, coming: &Portable) -> String {
    let all = coming.past.len() + coming.lines.len();
    let differs = match other.lacks {
        Lack::Messages(0) => "none of its messages".to_owned(),
        Lack::Messages(here) => format!("only {here} of its {all} messages"),
        Lack::Checkpoint => "another checkpoint".to_owned(),
        Lack::Purpose => "is for something else".to_owned(),
    };
    let id = &other.id;
    format!(
        "it is a session of its own: {id} has the same name, but {differs}; that one stays as it is"
    )
}

fn is_empty(session: &Portable) -> bool {
    session.past.is_empty() && session.lines.is_empty() && session.recap.is_none()
}

/// Prints the results. Fails if a session could not be read, but only after the others were imported.
pub(super) fn tell(
    terms: &Terms<'_>,
    place: &Path,
    entries: &[Entry],
    remarks: &[String],
) -> ExitCode {
    let count = |name: &str| {
        entries
            .iter()
            .filter(|entry| entry.outcome.name() == name)
            .count()
    };
    let failed = count("failed");
    let error = (failed > 0).then(|| format!("{failed} of {} could not be read", entries.len()));
    if terms.json {
        print_json(&json!({
            "from": place.display().to_string(),
            "dry_run": terms.dry_run,
            "entries": entries.iter().map(entry_json).collect::<Vec<_>>(),
            "remarks": remarks,
            "imported": count("imported"),
            "already": count("already"),
            "failed": failed,
            "error": error.as_ref().map(|message| json!({ "class": "failed", "message": message, "hint": HINT })),
        }));
    } else {
        let style = Style::stdout();
        for entry in entries {
            print(&clean(&in_words(entry)));
            // Remarks on an imported session were printed when it was imported.
            let told = !matches!(entry.outcome, Outcome::Already(_));
            for remark in entry.read.remarks.iter().filter(|_| told) {
                print(&style.dim(&clean(&format!("  {remark}"))));
            }
        }
        for remark in remarks {
            print(&style.dim(&clean(remark)));
        }
        if entries.is_empty() {
            let wanted = if terms.format == "dagent" {
                "a `.dagent` with sessions"
            } else {
                "a `.dagent` with chat.json or session.json"
            };
            say(&format!(
                "there is nothing to take in at {}; {wanted} was looked for",
                place.display()
            ));
        } else {
            let (would, new) = (count("would_import"), count("imported"));
            let new = if terms.dry_run {
                format!("{would} would come")
            } else {
                format!("{new} came")
            };
            print(&format!(
                "{new}, {} here already, {} with nothing in them, {failed} failed.",
                count("already"),
                count("nothing")
            ));
        }
    }
    match error {
        None => ExitCode::SUCCESS,
        Some(message) => CliError::failed(message).hint(HINT).report(Front::Shell),
    }
}

fn in_words(entry: &Entry) -> String {
    let name = &entry.read.name;
    let about = entry.read.session.as_ref().map(|session| about(session));
    let about = about.unwrap_or_default();
    match &entry.outcome {
        Outcome::Imported(id) => format!("{id}  {name}  {about}"),
        Outcome::Would => format!("would come: {name}  {about}"),
        Outcome::Already(id) => format!("{id}  is here already: {name}"),
        Outcome::Nothing => format!("nothing was said in {name}"),
        Outcome::Failed(why) => format!("failed: {}: {why}", entry.read.path),
    }
}

fn about(session: &Portable) -> String {
    let count = session.past.len() + session.lines.len();
    let s = if count == 1 { "" } else { "s" };
    let recap = if session.recap.is_some() {
        ", a checkpoint"
    } else {
        ""
    };
    let purpose = session.purpose.as_ref();
    let purpose = purpose.map_or(String::new(), |purpose| format!(", {purpose}"));
    format!("({count} message{s}{recap}{purpose})")
}

fn entry_json(entry: &Entry) -> Value {
    let session = entry.read.session.as_ref().ok();
    let purpose = session.and_then(|session| session.purpose.as_ref());
    let task = purpose.and_then(|purpose| purpose.scope.task());
    let role = purpose.and_then(|purpose| purpose.role.as_ref());
    let id = match &entry.outcome {
        Outcome::Imported(id) | Outcome::Already(id) => Some(id.as_str()),
        Outcome::Would | Outcome::Nothing | Outcome::Failed(_) => None,
    };
    let error = match &entry.outcome {
        Outcome::Failed(why) => Some(why),
        Outcome::Imported(_) | Outcome::Would | Outcome::Already(_) | Outcome::Nothing => None,
    };
    json!({
        "name": entry.read.name,
        "path": entry.read.path,
        "outcome": entry.outcome.name(),
        "session_id": id,
        "messages": session.map(|session| session.past.len() + session.lines.len()),
        "checkpoint": session.and_then(|session| session.recap.as_ref()).map(|recap| recap.version),
        "feature": purpose.and_then(|purpose| purpose.scope.feature()).map(ToString::to_string),
        "task": task.map(|(task, _)| task.as_str()),
        "task_state": task.map(|(_, state)| state.as_str()),
        "role": role.map(RoleName::as_str),
        "created_at": session.map(|session| session.created_at.to_string()),
        "updated_at": session.map(|session| session.updated_at.to_string()),
        "backup": entry.backup,
        "remarks": entry.read.remarks,
        "error": error,
    })
}
