//! Arguments of `segue session archive` and `restore`.

use clap::Args;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

/// Keep a compressed copy of an agent's session that outlives the agent's own clean-up
///
/// The copy is in segue's home. A session that is gone at its agent's is still listed, shown and gone on with from there,
/// and `segue session restore` puts it back for the agent. `segue doctor` says what an agent is about to delete.
#[derive(Debug, Args)]
// An id and `--all` exclude each other, which clap's generated usage does not show.
#[command(override_usage = "\
segue session archive [OPTIONS] <ID>...
       segue session archive --all [--older-than <TIME>] [-p <NAME>] [OPTIONS]
       segue session archive --list [-p <NAME>] [OPTIONS]")]
#[command(after_help = "\
Examples:
  segue session archive latest
  segue session archive --all --older-than 23d -p claude
  segue session archive --list")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ArchiveArgs {
    /// The sessions: ids, unique beginnings of ids, native ids (also as `claude:ID`), `latest`, or numbers from the last list
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present_any = ["all", "list", "older_than", "provider"])]
    pub(crate) ids: Vec<SessionRef>,

    /// All sessions that agents have on this machine
    #[arg(long, group = "several", conflicts_with = "ids")]
    pub(crate) all: bool,

    /// Only those that nobody used for so long: 12h, 23d, 4w
    #[arg(long, value_name = "TIME", requires = "all", conflicts_with = "ids")]
    pub(crate) older_than: Option<String>,

    /// Only those of this agent
    #[arg(
        short,
        long,
        value_name = "NAME",
        requires = "several",
        conflicts_with = "ids"
    )]
    pub(crate) provider: Option<ProviderId>,

    /// List the copies, in the archive and in the trash
    #[arg(long, group = "several", conflicts_with_all = ["ids", "all", "dry_run"])]
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "archive")]
    struct Typed {
        #[command(flatten)]
        args: ArchiveArgs,
    }

    fn told(typed: &str) -> String {
        let words = typed.split_whitespace();
        let read = Typed::try_parse_from(["archive"].into_iter().chain(words));
        read.map_or_else(|error| error.to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn what_narrows_all_asks_for_all() {
        for fine in [
            "k3f9",
            "--all --older-than 7d -p claude",
            "--list -p claude",
        ] {
            assert_eq!(told(fine), "fine", "{fine}");
        }
        insta::assert_snapshot!(told("--older-than 7d"), @"
        error: the following required arguments were not provided:
          --all

        Usage: segue session archive [OPTIONS] <ID>...
               segue session archive --all [--older-than <TIME>] [-p <NAME>] [OPTIONS]
               segue session archive --list [-p <NAME>] [OPTIONS]

        For more information, try '--help'.
        ");
        for (typed, first) in [
            (
                "-p claude",
                "required arguments were not provided:\n  <--all|--list>\n",
            ),
            ("", "required arguments were not provided:\n  <ID>...\n"),
            (
                "--older-than 7d k3f9",
                "'--older-than <TIME>' cannot be used with '[ID]...'\n",
            ),
            ("--all k3f9", "'--all' cannot be used with '[ID]...'\n"),
        ] {
            let told = told(typed);
            assert!(told.contains(first), "{typed}: {told}");
        }
    }
}
