//! Parser of the input: a prompt for the agent or a command for segue.

use clap::ValueEnum;
use segue_core::id::ProviderId;
use segue_core::session::SessionRef;

use crate::cli::{Policy, whole_number};
use crate::config::nearest;
use crate::error::CliError;

/// Parsed input of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Nothing,
    Prompt(String),
    Command(Command),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
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
    Permissions(Policy),
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

/// A command in the help.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) takes: &'static str,
    pub(super) does: &'static str,
}

const fn entry(name: &'static str, takes: &'static str, does: &'static str) -> Entry {
    Entry { name, takes, does }
}

pub(super) const COMMANDS: [Entry; 18] = [
    entry("/help", "", "this list"),
    entry(
        "/sessions",
        "[all]",
        "the sessions of this project, or of all, numbered",
    ),
    entry("/session", "", "the session you are in"),
    entry(
        "/resume",
        "ID|NUMBER",
        "go on with another session, also one that an agent keeps itself",
    ),
    entry("/new", "", "start a new session with the next prompt"),
    entry(
        "/history",
        "[N]",
        "the last N turns of the session, 5 if not said",
    ),
    entry(
        "/backtoturn",
        "[N]",
        "make turn N the last one (/history shows the numbers)",
    ),
    entry("/undo", "", "take the last /backtoturn back"),
    entry(
        "/fork",
        "[N]",
        "branch off, after turn N if said, and go on there",
    ),
    entry(
        "/compact",
        "",
        "sum up what was said, so that the next prompt needs less",
    ),
    entry(
        "/checkpoint",
        "[all]",
        "what it was summed up to, and how full the budget is",
    ),
    entry("/rename", "TITLE", "give the session another title"),
    entry(
        "/agent",
        "NAME",
        "hand the session to another agent with the next prompt",
    ),
    entry(
        "/handoff",
        "NAME",
        "hand the session to another agent at once",
    ),
    entry(
        "/permissions",
        "POLICY",
        "how to answer when the agent asks for permission",
    ),
    entry("/usage", "", "what the last turn and the session used"),
    entry("/exit", "", "end the conversation, as Ctrl-D does"),
    entry("/quit", "", "the same"),
];

/// Default number of turns that `/history` shows.
const TURNS: usize = 5;

/// Parses the input. A text of several lines is always a prompt. A text that begins with two slashes is a prompt, too,
/// without the first slash.
pub(super) fn parse(text: &str) -> Result<Typed, CliError> {
    let line = text.trim();
    if line.is_empty() {
        return Ok(Typed::Nothing);
    }
    if line.contains('\n') || !line.starts_with('/') {
        return Ok(Typed::Prompt(text.to_owned()));
    }
    if line.starts_with("//") {
        return Ok(Typed::Prompt(text.replacen("//", "/", 1)));
    }
    let (name, rest) = line
        .split_once(char::is_whitespace)
        .map_or((line, ""), |(name, rest)| (name, rest.trim()));
    command(name, rest).map(Typed::Command)
}

fn command(name: &str, rest: &str) -> Result<Command, CliError> {
    let Some(entry) = COMMANDS.iter().find(|entry| entry.name == name) else {
        return Err(unknown(name));
    };
    let takes = || format!("{name} {}", entry.takes);
    match (entry.takes.starts_with(char::is_alphabetic), rest) {
        (true, "") => return Err(CliError::usage(format!("say it so: {}", takes()))),
        (false, rest) if entry.takes.is_empty() && !rest.is_empty() => {
            return Err(CliError::usage(format!("{name} takes nothing")));
        }
        (true | false, _) => {}
    }
    Ok(match name {
        "/help" => Command::Help,
        "/sessions" | "/checkpoint" if !matches!(rest, "" | "all") => {
            return Err(CliError::usage(format!("say it so: {}", takes())));
        }
        "/sessions" => Command::Sessions { all: rest == "all" },
        "/session" => Command::Session,
        "/resume" => Command::Resume(
            SessionRef::parse(rest).map_err(|error| CliError::usage(error.to_string()))?,
        ),
        "/new" => Command::New,
        "/history" if rest.is_empty() => Command::History(TURNS),
        "/history" => match rest.parse() {
            Ok(turns @ 1..) => Command::History(turns),
            Ok(0) | Err(_) => {
                return Err(CliError::usage(format!(
                    "{rest:?} is not a number of turns"
                )));
            }
        },
        "/backtoturn" => Command::BackToTurn(turn(rest)?),
        "/undo" => Command::Undo,
        "/fork" => Command::Fork(turn(rest)?),
        "/compact" => Command::Compact,
        "/checkpoint" => Command::Checkpoint { all: rest == "all" },
        "/rename" => Command::Rename(rest.to_owned()),
        "/agent" => Command::Agent(
            ProviderId::parse(rest).map_err(|error| CliError::usage(error.to_string()))?,
        ),
        "/handoff" => Command::Handoff(
            ProviderId::parse(rest).map_err(|error| CliError::usage(error.to_string()))?,
        ),
        "/permissions" => Command::Permissions(policy(rest)?),
        "/usage" => Command::Usage,
        _ => Command::Exit,
    })
}

