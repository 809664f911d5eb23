//! Arguments of `segue index`.

use clap::{Args, Subcommand};

/// Manage the session index
///
/// `session list`, `session search` and the picker use the index and refresh it automatically. It can be deleted at any
/// time: segue rebuilds it from the sessions.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Show the size and content of the index
    Status(IndexOutputArgs),
    /// Refresh the index now and report the changes
    Refresh(IndexOutputArgs),
    /// Delete and rebuild the index
    Rebuild(IndexOutputArgs),
    /// Print the path of the index
    Path,
}

/// Output format of an index command.
#[derive(Debug, Args)]
pub(crate) struct IndexOutputArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
