//! Command-line arguments. The doc comments are the help texts.

mod archive;
mod checkpoint;
mod compact;
mod context;
mod conversation;
mod delete;
mod handoff;
mod index;
mod output_mode;
mod preview;
mod resume;
mod revert;
mod role;
mod scope;
mod search;
mod sort;
mod stats;
mod tag;
mod transfer;

use std::ffi::{OsStr, OsString};
use std::num::IntErrorKind;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use segue_core::agent::PermissionPolicy;
use segue_core::id::{FeatureId, ProviderId};
use segue_core::scope::{RoleName, TaskId};
use segue_core::session::{SessionRef, Tag};

pub(crate) use archive::{ArchiveArgs, RestoreArgs};
pub(crate) use checkpoint::{CheckpointArgs, CheckpointCommand};
pub(crate) use compact::{CompactArgs, SumsUp};
pub(crate) use context::ContextArgs;
pub(crate) use conversation::{ReplArgs, TalkArgs, TermsArgs};
pub(crate) use delete::{DeleteArgs, ForgetArgs};
pub(crate) use handoff::HandoffArgs;
pub(crate) use index::{IndexArgs, IndexCommand, IndexOutput};
pub(crate) use output_mode::Reader;
pub(crate) use preview::PreviewArgs;
pub(crate) use resume::ResumeArgs;
pub(crate) use revert::{ForkArgs, RevertArgs, UndoArgs};
pub(crate) use role::{RoleArgs, RoleCommand, RoleListArgs, RoleShowArgs};
pub(crate) use scope::ScopeArgs;
pub(crate) use search::SearchArgs;
pub(crate) use sort::{OrderArgs, SortBy};
pub(crate) use stats::StatsArgs;
pub(crate) use tag::TagArgs;
pub(crate) use transfer::{ExportArgs, Format, ImportArgs, MigrateArgs};

/// The session layer for AI coding agents: sessions that outlive the agent's process.
///
/// segue drives an agent, writes down every turn before and while it happens, and goes on where it was after
/// any kill. Without an agent on this machine it talks to `rehearsal`, a built-in one that needs no network.
#[derive(Debug, Parser)]
#[command(name = "segue", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  segue                                    on a terminal: choose from all sessions
  segue chat \"explain this repository\"     start a session
  segue chat --continue \"go on\"            go on with the newest one of this directory
  segue repl                               a conversation, prompt by prompt
  segue session list                       what there is
  segue session show latest                what was said

Exit codes: 0 done, 1 failed, 2 wrong usage or ambiguous, 3 the agent failed, 4 a policy stopped it,
130 interrupted. The data is in $SEGUE_HOME, else in the user's data directory; `segue doctor` shows where.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Chat(ChatArgs),
    Repl(ReplArgs),
    Session(SessionArgs),
    Role(RoleArgs),
    Index(IndexArgs),
    Mcp(McpArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Trust(TrustArgs),
    Completions(CompletionsArgs),
}

/// Adds a suggestion to an error: `session list` if the user typed `list`.
pub(crate) fn pointed(mut error: clap::Error) -> clap::Error {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        let sessions = AnySessionCommand::augment_subcommands(clap::Command::new("session"));
        let names = |command: &clap::Command| {
            command.get_name() == typed || command.get_all_aliases().any(|alias| alias == typed)
        };
        if let Some(meant) = sessions.get_subcommands().find(|command| names(command)) {
            let meant = format!("session {}", meant.get_name());
            let meant = ContextValue::Strings(vec![meant]);
            error.insert(ContextKind::SuggestedSubcommand, meant);
        }
    }
    error
}

/// The commands that segue starts itself with; kept apart, so that neither help nor completion shows them.
#[derive(Debug, Parser)]
#[command(name = "segue", disable_help_subcommand = true)]
pub(crate) enum Hidden {
    RehearsalAgent(RehearsalArgs),
    Leash(LeashArgs),
}

impl Hidden {
    /// Returns `true` if the first argument is the name of a hidden command.
    pub(crate) fn is_named(first: Option<&OsStr>) -> bool {
        first.is_some_and(|first| first == "rehearsal-agent" || first == "leash")
    }
}

