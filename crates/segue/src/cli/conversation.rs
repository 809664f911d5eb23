//! Common arguments of `chat`, `repl` and `session resume`: session, agent and options.

use clap::{Args, ValueHint};
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use super::{Policy, ScopeArgs, seconds};

/// In which session to talk, with whom, and on what terms.
#[derive(Debug, Args)]
pub(crate) struct TalkArgs {
    /// Go on with this session: an id, a unique beginning or end of one, a native id, `latest`, `feature:NAME`, or a number from the last list
    #[arg(long, value_name = "ID", conflicts_with = "continue_last", value_parser = SessionRef::parse)]
    pub(crate) resume: Option<SessionRef>,

    /// Go on with the newest session of this directory (of the agent, with -p), or start one if there is none
    #[arg(long = "continue")]
    pub(crate) continue_last: bool,

    /// Start a new session, whatever is configured
    #[arg(long, conflicts_with_all = ["resume", "continue_last"])]
    pub(crate) new: bool,

    #[command(flatten)]
    pub(crate) scope: Box<ScopeArgs>,

    /// Say how the session was found, step by step
    #[arg(long)]
    pub(crate) explain: bool,

    #[command(flatten)]
    pub(crate) terms: TermsArgs,
}

/// With whom to talk, and on what terms.
#[derive(Debug, Default, Args)]
pub(crate) struct TermsArgs {
    /// The agent to use (`segue doctor` lists them)
    #[arg(short, long, value_name = "NAME", env = "SEGUE_PROVIDER", value_hint = ValueHint::Other)]
    pub(crate) provider: Option<ProviderId>,

    /// The model to use, by the agent's own name for it
    #[arg(short, long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub(crate) model: Option<String>,

    /// Fail rather than tell a new native session what was said before
    #[arg(long)]
    pub(crate) strict: bool,

    /// Ask the agent now, also where it failed a moment ago or rests
    #[arg(long)]
    pub(crate) now: bool,

    /// Ask the agent once more though it failed in one native session after another
    #[arg(long)]
    pub(crate) anyway: bool,

    /// How to answer when the agent asks for permission [default: as configured, else ask]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) permissions: Option<Policy>,

    /// How long the agent may take to start, in seconds [default: as configured, else 60]
    #[arg(long, value_name = "SECONDS", env = "SEGUE_OPEN_TIMEOUT", value_parser = seconds)]
    pub(crate) open_timeout: Option<f64>,

    /// How long the whole turn may take, in seconds [default: as configured, else for ever]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<f64>,
}

/// Hold a conversation with an agent: every line is a turn
///
/// One process of the agent serves all turns. Each turn is written down as `segue chat` does it, so nothing is lost
/// when either is killed. `/help` lists the commands, Ctrl-C stops a turn, Ctrl-D ends the conversation. In a pipe,
/// prompts are read line by line, and the exit code is that of the last thing that failed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue repl                        start a session
  segue repl --continue             go on with the newest one of this directory
  segue repl --feature auth         go on with the one for that feature
  printf 'hello\\n/usage\\n' | segue repl -p claude")]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}
