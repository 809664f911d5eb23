//! Hidden commands with which segue starts itself.

use std::process::ExitCode;

use jiff::Timestamp;
use segue_acp::rehearsal::{self, StartFault, Surroundings};
use segue_agents::leash::CANNOT_START;

use crate::app::{VERSION, native_id};
use crate::cli::{LeashArgs, RehearsalArgs};
use crate::error::CliError;
use crate::terminal::say;

pub(crate) async fn rehearsal(args: RehearsalArgs) -> Result<ExitCode, CliError> {
    let at_start = match args.fault {
        None => None,
        Some(name) => Some(
            StartFault::from_name(&name)
                .ok_or_else(|| CliError::usage(format!("{name:?} is not a known fault")))?,
        ),
    };
    let surroundings = Surroundings {
        directory: args.directory,
        new_id: native_id,
        now: Timestamp::now,
        at_start,
    };
    rehearsal::run(surroundings, VERSION)
        .await
        .map_err(|error| CliError::failed("rehearsal").because(&error))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn leash(args: LeashArgs) -> Result<ExitCode, CliError> {
    let mut command = args.command.into_iter();
    let program = command
        .next()
        .ok_or_else(|| CliError::usage("no program was given"))?;
    let name = program.to_string_lossy().into_owned();
    match segue_agents::leash::run(args.lifeline, program, command.collect()).await {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            say(&format!("cannot start {name}: {error}"));
            Ok(ExitCode::from(u8::try_from(CANNOT_START).unwrap_or(1)))
        }
    }
}
