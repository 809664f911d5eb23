//! `segue completions`: shell completion scripts.

use std::process::ExitCode;

use crate::cli::{Cli, CompletionsArgs};
use crate::error::CliError;
use crate::terminal::print_line;

pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Cli::complete_command(),
        "segue",
        &mut script,
    );
    let script = String::from_utf8(script).map_err(|error| {
        CliError::failed("cannot generate the completion script").with_cause(&error)
    })?;
    print_line(script.trim_end());
    Ok(ExitCode::SUCCESS)
}
