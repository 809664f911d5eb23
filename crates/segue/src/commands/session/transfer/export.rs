//! `segue session export`: export to dagent folders, JSON or Markdown.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use segue_core::id::{FeatureId, SessionId};
use segue_core::scope::TaskId;
use segue_core::session::Session;
use segue_engine::{Export, count_tokens};
use segue_formats::{Portable, dagent, markdown};
use segue_store::{Filter, Page};
use serde_json::{Value, json};

use crate::app::App;
use crate::cli::{ExportArgs, Format};
use crate::error::CliError;
use crate::json_output::{TranscriptJson, print_json};
use crate::terminal::{clean, print, say};

/// Default directory of an export.
const HERE: &str = "segue-export";

/// Current content of the path that a file is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    Same,
    Other,
}

impl There {
    /// Returns the name of the result of writing to this path.
    fn outcome(self) -> &'static str {
        match self {
            Self::Nothing => "written",
            Self::Same => "unchanged",
            Self::Other => "replaced",
        }
    }
}

pub(in super::super) async fn run(app: &App, args: &ExportArgs) -> Result<ExitCode, CliError> {
    let sessions = chosen(app, args).await?;
    if sessions.is_empty() && !args.json {
        say("there is nothing to export");
        return Ok(ExitCode::SUCCESS);
    }
    let printed = args.to.is_none() && !args.dry_run && !args.json;
    if let ([session], true) = (
        sessions.as_slice(),
        printed && args.format != Format::Dagent,
    ) {
        let (_, text) = single(app, session, args.format).await?;
        print(text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let (files, told) = written(app, sessions, args.format).await?;
    let to = args.to.clone().unwrap_or_else(|| PathBuf::from(HERE));
    let places: Vec<(PathBuf, &str, There)> = files
        .iter()
        .map(|(path, text)| {
            let place = to.join(path);
            let there = there(&place, text);
            (place, text.as_str(), there)
        })
        .collect();
    refuse(&places, args)?;
    if !args.dry_run {
        for (place, text, _) in places.iter().filter(|(.., there)| *there != There::Same) {
            put(place, text)?;
        }
    }
    tell(args, &to, &told, &places);
    Ok(ExitCode::SUCCESS)
}

/// Returns the selected sessions. Reconciles those that the user named.
async fn chosen(app: &App, args: &ExportArgs) -> Result<Vec<Session>, CliError> {
    if args.ids.is_empty() {
        let filter = Filter {
            project: Some(app.project.key.clone()),
            feature: args.feature.clone(),
            ..Filter::default()
        };
        let (all, _) = app.engine.list(&filter, Page::first(u32::MAX)).await?;
        if let (true, Some(feature)) = (all.is_empty(), &args.feature) {
            let error = CliError::failed(format!(
                "no session of this project is for feature {feature}"
            ));
            return Err(error.hint("`segue session list` shows what there is, with what it is for"));
        }
        return Ok(all.into_iter().map(|(session, _)| session).collect());
    }
    let mut sessions: Vec<Session> = Vec::new();
    for id in &args.ids {
        let session = app.up_to_date(app.find(id).await?).await;
        if !sessions.iter().any(|known| known.id == session.id) {
            sessions.push(session);
        }
    }
    Ok(sessions)
}

/// Returns the files by path, and a JSON summary of each session.
async fn written(
    app: &App,
    sessions: Vec<Session>,
    format: Format,
) -> Result<(BTreeMap<String, String>, Vec<Value>), CliError> {
    let mut told = Vec::new();
    if format != Format::Dagent {
        let mut files = BTreeMap::new();
        for session in &sessions {
            let (path, text) = single(app, session, format).await?;
            files.insert(path, text);
            told.push(json!({ "id": session.id.as_str(), "name": session.id.as_str(), "turns": session.turns }));
        }
        return Ok((files, told));
    }
    let (mut going, mut wordless) = (Vec::new(), Vec::new());
    for session in sessions {
        let id = session.id.clone();
        let Export { session, left_out } = app.engine.export(session).await?;
        going.push((id, session));
        wordless.push(left_out);
    }
    told_apart(&mut going);
    for ((id, session), left_out) in going.iter().zip(wordless) {
        told.push(json!({
            "id": id.as_str(),
            "name": session.name,
            "messages": session.lines.len(),
            "archived": session.past.len(),
            "left_out": left_out,
            "checkpoint": session.recap.as_ref().map(|recap| recap.version),
        }));
    }
    let going: Vec<Portable> = going.into_iter().map(|(_, session)| session).collect();
    Ok((dagent::write(&going, &count_tokens), told))
}

/// Makes names unique: if the files of a session would overwrite those of an earlier session, it is named by its id.
fn told_apart(going: &mut [(SessionId, Portable)]) {
    let mut taken: HashSet<(Option<FeatureId>, Option<TaskId>, String)> = HashSet::new();
    let mut order: Vec<&mut (SessionId, Portable)> = going.iter_mut().collect();
    order.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (id, session) in order {
        let scope = session.purpose.as_ref().map(|purpose| &purpose.scope);
        let feature = scope.and_then(|scope| scope.feature().cloned());
        let task = scope.and_then(|scope| Some(scope.task()?.0.clone()));
        if !taken.insert((feature, task, session.name.clone())) {
            session.name = id.to_string();
        }
    }
}

/// Renders one session as one file.
async fn single(
    app: &App,
    session: &Session,
    format: Format,
) -> Result<(String, String), CliError> {
    let id = session.id.to_string();
    let transcript = app.engine.transcript(session.clone()).await?;
    if format == Format::Markdown {
        let turns = transcript.turns.iter();
        let turns = turns.map(|told| (&told.turn, told.messages.as_slice()));
        return Ok((format!("{id}.md"), markdown::write(session, turns)));
    }
    let text = serde_json::to_string_pretty(&TranscriptJson::from(&transcript));
    let text = text.map_err(|error| CliError::failed("cannot write JSON").because(&error))?;
    Ok((format!("{id}.json"), text + "\n"))
}

fn there(place: &Path, text: &str) -> There {
    match fs::read(place) {
        Ok(content) if content == text.as_bytes() => There::Same,
        Ok(_) => There::Other,
        Err(_) if place.symlink_metadata().is_ok() => There::Other,
        Err(_) => There::Nothing,
    }
}

/// Fails if an existing file would be overwritten with different content without `--force`.
fn refuse(places: &[(PathBuf, &str, There)], args: &ExportArgs) -> Result<(), CliError> {
    let differ = places.iter().filter(|(.., there)| *there == There::Other);
    let differ: Vec<&PathBuf> = differ.map(|(place, ..)| place).collect();
    let Some(first) = differ.first().filter(|_| !args.force) else {
        return Ok(());
    };
    let others = match differ.len() - 1 {
        0 => String::new(),
        others => format!(", and {others} more"),
    };
    Err(
        CliError::failed(format!("{}{others} is there and differs", first.display())).hint(
            "nothing was written; --to names another directory, --force replaces what differs",
        ),
    )
}

/// Writes a file atomically.
fn put(place: &Path, text: &str) -> Result<(), CliError> {
    let written = || -> std::io::Result<()> {
        let directory = place.parent().unwrap_or(place);
        fs::create_dir_all(directory)?;
        let draft = directory.join(format!(".segue-export-{}", std::process::id()));
        fs::write(&draft, text)?;
        fs::rename(&draft, place).inspect_err(|_| {
            let _ = fs::remove_file(&draft);
        })
    };
    written().map_err(|error| {
        CliError::failed(format!("cannot write {}", place.display())).because(&error)
    })
}

fn tell(args: &ExportArgs, to: &Path, told: &[Value], places: &[(PathBuf, &str, There)]) {
    if args.json {
        let files = places.iter().map(|(place, _, there)| {
            json!({ "path": place.display().to_string(), "outcome": there.outcome() })
        });
        print_json(&json!({
            "to": to.display().to_string(),
            "dry_run": args.dry_run,
            "sessions": told,
            "files": files.collect::<Vec<_>>(),
        }));
        return;
    }
    if args.dry_run {
        for (place, _, there) in places {
            print(&clean(&format!(
                "{:<9}  {}",
                if *there == There::Nothing {
                    "new"
                } else {
                    there.outcome()
                },
                place.display()
            )));
        }
    }
    let count = |wanted: There| places.iter().filter(|(.., there)| *there == wanted).count();
    let s = if told.len() == 1 { "" } else { "s" };
    let would = if args.dry_run {
        "Would export"
    } else {
        "Exported"
    };
    print(&clean(&format!(
        "{would} {} session{s} to {}: {} new files, {} replaced, {} as before.",
        told.len(),
        to.display(),
        count(There::Nothing),
        count(There::Other),
        count(There::Same)
    )));
    let wordless: u64 = told
        .iter()
        .filter_map(|session| session["left_out"].as_u64())
        .sum();
    if wordless > 0 {
        say(&format!(
            "{wordless} messages without words are left out (calls of tools, their answers, thoughts): this format has words alone"
        ));
    }
}
