//! Arguments of `segue events`.

use clap::Args;

/// Print what happens in all sessions
///
/// Prints one JSON object per line for each change of a session, a turn, a message or a decision, whichever process made
/// it, in the order in which the changes were saved. Each line has a cursor. A program that stores the last cursor and
/// passes it to --since continues there, without a gap and without a repetition.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue events                                 print all changes so far
  segue events --follow                        print the changes from now on
  segue events --follow --since \"$cursor\"      continue after the last line that was read
  segue events --follow | jq 'select(.event == \"turn_ended\").session_id'")]
pub(crate) struct EventsArgs {
    /// Wait for further changes
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Cursor to continue after, or `start` [default: `start`; with --follow: now]
    #[arg(long, value_name = "CURSOR")]
    pub(crate) since: Option<String>,
}
