//! `segue session`: all operations on sessions except turns.

mod archive;
mod checkpoint;
mod compact;
mod context;
mod delete;
mod gemini_listing;
mod handoff;
mod lineage;
mod list;
mod native_show;
mod preview;
mod resume;
pub(super) mod revert;
mod search;
mod show;
mod stats;
mod tag;
mod transfer;

use std::process::ExitCode;

use segue_core::session::{Session, SessionRef, Title, TitleError, TitleSource};

use crate::app::App;
use crate::cli::{AnySessionCommand, OneArgs, RenameArgs, SessionArgs, SessionCommand};
use crate::error::CliError;
use crate::frontend::Front;
use crate::json_output::{SessionJson, print_json};
use crate::terminal::{clean, print};

pub(super) use handoff::hand_over;
pub(super) use resume::in_its_own as depart;

pub(crate) async fn run(args: SessionArgs) -> Result<ExitCode, CliError> {
    match args.command {
        AnySessionCommand::Plain(command) => {
            perform(&App::open_to_look()?, Front::Shell, command).await?;
            Ok(ExitCode::SUCCESS)
        }
        AnySessionCommand::Export(args) => transfer::export(&App::open_to_look()?, &args).await,
        AnySessionCommand::Import(args) => transfer::import(&App::open_to_look()?, &args).await,
        AnySessionCommand::Migrate(args) => transfer::migrate(&App::open_to_look()?, &args).await,
        AnySessionCommand::Resume(args) => Box::pin(resume::run(args)).await,
        AnySessionCommand::Handoff(args) => Box::pin(handoff::run(args)).await,
    }
}

/// Runs one of the commands and prints its result for the user.
pub(super) async fn perform(
    app: &App,
    front: Front<'_>,
    command: SessionCommand,
) -> Result<(), CliError> {
    match command {
        SessionCommand::List(args) => list::run(app, front, &args).await,
        SessionCommand::Info(args) => show::info(app, &args).await,
        SessionCommand::Show(args) => show::transcript(app, &args).await,
        SessionCommand::Preview(args) => preview::run(app, &args).await,
        SessionCommand::Context(args) => context::run(app, &args).await,
        SessionCommand::Search(args) => search::run(app, &args).await,
        SessionCommand::Rename(args) => rename(app, &args).await,
        SessionCommand::Tag(args) => tag::run(app, &args).await,
        SessionCommand::Adopt(args) => adopt(app, &args).await,
        SessionCommand::Revert(args) => revert::revert(app, &args).await,
        SessionCommand::Undo(args) => revert::undo(app, &args).await,
        SessionCommand::Fork(args) => revert::fork(app, &args).await,
        SessionCommand::Compact(args) => compact::run(app, front, &args).await,
        SessionCommand::Checkpoint(args) => checkpoint::run(app, &args).await,
        SessionCommand::Delete(args) => delete::run(app, &args).await,
        SessionCommand::Forget(args) => delete::forget(app, &args).await,
        SessionCommand::Archive(args) => archive::run(app, &args).await,
        SessionCommand::Restore(args) => archive::restore(app, &args).await,
        SessionCommand::Stats(args) => stats::run(app, &args).await,
    }
}

/// Prints a changed session as JSON or as text.
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

/// Converts the error for an invalid title, with an example or an alternative as hint.
fn untitled(error: &TitleError) -> CliError {
    CliError::usage(error.to_string()).hint(match error {
        TitleError::Empty => "for example: segue session rename latest \"the login form\"",
        TitleError::TooLong { .. } => {
            "a title is for lists; `segue session tag` adds words to find it by"
        }
    })
}

async fn rename(app: &App, args: &RenameArgs) -> Result<(), CliError> {
    let title = Title::given(&args.title, TitleSource::User).map_err(|error| untitled(&error))?;
    let session = app.take(&args.one.id).await?;
    app.engine.rename(&session.id, &title).await?;
    let session = app.find(&SessionRef::Text(session.id.to_string())).await?;
    let words = format!("{} is now called {:?}", session.id, title.as_str());
    tell(app, &session, &args.one, &words).await
}

/// Adopts a native session. Reports a session that is already adopted.
async fn adopt(app: &App, args: &OneArgs) -> Result<(), CliError> {
    let (session, taken) = app.engine.take(&args.id, &app.standpoint()).await?;
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
