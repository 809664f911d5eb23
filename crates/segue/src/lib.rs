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
mod logging;
mod picker;
mod terminal;

use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, Parser};

use cli::{AnySessionCommand, Cli, CliCommand, ErrorOutputMode, HiddenCommand};
use commands::chat::OutputFormat;
use error::CliError;
use frontend::Frontend;
use logging::DefaultDestination;

/// Runs the command that the arguments of this process name, and returns its exit code.
#[must_use]
pub fn run_program() -> ExitCode {
    let first_argument = std::env::args_os().nth(1);
    let error_output = ErrorOutputMode::from_args(std::env::args_os().skip(1));
    let invocation = if HiddenCommand::is_command_name(first_argument.as_deref()) {
        Invocation::Hidden(HiddenCommand::parse())
    } else {
        match Cli::parse_process_args() {
            Ok(parsed) => Invocation::User(parsed),
            Err(error) => exit_with_clap_error(&cli::suggest_session_command(error), error_output),
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(invocation, error_output));
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
        if error_output == ErrorOutputMode::Json {
            json_output::print_error(&usage_error);
        }
        print_chat_usage_error(&usage_error, error_output);
    }
    error.exit()
}

/// Prints a usage error as the result of `segue chat`, for a program that parses it.
fn print_chat_usage_error(error: &CliError, error_output: ErrorOutputMode) {
    match error_output {
        ErrorOutputMode::Text | ErrorOutputMode::Json => {}
        ErrorOutputMode::ChatJson => {
            commands::chat::print_usage_error(error, OutputFormat::Json);
        }
        ErrorOutputMode::ChatEvents => {
            commands::chat::print_usage_error(error, OutputFormat::Events);
        }
    }
}

/// The parsed arguments: a command of the user, or a hidden command that segue runs itself.
enum Invocation {
    User(Cli),
    Hidden(HiddenCommand),
}

async fn run(invocation: Invocation, error_output: ErrorOutputMode) -> Result<ExitCode, CliError> {
    match invocation {
        Invocation::User(cli) => Box::pin(run_logged(cli, error_output)).await,
        // The log belongs to the process that the user started.
        Invocation::Hidden(HiddenCommand::RehearsalAgent(args)) => {
            commands::internal::run_rehearsal_agent(args).await
        }
        Invocation::Hidden(HiddenCommand::Leash(args)) => commands::internal::run_leash(args).await,
    }
}

/// Starts the log if the user requests one, and runs the command.
async fn run_logged(cli: Cli, error_output: ErrorOutputMode) -> Result<ExitCode, CliError> {
    let destination = default_log_destination(cli.command.as_ref());
    let filter = std::env::var_os(logging::LOG_VARIABLE);
    let is_logging = logging::start(cli.log.as_deref(), filter, destination)
        .inspect_err(|error| print_chat_usage_error(error, error_output))?;
    if !is_logging {
        return run_command(cli.command).await;
    }
    let started = Instant::now();
    tracing::info!(
        version = app::VERSION,
        command = command_path(),
        "segue started"
    );
    let outcome = run_command(cli.command).await;
    let elapsed_ms = started.elapsed().as_millis();
    let is_success = outcome
        .as_ref()
        .is_ok_and(|code| *code == ExitCode::SUCCESS);
    tracing::info!(elapsed_ms, is_success, "segue ended");
    outcome
}

/// Returns the destination of a log for which the user names no file.
fn default_log_destination(command: Option<&CliCommand>) -> DefaultDestination {
    let is_stderr_in_use = match command {
        None => commands::picker::is_possible(),
        Some(CliCommand::Repl(_) | CliCommand::Mcp(_)) => true,
        Some(CliCommand::Session(args)) => match &args.command {
            AnySessionCommand::Resume(args) => args.prompt.is_none(),
            _ => false,
        },
        Some(_) => false,
    };
    if is_stderr_in_use {
        DefaultDestination::HomeFile
    } else {
        DefaultDestination::Stderr
    }
}

/// Returns the names of the command and its subcommands, without their arguments; `picker` if there is no command.
fn command_path() -> String {
    let matches = Cli::complete_command().try_get_matches().ok();
    let mut names = Vec::new();
    let mut current = matches.as_ref().and_then(clap::ArgMatches::subcommand);
    while let Some((name, matches)) = current {
        names.push(name);
        current = matches.subcommand();
    }
    if names.is_empty() {
        names.push("picker");
    }
    names.join(" ")
}

async fn run_command(command: Option<CliCommand>) -> Result<ExitCode, CliError> {
    match command {
        None if commands::picker::is_possible() => commands::picker::run().await,
        None => {
            // Without a terminal the user cannot choose a session, so segue prints the help and an error.
            let help = Cli::command().render_help();
            terminal::eprint_line(&help.to_string());
            terminal::eprint_line(
                "error: no command given, and the session picker needs a terminal",
            );
            Ok(ExitCode::from(2))
        }
        Some(CliCommand::Chat(args)) => commands::chat::run(args).await,
        Some(CliCommand::Repl(args)) => commands::repl::run(args).await,
        Some(CliCommand::Session(args)) => commands::session::run(args).await,
        Some(CliCommand::Role(args)) => commands::role::run(args),
        Some(CliCommand::Index(args)) => commands::index::run(args).await,
        Some(CliCommand::Mcp(args)) => commands::mcp::run(args).await,
        Some(CliCommand::Events(args)) => commands::events::run(&args).await,
        Some(CliCommand::Doctor(args)) => commands::doctor::run(args).await,
        Some(CliCommand::Config(args)) => commands::config::run(&args),
        Some(CliCommand::Trust(args)) => commands::trust::run(&args),
        Some(CliCommand::Schema(args)) => commands::schema::run(&args),
        Some(CliCommand::Completions(args)) => commands::completions::run(&args),
    }
}
