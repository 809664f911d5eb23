//! The arguments of `segue session compact`.

use clap::Args;
use segue_core::SessionRef;

/// Sum up what was said in a session, so that its next prompt needs less
///
/// What was said becomes a checkpoint, without asking a model: goal, rules, decisions, files, commands, what is open. The
/// next prompt opens a native session that is told it and the newest messages. Nothing is deleted: `session show` has
/// all of it, and `session checkpoint` shows, changes and restores what it was summed up to.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session compact                    the newest session of this project
  segue session compact k3f9 --dry-run     what it would come to
  segue session checkpoint k3f9            what it came to")]
pub(crate) struct CompactArgs {
    /// The session, as `segue session info` takes it
    #[arg(value_name = "ID", default_value = "latest", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
