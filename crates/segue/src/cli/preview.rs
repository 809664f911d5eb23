//! The arguments of `segue session preview`.

use clap::Args;
use segue_core::id::ProviderId;

use super::OneArgs;

/// Show what a new native session would be told of a session, with the tokens it takes
///
/// That is what an agent is told before your prompt when its own session is lost or full, when the session was reverted,
/// or when another agent takes over. Nothing is started and nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session preview latest                       what would be told now
  segue session preview k3f9 -p codex                if codex took over
  git diff | segue session preview k3f9 --prompt -   with a prompt, which takes room of its own
  segue session preview k3f9 --json | jq .sections")]
pub(crate) struct PreviewArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// The prompt that would follow, with what is piped; `-` takes all of it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// The agent that would be told; the session's own if not given
    #[arg(short, long, value_name = "NAME")]
    pub(crate) provider: Option<ProviderId>,
}
