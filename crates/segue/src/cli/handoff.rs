//! Arguments of `segue session handoff`.

use clap::{Args, ValueHint};
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use super::parse_seconds;

/// Hand a session off to another agent
///
/// The session belongs to the new agent immediately. The next prompt (or --prompt) starts a native session with a brief, or
/// resumes an earlier one of that agent that has the full history. segue adopts a native session first. Settings of the old
/// agent only, such as its mode or model, do not apply to the new one; segue reports them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session handoff k3f9 -p codex
  segue session handoff latest -p gemini --prompt \"continue with the tests\"")]
pub(crate) struct HandoffArgs {
    /// Session (see `segue session info --help`)
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: SessionRef,

    /// New agent (`segue doctor` lists them)
    #[arg(short, long, value_name = "AGENT", value_hint = ValueHint::Other)]
    pub(crate) provider: ProviderId,

    /// Prompt to send immediately, with piped input; `-` reads the prompt from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Maximum time for the agent to start, in seconds [default: as configured, or 60]
    #[arg(long, value_name = "SECONDS", env = "SEGUE_OPEN_TIMEOUT", value_parser = parse_seconds)]
    pub(crate) open_timeout: Option<f64>,

    /// Print the session as JSON; with --prompt, the output of `segue chat --json`
    #[arg(long)]
    pub(crate) json: bool,
}
