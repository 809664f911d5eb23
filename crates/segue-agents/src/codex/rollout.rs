//! Files of a thread, as far as they decide whether the thread may be resumed.
//!
//! A Codex that resumes a thread of a newer Codex damages it: the newer one refuses to read what the older one appends.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use serde_json::Value;

use super::program::Version;
use super::usage::{Fill, Total};

/// Levels of directories under `sessions`: year, month and day.
const DEPTH: usize = 3;

/// Number of bytes at the beginning of a line that identify its type.
const HEAD: usize = 256;

/// Properties of a thread, read from its files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rollout {
    /// Newest version of Codex that wrote to the thread.
    writer: Option<Version>,
    /// Whether the records are numbered, which an older Codex does not do.
    numbered: bool,
    /// Total token usage of the thread.
    pub(crate) total: Option<Total>,
    /// Context usage of the thread.
    pub(crate) fill: Fill,
}

/// Returns the total usage of thread `id` at the end of its turn `turn`; `None` if the thread's own files do not
/// contain it.
pub(crate) async fn total_after(home: &Path, id: &NativeId, turn: &str) -> Option<Total> {
    let (home, id, turn) = (home.to_owned(), id.to_string(), turn.to_owned());
    tokio::task::spawn_blocking(move || {
        let files = files(&home, &id).into_iter();
        let mut files = files.filter_map(|file| File::open(file).ok());
        files.find_map(|file| total_at(BufReader::new(file), &turn).ok().flatten())
    })
    .await
    .ok()
    .flatten()
}

fn total_at(mut file: impl BufRead, turn: &str) -> io::Result<Option<Total>> {
    let (mut line, mut count) = (Vec::new(), Vec::new());
    while file.read_until(b'\n', &mut line)? > 0 {
        let head = line.get(..HEAD).unwrap_or(&line);
        let ends = |kind: &[u8]| contains(head, kind) && contains(&line, turn.as_bytes());
        if contains(head, b"\"token_count\"") {
            std::mem::swap(&mut line, &mut count);
        } else if ends(b"\"task_complete\"") || ends(b"\"turn_complete\"") {
            let record: Option<Value> = serde_json::from_slice(&count).ok();
            let info = record.map(|mut record| record["payload"]["info"].take());
            return Ok(info.and_then(|info| Total::snake(&info["total_token_usage"])));
        }
        line.clear();
    }
    Ok(None)
}

/// Returns the files of thread `id`, the oldest first.
fn files(home: &Path, id: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    find(&home.join("sessions"), id, DEPTH, &mut files);
    find(&home.join("archived_sessions"), id, 0, &mut files);
    // The names contain times, so this puts the newest last.
    files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    files
}

impl Rollout {
    /// Reads the thread `id` in the home of Codex; `None` if it has no files.
    pub(crate) async fn of(home: &Path, id: &NativeId) -> Option<Self> {
        let (home, id) = (home.to_owned(), id.to_string());
        tokio::task::spawn_blocking(move || {
            let mut rollout = Self::default();
            let files = files(&home, &id);
            for file in &files {
                // Codex itself reports files that cannot be read.
                let _ = File::open(file).and_then(|file| rollout.take_in(BufReader::new(file)));
            }
            (!files.is_empty()).then_some(rollout)
        })
        .await
        .ok()
        .flatten()
    }

    fn take_in(&mut self, mut file: impl BufRead) -> io::Result<()> {
        let (mut line, mut count) = (Vec::new(), Vec::new());
        while file.read_until(b'\n', &mut line)? > 0 {
            let head = line.get(..HEAD).unwrap_or(&line);
            if contains(head, b"\"session_meta\"") {
                self.take_in_meta(&line);
            } else if contains(head, b"\"token_count\"") {
                std::mem::swap(&mut line, &mut count);
            }
            line.clear();
        }
        if let Ok(record) = serde_json::from_slice::<Value>(&count) {
            let info = &record["payload"]["info"];
            self.total = Total::snake(&info["total_token_usage"]);
            self.fill = Fill {
                tokens: info["last_token_usage"]["total_tokens"].as_u64(),
                window: info["model_context_window"].as_u64(),
            };
        }
        Ok(())
    }

    fn take_in_meta(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let writer = record["payload"]["cli_version"].as_str();
        self.writer = self.writer.max(writer.and_then(Version::find));
        self.numbered |= record.get("ordinal").is_some();
    }

