//! The arguments of `segue role`.

use clap::{Args, Subcommand};
use segue_core::scope::RoleName;

/// Show what agents can be told to be
///
/// A role has instructions, and tools that it may use; calls of others are refused. Some come with segue; [roles.NAME]
/// in the configuration changes them and adds others. `segue chat --role NAME` and `segue repl --role NAME` use one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue role list                              what there is
  segue role show pm                           what an agent is told in it
  segue repl --feature auth --role pm          talk to it")]
pub(crate) struct RoleArgs {
    #[command(subcommand)]
    pub(crate) command: RoleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    List(RoleListArgs),
    Show(RoleShowArgs),
}

/// List the roles
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue role list
  segue role list --json | jq -r '.[].name'")]
pub(crate) struct RoleListArgs {
    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show a role as an agent is told it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue role show pm
  segue role show dev --json | jq .allowed_tools")]
pub(crate) struct RoleShowArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: RoleName,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
