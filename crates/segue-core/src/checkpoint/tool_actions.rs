//! Extraction of tool actions from a turn: changed files, commands, checks, plans and task lists.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::ItemKind;
use super::file_moves::{Moved, moved};
use super::task_lists::Tasks;
use super::text_units::Unit;
use crate::brief::tool_text::words_in_answer;
use crate::json::Json;
use crate::session::{Change, Message, Part, effects};

/// A tool action: a changed file, a command, a check, or a step of a plan or a task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) kind: ItemKind,
    pub(super) text: String,
    pub(super) subject: String,
    /// Index of the message that contains the action, from 0.
    pub(super) message: u32,
}

/// Prefix of the subject of a plan step.
pub(super) const STEP: &str = "step: ";

/// Text of an item for a command that succeeded.
pub(super) const WENT_WELL: &str = "went well";

/// Maximum bytes of a command (`COMMAND`) and of a line of its output (`SAID`) in an item.
const COMMAND: usize = 160;
const SAID: usize = 200;

/// Extracts the tool actions from the messages of a turn. `cwd` is the agent's working directory. `tasks` is the
/// agent's task list, which the calls update.
pub(super) fn deeds(messages: &[Message], cwd: &str, tasks: &mut Tasks) -> Vec<Deed> {
    let mut deeds = Vec::new();
    let mut gone: HashSet<String> = HashSet::new();
    let answers = answers(messages);
    for (at, message) in (0..).zip(messages) {
        for part in &message.parts {
            let (call, args) = match part {
                Part::FunctionCall { id, name, args } => (Some((id, name.as_str())), args),
                // segue records a plan that the agent sent without a tool call in this form.
                Part::Unknown(args) => (None, args),
                _ => continue,
            };
            let args: Value = serde_json::from_str(args.as_str()).unwrap_or_default();
            deeds.extend(planned(&args, at));
            let Some((id, name)) = call else {
                continue;
            };
            let answer = || {
                let answer = answers.get(id.as_str());
                answer.map(|(response, is_error)| Answer::new(response, *is_error))
            };
            if let Some(line) = command(&args) {
                let answer = answer();
                let went_well = answer.as_ref().is_some_and(|answer| !answer.failed);
                if went_well {
                    for file in moved(&line) {
                        gone.insert(file.from().to_owned());
                        deeds.extend(renamed(file, at));
                    }
                }
                if !(went_well && only_looks(&line)) {
                    deeds.push(ran(&line, answer.as_ref(), at));
                }
            } else if name.starts_with("Task") {
                let answer = answer().filter(|answer| !answer.failed);
                let entry = answer.and_then(|answer| tasks.called(name, &args, &answer.text));
                deeds.extend(entry.map(|(text, kind)| Deed {
                    kind,
                    subject: format!("task: {text}"),
                    text,
                    message: at,
                }));
            }
        }
    }
    let last = u32::try_from(messages.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let files = effects(messages, cwd).files.into_iter();
    // Other changes of a moved or removed file are omitted, because the items of the move or removal replace them.
    let files = files.filter(|file| !gone.contains(&file.path));
    deeds.extend(files.map(|file| {
        Deed {
            kind: ItemKind::File,
            text: match file.change {
                Change::Created => "created",
                Change::Edited => "changed",
                Change::Deleted => "deleted",
            }
            .to_owned(),
            subject: file.path,
            message: last,
        }
    }));
    deeds
}

/// Returns the file items for a move (old and new path) or for a removal.
fn renamed(moved: Moved, message: u32) -> Vec<Deed> {
    let deed = |subject: String, text: String| Deed {
        kind: ItemKind::File,
        text,
        subject,
        message,
    };
    match moved {
        Moved::To { from, to } => vec![
            deed(from.clone(), format!("deleted: it is {to} now")),
            deed(to, format!("created: it was {from}")),
        ],
        Moved::Away(path) => vec![deed(path, "deleted".to_owned())],
    }
}

/// The result of a tool call.
struct Answer {
    failed: bool,
    code: Option<i64>,
    text: String,
}

/// Unparsed results by the id of their call. They are parsed on demand, because they are long and few are needed.
type Answers<'a> = HashMap<&'a str, (&'a Json, bool)>;

fn answers(messages: &[Message]) -> Answers<'_> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let answers = parts.filter_map(|part| match part {
        Part::FunctionResponse {
            call_id,
            response,
            is_error,
            ..
        } => Some((call_id.as_str(), (response, *is_error))),
        _ => None,
    });
    answers.collect()
}

impl Answer {
    fn new(response: &Json, is_error: bool) -> Self {
        let value: Value = serde_json::from_str(response.as_str()).unwrap_or_default();
        let text = words_in_answer(&value);
        let code = code(&value, &text);
        let failed = is_error || code.is_some_and(|code| code != 0);
        Self { failed, code, text }
    }
}

