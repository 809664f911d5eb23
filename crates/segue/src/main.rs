//! segue: the session layer for AI coding agents.
//!
//! The one place where implementations are chosen, and the only one that knows a terminal, the environment,
//! the clock and chance.

mod cli;
mod commands;
mod error;
mod last_list;
mod setup;
mod terminal;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use error::CliError;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(cli));
            // A question that is still being read from the terminal must not hold us up.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(CliError::failed("cannot start the runtime").because(&error)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

async fn run(cli: Cli) -> Result<ExitCode, CliError> {
    match cli.command {
        Command::Chat(args) => commands::chat::run(args).await,
        Command::Session(args) => commands::session::run(args).await,
        Command::Doctor(args) => commands::doctor::run(args).await,
        Command::Completions(args) => commands::completions::run(&args),
        Command::RehearsalAgent(args) => commands::hidden::rehearsal(args).await,
        Command::Leash(args) => commands::hidden::leash(args).await,
    }
}
