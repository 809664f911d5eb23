//! Arguments of `segue session checkpoint`.

use clap::{Args, Subcommand};
use segue_core::session::SessionRef;

/// Show and edit the checkpoint of a session
///
/// Without a subcommand, shows the current checkpoint: completed and open work, decisions and blockers, each with its turn,
/// and the use of the token budget. All versions are retained. A change takes effect in the brief of the next native
/// session; a running native session already has the messages themselves.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session checkpoint                   show the checkpoint of the newest session
  segue session checkpoint k3f9              show the current checkpoint of a session
  segue session checkpoint k3f9 show 2 --all show version 2 with all items
  segue session checkpoint k3f9 list         list all versions
  segue session checkpoint k3f9 diff 1 3     compare two versions
  segue session checkpoint k3f9 pin 12       never drop item 12
  segue session checkpoint k3f9 edit         edit the checkpoint in $VISUAL or $EDITOR
  segue session checkpoint k3f9 restore 2    reactivate version 2")]
pub(crate) struct CheckpointArgs {
    /// Session (see `segue session info --help`)
    #[arg(value_name = "ID", default_value = "latest", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    #[command(subcommand)]
    pub(crate) command: Option<CheckpointCommand>,

    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Show a version [default: the current version]
    Show {
        /// Version number
        #[arg(value_name = "VERSION")]
        n: Option<u32>,
        /// Show all items, not only the newest of each kind
        #[arg(long)]
        all: bool,
    },
    /// List all versions
    List,
    /// Show the changes between two versions
    Diff {
        /// Number of the first version
        #[arg(value_name = "A")]
        from: u32,
        /// Number of the second version
        #[arg(value_name = "B")]
        to: u32,
    },
    /// Reactivate an earlier version; later turns are sent in full
    Restore {
        /// Version number
        #[arg(value_name = "VERSION")]
        n: u32,
    },
    /// Pin an item, so that compaction never drops it
    Pin {
        /// Number of the item
        #[arg(value_name = "ITEM")]
        item: u32,
    },
    /// Unpin an item
    Unpin {
        /// Number of the item
        #[arg(value_name = "ITEM")]
        item: u32,
    },
    /// Edit the checkpoint in $VISUAL, $EDITOR or vi
    Edit,
}
