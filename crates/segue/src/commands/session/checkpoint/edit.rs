//! `segue session checkpoint ID edit`: the draft is in a file that only its owner may read, until it is valid.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use segue_core::checkpoint::{ItemKind, Slip, carried_over, form, formed, headed};
use segue_core::session::Session;
use segue_engine::{Changed, CheckpointView};

use crate::app::App;
use crate::error::CliError;
use crate::terminal::{Style, say};

pub(super) async fn run(app: &App, session: &Session) -> Result<Changed, CliError> {
    let view = app.engine.checkpoint(session, None).await?;
    let now = view.version.n;
    let draft = |n: u32| app.home.join(format!("edit-{}-{n}.txt", session.id));
    // The name of a draft contains its version, because item numbers refer to that version.
    let left = (1..=app.engine.versions(session).await?.len())
        .filter_map(|n| u32::try_from(n).ok())
        .rfind(|n| draft(*n).exists());
    let then = left.unwrap_or(now);
    let path = draft(then);
    let base = if then == now {
        view.clone()
    } else {
        app.engine.checkpoint(session, Some(then)).await?
    };
    let offered = text(session, &base);
    if left.is_some() {
        let mark = Style::stderr().yellow("segue:");
        let path = path.display();
        let since = if then == now {
            String::new()
        } else {
            format!("; what is new in checkpoint {now} stays as it is")
        };
        say(&format!(
            "{mark} going on with what was left in {path}{since}; remove it to begin anew"
        ));
    } else {
        put(&path, &offered).map_err(|error| unusable(&path, &error))?;
    }
    // While the editor runs, Ctrl-C is for the editor only.
    let interrupts = tokio::signal::unix::SignalKind::interrupt();
    let _ignored = tokio::signal::unix::signal(interrupts);
    let file = path.clone();
    let edited = tokio::task::spawn_blocking(move || open(&editor(), &file, &offered)).await;
    edited.map_err(|error| CliError::failed(error.to_string()))??;
    let written = fs::read_to_string(&path).map_err(|error| unread(&path, &error))?;
    if written.trim().is_empty() {
        // An empty draft contains nothing to resume, and some editors empty the file when they fail.
        let _ = fs::remove_file(&path);
        let error = CliError::usage("nothing is left of it");
        return Err(error.hint("nothing was changed; the next `edit` begins anew"));
    }
    let made = formed(&written, &base.checkpoint, view.version.covers)
        .map_err(|slips| wrong(&slips, &path))?;
    let made = carried_over(&base.checkpoint, &made, &view.checkpoint);
    let changed = app
        .engine
        .write_checkpoint(session, now, made)
        .await
        .map_err(|error| kept(error.into(), &path))?;
    // The draft is no longer needed once its content is active.
    let _ = fs::remove_file(&path);
    Ok(changed)
}

/// Returns the text to edit, with instructions at the top.
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

/// Returns the editor and its arguments, which no shell interprets.
fn editor() -> Vec<String> {
    let named = ["VISUAL", "EDITOR"].into_iter();
    let mut named = named.filter_map(|name| std::env::var(name).ok());
    let chosen = named.find(|command| !command.trim().is_empty());
    let chosen = chosen.unwrap_or_else(|| "vi".to_owned());
    chosen.split_whitespace().map(str::to_owned).collect()
}

fn open(editor: &[String], path: &Path, offered: &str) -> Result<(), CliError> {
    let Some((program, args)) = editor.split_first() else {
        return Err(CliError::usage("there is no editor"));
    };
    let status = match Command::new(program).args(args).arg(path).status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => Ok(status),
        Err(error) => Err(error),
    };
    // An unchanged draft is removed, so that the next `edit` starts from the beginning.
    let is_untouched = fs::read_to_string(path).is_ok_and(|text| text == offered);
    if is_untouched {
        let _ = fs::remove_file(path);
    }
    let error = match status {
        Ok(status) => CliError::failed(format!("the editor {program:?} ended with {status}")),
        Err(error) => {
            let text = format!("the editor {program:?} can't be started: {error}");
            let hint = "nothing was changed; set $VISUAL or $EDITOR to an editor that is here";
            return Err(CliError::failed(text).hint(hint));
        }
    };
    Err(if is_untouched {
        error.hint("nothing was changed")
    } else {
        kept(error, path)
    })
}

/// Builds the error that lists the mistakes in the text by line.
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

/// Builds the error for a draft that cannot be read. The draft remains, unless the file is missing.
fn unread(path: &Path, error: &io::Error) -> CliError {
    let unusable = unusable(path, error);
    match error.kind() {
        io::ErrorKind::NotFound => unusable.hint("nothing was changed"),
        _ => kept(unusable, path),
    }
}

fn unusable(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("{} can't be used: {error}", path.display()))
}
