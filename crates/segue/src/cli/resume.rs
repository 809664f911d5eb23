//! Arguments of `segue session resume`.

use clap::Args;
use segue_core::session::SessionRef;

use super::TurnOptionArgs;

/// Resume a session in segue or in the agent's own program
///
/// With a prompt or piped input, runs one turn, like `segue chat --resume`. Without a prompt, on a terminal, starts a
/// conversation, like `segue repl --resume`. With --exec, replaces segue with the agent's own program, in the directory of
/// the session.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  segue session resume k3f9                        start a conversation
  segue session resume k3f9 \"run the tests\"        run one turn
  segue session resume k3f9 -p codex \"continue\"    run one turn with another agent
  segue session resume k3f9 --exec                 open claude, codex, gemini or opencode
  eval \"$(segue session resume k3f9 --print)\"      open it from your shell")]
pub(crate) struct ResumeArgs {
    /// Session (see `segue session info --help`)
    #[arg(value_name = "ID", value_parser = SessionRef::parse)]
    pub(crate) id: Option<SessionRef>,

    /// Prompt text; `-` reads standard input
    pub(crate) prompt: Option<String>,

    /// Replace segue with the agent's own program
    #[arg(long, conflicts_with_all = ["prompt", "events", "model", "strict", "permissions", "timeout"])]
    pub(crate) exec: bool,

    /// Print the command that --exec would run
    // `--json` prints the command, but a program that has the terminal produces no JSON.
    #[arg(long, required_if_eq_all = [("exec", "true"), ("json", "true")])]
    #[arg(conflicts_with_all = ["prompt", "events", "model", "strict", "permissions", "timeout"])]
    pub(crate) print: bool,

    #[command(flatten)]
    pub(crate) options: TurnOptionArgs,

    /// Print the result of the turn as one JSON object; with --print, the command
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,

    /// Print events as JSON lines; the last line is the result
    #[arg(long)]
    pub(crate) events: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct ResumeCli {
        #[command(flatten)]
        args: ResumeArgs,
    }

    #[test]
    fn json_needs_a_turn_or_a_printed_command() {
        for (options, is_valid) in [
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
            let command_line = format!("resume k3f9 {options}");
            let parsed = ResumeCli::try_parse_from(command_line.split(' '));
            assert_eq!(parsed.is_ok(), is_valid, "{options}: {parsed:?}");
        }
        let result = ResumeCli::try_parse_from(["resume", "k3f9", "--exec", "--json"]);
        let message = result.unwrap_err().to_string();
        assert!(message.contains("--print"), "{message}");
    }
}
