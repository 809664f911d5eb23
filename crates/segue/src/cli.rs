//! Command-line arguments. The doc comments are the help texts.

#![expect(clippy::struct_excessive_bools, reason = "each is a flag")]

mod archive;
mod checkpoint;
mod compact;
mod context;
mod conversation;
mod delete;
mod events;
mod handoff;
mod index;
mod output_mode;
mod preview;
mod resume;
mod revert;
mod role;
mod schema;
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
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use segue_core::agent::PermissionPolicy;
use segue_core::id::{FeatureId, ProviderId};
use segue_core::scope::{RoleName, TaskId};
use segue_core::session::{SessionRef, Tag};

pub(crate) use archive::{ArchiveArgs, RestoreArgs};
pub(crate) use checkpoint::{CheckpointArgs, CheckpointCommand};
pub(crate) use compact::{CompactArgs, SummariserArg};
pub(crate) use context::ContextArgs;
pub(crate) use conversation::{ConversationArgs, ReplArgs, TurnOptionArgs};
pub(crate) use delete::{DeleteArgs, ForgetArgs};
pub(crate) use events::EventsArgs;
pub(crate) use handoff::HandoffArgs;
pub(crate) use index::{IndexArgs, IndexCommand, IndexOutputArgs};
pub(crate) use output_mode::ErrorOutputMode;
pub(crate) use preview::PreviewArgs;
pub(crate) use resume::ResumeArgs;
pub(crate) use revert::{ForkArgs, RevertArgs};
pub(crate) use role::{RoleArgs, RoleCommand, RoleListArgs, RoleShowArgs};
pub(crate) use schema::SchemaArgs;
pub(crate) use scope::ScopeArgs;
pub(crate) use search::SearchArgs;
pub(crate) use sort::{SortArgs, SortKeyArg};
pub(crate) use stats::StatsArgs;
pub(crate) use tag::TagArgs;
pub(crate) use transfer::{ExportArgs, ExportFormatArg, ImportArgs, ImportOptionArgs, MigrateArgs};

/// The session layer for AI coding agents
///
/// segue runs your coding agent, saves every turn to disk as it happens, and resumes after a crash or a kill. If no
/// agent is installed, it uses `rehearsal`, a built-in offline agent.
#[derive(Debug, Parser)]
#[command(name = "segue", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  segue                                    open the session picker (on a terminal)
  segue chat \"explain this repository\"     start a session
  segue chat --continue \"run the tests\"    resume the newest session in this directory
  segue repl                               start an interactive conversation
  segue session list                       list the sessions of this project
  segue session show latest                show the transcript of the newest session

Exit codes: 0 success, 1 error, 2 usage error or ambiguous session, 3 the agent failed, 4 stopped
by a policy, 130 interrupted. segue stores its data in $SEGUE_HOME, by default in the user's data
directory; `segue doctor` prints the path.")]
pub(crate) struct Cli {
    /// Append a log to this file; `SEGUE_LOG` sets the levels [default: debug]
    #[arg(long, display_order = 998, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

impl Cli {
    /// Returns the complete command line, in which `--log` may also follow a command.
    pub(crate) fn complete_command() -> clap::Command {
        Self::command().mut_arg("log", |log| log.global(true))
    }

