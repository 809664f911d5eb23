//! `segue session checkpoint ID edit`: the text is in a file for nobody else's eyes, until it is good.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use segue_core::{ItemKind, Session, Slip, form, formed, headed};
use segue_engine::{Changed, CheckpointView};

use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{Style, say};

pub(super) async fn run(app: &App, session: &Session) -> Result<Changed, CliError> {
    let view = app.engine.checkpoint(session, None).await?;
    let path = app.home.join(format!("edit-{}.txt", session.id));
    if path.exists() {
        let mark = Style::stderr().yellow("segue:");
        let path = path.display();
        say(&format!(
            "{mark} going on with what was left in {path}; remove it to begin anew"
        ));
    } else {
        put(&path, &text(session, &view)).map_err(|error| unusable(&path, &error))?;
    }
    // Ctrl-C is the editor's as long as it runs.
    let interrupts = tokio::signal::unix::SignalKind::interrupt();
    let _ignored = tokio::signal::unix::signal(interrupts);
    let file = path.clone();
    let edited = tokio::task::spawn_blocking(move || open(&editor(), &file)).await;
    edited.map_err(|error| CliError::failed(error.to_string()))??;
    let written = fs::read_to_string(&path).map_err(|error| unusable(&path, &error))?;
    let checkpoint = formed(&written, &view.checkpoint, view.version.covers)
        .map_err(|slips| wrong(&slips, &path))?;
    let changed = app
        .engine
        .write_checkpoint(session, view.version.n, checkpoint)
        .await
        .map_err(|error| kept(error.into(), &path))?;
    // What is in force by now is no draft any more.
    let _ = fs::remove_file(&path);
    Ok(changed)
}

/// What is edited, after what there is to know about it.
fn text(session: &Session, view: &CheckpointView) -> String {
    let headings: Vec<&str> = ItemKind::ALL.into_iter().map(headed).collect();
    format!(
        "\
# Checkpoint {} of session {}. One item a line, under its heading.
# Keep the number of an item to keep the item; a new one has none, and one that you remove is forgotten.
# [12 pinned] stays, however often it is summed up. Lines that begin with # are no part of it.
# Headings: {}.

{}",
        view.version.n,
        session.id,
        headings.join(", "),
        form(&view.checkpoint)
    )
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// The program and its arguments: no shell reads them.
fn editor() -> Vec<String> {
    let named = ["VISUAL", "EDITOR"].into_iter();
    let mut named = named.filter_map(|name| std::env::var(name).ok());
    let chosen = named.find(|command| !command.trim().is_empty());
    let chosen = chosen.unwrap_or_else(|| "vi".to_owned());
    chosen.split_whitespace().map(str::to_owned).collect()
}

fn open(editor: &[String], path: &Path) -> Result<(), CliError> {
    let Some((program, args)) = editor.split_first() else {
        return Err(CliError::usage("there is no editor"));
    };
    let hint = "set $VISUAL or $EDITOR to one that can";
    match Command::new(program).args(args).arg(path).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let error = CliError::failed(format!("the editor {program:?} ended with {status}"));
            Err(kept(error, path))
        }
        Err(error) => {
            // Nobody has seen it.
            let _ = fs::remove_file(path);
            let text = format!("the editor {program:?} can't be started: {error}");
            Err(CliError::failed(text).hint(hint))
        }
    }
}

/// What is wrong with the text, line by line.
fn wrong(slips: &[Slip], path: &Path) -> CliError {
    let told: Vec<String> = slips
        .iter()
        .map(|slip| match slip.line {
            0 => slip.what.clone(),
            line => format!("line {line}: {}", slip.what),
        })
        .collect();
    kept(CliError::usage(told.join("\n  ")), path)
}

fn kept(error: CliError, path: &Path) -> CliError {
    error.hint(format!(
        "nothing was changed; what you wrote is in {}, and the next `edit` goes on with it",
        path.display()
    ))
}

fn unusable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("{} can't be used: {error}", path.display()))
}
