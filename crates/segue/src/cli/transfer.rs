//! Arguments of `segue session export`, `import` and `migrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use segue_core::id::{FeatureId, ProviderId};
use segue_core::session::SessionRef;

/// Write sessions into files of another format
///
/// Nothing is written over a file that differs, unless --force says so. A session that came from such files keeps the
/// name that it had there, and what was said of it there that segue has no place for.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session export latest --format markdown
  segue session export --feature auth --format dagent --to ../out
  segue session export --all --format dagent --to . --dry-run")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ExportArgs {
    /// The sessions: ids, unique beginnings of ids, `latest`, `feature:NAME`, or numbers from the last list
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present_any = ["all", "feature"])]
    pub(crate) ids: Vec<SessionRef>,

    /// All sessions of this project about a feature, and about its tasks
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    pub(crate) feature: Option<FeatureId>,

    /// All sessions of this project
    #[arg(long, conflicts_with_all = ["ids", "feature"])]
    pub(crate) all: bool,

    /// In which format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Format,

    /// Where to; `segue-export` here if nothing is said. One session in JSON or Markdown is then printed instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) to: Option<PathBuf>,

    /// Replace files that differ
    #[arg(long)]
    pub(crate) force: bool,

    /// Say what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// `feature.json`, `nodes/TASK/task.json`, and four files for each session
    Dagent,
    /// One file for each session, in the shape of `session show --json`
    Json,
    /// One file for each session, to be read
    #[value(alias = "md")]
    Markdown,
}

/// Take in sessions from the files that `export --format dagent` writes
///
/// Each gets an id of its own and keeps the old one as another name. Times, tasks, roles and the checkpoint come along.
/// What has come before is left as it is, so that it can be done again. No agent is asked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session import . --dry-run
  segue session import .dagent-worktrees/auth
  segue session import ../out --provider claude --json")]
pub(crate) struct ImportArgs {
    /// The directory: a project, a worktree of a feature, or the `.dagent` in it
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) coming: ComingArgs,
}

/// Take in the old `chat.json` and `nodes/TASK/session.json`
///
/// Each file becomes a session, with the times it has. A copy of it is kept in segue's home, and the file itself stays
/// as it is. What has come before is left as it is, so that it can be done again. No agent is asked.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session migrate . --dry-run
  segue session migrate .dagent-worktrees/auth/.dagent/chat.json
  segue session migrate . --json")]
pub(crate) struct MigrateArgs {
    /// One of these files, or a directory that has some: a project, a worktree of a feature, or the `.dagent` in it
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) coming: ComingArgs,
}

/// How sessions are taken in, wherever they come from.
#[derive(Debug, Args)]
pub(crate) struct ComingArgs {
    /// Who is to carry them on; else whoever did where that is known, or the agent last used in the project
    #[arg(short, long, value_name = "NAME")]
    pub(crate) provider: Option<ProviderId>,

    /// Say what would come, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
