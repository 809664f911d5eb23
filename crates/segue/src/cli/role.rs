//! Arguments of `segue role`.

use clap::{Args, Subcommand};
use segue_core::scope::RoleName;

/// Show the roles of agents
///
/// A role has instructions and a list of allowed tools; segue denies other tool calls. segue has built-in roles, and
/// [roles.NAME] in the configuration changes them or adds others. `segue chat --role NAME` and `segue repl --role NAME` use a
/// role.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue role list                              list the roles
  segue role show pm                           show the instructions and tools of a role
  segue repl --feature auth --role pm          start a conversation with an agent in a role")]
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

/// Show the instructions and tools of a role
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue role show pm
  segue role show dev --json | jq .allowed_tools")]
pub(crate) struct RoleShowArgs {
    /// Name of the role
    #[arg(value_name = "NAME")]
    pub(crate) name: RoleName,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
