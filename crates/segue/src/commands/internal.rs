//! Hidden commands with which segue starts itself.

use std::process::ExitCode;

use jiff::Timestamp;
use segue_acp::rehearsal::{self, RehearsalEnvironment, StartFault};
use segue_providers::leash::CANNOT_START_EXIT_CODE;

use crate::app::{VERSION, random_native_id};
use crate::cli::{LeashArgs, RehearsalArgs};
use crate::error::CliError;
use crate::terminal::eprint_line;

pub(crate) async fn run_rehearsal_agent(args: RehearsalArgs) -> Result<ExitCode, CliError> {
    let start_fault = match args.fault {
        None => None,
        Some(name) => Some(
            StartFault::from_name(&name)
                .ok_or_else(|| CliError::usage(format!("unknown fault {name:?}")))?,
        ),
    };
    let environment = RehearsalEnvironment {
        sessions_dir: args.directory,
        new_id: random_native_id,
        now: Timestamp::now,
        start_fault,
    };
    rehearsal::run(environment, VERSION)
        .await
        .map_err(|error| CliError::failed("the rehearsal agent failed").with_cause(&error))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn run_leash(args: LeashArgs) -> Result<ExitCode, CliError> {
    let mut command = args.command.into_iter();
    let program = command
        .next()
        .ok_or_else(|| CliError::usage("no program given"))?;
    match segue_providers::leash::run(args.lifeline, program, command.collect()).await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            // The process that started the leash reads this line and adds the name of the program.
            eprint_line(&error.to_string());
            Ok(ExitCode::from(
                u8::try_from(CANNOT_START_EXIT_CODE).unwrap_or(1),
            ))
        }
    }
}
