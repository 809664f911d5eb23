//! The arguments of `segue session revert`, `undo` and `fork`.

use clap::Args;

use super::{OneArgs, turn_number, whole_number};

/// Make an earlier turn the last one; nothing is deleted, and `undo` takes it back
///
/// The next prompt goes to an agent that knows the turns up to there and nothing of the others: Claude Code and Codex
/// rewind a copy of their own session, any other agent is told what was said. Files stay as they are; those that the
/// dropped turns changed are listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session revert k3f9 --to 2             turn 2 is the last one
  segue session revert k3f9 --to 2 --dry-run   what would go, and which files it changed
  segue session undo k3f9                      take it back")]
pub(crate) struct RevertArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// The number of the turn that will be the last one (`session show` prints the numbers)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = turn_number)]
    pub(crate) to: i64,

    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Take the last revert back
///
/// The agent knows the turns again that the revert had dropped. Turns that were made since then are left behind, and can
/// be gone on with in a session of their own: `fork --moved` does that.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session undo k3f9
  segue session fork k3f9 --moved 2   go on with what the undo left behind, in another session")]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,
}

/// Branch off: a second session with the same past and a future of its own
///
/// Both go on by themselves, with native sessions of their own: Claude Code and Codex branch theirs, any other agent is
/// told what was said.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session fork k3f9              after the last turn
  segue session fork k3f9 --at 2       after turn 2
  segue session fork k3f9 --moved 1    where it was before its first revert")]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// The number of the last turn that is shared; the last one of all if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = turn_number)]
    pub(crate) at: Option<i64>,

    /// Branch off from where the session was before a revert or an undo (`session info` numbers them)
    #[arg(long, value_name = "MOVE", allow_negative_numbers = true, value_parser = move_number)]
    pub(crate) moved: Option<i64>,
}

fn move_number(text: &str) -> Result<i64, &'static str> {
    whole_number(text).ok_or("it is not the number of a revert or an undo")
}
