//! `segue session`: everything about sessions that is not a turn.

mod archive;
mod asked;
mod delete;
mod handoff;
mod list;
mod native;
mod resume;
mod search;
mod show;
mod stats;
mod tag;

use std::path::Path;
use std::process::ExitCode;

use segue_core::{
    Session, SessionRef, Title, TitleSource, TurnNumberError, plan_fork, plan_revert,
};
use segue_engine::{Conversation, EngineError};

use crate::cli::{
    AnySessionCommand, ForkArgs, OneArgs, RenameArgs, RevertArgs, SessionArgs, SessionCommand,
};
use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{clean, print, say_decision};
use crate::wire::{SessionJson, print_json};

pub(super) use handoff::hand_over;
pub(super) use resume::in_its_own as depart;

pub(crate) async fn run(args: SessionArgs) -> Result<ExitCode, CliError> {
    match args.command {
        AnySessionCommand::Plain(command) => {
            perform(&App::open_to_look()?, command).await?;
            Ok(ExitCode::SUCCESS)
        }
        AnySessionCommand::Resume(args) => resume::run(args).await,
        AnySessionCommand::Handoff(args) => handoff::run(args).await,
    }
}

/// Does what one of the commands says.
pub(super) async fn perform(app: &App, command: SessionCommand) -> Result<(), CliError> {
    match command {
        SessionCommand::List(args) => list::run(app, &args).await,
        SessionCommand::Info(args) => show::info(app, &args).await,
        SessionCommand::Show(args) => show::transcript(app, &args).await,
        SessionCommand::Search(args) => search::run(app, &args).await,
        SessionCommand::Rename(args) => rename(app, &args).await,
        SessionCommand::Tag(args) => tag::run(app, &args).await,
        SessionCommand::Adopt(args) => adopt(app, &args).await,
        SessionCommand::Revert(args) => revert(app, &args).await,
        SessionCommand::Undo(args) => undo(app, &args).await,
        SessionCommand::Fork(args) => fork(app, &args).await,
        SessionCommand::Delete(args) => delete::run(app, &args).await,
        SessionCommand::Forget(args) => delete::forget(app, &args).await,
        SessionCommand::Archive(args) => archive::run(app, &args).await,
        SessionCommand::Restore(args) => archive::restore(app, &args).await,
        SessionCommand::Stats(args) => stats::run(app, &args).await,
    }
}

/// Tells of a changed session: as JSON, or in words.
async fn tell(app: &App, session: &Session, args: &OneArgs, words: &str) -> Result<(), CliError> {
    if args.json {
        print_json(&SessionJson::new(
            session,
            app.engine.status(session).await?,
        ));
    } else {
        print(&clean(words));
    }
    Ok(())
}

async fn rename(app: &App, args: &RenameArgs) -> Result<(), CliError> {
    let title = Title::given(&args.title, TitleSource::User)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let session = app.take(&args.one.id).await?;
    app.engine.rename(&session.id, &title).await?;
    let session = app.find(&SessionRef::Text(session.id.to_string())).await?;
    let words = format!("{} is now called {:?}", session.id, title.as_str());
    tell(app, &session, &args.one, &words).await
}

/// Makes a native session one of ours; one that is already is told.
async fn adopt(app: &App, args: &OneArgs) -> Result<(), CliError> {
    let (session, taken) = app.engine.take(&args.id, &app.scope()).await?;
    let words = match &taken {
        Some(decision) => decision.text.clone(),
        None => format!(
            "already segue's: session {} ({})",
            session.id,
            session.title.as_str()
        ),
    };
    tell(app, &session, args, &words).await
}

/// The session to be changed at one of its turns. A native one becomes ours first, unless it has no such turn.
async fn take_for(
    app: &App,
    reference: &SessionRef,
    check: impl FnOnce(u32) -> Result<u32, TurnNumberError>,
) -> Result<Session, CliError> {
    let native = match app.find_any(reference).await? {
        Conversation::Session(session, _) => return Ok(*session),
        Conversation::Native(native) => native,
    };
    let turns = app.engine.survey(&native.session)?.turns.len();
    match check(u32::try_from(turns).unwrap_or(u32::MAX)) {
        Ok(_) | Err(TurnNumberError::AlreadyThere { .. }) => {}
        Err(error) => return Err(EngineError::from(error).into()),
    }
    app.take_over(&native).await
}

async fn revert(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    let session = take_for(app, &args.one.id, |turns| plan_revert(turns, args.to)).await?;
    let id = &session.id;
    match app.engine.revert(&session, args.to).await {
        Ok(reverted) => {
            reverted.decisions.iter().for_each(say_decision);
            let turns = reverted.session.turns;
            let removed = reverted.turns_before - turns;
            let words = format!(
                "Reverted to turn {turns} (removed {removed} turn(s)). Take it back with: segue session undo {id}"
            );
            tell(app, &reverted.session, &args.one, &words).await
        }
        // Asked for what is already so: nothing to do is not a failure.
        Err(EngineError::TurnNumber(TurnNumberError::AlreadyThere { turns })) => {
            let words = format!("Already at turn {turns}, no changes made.");
            tell(app, &session, &args.one, &words).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn undo(app: &App, args: &OneArgs) -> Result<(), CliError> {
    let session = app.find(&args.id).await?;
    let undone = app.engine.undo(&session).await?;
    undone.decisions.iter().for_each(say_decision);
    let words = format!(
        "Back at turn {} (it was at turn {}).",
        undone.session.turns, undone.turns_before
    );
    tell(app, &undone.session, args, &words).await
}

async fn fork(app: &App, args: &ForkArgs) -> Result<(), CliError> {
    let session = take_for(app, &args.one.id, |turns| plan_fork(turns, args.at)).await?;
    // A fork goes on where its origin did, unless that directory is gone.
    let project = if Path::new(&session.project.cwd).is_dir() {
        &session.project
    } else {
        &app.project
    };
    let forked = app.engine.fork(&session, args.at, project).await?;
    let words = format!(
        "{} branches off from {} after turn {}. Go on with: segue chat --resume {} \"…\"",
        forked.session.id, forked.from, forked.session.turns, forked.session.id
    );
    tell(app, &forked.session, &args.one, &words).await
}
