//! The arguments of `segue session checkpoint`.

use clap::{Args, Subcommand};
use segue_core::session::SessionRef;

/// Show and change what a session was summed up to
///
/// Without a command the checkpoint in force is shown: what is done, open, decided and in the way, each with the turn it
/// comes from, and how full the budget is. Every version stays. What is changed is told to the next native session; one
/// that is under way knows what was said by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session checkpoint                   what the newest session of this project comes to
  segue session checkpoint k3f9              what it comes to now
  segue session checkpoint k3f9 show 2 --all a version by its number, with all items
  segue session checkpoint k3f9 list         all versions
  segue session checkpoint k3f9 diff 1 3     what changed between two
  segue session checkpoint k3f9 pin 12       item 12 stays, whatever happens
  segue session checkpoint k3f9 edit         change it in $VISUAL or $EDITOR
  segue session checkpoint k3f9 restore 2    version 2 counts again")]
pub(crate) struct CheckpointArgs {
    /// The session, as `segue session info` takes it
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
    /// Show a version; the one in force if no number is given
    Show {
        /// Its number
        #[arg(value_name = "N")]
        n: Option<u32>,
        /// All items, not only the newest of each kind
        #[arg(long)]
        all: bool,
    },
    /// List all versions
    List,
    /// Show what changed from one version to another
    Diff {
        /// The number of one
        #[arg(value_name = "A")]
        from: u32,
        /// The number of the other
        #[arg(value_name = "B")]
        to: u32,
    },
    /// Have an earlier version count again; what was said since is told in full
    Restore {
        /// Its number
        #[arg(value_name = "N")]
        n: u32,
    },
    /// Have an item stay, however often it is summed up
    Pin {
        /// The number of the item
        #[arg(value_name = "ITEM")]
        item: u32,
    },
    /// Let an item go the way of all others again
    Unpin {
        /// The number of the item
        #[arg(value_name = "ITEM")]
        item: u32,
    },
    /// Change it in an editor: $VISUAL, else $EDITOR, else vi
    Edit,
}
