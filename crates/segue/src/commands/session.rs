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

use segue_api::session::ListedSession;
use segue_api::text::{ShellActions, format_decision};
use segue_core::id::ProviderId;
use segue_core::session::{Session, SessionRef, Title, TitleError, TitleSource};

use crate::app::App;
use crate::cli::{AnySessionCommand, RenameArgs, SessionArgs, SessionCommand, SessionRefArgs};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::print_json;
use crate::terminal::{print_line, strip_control_chars};

pub(super) use handoff::hand_off_session;
pub(super) use resume::resume_in_native_program;

pub(crate) async fn run(args: SessionArgs) -> Result<ExitCode, CliError> {
    match args.command {
        AnySessionCommand::Plain(command) => {
            run_command(&App::open_lenient()?, Frontend::Shell, command).await?;
            Ok(ExitCode::SUCCESS)
        }
        AnySessionCommand::Export(args) => transfer::export(&App::open_lenient()?, &args).await,
        AnySessionCommand::Import(args) => transfer::import(&App::open_lenient()?, &args).await,
        AnySessionCommand::Migrate(args) => transfer::migrate(&App::open_lenient()?, &args).await,
        AnySessionCommand::Resume(args) => Box::pin(resume::run(args)).await,
        AnySessionCommand::Handoff(args) => Box::pin(handoff::run(args)).await,
    }
}

/// Runs one of the commands and prints its result for the user.
pub(super) async fn run_command(
    app: &App,
    frontend: Frontend<'_>,
    command: SessionCommand,
) -> Result<(), CliError> {
    match command {
        SessionCommand::List(args) => list::run(app, frontend, &args).await,
        SessionCommand::Info(args) => show::show_info(app, &args).await,
        SessionCommand::Show(args) => show::show_transcript(app, &args).await,
        SessionCommand::Preview(args) => preview::run(app, &args).await,
        SessionCommand::Context(args) => context::run(app, &args).await,
        SessionCommand::Search(args) => search::run(app, &args).await,
        SessionCommand::Rename(args) => rename_session(app, &args).await,
        SessionCommand::Tag(args) => tag::run(app, &args).await,
        SessionCommand::Adopt(args) => adopt_session(app, &args).await,
        SessionCommand::Revert(args) => revert::revert_session(app, &args).await,
        SessionCommand::Undo(args) => revert::undo_revert(app, &args).await,
        SessionCommand::Fork(args) => revert::fork_session(app, &args).await,
        SessionCommand::Compact(args) => compact::run(app, frontend, &args).await,
        SessionCommand::Checkpoint(args) => checkpoint::run(app, &args).await,
        SessionCommand::Delete(args) => delete::run(app, &args).await,
        SessionCommand::Forget(args) => delete::forget_session(app, &args).await,
        SessionCommand::Archive(args) => archive::run(app, &args).await,
        SessionCommand::Restore(args) => archive::restore_copies(app, &args).await,
        SessionCommand::Stats(args) => stats::run(app, &args).await,
    }
}

/// Fails if an agent is unknown.
fn check_provider(app: &App, provider: &ProviderId) -> Result<(), CliError> {
    if app.engine.library().is_supported_provider(provider) {
        return Ok(());
    }
    let supported = app.engine.library().supported_providers().join(", ");
    Err(unknown_agent_error(provider.as_str(), &supported))
}

/// Builds the error for an unknown agent.
fn unknown_agent_error(name: &str, supported: &str) -> CliError {
    CliError::usage(format!("unknown agent `{name}`"))
        .with_hint(format!("available agents: {supported}"))
}

/// Prints a changed session as JSON or as text.
async fn print_changed_session(
    app: &App,
    session: &Session,
    args: &SessionRefArgs,
    text: &str,
) -> Result<(), CliError> {
    if args.json {
        print_json(&ListedSession::new(
            session,
            app.engine.library().session_status(session).await?,
        ));
    } else {
        print_line(&strip_control_chars(text));
    }
    Ok(())
}

/// Converts the error for an invalid title, with an example or an alternative as hint.
fn title_error(error: &TitleError) -> CliError {
    CliError::usage(error.to_string()).with_hint(match error {
        TitleError::Empty => "give a title: `segue session rename latest \"the login form\"`",
        TitleError::TooLong { .. } => "shorten the title; use `segue session tag` for keywords",
    })
}

async fn rename_session(app: &App, args: &RenameArgs) -> Result<(), CliError> {
    let title = Title::new(&args.title, TitleSource::User).map_err(|error| title_error(&error))?;
    let session = app.find_or_adopt(&args.session.id).await?;
    app.engine
        .sessions()
        .rename_session(&session.id, &title)
        .await?;
    let session = app
        .find_session(&SessionRef::Text(session.id.to_string()))
        .await?;
    let text = format!("Renamed session {} to {:?}.", session.id, title.as_str());
    print_changed_session(app, &session, &args.session, &text).await
}

/// Adopts a native session. Reports a session that is already adopted.
async fn adopt_session(app: &App, args: &SessionRefArgs) -> Result<(), CliError> {
    let (session, adoption) = app
        .engine
        .resolver()
        .find_or_adopt(&args.id, &app.ref_context())
        .await?;
    let text = match &adoption {
        Some(decision) => format_decision(decision, &ShellActions),
        None => format!(
            "already a segue session: {} ({})",
            session.id,
            session.title.as_str()
        ),
    };
    print_changed_session(app, &session, args, &text).await
}
