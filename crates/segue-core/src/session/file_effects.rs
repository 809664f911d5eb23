//! Effects of turns on files, as far as they are recorded.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::enum_names::named_enum;
use crate::session::{Message, Part};

named_enum! {
    /// Change of a file.
    pub enum FileChangeKind {
        /// The file was created.
        Created => "created",
        /// The content of the file was changed or overwritten.
        Edited => "edited",
        /// The file was deleted.
        Deleted => "deleted",
    }
}

/// A file that turns changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ChangedFile")
)]
pub struct FileChange {
    /// Path of the file, relative to the session's directory if the file is in it.
    pub path: String,
    /// Overall change of the file.
    #[serde(rename = "change")]
    pub kind: FileChangeKind,
}

/// Effects of turns outside the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effects {
    /// Files that the turns changed.
    pub files: Vec<FileChange>,
    /// Number of commands that the turns ran.
    pub commands: usize,
}

impl Effects {
    /// Returns `true` if no effects are recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.commands == 0
    }

    fn record_change(&mut self, path: &str, kind: FileChangeKind, cwd: &str) {
        let path = relative_path(path, cwd);
        let Some(existing) = self.files.iter_mut().find(|file| file.path == path) else {
            let path = path.to_owned();
            return self.files.push(FileChange { path, kind });
        };
        existing.kind = match (existing.kind, kind) {
            (_, FileChangeKind::Deleted) => FileChangeKind::Deleted,
            (FileChangeKind::Created, _) => FileChangeKind::Created,
            (FileChangeKind::Edited | FileChangeKind::Deleted, _) => FileChangeKind::Edited,
        };
    }
}

/// Returns the effects of messages, oldest first, of an agent that worked in `cwd`. The files are in the order of their
/// first change.
///
/// A failed call changed nothing. An interrupted call counts, because it may have had its effect. A command counts even
/// if it failed, because it may have changed files before it failed.
#[must_use]
pub fn collect_effects<'a>(messages: impl IntoIterator<Item = &'a Message>, cwd: &str) -> Effects {
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
        let parsed = parts
            .iter()
            .skip(index)
            .find_map(|part| parse_response(part, id));
        let (response, failed) = parsed.unwrap_or_default();
        let failed = failed && response["interrupted"] != true;
        let changes = detect_changes(name, &args, &response);
        if changes.is_empty() {
            effects.commands += usize::from(is_command(&args));
        } else if !failed {
            for (path, change) in changes {
                effects.record_change(&path, change, cwd);
            }
        }
    }
    effects
}

/// Returns the response and `is_error` if `part` is the response to the call with this id.
fn parse_response(part: &Part, id: &str) -> Option<(Value, bool)> {
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
    let has_used_key = |text: &str| {
        ["\"diffs\"", "\"interrupted\""]
            .iter()
            .any(|key| text.contains(key))
    };
    (call_id == id).then(|| {
        let response = Some(response.as_str()).filter(|text| has_used_key(text));
        let response = response.and_then(|text| serde_json::from_str(text).ok());
        (response.unwrap_or_default(), *is_error)
    })
}

/// Returns the files that a call changes or changed.
fn detect_changes(name: &str, args: &Value, response: &Value) -> Vec<(String, FileChangeKind)> {
    // Codex lists each file with its change in the arguments, in addition to the diffs. The list names the change
    // explicitly, so it is tried first.
    let sources = [
        read_change_list(args),
        read_patch(args),
        read_diffs(response),
    ];
    if let Some(changes) = sources.into_iter().find(|changes| !changes.is_empty()) {
        return changes;
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
        Some(path) if edits.contains(&verb) => vec![(path.to_owned(), FileChangeKind::Edited)],
        Some(_) | None => Vec::new(),
    }
}

/// Reads Codex's list of changes: `{"changes": [{"path": …, "kind": "add"}]}`
fn read_change_list(args: &Value) -> Vec<(String, FileChangeKind)> {
    let changes = args["changes"].as_array().into_iter().flatten();
    let parse_change = |entry: &Value| {
        let kind = match entry["kind"].as_str() {
            Some("add") => FileChangeKind::Created,
            Some("delete") => FileChangeKind::Deleted,
            Some(_) | None => FileChangeKind::Edited,
        };
        Some((entry["path"].as_str()?.to_owned(), kind))
    };
    changes.filter_map(parse_change).collect()
}

/// Reads the patch that Codex's `apply_patch` receives, as a tool or as a command.
fn read_patch(args: &Value) -> Vec<(String, FileChangeKind)> {
    let texts = if args.is_string() {
        vec![args.clone()]
    } else {
        let keys = ["input", "patch", "command", "cmd"];
        keys.map(|key| args[key].clone()).into()
    };
    let text = join_strings(Value::Array(texts));
    if !text.contains("*** Begin Patch") {
        return Vec::new();
    }
    let mut changes: Vec<(String, FileChangeKind)> = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("*** "))
    {
        let Some((operation, path)) = line.split_once(": ") else {
            continue;
        };
        let path = path.trim().to_owned();
        match operation {
            "Add File" => changes.push((path, FileChangeKind::Created)),
            "Update File" => changes.push((path, FileChangeKind::Edited)),
            "Delete File" => changes.push((path, FileChangeKind::Deleted)),
            "Move to" => {
                if let Some(moved) = changes.last_mut() {
                    moved.1 = FileChangeKind::Deleted;
                }
                changes.push((path, FileChangeKind::Created));
            }
            _ => {}
        }
    }
    changes
}

/// Returns a string, or the strings of an array joined with line breaks.
fn join_strings(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Array(values) => {
            let strings: Vec<String> = values.into_iter().map(self::join_strings).collect();
            strings.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Reads the diffs that are recorded with a response.
fn read_diffs(response: &Value) -> Vec<(String, FileChangeKind)> {
    let diffs = response["diffs"].as_array().into_iter().flatten();
    let parse_diff = |diff: &Value| {
        let hunk_header = diff["patch"].as_str().and_then(|patch| {
            let mut lines = patch.lines();
            lines.find(|line| line.starts_with("@@ "))
        });
        let kind = match hunk_header {
            Some(hunk_header) if hunk_header.starts_with("@@ -0,0 ") => FileChangeKind::Created,
            Some(hunk_header) if hunk_header.contains(" +0,0 @@") => FileChangeKind::Deleted,
            Some(_) | None => FileChangeKind::Edited,
        };
        Some((diff["path"].as_str()?.to_owned(), kind))
    };
    diffs.filter_map(parse_diff).collect()
}

/// Returns `true` if these are the arguments of a tool that runs a command.
fn is_command(args: &Value) -> bool {
    let has_key = |key: &str| args[key].is_string() || args[key].is_array();
    has_key("command") || has_key("cmd")
}

/// Returns a path relative to the working directory if it is inside it.
fn relative_path<'a>(path: &'a str, cwd: &str) -> &'a str {
    let relative = path.strip_prefix(cwd.trim_end_matches('/'));
    let relative = relative.and_then(|path| path.strip_prefix('/'));
    let path = relative.filter(|path| !path.is_empty()).unwrap_or(path);
    path.strip_prefix("./").unwrap_or(path)
}

#[cfg(test)]
mod tests;
