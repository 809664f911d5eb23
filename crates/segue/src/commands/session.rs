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

use jiff::{Timestamp, Zoned};
use segue_api::session::ListedSession;
use segue_api::text::{ShellActions, format_decision};
use segue_core::id::ProviderId;
use segue_core::session::{Session, SessionRef, Title, TitleError, TitleSource};
use segue_core::time_input::{TimeInputError, parse_time_input};
use segue_engine::{Conversation, ResolveError};

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

/// Fails if the agent that an option names is unknown.
fn check_provider(app: &App, provider: Option<&ProviderId>) -> Result<(), CliError> {
    let library = app.engine.library();
    match provider.filter(|provider| !library.is_supported_provider(provider)) {
        None => Ok(()),
        Some(unknown) => {
            let supported = library.supported_providers().join(", ");
            Err(unknown_agent_error(unknown.as_str(), &supported))
        }
    }
}

/// Builds the error for an unknown agent.
fn unknown_agent_error(name: &str, supported: &str) -> CliError {
    CliError::usage(format!("unknown agent `{name}`"))
        .with_hint(format!("available agents: {supported}"))
}

/// Parses the time of an option such as `--since`.
fn parse_time(text: Option<&str>) -> Result<Option<Timestamp>, CliError> {
    let time = text.map(|text| parse_time_input(text, &Zoned::now()));
    time.transpose().map_err(|error| {
        CliError::usage(error.to_string()).with_hint(TimeInputError::ACCEPTED_FORMS)
    })
}

/// Replaces the user's home directory at the beginning of a path with `~`.
fn abbreviate_home(path: &str, home: &str) -> String {
    match path.strip_prefix(home) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{rest}")
        }
        _ => path.to_owned(),
    }
}

/// Finds a conversation. Reconciles a session of segue with its native session.
async fn find_reconciled(app: &App, reference: &SessionRef) -> Result<Conversation, CliError> {
    Ok(match app.find_conversation(reference).await? {
        Conversation::Session(session, status) => {
            let session = app.reconcile_session(*session).await;
            Conversation::Session(Box::new(session), status)
        }
        native @ Conversation::Native(_) => native,
    })
}

/// Returns the session of a conversation. Fails if that is a native session, which this command does not adopt.
fn require_session(conversation: Conversation) -> Result<Session, ResolveError> {
    match conversation {
        Conversation::Session(session, _) => Ok(*session),
        Conversation::Native(native) => Err(ResolveError::NotAdopted(native.id())),
    }
}

/// Prints a session as JSON, with its current status, or as text.
async fn print_session(
    app: &App,
    session: &Session,
    json: bool,
    text: &str,
) -> Result<(), CliError> {
    if json {
        let status = app.engine.library().session_status(session).await?;
        print_json(&ListedSession::new(session, status));
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
    let id = app.find_or_adopt(&args.session.id).await?.id;
    app.engine.sessions().rename_session(&id, &title).await?;
    let session = app.engine.library().session(&id).await?;
    let text = format!("Renamed session {id} to {:?}.", title.as_str());
    print_session(app, &session, args.session.json, &text).await
}

/// Adopts a native session. Reports a session that is already adopted.
async fn adopt_session(app: &App, args: &SessionRefArgs) -> Result<(), CliError> {
    let (resolver, context) = (app.engine.resolver(), app.ref_context());
    let (session, adoption) = resolver.find_or_adopt(&args.id, &context).await?;
    let text = match &adoption {
        Some(decision) => format_decision(decision, &ShellActions),
        None => format!(
            "already a segue session: {} ({})",
            session.id,
            session.title.as_str()
        ),
    };
    print_session(app, &session, args.json, &text).await
}
