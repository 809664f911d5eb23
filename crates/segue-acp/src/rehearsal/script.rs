//! Scripts for the rehearsal agent.
//!
//! The agent runs a prompt with a line `rehearse: STEP; STEP; …` step by step; any other prompt gets a short answer.

use std::time::Duration;

/// A script step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptStep {
    /// `say WORDS`: streams a text.
    Text(String),
    /// `think WORDS`: streams thoughts.
    Thought(String),
    /// `slow 200ms`: waits this long before each word of the following steps.
    WordDelay(Duration),
    /// `wait 2s`: waits once.
    Delay(Duration),
    /// `tool`: calls a tool that needs no permission.
    ToolCall,
    /// `open-tool`: announces a tool call and does not complete it.
    UnfinishedToolCall,
    /// `ask`: requests permission to edit a file.
    PermissionRequest,
    /// `title WORDS`: sets the title of the session.
    Title(String),
    /// `big 50mb`: sends a message of this size in one chunk.
    LargeChunk(usize),
    /// `stream 100mb`: sends a message of this size in chunks of about a kilobyte.
    ChunkStream(usize),
    /// `unknown`: sends an update of a kind that the protocol does not have.
    UnknownUpdate,
    /// `garbage`: prints a line that is not a message.
    Garbage,
    /// `bad-utf8`: streams a text with bytes that are not UTF-8.
    BadUtf8,
    /// `fail WORDS`: ends the turn with an error.
    Failure(String),
    /// `hang`: sends no more output, and never ends the turn.
    Hang,
    /// `die`: aborts the process.
    Crash,
    /// `half-line`: prints half a message and closes its output, but the process stays alive.
    HalfLine,
    /// `grandchild`: starts a process that ignores the signals to end.
    Grandchild,
}

/// An unknown step, or a step whose argument is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown rehearsal step {0:?}")]
pub struct ScriptError(String);

/// Parses the script in a prompt; `None` if the prompt has none.
pub fn parse_script(prompt: &str) -> Result<Option<Vec<ScriptStep>>, ScriptError> {
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

fn parse_step(text: &str) -> Result<ScriptStep, ScriptError> {
    let (keyword, argument) = text.split_once(' ').unwrap_or((text, ""));
    let argument = argument.trim();
    let unknown = || ScriptError(text.to_owned());
    Ok(match keyword {
        "say" => ScriptStep::Text(argument.to_owned()),
        "think" => ScriptStep::Thought(argument.to_owned()),
        "slow" => ScriptStep::WordDelay(parse_duration(argument).ok_or_else(unknown)?),
        "wait" => ScriptStep::Delay(parse_duration(argument).ok_or_else(unknown)?),
        "tool" => ScriptStep::ToolCall,
        "open-tool" => ScriptStep::UnfinishedToolCall,
        "ask" => ScriptStep::PermissionRequest,
        "title" => ScriptStep::Title(argument.to_owned()),
        "big" => ScriptStep::LargeChunk(parse_size(argument).ok_or_else(unknown)?),
        "stream" => ScriptStep::ChunkStream(parse_size(argument).ok_or_else(unknown)?),
        "unknown" => ScriptStep::UnknownUpdate,
        "garbage" => ScriptStep::Garbage,
        "bad-utf8" => ScriptStep::BadUtf8,
        "fail" => ScriptStep::Failure(argument.to_owned()),
        "hang" => ScriptStep::Hang,
        "die" => ScriptStep::Crash,
        "half-line" => ScriptStep::HalfLine,
        "grandchild" => ScriptStep::Grandchild,
        _ => return Err(unknown()),
    })
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

fn parse_size(text: &str) -> Option<usize> {
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
    fn script_steps_are_parsed_in_order() {
        let script =
            parse_script("please\nrehearse: say a b; slow 20ms; big 2kb;; stream 3mb; die")
                .unwrap()
                .unwrap();
        let expected = [
            ScriptStep::Text("a b".into()),
            ScriptStep::WordDelay(Duration::from_millis(20)),
            ScriptStep::LargeChunk(2000),
            ScriptStep::ChunkStream(3_000_000),
            ScriptStep::Crash,
        ];
        assert_eq!(script, expected);
        assert_eq!(parse_script("no script here"), Ok(None));
        for invalid in [
            "rehearse: dance",
            "rehearse: slow",
            "rehearse: slow 3 weeks",
            "rehearse: big -1",
        ] {
            assert!(parse_script(invalid).is_err(), "{invalid}");
        }
    }
}
