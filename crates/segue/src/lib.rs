//! segue: the session layer for AI coding agents.
//!
//! The crate chooses the implementations. It is the only crate that accesses the terminal, the environment, the clock
//! and the source of randomness.

mod app;
mod cli;
mod commands;
mod config;
mod error;
mod frontend;
mod index_refresh;
mod json_output;
mod last_list;
mod picker;
mod terminal;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command, Hidden, Reader};
use commands::chat::Form;
use error::CliError;
use frontend::Front;

/// Runs the command that the arguments of this process name, and returns its exit code.
#[must_use]
pub fn run_program() -> ExitCode {
    let first = std::env::args_os().nth(1);
    let reader = Reader::by(std::env::args_os().skip(1));
    let asked = if Hidden::is_named(first.as_deref()) {
        Asked::Hidden(Hidden::parse())
    } else {
        match Cli::try_parse() {
            Ok(typed) => typed.command.map_or(Asked::Nothing, Asked::Command),
            Err(error) => mistaken(&cli::pointed(error), reader),
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(asked));
            // A prompt that is still being read from the terminal must not delay the exit.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(CliError::failed("cannot start the runtime").because(&error)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            if reader == Reader::Program {
                json_output::print_error(&error);
            }
            error.report(Front::Shell)
        }
    }
}

/// Prints clap's output for arguments that cannot be parsed, or for `--help` and `--version`, and exits.
fn mistaken(error: &clap::Error, reader: Reader) -> ! {
    if error.use_stderr() {
        let mistake = CliError::mistyped(error);
        match reader {
            Reader::Person => {}
            Reader::Program => json_output::print_error(&mistake),
            Reader::Chat => commands::chat::print_mistake(&mistake, Form::Json),
            Reader::Events => commands::chat::print_mistake(&mistake, Form::Events),
        }
    }
    error.exit()
}

/// The parsed arguments: a command of the user, or a hidden command that segue runs itself.
enum Asked {
    Nothing,
    Command(Command),
    Hidden(Hidden),
}

async fn run(asked: Asked) -> Result<ExitCode, CliError> {
    match asked {
        Asked::Nothing if commands::picker::is_possible() => commands::picker::run().await,
        Asked::Nothing => {
            // Without a terminal the user cannot choose a session, so segue prints the help and an error.
            let help = Cli::command().render_help();
            terminal::say(&help.to_string());
            terminal::say(
                "error: without a command, segue lets you choose a session, which needs a terminal",
            );
            Ok(ExitCode::from(2))
        }
        Asked::Command(Command::Chat(args)) => commands::chat::run(args).await,
        Asked::Command(Command::Repl(args)) => commands::repl::run(args).await,
        Asked::Command(Command::Session(args)) => commands::session::run(args).await,
        Asked::Command(Command::Role(args)) => commands::role::run(args),
        Asked::Command(Command::Index(args)) => commands::index::run(args).await,
        Asked::Command(Command::Mcp(args)) => commands::mcp::run(args).await,
        Asked::Command(Command::Doctor(args)) => commands::doctor::run(args).await,
        Asked::Command(Command::Config(args)) => commands::config::run(&args),
        Asked::Command(Command::Trust(args)) => commands::trust::run(&args),
        Asked::Command(Command::Completions(args)) => commands::completions::run(&args),
        Asked::Hidden(Hidden::RehearsalAgent(args)) => commands::internal::rehearsal(args).await,
        Asked::Hidden(Hidden::Leash(args)) => commands::internal::leash(args).await,
    }
}
