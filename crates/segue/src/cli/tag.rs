//! The arguments of `segue session tag`.

use clap::Args;
use segue_core::session::{SessionRef, Tag};

/// Put words on a session to find it by, and take them off
///
/// `segue session list --tag WORD` shows the sessions that have one. A tag is a word of at most 50 characters, and
/// upper and lower case are the same. Without any, those that the session has are shown. A session that only an agent
/// has becomes one of segue's first, with all that was said in it.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  segue session tag k3f9 auth urgent            put two on
  segue session tag k3f9 done --remove urgent   put one on, take one off
  segue session tag k3f9                        show them
  segue session tag --list                      all that are in use"
)]
pub(crate) struct TagArgs {
    /// The session, as `segue session info` takes it
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present = "list")]
    pub(crate) id: Option<SessionRef>,

    /// The tags to put on it
    #[arg(value_name = "TAG", value_parser = Tag::parse)]
    pub(crate) add: Vec<Tag>,

    /// A tag to take off; may be given several times
    #[arg(short, long, value_name = "TAG", value_parser = Tag::parse)]
    pub(crate) remove: Vec<Tag>,

    /// List all tags, with how many sessions have each
    #[arg(short, long, conflicts_with_all = ["id", "add", "remove"])]
    pub(crate) list: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
