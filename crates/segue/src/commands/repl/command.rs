//! Parser of the input: a prompt for the agent or a command for segue.

use clap::ValueEnum;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use crate::cli::{PolicyArg, parse_saturating_i64};
use crate::config::suggest_name;
use crate::error::CliError;

/// Parsed input of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplInput {
    Empty,
    Prompt(String),
    Command(ReplCommand),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplCommand {
    Help,
    Exit,
    Sessions {
        all: bool,
    },
    Session,
    Resume(SessionRef),
    New,
    History(usize),
    Rename(String),
    Agent(ProviderId),
    Handoff(ProviderId),
    Permissions(PolicyArg),
    Usage,
    /// Revert to a turn. Without a number the command prints its usage.
    BackToTurn(Option<i64>),
    Undo,
    Fork(Option<i64>),
    Compact,
    Checkpoint {
        all: bool,
    },
}

/// Commands with their arguments, and their descriptions.
pub(super) const REPL_COMMANDS: [(&str, &str); 18] = [
    ("/help", "list the commands"),
    (
        "/sessions [all]",
        "list the sessions of this project, or of all projects",
    ),
    ("/session", "show the current session"),
    (
        "/resume ID|NUMBER",
        "switch to another session or native session",
    ),
    ("/new", "start a new session with the next prompt"),
    ("/history [N]", "show the last N turns [default: 5]"),
    (
        "/backtoturn [N]",
        "revert to turn N (/history shows the numbers)",
    ),
    ("/undo", "undo the last /backtoturn"),
    (
        "/fork [N]",
        "fork the session (after turn N) and switch to the fork",
    ),
    ("/compact", "compact the session into a checkpoint"),
    (
        "/checkpoint [all]",
        "show the checkpoint and how much of the budget it uses",
    ),
    ("/rename TITLE", "change the title of the session"),
    (
        "/agent NAME",
        "hand the session off to another agent with the next prompt",
    ),
    ("/handoff NAME", "hand the session off to another agent now"),
    (
        "/permissions POLICY",
        "set how permission requests of the agent are answered",
    ),
    (
        "/usage",
        "show the tokens that the last turn and the session used",
    ),
    ("/exit", "end the conversation, like Ctrl-D"),
    ("/quit", "same as /exit"),
];

/// Returns the names of the commands, each with its arguments.
fn command_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let syntaxes = REPL_COMMANDS.iter().map(|(syntax, _)| *syntax);
    syntaxes.map(|syntax| syntax.split_once(' ').unwrap_or((syntax, "")))
}

/// Default number of turns that `/history` shows.
const DEFAULT_HISTORY_TURNS: usize = 5;

/// Parses the input. A text of several lines is always a prompt. A text that begins with two slashes is a prompt, too,
/// without the first slash.
pub(super) fn parse_input(text: &str) -> Result<ReplInput, CliError> {
    let line = text.trim();
    if line.is_empty() {
        return Ok(ReplInput::Empty);
    }
    if line.contains('\n') || !line.starts_with('/') {
        return Ok(ReplInput::Prompt(text.to_owned()));
    }
    if line.starts_with("//") {
        return Ok(ReplInput::Prompt(text.replacen("//", "/", 1)));
    }
    let (name, argument) = line
        .split_once(char::is_whitespace)
        .map_or((line, ""), |(name, argument)| (name, argument.trim()));
    parse_command(name, argument).map(ReplInput::Command)
}