    /// Parses the arguments of this process.
    pub(crate) fn parse_process_args() -> Result<Self, clap::Error> {
        // clap copies a global option into every command, which takes longer than all other parsing. So the complete
        // command line is used only if the arguments need it.
        Self::try_parse().or_else(|error| {
            if error.kind() == ErrorKind::DisplayVersion {
                return Err(error);
            }
            let matches = Self::complete_command().try_get_matches()?;
            Self::from_arg_matches(&matches)
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Chat(ChatArgs),
    Repl(ReplArgs),
    Session(SessionArgs),
    Role(RoleArgs),
    Index(IndexArgs),
    Mcp(McpArgs),
    Events(EventsArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Trust(TrustArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
}

/// Adds a suggestion to an error: `session list` if the user typed `list`.
pub(crate) fn suggest_session_command(mut error: clap::Error) -> clap::Error {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        let sessions = AnySessionCommand::augment_subcommands(clap::Command::new("session"));
        let is_match = |command: &clap::Command| {
            command.get_name() == typed || command.get_all_aliases().any(|alias| alias == typed)
        };
        if let Some(session_command) = sessions.get_subcommands().find(|command| is_match(command))
        {
            let suggestion = format!("session {}", session_command.get_name());
            let suggestion = ContextValue::Strings(vec![suggestion]);
            error.insert(ContextKind::SuggestedSubcommand, suggestion);
        }
    }
    error
}

/// Commands with which segue starts helper processes. They are separate, so that help and completion omit them.
#[derive(Debug, Parser)]
#[command(name = "segue", disable_help_subcommand = true)]
pub(crate) enum HiddenCommand {
    RehearsalAgent(RehearsalArgs),
    Leash(LeashArgs),
}

impl HiddenCommand {
    /// Returns `true` if the first argument is the name of a hidden command.
    pub(crate) fn is_command_name(argument: Option<&OsStr>) -> bool {
        argument.is_some_and(|argument| argument == "rehearsal-agent" || argument == "leash")
    }
}

/// Send one prompt to an agent and stream the answer
///
/// segue saves the prompt before it sends it, and the answer as it arrives. The prompt starts a new session unless
/// --resume, --continue or a purpose (--feature, --task, --role) selects an existing one. Piped input is appended to the
/// prompt as a quoted block.
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
    /// Prompt text; `-` reads standard input (the default in a pipe)
    pub(crate) prompt: Option<String>,

    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,

    /// Print the result as one JSON object instead of streaming the answer
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,

    /// Print events as JSON lines; the last line is the result
    #[arg(long)]
    pub(crate) events: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// Ask on the terminal; deny without a terminal
    Ask,
    /// Allow read-only tools, ask for others
    AllowReads,
    /// Allow reading and editing files, ask for other tools
    AllowEdits,
    /// Allow every request
    AllowAll,
    /// Deny every request
    Deny,
}

impl From<PolicyArg> for PermissionPolicy {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Ask => Self::Ask,
            PolicyArg::AllowReads => Self::AllowReads,
            PolicyArg::AllowEdits => Self::AllowEdits,
            PolicyArg::AllowAll => Self::AllowAll,
            PolicyArg::Deny => Self::Deny,
        }
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        Ok(_) => Err("must be greater than 0 and at most 86400".into()),
        Err(_) => Err("not a number of seconds".into()),
    }
}

fn parse_turn_number(text: &str) -> Result<i64, &'static str> {
    parse_saturating_i64(text).ok_or("not a turn number")
}

/// Parses an integer of any size. A number outside the range of `i64` becomes its minimum or maximum, which is out of
/// range for every use.
pub(crate) fn parse_saturating_i64(text: &str) -> Option<i64> {
    match text.parse::<i64>() {
        Ok(number) => Some(number),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

/// Manage sessions
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

/// Session commands that need no agent, so that the REPL and the picker can run them too.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    List(ListArgs),
    /// Show a session's metadata: agents, forks and decisions
    Info(SessionRefArgs),
    Show(ShowArgs),
    Preview(PreviewArgs),
    Context(ContextArgs),
    Search(SearchArgs),
    Rename(RenameArgs),
    Tag(TagArgs),
    /// Adopt an agent's native session, with its full history
    ///
    /// segue records all turns of the native session, and the adopted session continues on it. The agent's files do not
    /// change. `rename`, `tag`, `fork` and `revert` adopt a native session automatically.
    Adopt(SessionRefArgs),
    Revert(RevertArgs),
    /// Undo the last revert
    ///
    /// The session contains the turns again that the revert dropped. Turns made after the revert leave the session;
    /// `fork --moved` continues with them in a new session.
    #[command(after_help = "\
Examples:
  segue session undo k3f9
  segue session fork k3f9 --moved 2   continue with the turns that the undo dropped")]
    Undo(SessionRefArgs),
    Fork(ForkArgs),
    Compact(CompactArgs),
    Checkpoint(CheckpointArgs),
    Delete(DeleteArgs),
    Stats(StatsArgs),
    Forget(ForgetArgs),
    Archive(ArchiveArgs),
    Restore(RestoreArgs),
}

/// List sessions, newest first, including the agents' native sessions
///
/// segue reads the native sessions of Claude Code, Codex, Gemini CLI and opencode from the agents' own files and never
/// changes them. A native session that belongs to a segue session is not listed separately.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// List the sessions of all projects
    #[arg(long)]
    pub(crate) all: bool,

    /// Only sessions of this agent, or of several agents: claude,codex
    #[arg(short, long, value_name = "AGENT", value_delimiter = ',')]
    pub(crate) provider: Vec<ProviderId>,

    /// Only sessions for this feature or its tasks
    #[arg(long, value_name = "NAME")]
    pub(crate) feature: Option<FeatureId>,

    /// Only sessions for this task, in any state
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<TaskId>,

    /// Only sessions in which the agent has this role
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<RoleName>,

    /// Only sessions with this tag; repeat to require several tags
    #[arg(short, long, value_name = "TAG", value_parser = Tag::parse)]
    pub(crate) tag: Vec<Tag>,

    /// Only sessions with activity since this time: 2025-12-07T14:30:22Z, 2025-12-07, today, yesterday, or an age such as 30m, 12h, 7d, 2w, 6mo, 1y
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    #[command(flatten)]
    pub(crate) order: SortArgs,

    /// Maximum number of sessions; 0 for no limit
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,

    /// Use the index as it is, without refreshing it first
    #[arg(long)]
    pub(crate) no_refresh: bool,

    /// Run Gemini CLI to list its sessions if its files cannot be read; this calls the model
    #[arg(long)]
    pub(crate) ask: bool,

    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// A session and the output format.
#[derive(Debug, Args)]
pub(crate) struct SessionRefArgs {
    /// Session: ID, unique ID prefix or suffix, native ID (also `claude:ID`), `latest`, `feature:NAME`, or list number
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show a session's transcript
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// Show only the last N turns
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,

    /// Show only this turn
    #[arg(long, value_name = "TURN", conflicts_with = "last", value_parser = parse_turn_number, allow_negative_numbers = true)]
    pub(crate) turn: Option<i64>,

    /// Show tool output in full
    #[arg(long)]
    pub(crate) full: bool,
}

/// Change the title of a session
#[derive(Debug, Args)]
pub(crate) struct RenameArgs {
    #[command(flatten)]
    pub(crate) session: SessionRefArgs,

    /// New title
    pub(crate) title: String,
}

/// Run the MCP server over standard input and output
///
/// Agents start this server. Its tools set the title of the session, and read and search the history of this session and
/// of other sessions of the project.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: claude --mcp-config '{\"mcpServers\":{\"segue\":{\"command\":\"segue\",\"args\":[\"mcp\"]}}}'")]
pub(crate) struct McpArgs {
    /// Session that the agent works in; without it, the agent cannot set a title
    #[arg(long, value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) session: Option<SessionRef>,
}

/// Check installed agents, their capabilities, and the store
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show and check the configuration
///
/// Order of precedence: flag, environment variable, the project's `segue.toml`, the user's file (`$SEGUE_CONFIG`, by
/// default `segue/config.toml` in the user's configuration directory), default value.
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

/// Print the effective configuration as TOML, with secrets masked
#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// Print the origin of each value
    #[arg(long)]
    pub(crate) origin: bool,

    /// Print a JSON array, with the origin of each value
    #[arg(long)]
    pub(crate) json: bool,

    /// Apply this flag of `chat`
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) permissions: Option<PolicyArg>,

