//! Arguments of `segue session compact`.

use clap::Args;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use crate::config::NO_AGENT;

/// Compact a session into a checkpoint
///
/// segue extracts the checkpoint without a model: goal, rules, decisions, files, commands and open items. A summariser
/// (`compaction.summariser`) may add statements that the transcript supports. The next prompt starts a native session whose
/// brief contains the checkpoint and the newest messages. Nothing is deleted: `session show` has the full transcript, and
/// `session checkpoint` shows, edits and restores checkpoints.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session compact                            compact the newest session of this project
  segue session compact k3f9 --dry-run             show the result without changing anything
  segue session compact k3f9 --summariser claude   let Claude refine the checkpoint
  segue session checkpoint k3f9                    show the checkpoint")]
pub(crate) struct CompactArgs {
    /// Session (see `segue session info --help`)
    #[arg(value_name = "ID", default_value = "latest", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Show the result without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Agent that refines the checkpoint, or `none` [default: compaction.summariser]
    #[arg(long, value_name = "AGENT", value_parser = SummariserArg::parse, conflicts_with = "dry_run")]
    pub(crate) summariser: Option<SummariserArg>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Summariser that the user selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SummariserArg {
    None,
    Agent(ProviderId),
}

impl SummariserArg {
    fn parse(text: &str) -> Result<Self, segue_core::id::IdError> {
        if text == NO_AGENT {
            return Ok(Self::None);
        }
        ProviderId::parse(text).map(Self::Agent)
    }
}
