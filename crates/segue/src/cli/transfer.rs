//! Arguments of `segue session export`, `import` and `migrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use segue_core::id::{FeatureId, ProviderId};
use segue_core::session::SessionRef;

/// Export sessions to files in another format
///
/// segue does not overwrite a file with different content unless --force is given. An imported session keeps the name of its
/// original files, and the fields that segue does not use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session export latest --format markdown
  segue session export --feature auth --format dagent --to ../out
  segue session export --all --format dagent --to . --dry-run")]
pub(crate) struct ExportArgs {
    /// Sessions: ID, unique ID prefix, `latest`, `feature:NAME`, or list number
    #[arg(value_name = "ID", value_parser = SessionRef::parse, required_unless_present_any = ["all", "feature"])]
    pub(crate) ids: Vec<SessionRef>,

    /// Export all sessions of this project for a feature and its tasks
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    pub(crate) feature: Option<FeatureId>,

    /// Export all sessions of this project
    #[arg(long, conflicts_with_all = ["ids", "feature"])]
    pub(crate) all: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: ExportFormatArg,

    /// Output directory [default: `segue-export`; one session in JSON or Markdown is printed]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) to: Option<PathBuf>,

    /// Overwrite files with different content
    #[arg(long)]
    pub(crate) force: bool,

    /// Show what would be written, without writing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatArg {
    /// `feature.json`, `nodes/TASK/task.json` and four files per session
    Dagent,
    /// A file per session, in the format of `session show --json`
    Json,
    /// A readable file per session
    #[value(alias = "md")]
    Markdown,
}

/// Import sessions from files of `export --format dagent`
///
/// Each session gets a new ID and keeps the old one as an alias. The import includes times, tasks, roles and the checkpoint.
/// Sessions that were imported before are skipped, so the command can be repeated. It starts no agent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session import . --dry-run
  segue session import .dagent-worktrees/auth
  segue session import ../out --provider claude --json")]
pub(crate) struct ImportArgs {
    /// Directory of a project, a worktree of a feature, or its `.dagent` directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) import: ImportOptionArgs,
}

/// Import old `chat.json` and `nodes/TASK/session.json` files
///
/// Each file becomes a session with the times of the file. segue copies the file to its data directory and does not change
/// the original. Files that were imported before are skipped, so the command can be repeated. It starts no agent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session migrate . --dry-run
  segue session migrate .dagent-worktrees/auth/.dagent/chat.json
  segue session migrate . --json")]
pub(crate) struct MigrateArgs {
    /// Path of a file, or of the directory of a project, a worktree of a feature, or its `.dagent` directory
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) import: ImportOptionArgs,
}

/// Options of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportOptionArgs {
    /// Agent of the imported sessions [default: their original agent, or the one last used in the project]
    #[arg(short, long, value_name = "AGENT")]
    pub(crate) provider: Option<ProviderId>,

    /// Show what would be imported, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
