//! `segue repl`: a conversation of several turns with one process of the agent.

mod command;
mod editor;
mod multiline;
mod reader;
mod render;
mod state;

use std::process::ExitCode;

use crate::commands::chat::signals::{InterruptScope, SignalHandler};
use command::{ReplCommand, ReplInput};
use reader::{ReadOutcome, ReplReader};
use state::ReplState;

use crate::app::App;
use crate::cli::ReplArgs;
use crate::error::{CliError, ExitKind};
use crate::frontend::Frontend;
use crate::terminal::{Style, eprint_line};

pub(crate) async fn run(args: ReplArgs) -> Result<ExitCode, CliError> {
    let interactive = reader::is_interactive();
    let app = App::open()?;
    let signals = SignalHandler::install(if interactive {
        InterruptScope::Turn
    } else {
        InterruptScope::Conversation
    })?;
    let mut state = ReplState::new(app, args.conversation, signals.clone()).await?;
    let mut reader = ReplReader::new(state.home(), state.agent_names());
    if interactive {
        eprint_line(
            &Style::stderr()
                .dim("/help lists the commands, Ctrl-C stops a turn, Ctrl-D ends the conversation"),
        );
        state.announce_session().await;
    }
    let last_failure = run_loop(&mut state, &mut reader, &signals).await;
    state.shut_down().await;
    if let Some(session) = state.session_id().filter(|_| interactive) {
        let hint = format!("resume with: segue repl --resume {session}");
        eprint_line(&Style::stderr().dim(&hint));
    }
    Ok(match last_failure {
        _ if signals.is_end_requested() => ExitKind::Interrupted.exit_code(),
        // An interactive user has already seen the error.
        Some(kind) if !interactive => kind.exit_code(),
        Some(_) | None => ExitCode::SUCCESS,
    })
}

/// Reads and runs texts until the end. Returns the kind of the last failure.
async fn run_loop(
    state: &mut ReplState,
    reader: &mut ReplReader,
    signals: &SignalHandler,
) -> Option<ExitKind> {
    let mut last_failure = None;
    while !signals.is_end_requested() {
        let outcome = match reader.read_next(&state.label(), signals).await {
            ReadOutcome::Text(text) => match command::parse_input(&text) {
                Ok(ReplInput::Empty) => Ok(()),
                Ok(ReplInput::Prompt(prompt)) => state.send_prompt(prompt).await,
                Ok(ReplInput::Command(ReplCommand::Exit)) => break,
                Ok(ReplInput::Command(command)) => {
                    // The future of a command is large, so it is boxed.
                    let outcome = Box::pin(state.run_command(command)).await;
                    outcome.map_err(|error| report_error(&error, state.frontend()))
                }
                Err(error) => Err(report_error(&error, state.frontend())),
            },
            ReadOutcome::Empty => Ok(()),
            ReadOutcome::Invalid(error) => Err(report_error(&error, state.frontend())),
            ReadOutcome::Failed(error) => {
                last_failure = Some(report_error(&error, state.frontend()));
                break;
            }
            ReadOutcome::End => break,
        };
        last_failure = outcome.err().or(last_failure);
    }
    last_failure
}

/// Reports an error. The conversation continues.
fn report_error(error: &CliError, frontend: Frontend<'_>) -> ExitKind {
    error.report(frontend);
    error.kind
}
