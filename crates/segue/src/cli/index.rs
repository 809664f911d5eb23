//! Arguments of `segue index`.

use clap::{Args, Subcommand};

/// Look after the index that lists and searches ask
///
/// It is brought up to date whenever it is used, and can be deleted at any time: it is built anew from what agents keep.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Show how large it is and what is in it
    Status(IndexOutput),
    /// Bring it up to date now, and say what there was to do
    Refresh(IndexOutput),
    /// Delete it and build it anew
    Rebuild(IndexOutput),
    /// Print where it is
    Path,
}

/// How to print it.
#[derive(Debug, Args)]
pub(crate) struct IndexOutput {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
