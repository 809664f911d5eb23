//! Extraction of tool actions from a turn: changed files, commands, checks, plans and task lists.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::ItemKind;
use super::file_moves::{FileMove, parse_file_moves};
use super::task_lists::TaskList;
use super::text_units::TextUnit;
use crate::brief::tool_text::collect_result_text;
use crate::json::Json;
use crate::session::{FileChangeKind, Message, Part, collect_effects};

/// A tool action: a changed file, a command, a check, or a step of a plan or a task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolAction {
    pub(super) kind: ItemKind,
    pub(super) text: String,
    pub(super) subject: String,
    /// Index of the message that contains the action, from 0.
    pub(super) message_index: u32,
}

/// Prefix of the subject of a plan step.
pub(super) const PLAN_STEP_PREFIX: &str = "step: ";

/// Text of an item for a command that succeeded.
pub(super) const SUCCESS_TEXT: &str = "went well";

/// Maximum bytes of a command (`MAX_COMMAND_BYTES`) and of a line of its output (`MAX_OUTPUT_LINE_BYTES`) in an item.
const MAX_COMMAND_BYTES: usize = 160;
const MAX_OUTPUT_LINE_BYTES: usize = 200;

/// Extracts the tool actions from the messages of a turn. `cwd` is the agent's working directory. `tasks` is the
/// agent's task list, which the calls update.
pub(super) fn extract_tool_actions(
    messages: &[Message],
    cwd: &str,
    tasks: &mut TaskList,
) -> Vec<ToolAction> {
    let mut actions = Vec::new();
    let mut moved_paths: HashSet<String> = HashSet::new();
    let results = collect_results(messages);
    for (message_index, message) in (0..).zip(messages) {
        for part in &message.parts {
            let (call, args) = match part {
                Part::FunctionCall { id, name, args } => (Some((id, name.as_str())), args),
                // segue records a plan that the agent sent without a tool call in this form.
                Part::Unknown(args) => (None, args),
                _ => continue,
            };
            let args: Value = serde_json::from_str(args.as_str()).unwrap_or_default();
            actions.extend(plan_step_actions(&args, message_index));
            let Some((id, name)) = call else {
                continue;
            };
            let find_result = || {
                let raw_result = results.get(id.as_str());
                raw_result.map(|(response, is_error)| ToolCallResult::new(response, *is_error))
            };
            if let Some(line) = find_command_line(&args) {
                let result = find_result();
                let succeeded = result.as_ref().is_some_and(|parsed| !parsed.failed);
                if succeeded {
                    for file in parse_file_moves(&line) {
                        moved_paths.insert(file.old_path().to_owned());
                        actions.extend(file_move_actions(file, message_index));
                    }
                }
                if !(succeeded && is_read_only(&line)) {
                    actions.push(command_action(&line, result.as_ref(), message_index));
                }
            } else if name.starts_with("Task") {
                let result = find_result().filter(|parsed| !parsed.failed);
                let entry = result.and_then(|parsed| tasks.apply_call(name, &args, &parsed.text));
                actions.extend(entry.map(|(text, kind)| ToolAction {
                    kind,
                    subject: format!("task: {text}"),
                    text,
                    message_index,
                }));
            }
        }
    }
    let last_message_index = u32::try_from(messages.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let files = collect_effects(messages, cwd).files.into_iter();
    // Other changes of a moved or removed file are omitted, because the items of the move or removal replace them.
    let files = files.filter(|file| !moved_paths.contains(&file.path));
    actions.extend(files.map(|file| {
        ToolAction {
            kind: ItemKind::File,
            text: match file.kind {
                FileChangeKind::Created => "created",
                FileChangeKind::Edited => "changed",
                FileChangeKind::Deleted => "deleted",
            }
            .to_owned(),
            subject: file.path,
            message_index: last_message_index,
        }
    }));
    actions
}

/// Returns the file items for a move (old and new path) or for a removal.
fn file_move_actions(file_move: FileMove, message_index: u32) -> Vec<ToolAction> {
    let file_action = |subject: String, text: String| ToolAction {
        kind: ItemKind::File,
        text,
        subject,
        message_index,
    };
    match file_move {
        FileMove::Moved { from, to } => vec![
            file_action(from.clone(), format!("deleted: moved to {to}")),
            file_action(to, format!("created: moved from {from}")),
        ],
        FileMove::Removed(path) => vec![file_action(path, "deleted".to_owned())],
    }
}

/// The result of a tool call.
struct ToolCallResult {
    failed: bool,
    exit_code: Option<i64>,
    text: String,
}

/// Unparsed results by the id of their call. They are parsed on demand, because they are long and few are needed.
type ToolCallResults<'a> = HashMap<&'a str, (&'a Json, bool)>;

fn collect_results(messages: &[Message]) -> ToolCallResults<'_> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let results = parts.filter_map(|part| match part {
        Part::FunctionResponse {
            call_id,
            response,
            is_error,
            ..
        } => Some((call_id.as_str(), (response, *is_error))),
        _ => None,
    });
    results.collect()
}