fn parse_command(name: &str, argument: &str) -> Result<ReplCommand, CliError> {
    let Some((_, arguments)) = command_names().find(|(command, _)| *command == name) else {
        return Err(unknown_command(name));
    };
    let usage_error = || CliError::usage(format!("usage: {name} {arguments}"));
    if arguments.starts_with(char::is_alphabetic) && argument.is_empty() {
        return Err(usage_error());
    }
    if arguments.is_empty() && !argument.is_empty() {
        return Err(CliError::usage(format!("{name} takes no argument")));
    }
    let parse_agent =
        || ProviderId::parse(argument).map_err(|error| CliError::usage(error.to_string()));
    Ok(match name {
        "/help" => ReplCommand::Help,
        "/sessions" | "/checkpoint" if !matches!(argument, "" | "all") => {
            return Err(usage_error());
        }
        "/sessions" => ReplCommand::Sessions {
            all: argument == "all",
        },
        "/session" => ReplCommand::Session,
        "/resume" => ReplCommand::Resume(
            SessionRef::parse(argument).map_err(|error| CliError::usage(error.to_string()))?,
        ),
        "/new" => ReplCommand::New,
        "/history" if argument.is_empty() => ReplCommand::History(DEFAULT_HISTORY_TURNS),
        "/history" => match argument.parse() {
            Ok(turns @ 1..) => ReplCommand::History(turns),
            Ok(0) | Err(_) => {
                return Err(CliError::usage(format!(
                    "{argument:?} is not a number of turns"
                )));
            }
        },
        "/backtoturn" => ReplCommand::BackToTurn(parse_turn_number(argument)?),
        "/undo" => ReplCommand::Undo,
        "/fork" => ReplCommand::Fork(parse_turn_number(argument)?),
        "/compact" => ReplCommand::Compact,
        "/checkpoint" => ReplCommand::Checkpoint {
            all: argument == "all",
        },
        "/rename" => ReplCommand::Rename(argument.to_owned()),
        "/agent" => ReplCommand::Agent(parse_agent()?),
        "/handoff" => ReplCommand::Handoff(parse_agent()?),
        "/permissions" => ReplCommand::Permissions(parse_policy(argument)?),
        "/usage" => ReplCommand::Usage,
        _ => ReplCommand::Exit,
    })
}

/// Parses the number of a turn. `None` if the text is empty.
fn parse_turn_number(text: &str) -> Result<Option<i64>, CliError> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_saturating_i64(text).map(Some).ok_or_else(|| {
        CliError::usage(format!("{text:?} is not a turn number"))
            .with_hint("run `/history` to show the turn numbers")
    })
}

fn unknown_command(name: &str) -> CliError {
    let names: Vec<&str> = command_names().map(|(name, _)| name).collect();
    let error = CliError::usage(format!("unknown command `{name}`; nothing was sent"));
    match suggest_name(name, &names) {
        Some(suggestion) => error.with_hint(format!("did you mean `{suggestion}`?")),
        None => error.with_hint(
            "run `/help` to list the commands, or type `//` to send a prompt that begins with `/`",
        ),
    }
}

fn parse_policy(text: &str) -> Result<PolicyArg, CliError> {
    PolicyArg::from_str(text, false).map_err(|_| {
        CliError::usage(format!("unknown policy {text:?}"))
            .with_hint(format!("available policies: {}", policy_names().join(", ")))
    })
}

pub(super) fn policy_names() -> Vec<String> {
    let values = PolicyArg::value_variants().iter();
    let names = values.filter_map(ValueEnum::to_possible_value);
    names.map(|value| value.get_name().to_owned()).collect()
}

/// Returns the completions of the input, and the byte offset at which they start.
pub(super) fn find_completions(input: &str, agents: &[String]) -> (usize, Vec<String>) {
    let Some((name, argument)) = input.split_once(' ') else {
        let names = command_names().map(|(name, _)| name.to_owned());
        return (0, filter_by_prefix(names.collect(), input));
    };
    let candidates = match name {
        "/agent" | "/handoff" => agents.to_vec(),
        "/permissions" => policy_names(),
        "/sessions" => vec!["all".to_owned()],
        _ => Vec::new(),
    };
    (name.len() + 1, filter_by_prefix(candidates, argument))
}

