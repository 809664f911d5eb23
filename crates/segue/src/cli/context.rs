//! The arguments of `segue session context`.

use clap::Args;

use super::OneArgs;

/// Show what a session is told of its project: structure, documents, commits, feature and task
///
/// A new native session is told it where the session has a role. It is gathered when that is needed first, kept with
/// its tokens, and gathered anew once its sources have changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session context latest              what is kept, or would be gathered
  segue session context k3f9 --refresh      gather it anew, and keep it
  segue session context k3f9 --json | jq .tokens")]
pub(crate) struct ContextArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// Gather it anew, whether its sources have changed or not, and keep it
    #[arg(long)]
    pub(crate) refresh: bool,
}
