//! `segue session`: everything about sessions that is not a turn.

mod list;
mod show;

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use segue_core::{RevertError, Session, SessionRef, SessionStatus, Title, TitleSource};
use segue_engine::EngineError;
use serde_json::json;

use crate::cli::{
    DeleteArgs, ForkArgs, OneArgs, RenameArgs, RevertArgs, SessionArgs, SessionCommand,
};
use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{clean, print, say};
use crate::wire::{SessionJson, print_json};

pub(crate) async fn run(args: SessionArgs) -> Result<ExitCode, CliError> {
    let app = App::open()?;
    match args.command {
        SessionCommand::List(args) => list::run(&app, &args).await?,
        SessionCommand::Info(args) => show::info(&app, &args).await?,
        SessionCommand::Show(args) => show::transcript(&app, &args).await?,
        SessionCommand::Rename(args) => rename(&app, &args).await?,
        SessionCommand::Revert(args) => revert(&app, &args).await?,
        SessionCommand::Undo(args) => undo(&app, &args).await?,
        SessionCommand::Fork(args) => fork(&app, &args).await?,
        SessionCommand::Delete(args) => delete(&app, &args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells of a changed session: as JSON, or in words.
fn tell(session: &Session, args: &OneArgs, words: &str) {
    if args.json {
        print_json(&SessionJson::new(session, SessionStatus::Idle));
    } else {
        print(&clean(words));
    }
}

async fn rename(app: &App, args: &RenameArgs) -> Result<(), CliError> {
    let title = Title::given(&args.title, TitleSource::User)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let session = app.find(&args.one.id).await?;
    app.engine.rename(&session.id, &title).await?;
    let session = app.find(&SessionRef::Text(session.id.to_string())).await?;
    tell(
        &session,
        &args.one,
        &format!("{} is now called {:?}", session.id, title.as_str()),
    );
    Ok(())
}

async fn revert(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    let session = app.find(&args.one.id).await?;
    let id = session.id.clone();
    match app.engine.revert(&session, args.to).await {
        Ok(reverted) => {
            let removed = reverted.turns_before - reverted.session.turns;
            let words = format!(
                "Reverted to turn {} (removed {removed} turn(s)). Take it back with: segue session undo {id}",
                reverted.session.turns
            );
            tell(&reverted.session, &args.one, &words);
        }
        // Asked for what is already so: nothing to do is not a failure.
        Err(EngineError::Revert(RevertError::AlreadyThere { turns })) => {
            tell(
                &session,
                &args.one,
                &format!("Already at turn {turns}, no changes made."),
            );
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn undo(app: &App, args: &OneArgs) -> Result<(), CliError> {
    let session = app.find(&args.id).await?;
    let undone = app.engine.undo(&session).await?;
    let words = format!(
        "Back at turn {} (it was at turn {}).",
        undone.session.turns, undone.turns_before
    );
    tell(&undone.session, args, &words);
    Ok(())
}

async fn fork(app: &App, args: &ForkArgs) -> Result<(), CliError> {
    let session = app.find(&args.one.id).await?;
    let forked = app.engine.fork(&session, args.at).await?;
    let words = format!(
        "{} branches off from {} after turn {}. Go on with: segue chat --resume {} \"…\"",
        forked.session.id, forked.from, forked.session.turns, forked.session.id
    );
    tell(&forked.session, &args.one, &words);
    Ok(())
}

async fn delete(app: &App, args: &DeleteArgs) -> Result<(), CliError> {
    if let SessionRef::Number(number) = args.one.id {
        return Err(CliError::usage(format!(
            "to delete a session, name it: {number} may mean another one in the next list"
        ))
        .hint("use its id, or the beginning of it"));
    }
    let session = app.find(&args.one.id).await?;
    if !args.yes && !confirmed(&session)? {
        say("nothing was deleted");
        return Ok(());
    }
    app.engine.delete(&session).await?;
    if args.one.json {
        print_json(&json!({ "deleted": session.id.as_str() }));
    } else {
        print(&format!(
            "Deleted {} ({}).",
            session.id,
            clean(session.title.as_str())
        ));
    }
    Ok(())
}

fn confirmed(session: &Session) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "deleting needs a confirmation, and there is no terminal to ask on",
        )
        .hint("add --yes"));
    }
    let _ = write!(
        std::io::stderr().lock(),
        "Delete {} ({}, {} turns)? [y/N] ",
        session.id,
        clean(session.title.as_str()),
        session.turns
    );
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CliError::failed("cannot read the answer").because(&error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
