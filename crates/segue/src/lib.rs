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

use cli::{Cli, CliCommand, ErrorOutputMode, HiddenCommand};
use commands::chat::OutputFormat;
use error::CliError;
use frontend::Frontend;

/// Runs the command that the arguments of this process name, and returns its exit code.
#[must_use]
pub fn run_program() -> ExitCode {
    let first_argument = std::env::args_os().nth(1);
    let error_output = ErrorOutputMode::from_args(std::env::args_os().skip(1));
    let invocation = if HiddenCommand::is_command_name(first_argument.as_deref()) {
        Invocation::Hidden(HiddenCommand::parse())
    } else {
        match Cli::try_parse() {
            Ok(parsed) => parsed
                .command
                .map_or(Invocation::NoCommand, Invocation::Command),
            Err(error) => exit_with_clap_error(&cli::suggest_session_command(error), error_output),
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(invocation));
            // A prompt that is still being read from the terminal must not delay the exit.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(CliError::failed("cannot start the runtime").with_cause(&error)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            if error_output == ErrorOutputMode::Json {
                json_output::print_error(&error);
            }
            error.report(Frontend::Shell)
        }
    }
}

/// Prints clap's output for arguments that cannot be parsed, or for `--help` and `--version`, and exits.
fn exit_with_clap_error(error: &clap::Error, error_output: ErrorOutputMode) -> ! {
    if error.use_stderr() {
        let usage_error = CliError::from_clap(error);
        match error_output {
            ErrorOutputMode::Text => {}
            ErrorOutputMode::Json => json_output::print_error(&usage_error),
            ErrorOutputMode::ChatJson => {
                commands::chat::print_usage_error(&usage_error, OutputFormat::Json);
            }
            ErrorOutputMode::ChatEvents => {
                commands::chat::print_usage_error(&usage_error, OutputFormat::Events);
            }
        }
    }
    error.exit()
}

/// The parsed arguments: a command of the user, or a hidden command that segue runs itself.
enum Invocation {
    NoCommand,
    Command(CliCommand),
    Hidden(HiddenCommand),
}

async fn run(invocation: Invocation) -> Result<ExitCode, CliError> {
    match invocation {
        Invocation::NoCommand if commands::picker::is_possible() => commands::picker::run().await,
        Invocation::NoCommand => {
            // Without a terminal the user cannot choose a session, so segue prints the help and an error.
            let help = Cli::command().render_help();
            terminal::eprint_line(&help.to_string());
            terminal::eprint_line(
                "error: no command given, and the session picker needs a terminal",
            );
            Ok(ExitCode::from(2))
        }
        Invocation::Command(CliCommand::Chat(args)) => commands::chat::run(args).await,
        Invocation::Command(CliCommand::Repl(args)) => commands::repl::run(args).await,
        Invocation::Command(CliCommand::Session(args)) => commands::session::run(args).await,
        Invocation::Command(CliCommand::Role(args)) => commands::role::run(args),
        Invocation::Command(CliCommand::Index(args)) => commands::index::run(args).await,
        Invocation::Command(CliCommand::Mcp(args)) => commands::mcp::run(args).await,
        Invocation::Command(CliCommand::Doctor(args)) => commands::doctor::run(args).await,
        Invocation::Command(CliCommand::Config(args)) => commands::config::run(&args),
        Invocation::Command(CliCommand::Trust(args)) => commands::trust::run(&args),
        Invocation::Command(CliCommand::Schema(args)) => commands::schema::run(&args),
        Invocation::Command(CliCommand::Completions(args)) => commands::completions::run(&args),
        Invocation::Hidden(HiddenCommand::RehearsalAgent(args)) => {
            commands::internal::run_rehearsal_agent(args).await
        }
        Invocation::Hidden(HiddenCommand::Leash(args)) => commands::internal::run_leash(args).await,
    }
}
