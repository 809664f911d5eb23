//! Scripts for the rehearsal agent.
//!
//! The agent runs a prompt with a line `rehearse: STEP; STEP; …` step by step; any other prompt gets a short answer.

use std::time::Duration;

/// A script step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `say WORDS`: streams a text.
    Say(String),
    /// `think WORDS`: streams thoughts.
    Think(String),
    /// `slow 200ms`: waits this long before each word of the following steps.
    Slow(Duration),
    /// `wait 2s`: waits once.
    Wait(Duration),
    /// `tool`: calls a tool that needs no permission.
    Tool,
    /// `open-tool`: announces a tool call and does not complete it.
    OpenTool,
    /// `ask`: requests permission to edit a file.
    Ask,
    /// `title WORDS`: sets the title of the session.
    Title(String),
    /// `big 50mb`: sends a message of this size in one chunk.
    Big(usize),
    /// `stream 100mb`: sends a message of this size in chunks of about a kilobyte.
    Stream(usize),
    /// `unknown`: sends an update of a kind that the protocol does not have.
    Unknown,
    /// `garbage`: prints a line that is not a message.
    Garbage,
    /// `bad-utf8`: streams a text with bytes that are not UTF-8.
    BadUtf8,
    /// `fail WORDS`: ends the turn with an error.
    Fail(String),
    /// `hang`: sends no more output, and never ends the turn.
    Hang,
    /// `die`: aborts the process.
    Die,
    /// `half-line`: prints half a message and closes its output, but the process stays alive.
    HalfLine,
    /// `grandchild`: starts a process that ignores the signals to end.
    Grandchild,
}

/// An unknown step, or a step whose argument is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rehearsal does not know the step {0:?}")]
pub struct ScriptError(String);

/// Parses the script in a prompt; `None` if the prompt has none.
pub fn parse(prompt: &str) -> Result<Option<Vec<Step>>, ScriptError> {
    let script = prompt
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("rehearse:"));
    let Some(script) = script else {
        return Ok(None);
    };
    script
        .split(';')
        .map(str::trim)
        .filter(|step| !step.is_empty())
        .map(parse_step)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn parse_step(text: &str) -> Result<Step, ScriptError> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let unknown = || ScriptError(text.to_owned());
    Ok(match word {
        "say" => Step::Say(rest.to_owned()),
        "think" => Step::Think(rest.to_owned()),
        "slow" => Step::Slow(duration(rest).ok_or_else(unknown)?),
        "wait" => Step::Wait(duration(rest).ok_or_else(unknown)?),
        "tool" => Step::Tool,
        "open-tool" => Step::OpenTool,
        "ask" => Step::Ask,
        "title" => Step::Title(rest.to_owned()),
        "big" => Step::Big(size(rest).ok_or_else(unknown)?),
        "stream" => Step::Stream(size(rest).ok_or_else(unknown)?),
        "unknown" => Step::Unknown,
        "garbage" => Step::Garbage,
        "bad-utf8" => Step::BadUtf8,
        "fail" => Step::Fail(rest.to_owned()),
        "hang" => Step::Hang,
        "die" => Step::Die,
        "half-line" => Step::HalfLine,
        "grandchild" => Step::Grandchild,
        _ => return Err(unknown()),
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

fn size(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text)?;
    let number = usize::try_from(number).ok()?;
    match unit {
        "" => Some(number),
        "kb" => number.checked_mul(1000),
        "mb" => number.checked_mul(1_000_000),
        _ => None,
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_in_order() {
        let script = parse("please\nrehearse: say a b; slow 20ms; big 2kb;; stream 3mb; die")
            .unwrap()
            .unwrap();
        let expected = [
            Step::Say("a b".into()),
            Step::Slow(Duration::from_millis(20)),
            Step::Big(2000),
            Step::Stream(3_000_000),
            Step::Die,
        ];
        assert_eq!(script, expected);
        assert_eq!(parse("no script here"), Ok(None));
        for bad in [
            "rehearse: dance",
            "rehearse: slow",
            "rehearse: slow 3 weeks",
            "rehearse: big -1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
