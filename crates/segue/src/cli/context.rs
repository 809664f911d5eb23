//! Arguments of `segue session context`.

use clap::Args;

use super::SessionRefArgs;

/// Show the project context of a session
///
/// The context describes the project (structure, documents, commits), the feature and the task. The brief of a session with
/// a role contains it. segue collects it at first use, caches it with its token count, and collects it again when its
/// sources change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session context latest              show the cached context, or collect it
  segue session context k3f9 --refresh      collect the context again
  segue session context k3f9 --json | jq .tokens")]
pub(crate) struct ContextArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Collect the context again, even if its sources have not changed
    #[arg(long)]
    pub(crate) refresh: bool,
}