    /// Checks whether a Codex of version `ours` (`None` if unknown) can resume the thread without damage. Returns the
    /// reason if it cannot.
    pub(crate) fn open_to(&self, ours: Option<Version>) -> Result<(), String> {
        match (self.writer, ours) {
            (Some(writer), Some(ours)) if ours < writer => Err(format!(
                "it was written by Codex {writer}, this one is {ours}, which would ruin it"
            )),
            (Some(writer), None) if self.numbered => Err(format!(
                "it was written by Codex {writer}, and the version of this one is unknown: an older one would ruin it"
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Finds the files of thread `id` in a directory.
fn find(directory: &Path, id: &str, depth: usize, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let (name, path) = (entry.file_name(), entry.path());
        if name.to_str().is_some_and(|name| is_of(name, id)) && path.is_file() {
            found.push(path);
        } else if depth > 0 && path.is_dir() {
            find(&path, id, depth - 1, found);
        }
    }
}

/// Returns `true` if a file of this name belongs to thread `id`: `rollout-<time>-<thread>[_<this file>].jsonl[.zst]`.
fn is_of(name: &str, id: &str) -> bool {
    const TIME: usize = "2026-11-16T00-37-34-".len();
    name.strip_prefix("rollout-")
        .and_then(|rest| rest.get(TIME..))
        .and_then(|rest| rest.strip_prefix(id))
        .is_some_and(|rest| rest.starts_with('_') || matches!(rest, ".jsonl" | ".jsonl.zst"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Rollout {
        let mut rollout = Rollout::default();
        rollout.take_in(text.as_bytes()).unwrap();
        rollout
    }

    fn version(text: &str) -> Option<Version> {
        Version::find(text)
    }

    const NUMBERED: &str =
        r#"{"ordinal":0,"type":"session_meta","payload":{"cli_version":"0.166.0"}}"#;
    const OLD: &str = r#"{"type":"session_meta","payload":{"cli_version":"0.137.0"}}"#;

    #[test]
    fn only_a_codex_that_is_not_older_than_the_writer_goes_on() {
        let both = format!("{OLD}\n{NUMBERED}\n");
        let cases = [
            (NUMBERED, "0.166.0", true),
            (NUMBERED, "0.167.1", true),
            (NUMBERED, "0.137.0", false),
            (NUMBERED, "", false),
            (OLD, "0.166.0", true),
            (OLD, "", true),
            // The newest writer counts.
            (both.as_str(), "0.140.0", false),
            ("not JSON\n", "0.137.0", true),
            ("", "", true),
        ];
        for (file, ours, open) in cases {
            let verdict = read(file).open_to(version(ours));
            assert_eq!(verdict.is_ok(), open, "{file} {ours}: {verdict:?}");
        }
        let why = read(NUMBERED).open_to(version("0.137.0")).unwrap_err();
        assert!(
            why.contains("written by Codex 0.166.0, this one is 0.137.0"),
            "{why}"
        );
    }

    #[test]
    fn the_last_count_is_the_total() {
        let count = |input: u64| {
            serde_json::json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
                "total_token_usage": {"input_tokens": input, "cached_input_tokens": 22, "output_tokens": 40},
                "last_token_usage": {"total_tokens": 121}, "model_context_window": 258_400}}})
        };
        let said = r#"{"type":"response_item","payload":{"text":"\"token_count\""}}"#;
        let rollout = read(&format!("{OLD}\n{}\n{}\n{said}\n", count(101), count(202)));
        let expected = serde_json::json!({"input_tokens": 202, "cached_input_tokens": 22, "output_tokens": 40});
        assert_eq!(rollout.total, Total::snake(&expected));
        assert_eq!(rollout.fill.tokens, Some(121));
        assert_eq!(rollout.fill.window, Some(258_400));
    }

    #[test]
    fn what_was_used_is_known_for_the_end_of_each_turn() {
        let count = |input: u64| {
            let used = serde_json::json!({"input_tokens": input, "cached_input_tokens": 1, "output_tokens": 2});
            serde_json::json!({"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": used}}})
        };
        let end = |turn: &str| {
            format!(
                r#"{{"type":"event_msg","payload":{{"type":"task_complete","turn_id":"{turn}"}}}}"#
            )
        };
        let lines = [
            OLD.to_owned(),
            end("t0"),
            count(5).to_string(),
            count(7).to_string(),
            end("t1"),
            count(9).to_string(),
            end("t2"),
        ];
        let text = lines.join("\n");
        let input = |turn: &str| {
            let total = total_at(text.as_bytes(), turn).unwrap();
            total.map(|total| {
                total == Total::snake(&count(7)["payload"]["info"]["total_token_usage"]).unwrap()
            })
        };
        assert_eq!(input("t0"), None, "nothing was counted yet");
        assert_eq!(
            (input("t1"), input("t2"), input("t3")),
            (Some(true), Some(false), None)
        );
    }

    #[test]
    fn files_are_known_by_their_names() {
        let id = "01a1e269-7de6-7563-bd31-b0fa3ef1a5f9";
        let cases = [
            (format!("rollout-2026-11-16T03-32-06-{id}.jsonl"), true),
            (format!("rollout-2026-11-16T03-32-06-{id}.jsonl.zst"), true),
            (format!("rollout-2026-11-16T03-32-06-{id}_01a1.jsonl"), true),
            (format!("rollout-2026-11-16T03-32-06-{id}.tmp"), false),
            (format!("rollout-2026-11-16T03-32-06-{id}0.jsonl"), false),
            (format!("{id}.jsonl"), false),
        ];
        for (name, expected) in cases {
            assert_eq!(is_of(&name, id), expected, "{name}");
        }
    }
}
