//! Arguments of `segue session preview`.

use clap::Args;
use segue_core::id::ProviderId;

use super::SessionRefArgs;

/// Show the brief for a new native session, with token counts
///
/// An agent receives the brief before your prompt if its native session is lost or full, after a revert, or after a handoff.
/// This command starts no agent and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session preview latest                       show the current brief
  segue session preview k3f9 -p codex                show the brief for a handoff to codex
  git diff | segue session preview k3f9 --prompt -   include a prompt in the budget
  segue session preview k3f9 --json | jq .sections")]
pub(crate) struct PreviewArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Prompt after the brief, with piped input; `-` reads the prompt from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Agent that would receive the brief [default: the session's agent]
    #[arg(short, long, value_name = "AGENT")]
    pub(crate) provider: Option<ProviderId>,
}
