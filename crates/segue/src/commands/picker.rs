//! `segue` without arguments, and `segue session resume` without an id: runs the picker and then the user's choice.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use segue_core::id::ProviderId;

use super::session;
use crate::app::{self, App};
use crate::cli::{OneArgs, SessionCommand, ShowArgs};
use crate::error::CliError;
use crate::frontend::Front;
use crate::picker::{self, Chosen, Machine, Next, Options, Order, Place, reference};
use crate::terminal::{Style, one_line, say};

/// Returns `true` if the terminal can show the picker.
pub(crate) fn is_possible() -> bool {
    picker::is_possible()
}

pub(crate) async fn run() -> Result<ExitCode, CliError> {
    let app = App::open_to_look()?;
    let agents = app.engine.drivable();
    let options = Options {
        place: Place::Everywhere,
        order: Order::Newest,
        typed: String::new(),
        agents: agents.iter().map(ToString::to_string).collect(),
        colour: Style::stdout().has_colour(),
    };
    drop(app);
    let Some(Chosen { row, next }) = picker::run(Machine::open, options)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let id = reference(&row)?;
    match next {
        Next::Resume => {
            let why_not = session::depart(&id).await?;
            let mark = Style::stderr().yellow("segue:");
            say(&format!("{mark} going on here: {}", one_line(&why_not)));
            Err(become_repl(&row.id, None))
        }
        Next::Show => {
            let one = OneArgs { id, json: false };
            let show = ShowArgs {
                one,
                last: None,
                turn: None,
                full: false,
            };
            session::perform(
                &App::open_to_look()?,
                Front::Shell,
                SessionCommand::Show(show),
            )
            .await?;
            Ok(ExitCode::SUCCESS)
        }
        Next::Handoff(agent) => {
            let agent =
                ProviderId::parse(&agent).map_err(|error| CliError::failed(error.to_string()))?;
            let app = App::open_to_look()?;
            let (session, words) = session::hand_over(&app, &id, &agent).await?;
            say(&format!("{} {words}", Style::stderr().yellow("segue:")));
            drop(app);
            Err(become_repl(session.id.as_str(), Some(&agent)))
        }
    }
}

/// Replaces the process with the REPL. A new program is necessary, because the picker installed signal handlers that
/// would change how the REPL receives signals.
fn become_repl(id: &str, agent: Option<&ProviderId>) -> CliError {
    let mut command = std::process::Command::new(app::own_program());
    command.arg0("segue").args(["repl", "--resume", id]);
    if let Some(agent) = agent {
        // The chosen agent has priority over the environment.
        command.args(["--provider", agent.as_str()]);
    }
    CliError::failed("cannot start the conversation").because(&command.exec())
}