impl ToolCallResult {
    fn new(response: &Json, is_error: bool) -> Self {
        let value: Value = serde_json::from_str(response.as_str()).unwrap_or_default();
        let text = collect_result_text(&value);
        let exit_code = find_exit_code(&value, &text);
        let failed = is_error || exit_code.is_some_and(|code| code != 0);
        Self {
            failed,
            exit_code,
            text,
        }
    }
}

/// Returns the exit code of a command, from a field of its result or from the beginning or end of its output. `None` if
/// neither contains one.
fn find_exit_code(value: &Value, text: &str) -> Option<i64> {
    let keys = ["exit_code", "exitCode", "code"];
    let fields = [value, &value["metadata"]];
    let field_code = fields
        .iter()
        .find_map(|object| keys.iter().find_map(|key| object[*key].as_i64()));
    field_code.or_else(|| {
        let (start, _) = text.split_at(text.floor_char_boundary(400));
        let (_, end) = text.split_at(text.floor_char_boundary(text.len().saturating_sub(400)));
        [start, end].into_iter().find_map(|excerpt| {
            let excerpt = excerpt.to_lowercase();
            let markers = [
                "exit code: ",
                "exit code ",
                "exited with code ",
                "exited with ",
                "exit status: ",
                "exit status ",
            ];
            let after = markers.iter().find_map(|mark| excerpt.split_once(mark))?.1;
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            after.get(..digits)?.parse().ok()
        })
    })
}

/// Returns the first nonempty line of the command that a call runs; `None` if the call runs no command.
fn find_command_line(args: &Value) -> Option<String> {
    let command = ["command", "cmd"].iter().find_map(|key| {
        let value = &args[*key];
        match value {
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
    let line = command.lines().find(|line| !line.trim().is_empty())?;
    Some(truncate_line(line.trim(), MAX_COMMAND_BYTES))
}

fn command_action(line: &str, result: Option<&ToolCallResult>, message_index: u32) -> ToolAction {
    let text = match result {
        None => "did not end".to_owned(),
        Some(ToolCallResult { failed: false, .. }) => SUCCESS_TEXT.to_owned(),
        Some(ToolCallResult {
            exit_code, text, ..
        }) => {
            let outcome = match exit_code {
                Some(code) => format!("failed with {code}"),
                None => "failed".to_owned(),
            };
            match most_informative_line(text.lines()) {
                Some(line) => format!("{outcome}: {}", truncate_line(line, MAX_OUTPUT_LINE_BYTES)),
                None => outcome,
            }
        }
    };
    ToolAction {
        kind: if is_check(line) {
            ItemKind::Check
        } else {
            ItemKind::Command
        },
        text,
        subject: line.to_owned(),
        message_index,
    }
}

/// Returns the most informative line of an output: the first that mentions a failure, otherwise the last. `None` if all
/// lines are empty.
pub(super) fn most_informative_line<'a>(
    lines: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let mentions_failure = |line: &&str| {
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
    lines
        .clone()
        .find(mentions_failure)
        .or_else(|| lines.last())
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
fn is_read_only(line: &str) -> bool {
    let is_read_only_command = |command: &str| {
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
    !line.contains('>') && line.split(['|', '&', ';']).all(is_read_only_command)
}

/// Returns the steps of a plan in the arguments of a call, each with the kind that reflects its status. Omits cancelled
/// steps.
fn plan_step_actions(args: &Value, message_index: u32) -> Vec<ToolAction> {
    let lists = ["todos", "plan"].iter().map(|key| &args[*key]);
    let steps = lists.filter_map(Value::as_array).flatten();
    let step = |step: &Value| {
        let keys = ["content", "step", "description", "text"];
        let text = keys.iter().find_map(|key| step[*key].as_str())?;
        let text = TextUnit::new(text).text;
        let kind = match step["status"].as_str()? {
            "completed" | "done" => ItemKind::Done,
            "in_progress" => ItemKind::Focus,
            "cancelled" => return None,
            _ => ItemKind::Pending,
        };
        (!text.is_empty()).then(|| ToolAction {
            kind,
            subject: format!("{PLAN_STEP_PREFIX}{text}"),
            text,
            message_index,
        })
    };
    steps.filter_map(step).collect()
}

fn truncate_line(line: &str, max_bytes: usize) -> String {
    if line.len() <= max_bytes {
        return line.to_owned();
    }
    let prefix = line
        .get(..line.floor_char_boundary(max_bytes))
        .unwrap_or(line);
    format!("{prefix}…")
}
