//! Arguments of `segue session archive` and `restore`.

use clap::Args;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

/// Copy native sessions to the archive, safe from the agent's clean-up
///
/// The compressed copies are in segue's data directory. If the agent deletes a session, segue lists, shows and resumes it
/// from its copy, and `segue session restore` puts it back for the agent. `segue doctor` shows which sessions an agent will
/// delete soon.
#[derive(Debug, Args)]
// An id and `--all` exclude each other, which clap's generated usage does not show.
#[command(override_usage = "\
segue session archive [OPTIONS] <ID>...
       segue session archive --all [--older-than <AGE>] [-p <AGENT>] [OPTIONS]
       segue session archive --list [-p <AGENT>] [OPTIONS]")]
#[command(after_help = "\
Examples:
  segue session archive latest
  segue session archive --all --older-than 23d -p claude
  segue session archive --list")]
pub(crate) struct ArchiveArgs {
    /// Sessions: ID, unique ID prefix, native ID (also `claude:ID`), `latest`, or list number
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present_any = ["all", "list", "older_than", "provider"])]
    pub(crate) ids: Vec<SessionRef>,

    /// Archive all native sessions on this machine
    #[arg(long, group = "several", conflicts_with = "ids")]
    pub(crate) all: bool,

    /// Only sessions unused for at least this long: 12h, 23d, 4w
    #[arg(long, value_name = "AGE", requires = "all", conflicts_with = "ids")]
    pub(crate) older_than: Option<String>,

    /// Only sessions of this agent
    #[arg(
        short,
        long,
        value_name = "AGENT",
        requires = "several",
        conflicts_with = "ids"
    )]
    pub(crate) provider: Option<ProviderId>,

    /// List the copies in the archive and in the trash
    #[arg(long, group = "several", conflicts_with_all = ["ids", "all", "dry_run"])]
    pub(crate) list: bool,

    /// Show what would be copied, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Restore a native session from the archive or the trash
///
/// segue restores the newest copy: the files return to their original paths with their original content, so that the agent
/// can resume the session. segue never overwrites a file with different content.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Session: native ID or unique prefix, `claude:ID`, or segue's ID; `segue session archive --list` shows all copies
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Set the modification time to now, so that the agent does not delete the files for their age
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
    struct ArchiveCli {
        #[command(flatten)]
        args: ArchiveArgs,
    }

    fn parse_result(options: &str) -> String {
        let arguments = options.split_whitespace();
        let parsed = ArchiveCli::try_parse_from(["archive"].into_iter().chain(arguments));
        parsed.map_or_else(|error| error.to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn filters_without_ids_require_all_or_list() {
        for options in [
            "k3f9",
            "--all --older-than 7d -p claude",
            "--list -p claude",
        ] {
            assert_eq!(parse_result(options), "fine", "{options}");
        }
        insta::assert_snapshot!(parse_result("--older-than 7d"), @"
        error: the following required arguments were not provided:
          --all

        Usage: segue session archive [OPTIONS] <ID>...
               segue session archive --all [--older-than <AGE>] [-p <AGENT>] [OPTIONS]
               segue session archive --list [-p <AGENT>] [OPTIONS]

        For more information, try '--help'.
        ");
        for (options, expected) in [
            (
                "-p claude",
                "required arguments were not provided:\n  <--all|--list>\n",
            ),
            ("", "required arguments were not provided:\n  <ID>...\n"),
            (
                "--older-than 7d k3f9",
                "'--older-than <AGE>' cannot be used with '[ID]...'\n",
            ),
            ("--all k3f9", "'--all' cannot be used with '[ID]...'\n"),
        ] {
            let message = parse_result(options);
            assert!(message.contains(expected), "{options}: {message}");
        }
    }
}
