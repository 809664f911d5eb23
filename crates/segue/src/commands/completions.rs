//! `segue completions`

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::error::CliError;

#[expect(clippy::unnecessary_wraps, reason = "all commands have one shape")]
pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        "segue",
        &mut std::io::stdout(),
    );
    Ok(ExitCode::SUCCESS)
}
