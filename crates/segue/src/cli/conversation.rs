//! Common arguments of `chat`, `repl` and `session resume`: session, agent and options.

use clap::{Args, ValueHint};
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use super::{PolicyArg, ScopeArgs, parse_seconds};

/// Session, agent and options of a conversation.
#[derive(Debug, Default, Args)]
pub(crate) struct ConversationArgs {
    /// Resume a session: ID, unique ID prefix or suffix, native ID, `latest`, `feature:NAME`, or list number
    #[arg(long, value_name = "ID", conflicts_with = "continue_last", value_parser = SessionRef::parse)]
    pub(crate) resume: Option<SessionRef>,

    /// Resume the newest session in this directory (with -p: of that agent), or start one
    #[arg(long = "continue")]
    pub(crate) continue_last: bool,

    /// Start a new session, regardless of the configuration
    #[arg(long, conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) new: bool,

    #[command(flatten)]
    pub(crate) scope: Box<ScopeArgs>,

    /// Explain how segue selected the session, step by step
    #[arg(long)]
    pub(crate) explain: bool,

    #[command(flatten)]
    pub(crate) options: TurnOptionArgs,
}

/// Agent and options of a turn.
#[derive(Debug, Default, Args)]
pub(crate) struct TurnOptionArgs {
    /// Agent to use (`segue doctor` lists them)
    #[arg(short, long, value_name = "AGENT", env = "SEGUE_PROVIDER", value_hint = ValueHint::Other)]
    pub(crate) provider: Option<ProviderId>,

    /// Model to use, by the agent's name for it
    #[arg(short, long, value_name = "MODEL", value_hint = ValueHint::Other)]
    pub(crate) model: Option<String>,

    /// Fail if the native session cannot be resumed
    #[arg(long)]
    pub(crate) strict: bool,

    /// Send the prompt now, ignoring backoff and cooldown
    #[arg(long)]
    pub(crate) now: bool,

    /// Retry an agent after repeated failures in this session
    #[arg(long)]
    pub(crate) anyway: bool,

    /// Answer to permission requests of the agent [default: as configured, or ask]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) permissions: Option<PolicyArg>,

    /// Maximum time for the agent to start, in seconds [default: as configured, or 60]
    #[arg(long, value_name = "SECONDS", env = "SEGUE_OPEN_TIMEOUT", value_parser = parse_seconds)]
    pub(crate) open_timeout: Option<f64>,

    /// Maximum time for the turn, in seconds [default: as configured, or no limit]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<f64>,
}

/// Start an interactive conversation with an agent
///
/// Every line is one prompt, and one agent process answers all of them. segue saves each turn as `segue chat` does, so that
/// nothing is lost if segue or the agent is killed. `/help` lists the commands, Ctrl-C stops a turn, Ctrl-D ends the
/// conversation. In a pipe, each input line is a prompt, and the exit code is that of the last failure.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue repl                        start a session
  segue repl --continue             resume the newest session in this directory
  segue repl --feature auth         resume or start the session of a feature
  printf 'hello\\n/usage\\n' | segue repl -p claude")]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
}
