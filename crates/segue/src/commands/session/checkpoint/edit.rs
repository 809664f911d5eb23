//! `segue session checkpoint ID edit`: the draft is in a file that only its owner may read, until it is valid.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use segue_core::checkpoint::{
    EditFormError, ItemKind, kind_heading, parse_edit_form, rebase_edits, render_edit_form,
};
use segue_core::session::Session;
use segue_engine::{CheckpointChange, CheckpointEdit, CheckpointView};

use crate::app::App;
use crate::error::CliError;
use crate::terminal::eprint_note;

pub(super) async fn run(app: &App, session: &Session) -> Result<CheckpointChange, CliError> {
    let compactor = app.engine.compactor();
    let view = compactor.checkpoint(session, None).await?;
    let active_version = view.version.n;
    let draft_path = |n: u32| app.home.join(format!("edit-{}-{n}.txt", session.id));
    // The name of a draft contains its version, because item numbers refer to that version.
    let versions = compactor.checkpoint_versions(session).await?;
    let mut numbers = versions.iter().map(|(version, _)| version.n);
    let existing_draft = numbers.rfind(|n| draft_path(*n).exists());
    let base_version = existing_draft.unwrap_or(active_version);
    let path = draft_path(base_version);
    let base = if base_version == active_version {
        view.clone()
    } else {
        let earlier_version = compactor.checkpoint(session, Some(base_version));
        earlier_version.await?
    };
    let initial_text = render_draft(session, &base);
    if existing_draft.is_some() {
        let path = path.display();
        let note = if base_version == active_version {
            String::new()
        } else {
            format!("; changes in checkpoint {active_version} remain")
        };
        eprint_note(&format!(
            "resuming your draft in {path}{note}; delete the file to start over"
        ));
    } else {
        write_draft(&path, &initial_text).map_err(|error| draft_file_error(&path, &error))?;
    }
    // While the editor runs, Ctrl-C is for the editor only.
    let interrupts = tokio::signal::unix::SignalKind::interrupt();
    let _ignored = tokio::signal::unix::signal(interrupts);
    let file = path.clone();
    let edit = move || run_editor(&editor_command(), &file, &initial_text);
    let edited = tokio::task::spawn_blocking(edit).await;
    edited.map_err(|error| CliError::failed(error.to_string()))??;
    let draft_text = fs::read_to_string(&path).map_err(|error| draft_read_error(&path, &error))?;
    if draft_text.trim().is_empty() {
        // An empty draft contains nothing to resume, and some editors empty the file when they fail.
        let _ = fs::remove_file(&path);
        let error = CliError::usage("the edited checkpoint is empty");
        return Err(error.with_hint("nothing was changed; run `edit` again to start over"));
    }
    let edited_checkpoint = parse_edit_form(&draft_text, &base.checkpoint, view.version.covers)
        .map_err(|errors| edit_form_error(&errors, &path))?;
    let rebased = rebase_edits(&base.checkpoint, &edited_checkpoint, &view.checkpoint);
    let edit = CheckpointEdit::Rewrite {
        base: active_version,
        checkpoint: rebased,
    };
    let change = compactor.change_checkpoint(session, edit).await;
    let change = change.map_err(|error| with_draft_hint(error.into(), &path))?;
    // The draft is no longer needed once its content is active.
    let _ = fs::remove_file(&path);
    Ok(change)
}

/// Returns the text to edit, with instructions at the top.
fn render_draft(session: &Session, view: &CheckpointView) -> String {
    let headings: Vec<&str> = ItemKind::ALL.into_iter().map(kind_heading).collect();
    format!(
        "\
# Checkpoint {} of session {}. One item per line, under its heading.
# Do not change the numbers of items. Add an item without a number. Remove a line to drop its item.
# Compaction never drops an item that is marked like this: [12 pinned]. Lines that begin with # are ignored.
# Headings: {}.

{}",
        view.version.n,
        session.id,
        headings.join(", "),
        render_edit_form(&view.checkpoint)
    )
}

fn write_draft(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// Returns the editor and its arguments, which no shell interprets.
fn editor_command() -> Vec<String> {
    let variables = ["VISUAL", "EDITOR"].into_iter();
    let mut commands = variables.filter_map(|name| std::env::var(name).ok());
    let configured = commands.find(|command| !command.trim().is_empty());
    let command_line = configured.unwrap_or_else(|| "vi".to_owned());
    command_line.split_whitespace().map(str::to_owned).collect()
}

fn run_editor(editor: &[String], path: &Path, initial_text: &str) -> Result<(), CliError> {
    let Some((program, args)) = editor.split_first() else {
        return Err(CliError::usage("no editor is set"));
    };
    let status = Command::new(program).args(args).arg(path).status();
    if status.as_ref().is_ok_and(ExitStatus::success) {
        return Ok(());
    }
    // An unchanged draft is removed, so that the next `edit` starts from the beginning.
    let is_untouched = fs::read_to_string(path).is_ok_and(|text| text == initial_text);
    if is_untouched {
        let _ = fs::remove_file(path);
    }
    let error = match status {
        Ok(status) => CliError::failed(format!("editor {program:?} failed with {status}")),
        Err(error) => {
            let text = format!("cannot start editor {program:?}: {error}");
            let hint = "set $VISUAL or $EDITOR to an installed editor";
            return Err(CliError::failed(text).with_hint(hint));
        }
    };
    Err(if is_untouched {
        error.with_hint("nothing was changed")
    } else {
        with_draft_hint(error, path)
    })
}

/// Builds the error that lists the mistakes in the text by line.
fn edit_form_error(errors: &[EditFormError], path: &Path) -> CliError {
    let messages = errors.iter().map(|error| match error.line {
        0 => error.message.clone(),
        line => format!("line {line}: {}", error.message),
    });
    let messages: Vec<String> = messages.collect();
    with_draft_hint(CliError::usage(messages.join("\n  ")), path)
}

fn with_draft_hint(error: CliError, path: &Path) -> CliError {
    error.with_hint(format!(
        "nothing was changed; run `edit` again to continue with your draft in {}",
        path.display()
    ))
}

/// Builds the error for a draft that cannot be read. The draft remains, unless the file is missing.
fn draft_read_error(path: &Path, error: &io::Error) -> CliError {
    let cli_error = draft_file_error(path, error);
    match error.kind() {
        io::ErrorKind::NotFound => cli_error.with_hint("nothing was changed"),
        _ => with_draft_hint(cli_error, path),
    }
}

fn draft_file_error(path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!("cannot use draft {}: {error}", path.display()))
}