/// Parses the number of a turn. `None` if the text is empty.
fn turn(text: &str) -> Result<Option<i64>, CliError> {
    if text.is_empty() {
        return Ok(None);
    }
    whole_number(text).map(Some).ok_or_else(|| {
        CliError::usage(format!("{text:?} is not the number of a turn"))
            .hint("/history shows the numbers")
    })
}

fn unknown(name: &str) -> CliError {
    let names: Vec<&str> = COMMANDS.iter().map(|entry| entry.name).collect();
    let error = CliError::usage(format!("there is no command {name}; nothing was sent"));
    match nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean {near}? /help lists all")),
        None => {
            error.hint("/help lists the commands; begin with // to send a text that begins with /")
        }
    }
}

fn policy(text: &str) -> Result<Policy, CliError> {
    Policy::from_str(text, false).map_err(|_| {
        CliError::usage(format!("{text:?} is not a policy"))
            .hint(format!("there are: {}", policies().join(", ")))
    })
}

pub(super) fn policies() -> Vec<String> {
    let values = Policy::value_variants().iter();
    let names = values.filter_map(ValueEnum::to_possible_value);
    names.map(|value| value.get_name().to_owned()).collect()
}

/// Returns the completions of the input, and the byte offset at which they start.
pub(super) fn completions(begun: &str, agents: &[String]) -> (usize, Vec<String>) {
    let Some((name, rest)) = begun.split_once(' ') else {
        let names = COMMANDS.iter().map(|entry| entry.name.to_owned());
        return (0, starting(names.collect(), begun));
    };
    let known = match name {
        "/agent" | "/handoff" => agents.to_vec(),
        "/permissions" => policies(),
        "/sessions" => vec!["all".to_owned()],
        _ => Vec::new(),
    };
    (name.len() + 1, starting(known, rest))
}

fn starting(mut known: Vec<String>, begun: &str) -> Vec<String> {
    known.retain(|name| begun.starts_with('/') == name.starts_with('/') && name.starts_with(begun));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prompts_or_commands() {
        let prompt = |text: &str| Typed::Prompt(text.to_owned());
        let session = SessionRef::parse("3").unwrap();
        let agent = ProviderId::parse("codex").unwrap();
        let cases = [
            ("", Typed::Nothing),
            (" \n ", Typed::Nothing),
            ("hello /help", prompt("hello /help")),
            ("//etc/hosts", prompt("/etc/hosts")),
            (" //x", prompt(" /x")),
            ("/* code */\nint x;", prompt("/* code */\nint x;")),
            ("// code\nint x;", prompt("// code\nint x;")),
            ("/help", Typed::Command(Command::Help)),
            ("  /exit ", Typed::Command(Command::Exit)),
            ("/quit", Typed::Command(Command::Exit)),
            (
                "/sessions",
                Typed::Command(Command::Sessions { all: false }),
            ),
            (
                "/sessions all",
                Typed::Command(Command::Sessions { all: true }),
            ),
            ("/session", Typed::Command(Command::Session)),
            ("/resume  3", Typed::Command(Command::Resume(session))),
            ("/new", Typed::Command(Command::New)),
            ("/history", Typed::Command(Command::History(5))),
            ("/history 2", Typed::Command(Command::History(2))),
            (
                "/rename two  words",
                Typed::Command(Command::Rename("two  words".into())),
            ),
            (
                "/agent codex",
                Typed::Command(Command::Agent(agent.clone())),
            ),
            ("/handoff codex", Typed::Command(Command::Handoff(agent))),
            (
                "/permissions allow-reads",
                Typed::Command(Command::Permissions(Policy::AllowReads)),
            ),
            ("/usage", Typed::Command(Command::Usage)),
            ("/compact", Typed::Command(Command::Compact)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_never_sent() {
        let cases = [
            ("/sesions", "no command /sesions", "did you mean /sessions?"),
            ("/etc/hosts", "no command /etc/hosts", "begin with //"),
            ("/", "no command /", "begin with //"),
            ("/resume", "/resume ID|NUMBER", ""),
            ("/resume ../x", "may not contain '/'", ""),
            ("/rename", "/rename TITLE", ""),
            ("/agent", "/agent NAME", ""),
            ("/handoff", "/handoff NAME", ""),
            ("/agent a b", "may not contain ' '", ""),
            ("/permissions", "/permissions POLICY", ""),
            ("/permissions yes", "not a policy", "allow-reads"),
            ("/history 0", "not a number of turns", ""),
            ("/history few", "not a number of turns", ""),
            ("/sessions mine", "/sessions [all]", ""),
            ("/checkpoint 2", "/checkpoint [all]", ""),
            ("/new one", "takes nothing", ""),
        ];
        for (text, message, hint) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {error:?}");
            let hints: String = error.hints.iter().map(ToString::to_string).collect();
            assert!(hints.contains(hint), "{text}: {error:?}");
        }
    }

    #[test]
    fn commands_and_what_they_take_are_completed() {
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
        for (begun, at, expected) in cases {
            let (start, found) = completions(begun, &agents);
            assert_eq!(
                (start, found),
                (at, expected.iter().map(|&name| name.to_owned()).collect())
            );
        }
    }
}