/// Say one thing to an agent and stream its answer
///
/// The prompt is on the disk before it is sent, and the answer as it comes. A new session is started unless
/// --resume, --continue, or what it is for (--feature, --task, --role) names one. What is piped goes with the prompt, after
/// it and set apart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue chat \"explain this repository\"
  make 2>&1 | segue chat \"why does the build fail?\"
  git diff | segue chat --continue -
  segue chat --resume latest --json \"and now?\"
  segue chat --feature auth --explain \"add the login form\"
  segue chat \"rehearse: think hm; tool; ask; say done\"    (rehearsal plays a script)")]
pub(crate) struct ChatArgs {
    /// What to say; `-`, or none at all in a pipe, takes all of it from standard input
    pub(crate) prompt: Option<String>,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,

    /// Print one JSON object when the turn is over, instead of the answer as it comes
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,

    /// Print one JSON event a line as things happen; the last one is the result
    #[arg(long)]
    pub(crate) events: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Ask on the terminal; refuse where there is none
    Ask,
    /// Allow what only reads, ask for the rest
    AllowReads,
    /// Allow reading and editing files, ask for the rest
    AllowEdits,
    /// Allow everything
    AllowAll,
    /// Refuse everything
    Deny,
}

impl From<Policy> for PermissionPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Ask => Self::Ask,
            Policy::AllowReads => Self::AllowReads,
            Policy::AllowEdits => Self::AllowEdits,
            Policy::AllowAll => Self::AllowAll,
            Policy::Deny => Self::Deny,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        Ok(_) => Err("it must be more than 0 and at most 86400".into()),
        Err(_) => Err("it is not a number of seconds".into()),
    }
}

fn turn_number(text: &str) -> Result<i64, &'static str> {
    whole_number(text).ok_or("it is not the number of a turn")
}

/// Parses an integer of any size. A number outside the range of `i64` becomes its minimum or maximum, which is out of
/// range for every use.
pub(crate) fn whole_number(text: &str) -> Option<i64> {
    match text.parse::<i64>() {
        Ok(number) => Some(number),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

/// List, show and change sessions
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: AnySessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AnySessionCommand {
    #[command(flatten)]
    Plain(SessionCommand),
    Resume(ResumeArgs),
    Handoff(HandoffArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Migrate(MigrateArgs),
}

/// What needs no agent, so that it can be done in the middle of a conversation.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    List(ListArgs),
    /// Show what is known about a session: its legs, its lineage, what segue decided
    Info(OneArgs),
    Show(ShowArgs),
    Preview(PreviewArgs),
    Context(ContextArgs),
    Search(SearchArgs),
    Rename(RenameArgs),
    Tag(TagArgs),
    /// Make a session that only an agent has one of segue's, with all that was said in it
    ///
    /// The agent's own session stays as it is, and goes on to carry it. To name, tag, fork or revert one does the same
    /// by itself.
    Adopt(OneArgs),
    Revert(RevertArgs),
    Undo(UndoArgs),
    Fork(ForkArgs),
    Compact(CompactArgs),
    Checkpoint(CheckpointArgs),
    Delete(DeleteArgs),
    Stats(StatsArgs),
    Forget(ForgetArgs),
    Archive(ArchiveArgs),
    Restore(RestoreArgs),
}

/// List sessions, the newest first: segue's own, and those that agents keep themselves
///
/// Sessions of Claude Code, Codex, Gemini CLI and opencode are found where those keep them, and only read. One that
/// carries a session of segue's is part of it and not listed again.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ListArgs {
    /// Those of every project, not only of this one
    #[arg(long)]
    pub(crate) all: bool,

    /// Only those of this agent, or of several: claude,codex
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) provider: Vec<ProviderId>,

    /// Only those about this feature, or a task of it
    #[arg(long, value_name = "NAME")]
    pub(crate) feature: Option<FeatureId>,

    /// Only those about this task, in any state
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<TaskId>,

    /// Only those in which the agent has this role
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<RoleName>,

    /// Only those with this tag; several times: with all of them
    #[arg(short, long, value_name = "TAG", value_parser = Tag::parse)]
    pub(crate) tag: Vec<Tag>,

    /// Only those touched since then: a time such as 2025-12-07T14:30:22Z, a day such as 2025-12-07, today, yesterday, or 30m, 12h, 7d, 2w, 6mo, 1y
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,

    #[command(flatten)]
    pub(crate) order: OrderArgs,

    /// How many at most; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,

    /// List what the index has, without looking for what was written since
    #[arg(long)]
    pub(crate) no_refresh: bool,

    /// Have Gemini CLI list its sessions itself where its files can't be read; starts it, and calls the model
    #[arg(long)]
    pub(crate) ask: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// One session, and how to print it.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The session: an id, a unique beginning or end of one, a native id (also as `claude:ID`), `latest`, `feature:NAME`, or, where nothing is deleted, a number from the last list
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what was said in a session
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// Only the last N turns
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,

    /// Only this turn
    #[arg(long, value_name = "N", conflicts_with = "last", value_parser = turn_number, allow_negative_numbers = true)]
    pub(crate) turn: Option<i64>,

    /// All of what tools said, not only the beginning
    #[arg(long)]
    pub(crate) full: bool,
}

