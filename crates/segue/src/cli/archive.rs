//! What can be typed to keep copies of sessions and to bring them back.

use clap::Args;
use segue_core::{ProviderId, SessionRef};

/// Keep a compressed copy of an agent's session that outlives the agent's own clean-up
///
/// The copy is in segue's home. A session that is gone at its agent's is still listed, shown and gone on with from there,
/// and `segue session restore` puts it back for the agent. `segue doctor` says what an agent is about to delete.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session archive latest
  segue session archive --all --older-than 23d -p claude
  segue session archive --list")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ArchiveArgs {
    /// The sessions: ids, unique beginnings of ids, native ids (also as `claude:ID`), `latest`, or numbers from the last list
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present_any = ["all", "list"])]
    pub(crate) ids: Vec<SessionRef>,

    /// All sessions that agents have on this machine
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,

    /// Only those that nobody used for so long: 12h, 23d, 4w
    #[arg(long, value_name = "TIME", requires = "all")]
    pub(crate) older_than: Option<String>,

    /// Only those of this agent
    #[arg(short, long, value_name = "NAME", conflicts_with = "ids")]
    pub(crate) provider: Option<ProviderId>,

    /// List the copies, in the archive and in the trash
    #[arg(long, conflicts_with_all = ["ids", "all", "dry_run"])]
    pub(crate) list: bool,

    /// Say what would be copied, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Put an agent's session back from the archive or the trash
///
/// Its files are where they were, as they were, so that the agent can go on with it. Nothing is written over a file that
/// differs. The newest copy counts.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The session: its native id, a unique beginning of it, or `claude:ID`, or segue's own id of it;
    /// `segue session archive --list` shows all copies
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Have the files be new, so that an agent that deletes what is old keeps them
    #[arg(long)]
    pub(crate) touch: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
