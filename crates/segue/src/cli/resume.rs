//! The arguments of `segue session resume`.

use clap::Args;
use segue_core::session::SessionRef;

use super::TermsArgs;

/// Go on with a session: here, or in the agent's own program
///
/// With a prompt it is one turn, as `segue chat --resume`; without one, on a terminal, it is a conversation, as
/// `segue repl --resume`. What is piped goes with the prompt, or is it. With --exec the terminal is handed to the
/// agent's own program, in the directory of the session.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session resume k3f9                    a conversation
  segue session resume k3f9 \"and now?\"         one turn
  segue session resume k3f9 -p codex \"go on\"   one turn, with another agent
  segue session resume k3f9 --exec             in claude, codex, gemini or opencode itself
  eval \"$(segue session resume k3f9 --print)\"  the same, by your shell")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ResumeArgs {
    /// The session, as `segue session info` takes it
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: Option<SessionRef>,

    /// What to say; `-` takes all of it from standard input
    pub(crate) prompt: Option<String>,

    /// Start the agent's own program in segue's place
    #[arg(long, conflicts_with_all = ["prompt", "events", "model", "strict", "permissions", "timeout"])]
    pub(crate) exec: bool,

    /// Print the command that --exec would run
    // `--json` prints the command, but a program that has the terminal produces no JSON.
    #[arg(long, required_if_eq_all = [("exec", "true"), ("json", "true")])]
    #[arg(conflicts_with_all = ["prompt", "events", "model", "strict", "permissions", "timeout"])]
    pub(crate) print: bool,

    #[command(flatten)]
    pub(crate) terms: TermsArgs,

    /// Print one JSON object when the turn is over, or, with --print, the command
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,

    /// Print one JSON event a line as things happen; the last one is the result
    #[arg(long)]
    pub(crate) events: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        args: ResumeArgs,
    }

    #[test]
    fn json_is_of_a_turn_or_of_the_command_that_is_printed() {
        for (typed, works) in [
            ("--json hi", true),
            ("--print --json", true),
            ("--exec --print", true),
            ("--exec --print --json", true),
            ("--json --print --exec", true),
            ("--exec", true),
            ("--exec --json", false),
            ("--exec --events", false),
            ("--exec hi", false),
            ("--exec --print hi", false),
        ] {
            let line = format!("resume k3f9 {typed}");
            let read = Typed::try_parse_from(line.split(' '));
            assert_eq!(read.is_ok(), works, "{typed}: {read:?}");
        }
        let refused = Typed::try_parse_from(["resume", "k3f9", "--exec", "--json"]);
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("--print"), "{told}");
    }
}