/// Give a session another title
#[derive(Debug, Args)]
pub(crate) struct RenameArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,

    /// The title
    pub(crate) title: String,
}

/// Let an agent ask segue: an MCP server over standard input and output
///
/// Agents start it themselves. Its tools give the session a title and recall what was said, in this session and in the
/// others of the project.
#[derive(Debug, Args)]
#[command(after_help = "\
For example: claude --mcp-config '{\"mcpServers\":{\"segue\":{\"command\":\"segue\",\"args\":[\"mcp\"]}}}'")]
pub(crate) struct McpArgs {
    /// The session that the agent is at work in; without it, no session can be given a title
    #[arg(long, value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) session: Option<SessionRef>,
}

/// Show which agents are on this machine, what they can do, and whether the store is healthy
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what is configured, where it comes from, and whether the files are good
///
/// A flag counts before an environment variable, that before the project's `segue.toml`, that before your own
/// file (`$SEGUE_CONFIG`, else `segue/config.toml` in your configuration directory), that before the default.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ConfigShowArgs),
    Path(ConfigPathArgs),
    Check(ConfigCheckArgs),
}

/// Print what is in force, as a file would have it; secrets are masked
#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// Say where each value comes from
    #[arg(long)]
    pub(crate) origin: bool,

    /// Print a JSON array, with where each value comes from
    #[arg(long)]
    pub(crate) json: bool,

    /// As it would be with this flag of `chat`
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) permissions: Option<Policy>,

    /// As it would be with this flag of `chat`
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) open_timeout: Option<f64>,
}

/// Print which files are looked at, and what became of each
#[derive(Debug, Args)]
pub(crate) struct ConfigPathArgs {
    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say everything that is wrong with the configuration, or with one file
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    /// A file to check by itself
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Print a JSON array of what is wrong
    #[arg(long)]
    pub(crate) json: bool,
}

/// Trust this project's `segue.toml` to start programs and to set permissions
///
/// Without it such settings are left out. It holds for the file as it is now: once it changes, it needs your trust
/// again.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct TrustArgs {
    /// Take it back
    #[arg(long, conflicts_with_all = ["list", "yes"])]
    pub(crate) revoke: bool,

    /// List what is trusted
    #[arg(long, conflicts_with = "yes")]
    pub(crate) list: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "For example: segue completions bash > ~/.local/share/bash-completion/completions/segue"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// The built-in offline agent, over standard input and output
#[derive(Debug, Args)]
pub(crate) struct RehearsalArgs {
    /// Where it keeps its sessions
    pub(crate) directory: PathBuf,

    /// A way to misbehave at the start: silent, exit, liar
    #[arg(long, env = "SEGUE_REHEARSAL_FAULT")]
    pub(crate) fault: Option<String>,
}

/// Runs an agent, and ends all of it when the lifeline breaks
#[derive(Debug, Args)]
pub(crate) struct LeashArgs {
    /// The number of the inherited end of the lifeline
    #[arg(long)]
    pub(crate) lifeline: u32,

    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
