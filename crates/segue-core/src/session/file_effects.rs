//! Effects of turns on files, as far as they are recorded.

use serde_json::Value;

use crate::enum_names::names;
use crate::session::{Message, Part};

/// Change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The file was created.
    Created,
    /// The content of the file was changed or overwritten.
    Edited,
    /// The file was deleted.
    Deleted,
}

names!(Change {
    Created => "created",
    Edited => "edited",
    Deleted => "deleted",
});

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Path of the file, relative to the working directory if the file is inside it.
    pub path: String,
    /// Overall change of the file.
    pub change: Change,
}

/// Effects of turns outside the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Changed files, in the order of their first change.
    pub files: Vec<Touched>,
    /// Number of commands that ran. Their effects are not recorded.
    pub commands: usize,
}

impl Effects {
    /// Returns `true` if no effects are recorded.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.files.is_empty() && self.commands == 0
    }

    fn add(&mut self, path: &str, change: Change, cwd: &str) {
        let path = inside(path, cwd);
        let Some(known) = self.files.iter_mut().find(|file| file.path == path) else {
            let path = path.to_owned();
            return self.files.push(Touched { path, change });
        };
        known.change = match (known.change, change) {
            (Change::Created, Change::Created | Change::Edited) => Change::Created,
            (_, Change::Deleted) => Change::Deleted,
            (Change::Edited | Change::Deleted, Change::Created | Change::Edited) => Change::Edited,
        };
    }
}

/// Returns the effects of messages, oldest first, of an agent that worked in `cwd`.
///
/// A failed call changed nothing. An interrupted call counts, because it may have had its effect. A command counts even
/// if it failed, because it may have changed files before it failed.
#[must_use]
pub fn effects<'a>(messages: impl IntoIterator<Item = &'a Message>, cwd: &str) -> Effects {
    let parts: Vec<&Part> = messages
        .into_iter()
        .flat_map(|message| &message.parts)
        .collect();
    let mut effects = Effects::default();
    for (index, part) in parts.iter().enumerate() {
        let Part::FunctionCall { id, name, args } = part else {
            continue;
        };
        let args: Value = serde_json::from_str(args.as_str()).unwrap_or_default();
        let answer = parts.iter().skip(index).find_map(|part| answer(part, id));
        let (response, failed) = answer.unwrap_or_default();
        let failed = failed && response["interrupted"] != true;
        let changes = changes(name, &args, &response);
        if changes.is_empty() {
            effects.commands += usize::from(is_command(&args));
        } else if !failed {
            for (path, change) in changes {
                effects.add(&path, change, cwd);
            }
        }
    }
    effects
}

/// Returns the response and `is_error` if `part` is the response to the call with this id.
fn answer(part: &Part, id: &str) -> Option<(Value, bool)> {
    let Part::FunctionResponse {
        call_id,
        response,
        is_error,
        ..
    } = part
    else {
        return None;
    };
    // Responses are long, so only the response to this call is parsed, and only if it contains a key that is used.
    let told = |text: &str| {
        ["\"diffs\"", "\"interrupted\""]
            .iter()
            .any(|key| text.contains(key))
    };
    (call_id == id).then(|| {
        let response = Some(response.as_str()).filter(|text| told(text));
        let response = response.and_then(|text| serde_json::from_str(text).ok());
        (response.unwrap_or_default(), *is_error)
    })
}

/// Returns the files that a call changes or changed.
fn changes(name: &str, args: &Value, response: &Value) -> Vec<(String, Change)> {
    // Codex lists each file with its change in the arguments, in addition to the diffs. The list names the change
    // explicitly, so it is tried first.
    let told = told(args);
    if !told.is_empty() {
        return told;
    }
    let patched = patched(args);
    if !patched.is_empty() {
        return patched;
    }
    let shown = shown(response);
    if !shown.is_empty() {
        return shown;
    }
    let keys = [
        "file_path",
        "filePath",
        "notebook_path",
        "path",
        "absolute_path",
    ];
    let path = keys.into_iter().find_map(|key| args[key].as_str());
    let edits = [
        "edit",
        "multiedit",
        "write",
        "notebookedit",
        "write_file",
        "replace",
    ];
    // Some agents add the file to the name of the tool: `Edit notes.txt`.
    let name = name.to_lowercase();
    let verb = name.split_whitespace().next().unwrap_or_default();
    match path {
        Some(path) if edits.contains(&verb) => vec![(path.to_owned(), Change::Edited)],
        Some(_) | None => Vec::new(),
    }
}

/// Reads Codex's list of changes: `{"changes": [{"path": …, "kind": "add"}]}`
fn told(args: &Value) -> Vec<(String, Change)> {
    let changes = args["changes"].as_array().into_iter().flatten();
    let change = |change: &Value| {
        let what = match change["kind"].as_str() {
            Some("add") => Change::Created,
            Some("delete") => Change::Deleted,
            Some(_) | None => Change::Edited,
        };
        Some((change["path"].as_str()?.to_owned(), what))
    };
    changes.filter_map(change).collect()
}

/// Reads the patch that Codex's `apply_patch` receives, as a tool or as a command.
fn patched(args: &Value) -> Vec<(String, Change)> {
    let texts = if args.is_string() {
        vec![args.clone()]
    } else {
        let keys = ["input", "patch", "command", "cmd"];
        keys.map(|key| args[key].clone()).into()
    };
    let text: Vec<String> = texts.into_iter().map(words).collect();
    let text = text.join("\n");
    if !text.contains("*** Begin Patch") {
        return Vec::new();
    }
    let mut changes: Vec<(String, Change)> = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("*** "))
    {
        let Some((what, path)) = line.split_once(": ") else {
            continue;
        };
        let path = path.trim().to_owned();
        match what {
            "Add File" => changes.push((path, Change::Created)),
            "Update File" => changes.push((path, Change::Edited)),
            "Delete File" => changes.push((path, Change::Deleted)),
            "Move to" => {
                if let Some(moved) = changes.last_mut() {
                    moved.1 = Change::Deleted;
                }
                changes.push((path, Change::Created));
            }
            _ => {}
        }
    }
    changes
}

/// Returns a string, or the strings of an array joined with line breaks.
fn words(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(words) => {
            let words: Vec<String> = words.into_iter().map(self::words).collect();
            words.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Reads the diffs that are recorded with a response.
fn shown(response: &Value) -> Vec<(String, Change)> {
    let diffs = response["diffs"].as_array().into_iter().flatten();
    let change = |diff: &Value| {
        let head = diff["patch"].as_str().and_then(|patch| {
            let mut lines = patch.lines();
            lines.find(|line| line.starts_with("@@ "))
        });
        let what = match head {
            Some(head) if head.starts_with("@@ -0,0 ") => Change::Created,
            Some(head) if head.contains(" +0,0 @@") => Change::Deleted,
            Some(_) | None => Change::Edited,
        };
        Some((diff["path"].as_str()?.to_owned(), what))
    };
    diffs.filter_map(change).collect()
}

/// Returns `true` if these are the arguments of a tool that runs a command.
fn is_command(args: &Value) -> bool {
    let is = |key: &str| args[key].is_string() || args[key].is_array();
    is("command") || is("cmd")
}

/// Returns a path relative to the working directory if it is inside it.
fn inside<'a>(path: &'a str, cwd: &str) -> &'a str {
    let from = path.strip_prefix(cwd.trim_end_matches('/'));
    let from = from.and_then(|path| path.strip_prefix('/'));
    let path = from.filter(|path| !path.is_empty()).unwrap_or(path);
    path.strip_prefix("./").unwrap_or(path)
}

#[cfg(test)]
mod tests;