/// Returns the exit code of a command, from a field of its result or from the beginning or end of its output. `None` if
/// neither contains one.
fn code(value: &Value, text: &str) -> Option<i64> {
    let keys = ["exit_code", "exitCode", "code"];
    let fields = [value, &value["metadata"]];
    let told = fields
        .iter()
        .find_map(|of| keys.iter().find_map(|key| of[*key].as_i64()));
    told.or_else(|| {
        let (start, _) = text.split_at(text.floor_char_boundary(400));
        let (_, end) = text.split_at(text.floor_char_boundary(text.len().saturating_sub(400)));
        [start, end].into_iter().find_map(|piece| {
            let piece = piece.to_lowercase();
            let marks = [
                "exit code: ",
                "exit code ",
                "exited with code ",
                "exited with ",
                "exit status: ",
                "exit status ",
            ];
            let after = marks.iter().find_map(|mark| piece.split_once(mark))?.1;
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            after.get(..digits)?.parse().ok()
        })
    })
}

/// Returns the first nonempty line of the command that a call runs; `None` if the call runs no command.
fn command(args: &Value) -> Option<String> {
    let given = ["command", "cmd"].iter().find_map(|key| {
        let given = &args[*key];
        match given {
            Value::String(text) => Some(text.clone()),
            Value::Array(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                match words.as_slice() {
                    // The program is only the shell that runs the line.
                    [_, "-c" | "-lc", line] => Some((*line).to_owned()),
                    words => Some(words.join(" ")),
                }
            }
            _ => None,
        }
    })?;
    let line = given.lines().find(|line| !line.trim().is_empty())?;
    Some(cut(line.trim(), COMMAND))
}

fn ran(line: &str, answer: Option<&Answer>, message: u32) -> Deed {
    let text = match answer {
        None => "did not end".to_owned(),
        Some(Answer { failed: false, .. }) => WENT_WELL.to_owned(),
        Some(Answer { code, text, .. }) => {
            let how = match code {
                Some(code) => format!("failed with {code}"),
                None => "failed".to_owned(),
            };
            match telling(text.lines()) {
                Some(line) => format!("{how}: {}", cut(line, SAID)),
                None => how,
            }
        }
    };
    Deed {
        kind: if is_check(line) {
            ItemKind::Check
        } else {
            ItemKind::Command
        },
        text,
        subject: line.to_owned(),
        message,
    }
}

/// Returns the most informative line of an output: the first that mentions a failure, otherwise the last. `None` if all
/// lines are empty.
pub(super) fn telling<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let speaks = |line: &&str| {
        let line = line.to_lowercase();
        [
            "error",
            "failed",
            "panicked",
            "exception",
            "fatal",
            "cannot",
            "not found",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    lines.clone().find(speaks).or_else(|| lines.last())
}

/// Returns `true` if a command checks the work, such as a build, a test run or a linter.
fn is_check(line: &str) -> bool {
    let words = [
        "test", "tests", "check", "build", "lint", "clippy", "pytest", "jest", "vitest", "tsc",
        "eslint", "nextest", "mypy", "ruff", "vet", "fmt",
    ];
    line.split(|c: char| !c.is_alphanumeric())
        .any(|word| words.contains(&word))
}

/// Returns `true` if a command only reads. Such a command becomes an item only if it fails.
fn only_looks(line: &str) -> bool {
    let looks = |command: &str| {
        let mut words = command.split_whitespace();
        match words.next().unwrap_or_default() {
            "ls" | "cat" | "head" | "tail" | "grep" | "rg" | "find" | "fd" | "pwd" | "cd"
            | "wc" | "which" | "tree" | "echo" | "sort" | "file" | "stat" | "du" | "nl" | "" => {
                true
            }
            "sed" => words.next() == Some("-n"),
            "git" => matches!(
                words.next(),
                Some("status" | "log" | "diff" | "show" | "blame" | "branch")
            ),
            _ => false,
        }
    };
    !line.contains('>') && line.split(['|', '&', ';']).all(looks)
}

/// Returns the steps of a plan in the arguments of a call, each with the kind that reflects its status. Omits cancelled
/// steps.
fn planned(args: &Value, message: u32) -> Vec<Deed> {
    let lists = ["todos", "plan"].iter().map(|key| &args[*key]);
    let steps = lists.filter_map(Value::as_array).flatten();
    let step = |step: &Value| {
        let keys = ["content", "step", "description", "text"];
        let text = keys.iter().find_map(|key| step[*key].as_str())?;
        let text = Unit::new(text).text;
        let kind = match step["status"].as_str()? {
            "completed" | "done" => ItemKind::Done,
            "in_progress" => ItemKind::Focus,
            "cancelled" => return None,
            _ => ItemKind::Pending,
        };
        (!text.is_empty()).then(|| Deed {
            kind,
            subject: format!("{STEP}{text}"),
            text,
            message,
        })
    };
    steps.filter_map(step).collect()
}

fn cut(line: &str, most: usize) -> String {
    if line.len() <= most {
        return line.to_owned();
    }
    let kept = line.get(..line.floor_char_boundary(most)).unwrap_or(line);
    format!("{kept}…")
}
