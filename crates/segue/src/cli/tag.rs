//! Arguments of `segue session tag`.

use clap::Args;
use segue_core::session::{SessionRef, Tag};

/// Add, remove or show the tags of a session
///
/// Without tags, shows the tags of the session. A tag is a word of at most 50 characters, without regard to case.
/// `segue session list --tag TAG` lists the sessions with a tag. Tagging a native session adopts it.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  segue session tag k3f9 auth urgent            add two tags
  segue session tag k3f9 done --remove urgent   add one tag and remove another
  segue session tag k3f9                        show the tags of a session
  segue session tag --list                      list all tags in use"
)]
pub(crate) struct TagArgs {
    /// Session (see `segue session info --help`)
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present = "list")]
    pub(crate) id: Option<SessionRef>,

    /// Tags to add
    #[arg(value_name = "TAG", value_parser = Tag::parse)]
    pub(crate) add: Vec<Tag>,

    /// Tag to remove; may be repeated
    #[arg(short, long, value_name = "TAG", value_parser = Tag::parse)]
    pub(crate) remove: Vec<Tag>,

    /// List all tags with their number of sessions
    #[arg(short, long, conflicts_with_all = ["id", "add", "remove"])]
    pub(crate) list: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