    /// Apply this flag of `chat`
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) open_timeout: Option<f64>,
}

/// Print the configuration files and the status of each
#[derive(Debug, Args)]
pub(crate) struct ConfigPathArgs {
    /// Print a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// Report all problems in the configuration or in one file
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    /// File to check instead of the configuration
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Print a JSON array of problems
    #[arg(long)]
    pub(crate) json: bool,
}

/// Trust this project's `segue.toml` to start programs and set permissions
///
/// Without trust, segue ignores such settings. Trust applies to the current content of the file: after a change, run this
/// command again.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Revoke the trust
    #[arg(long, conflicts_with_all = ["list", "yes"])]
    pub(crate) revoke: bool,

    /// List trusted files
    #[arg(long, conflicts_with = "yes")]
    pub(crate) list: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segue completions bash > ~/.local/share/bash-completion/completions/segue"
)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Run the built-in offline agent over standard input and output
#[derive(Debug, Args)]
pub(crate) struct RehearsalArgs {
    /// Directory for its sessions
    pub(crate) directory: PathBuf,

    /// Fault to simulate at the start: silent, exit, liar
    #[arg(long, env = "SEGUE_REHEARSAL_FAULT")]
    pub(crate) fault: Option<String>,
}

/// Run an agent and end all its processes when the lifeline closes
#[derive(Debug, Args)]
pub(crate) struct LeashArgs {
    /// File descriptor of the inherited end of the lifeline
    #[arg(long)]
    pub(crate) lifeline: u32,

    /// Program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