fn filter_by_prefix(mut candidates: Vec<String>, prefix: &str) -> Vec<String> {
    candidates.retain(|name| {
        prefix.starts_with('/') == name.starts_with('/') && name.starts_with(prefix)
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prompts_or_commands() {
        let prompt = |text: &str| ReplInput::Prompt(text.to_owned());
        let session = SessionRef::parse("3").unwrap();
        let agent = ProviderId::parse("codex").unwrap();
        let cases = [
            ("", ReplInput::Empty),
            (" \n ", ReplInput::Empty),
            ("hello /help", prompt("hello /help")),
            ("//etc/hosts", prompt("/etc/hosts")),
            (" //x", prompt(" /x")),
            ("/* code */\nint x;", prompt("/* code */\nint x;")),
            ("// code\nint x;", prompt("// code\nint x;")),
            ("/help", ReplInput::Command(ReplCommand::Help)),
            ("  /exit ", ReplInput::Command(ReplCommand::Exit)),
            ("/quit", ReplInput::Command(ReplCommand::Exit)),
            (
                "/sessions",
                ReplInput::Command(ReplCommand::Sessions { all: false }),
            ),
            (
                "/sessions all",
                ReplInput::Command(ReplCommand::Sessions { all: true }),
            ),
            ("/session", ReplInput::Command(ReplCommand::Session)),
            (
                "/resume  3",
                ReplInput::Command(ReplCommand::Resume(session)),
            ),
            ("/new", ReplInput::Command(ReplCommand::New)),
            ("/history", ReplInput::Command(ReplCommand::History(5))),
            ("/history 2", ReplInput::Command(ReplCommand::History(2))),
            (
                "/rename two  words",
                ReplInput::Command(ReplCommand::Rename("two  words".into())),
            ),
            (
                "/agent codex",
                ReplInput::Command(ReplCommand::Agent(agent.clone())),
            ),
            (
                "/handoff codex",
                ReplInput::Command(ReplCommand::Handoff(agent)),
            ),
            (
                "/permissions allow-reads",
                ReplInput::Command(ReplCommand::Permissions(PolicyArg::AllowReads)),
            ),
            ("/usage", ReplInput::Command(ReplCommand::Usage)),
            ("/compact", ReplInput::Command(ReplCommand::Compact)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_input(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn an_invalid_command_is_an_error_and_is_never_sent() {
        let cases = [
            (
                "/sesions",
                "unknown command `/sesions`",
                "did you mean `/sessions`?",
            ),
            ("/etc/hosts", "unknown command `/etc/hosts`", "type `//`"),
            ("/", "unknown command `/`", "type `//`"),
            ("/resume", "/resume ID|NUMBER", ""),
            ("/resume ../x", "may not contain '/'", ""),
            ("/rename", "/rename TITLE", ""),
            ("/agent", "/agent NAME", ""),
            ("/handoff", "/handoff NAME", ""),
            ("/agent a b", "may not contain ' '", ""),
            ("/permissions", "/permissions POLICY", ""),
            ("/permissions yes", "unknown policy", "allow-reads"),
            ("/history 0", "not a number of turns", ""),
            ("/history few", "not a number of turns", ""),
            ("/sessions mine", "/sessions [all]", ""),
            ("/checkpoint 2", "/checkpoint [all]", ""),
            ("/new one", "takes no argument", ""),
        ];
        for (text, message, hint) in cases {
            let error = parse_input(text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {error:?}");
            let hints: String = error
                .hints
                .iter()
                .map(|hint| hint.format(&segue_api::text::ShellActions))
                .collect();
            assert!(hints.contains(hint), "{text}: {error:?}");
        }
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        let agents = ["claude".to_owned(), "codex".to_owned()];
        let cases: [(&str, usize, &[&str]); 7] = [
            ("/se", 0, &["/sessions", "/session"]),
            ("/x", 0, &[]),
            ("hello", 0, &[]),
            ("", 0, &[]),
            ("/agent c", 7, &["claude", "codex"]),
            ("/agent co", 7, &["codex"]),
            ("/permissions d", 13, &["deny"]),
        ];
        for (input, expected_start, expected) in cases {
            let (start, values) = find_completions(input, &agents);
            assert_eq!(
                (start, values),
                (
                    expected_start,
                    expected.iter().map(|&name| name.to_owned()).collect()
                )
            );
        }
    }
}
