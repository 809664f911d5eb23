//! The arguments of `segue session handoff`.

use clap::{Args, ValueHint};
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use super::seconds;

/// Have another agent go on with a session
///
/// The session is the other agent's at once. The next prompt opens a native session there, which is told what was said,
/// or goes on with an earlier one that knows it all; with --prompt that happens now. A session that only an agent has becomes one of segue's first. What is configured
/// for the old agent alone, such as a mode or a model, does not carry over, which is said.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session handoff k3f9 -p codex
  segue session handoff latest -p gemini --prompt \"go on where claude stopped\"")]
pub(crate) struct HandoffArgs {
    /// The session, as `segue session info` takes it
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// The agent that is to go on (`segue doctor` lists them)
    #[arg(short, long, value_name = "NAME", value_hint = ValueHint::Other)]
    pub(crate) provider: ProviderId,

    /// What to say to it right away, with what is piped; `-` takes all of it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// How long the agent may take to start, in seconds [default: as configured, else 60]
    #[arg(long, value_name = "SECONDS", env = "SEGUE_OPEN_TIMEOUT", value_parser = seconds)]
    pub(crate) open_timeout: Option<f64>,

    /// Print JSON: the session, or with --prompt what `segue chat --json` prints
    #[arg(long)]
    pub(crate) json: bool,
}
