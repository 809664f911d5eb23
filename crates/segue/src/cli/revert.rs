//! Arguments of `segue session revert` and `fork`.

use clap::Args;

use super::{SessionRefArgs, parse_saturating_i64, parse_turn_number};

/// Move a session back to an earlier turn
///
/// Nothing is deleted, and `undo` restores the dropped turns. The next prompt goes to an agent that has only the remaining
/// turns in its context: Claude Code and Codex branch their native session at that turn, other agents receive a brief. segue
/// does not change the project's files, and lists those that the dropped turns changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session revert k3f9 --to 2             make turn 2 the last turn
  segue session revert k3f9 --to 2 --dry-run   show the dropped turns and the files they changed
  segue session undo k3f9                      undo the revert")]
pub(crate) struct RevertArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Number of the new last turn (`session show` prints the numbers)
    #[arg(long, value_name = "TURN", allow_negative_numbers = true, value_parser = parse_turn_number)]
    pub(crate) to: i64,

    /// Show the result without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Fork a session at a turn
///
/// The fork shares the turns up to that turn and then continues separately, on its own native session: Claude Code and Codex
/// branch theirs, other agents receive a brief.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session fork k3f9              fork after the last turn
  segue session fork k3f9 --at 2       fork after turn 2
  segue session fork k3f9 --moved 1    fork from the head before the first revert")]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Last shared turn [default: the last turn]
    #[arg(long, value_name = "TURN", allow_negative_numbers = true, value_parser = parse_turn_number)]
    pub(crate) at: Option<i64>,

    /// Fork from the head before this revert or undo (`session info` numbers them)
    #[arg(long, value_name = "MOVE", allow_negative_numbers = true, value_parser = parse_move_number)]
    pub(crate) moved: Option<i64>,
}

fn parse_move_number(text: &str) -> Result<i64, &'static str> {
    parse_saturating_i64(text).ok_or("not the number of a revert or an undo")
}
