//! `segue` without arguments, and `segue session resume` without an id: runs the picker and then the user's choice.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use segue_core::id::ProviderId;

use super::session;
use crate::app::{self, App};
use crate::cli::{SessionCommand, SessionRefArgs, ShowArgs};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::logging;
use crate::picker::{self, ChoiceAction, LocalSource, PickerChoice, row_ref};
use crate::terminal::{Style, eprint_note, to_single_line};

/// Returns `true` if the terminal can show the picker.
pub(crate) fn is_possible() -> bool {
    picker::is_terminal_supported()
}

pub(crate) async fn run() -> Result<ExitCode, CliError> {
    let app = App::open_lenient()?;
    let agents = app.engine.agents().providers().map(ToString::to_string);
    let (agents, use_colour) = (agents.collect(), Style::stdout().has_colour());
    drop(app);
    let choice = picker::run(LocalSource::open, agents, use_colour)?;
    let Some(PickerChoice { row, action: next }) = choice else {
        return Ok(ExitCode::SUCCESS);
    };
    let id = row_ref(&row)?;
    match next {
        ChoiceAction::Resume => {
            let reason = session::resume_in_native_program(&id).await?;
            eprint_note(&format!("resuming in segue: {}", to_single_line(&reason)));
            Err(exec_repl(&row.id, None))
        }
        ChoiceAction::Show => {
            let command = SessionCommand::Show(ShowArgs {
                session: SessionRefArgs { id, json: false },
                last: None,
                turn: None,
                full: false,
            });
            session::run_command(&App::open_lenient()?, Frontend::Shell, command).await?;
            Ok(ExitCode::SUCCESS)
        }
        ChoiceAction::Handoff(agent) => {
            let agent =
                ProviderId::parse(&agent).map_err(|error| CliError::failed(error.to_string()))?;
            let app = App::open_lenient()?;
            let (session, message) =
                session::hand_off_session(&app, &id, &agent, Frontend::Shell).await?;
            eprint_note(&message);
            drop(app);
            Err(exec_repl(session.id.as_str(), Some(&agent)))
        }
    }
}

/// Replaces the process with the REPL. A new program is necessary, because the picker installed signal handlers that
/// would change how the REPL receives signals.
fn exec_repl(id: &str, agent: Option<&ProviderId>) -> CliError {
    let mut command = std::process::Command::new(app::current_program());
    command.arg0("segue").args(logging::option_args());
    command.args(["repl", "--resume", id]);
    if let Some(agent) = agent {
        // The chosen agent has priority over the environment.
        command.args(["--provider", agent.as_str()]);
    }
    CliError::failed("cannot start the conversation").with_cause(&command.exec())
}
