//! Files of a thread, as far as they decide whether the thread may be resumed.
//!
//! A Codex that resumes a thread of a newer Codex damages it: the newer one refuses to read what the older one appends.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;
use serde_json::Value;

use super::executable::CodexVersion;
use super::home::CodexHome;
use super::usage::{CodexTokenCounts, ContextFill};
use crate::reader::line_format::contains_bytes;

/// Number of bytes at the beginning of a line that identify its type.
const LINE_TYPE_PREFIX_BYTES: usize = 256;

/// Properties of a thread, read from its files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rollout {
    /// Newest version of Codex that wrote to the thread.
    newest_writer: Option<CodexVersion>,
    /// Whether the records are numbered, which an older Codex does not do.
    has_ordinals: bool,
    /// Total token usage of the thread.
    pub(crate) total_tokens: Option<CodexTokenCounts>,
    /// Context usage of the thread.
    pub(crate) context: ContextFill,
}

/// Returns the total usage of thread `id` at the end of its turn `turn_id`; `None` if the thread's own files do not
/// contain it.
pub(crate) async fn load_total_after_turn(
    home: &Path,
    id: &NativeId,
    turn_id: &str,
) -> Option<CodexTokenCounts> {
    let (home, id, turn_id) = (home.to_owned(), id.to_string(), turn_id.to_owned());
    tokio::task::spawn_blocking(move || {
        let files = list_rollout_files(&home, &id).into_iter();
        let mut files = files.filter_map(|file| File::open(file).ok());
        files.find_map(|file| {
            read_total_after_turn(BufReader::new(file), &turn_id)
                .ok()
                .flatten()
        })
    })
    .await
    .ok()
    .flatten()
}

fn read_total_after_turn(
    mut file: impl BufRead,
    turn_id: &str,
) -> io::Result<Option<CodexTokenCounts>> {
    let (mut line, mut token_count) = (Vec::new(), Vec::new());
    while file.read_until(b'\n', &mut line)? > 0 {
        let prefix = line.get(..LINE_TYPE_PREFIX_BYTES).unwrap_or(&line);
        let is_end =
            |kind: &[u8]| contains_bytes(prefix, kind) && contains_bytes(&line, turn_id.as_bytes());
        if contains_bytes(prefix, b"\"token_count\"") {
            std::mem::swap(&mut line, &mut token_count);
        } else if is_end(b"\"task_complete\"") || is_end(b"\"turn_complete\"") {
            let record: Option<Value> = serde_json::from_slice(&token_count).ok();
            let info = record.map(|mut record| record["payload"]["info"].take());
            return Ok(
                info.and_then(|info| CodexTokenCounts::from_snake_case(&info["total_token_usage"]))
            );
        }
        line.clear();
    }
    Ok(None)
}

/// Returns the files of thread `id`, the oldest first.
fn list_rollout_files(home: &Path, id: &str) -> Vec<PathBuf> {
    let mut files = CodexHome::new(home.to_owned()).session_files(id);
    files.retain(|file| file.is_file());
    // The names contain times, so this puts the newest last.
    files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    files
}

impl Rollout {
    /// Reads the thread `id` in the home of Codex; `None` if it has no files.
    pub(crate) async fn load(home: &Path, id: &NativeId) -> Option<Self> {
        let (home, id) = (home.to_owned(), id.to_string());
        tokio::task::spawn_blocking(move || {
            let mut rollout = Self::default();
            let files = list_rollout_files(&home, &id);
            for file in &files {
                // Codex itself reports files that cannot be read.
                let _ =
                    File::open(file).and_then(|file| rollout.read_records(BufReader::new(file)));
            }
            (!files.is_empty()).then_some(rollout)
        })
        .await
        .ok()
        .flatten()
    }

    fn read_records(&mut self, mut file: impl BufRead) -> io::Result<()> {
        let (mut line, mut token_count) = (Vec::new(), Vec::new());
        while file.read_until(b'\n', &mut line)? > 0 {
            let prefix = line.get(..LINE_TYPE_PREFIX_BYTES).unwrap_or(&line);
            if contains_bytes(prefix, b"\"session_meta\"") {
                self.read_session_meta(&line);
            } else if contains_bytes(prefix, b"\"token_count\"") {
                std::mem::swap(&mut line, &mut token_count);
            }
            line.clear();
        }
        if let Ok(record) = serde_json::from_slice::<Value>(&token_count) {
            let info = &record["payload"]["info"];
            self.total_tokens = CodexTokenCounts::from_snake_case(&info["total_token_usage"]);
            self.context = ContextFill {
                tokens: info["last_token_usage"]["total_tokens"].as_u64(),
                window: info["model_context_window"].as_u64(),
            };
        }
        Ok(())
    }

    fn read_session_meta(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let writer = record["payload"]["cli_version"].as_str();
        self.newest_writer = self.newest_writer.max(writer.and_then(CodexVersion::find));
        self.has_ordinals |= record.get("ordinal").is_some();
    }

    /// Checks whether a Codex of version `version` (`None` if unknown) can resume the thread without damage. Returns
    /// the reason if it cannot.
    pub(crate) fn check_resumable_by(&self, version: Option<CodexVersion>) -> Result<(), String> {
        match (self.newest_writer, version) {
            (Some(writer), Some(version)) if version < writer => Err(format!(
                "Codex {writer} wrote the native session; the older Codex {version} would damage it"
            )),
            (Some(writer), None) if self.has_ordinals => Err(format!(
                "Codex {writer} wrote the native session; this Codex reports no version, and an older one would damage it"
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_rollout(text: &str) -> Rollout {
        let mut rollout = Rollout::default();
        rollout.read_records(text.as_bytes()).unwrap();
        rollout
    }

    fn parse_version(text: &str) -> Option<CodexVersion> {
        CodexVersion::find(text)
    }

    const NUMBERED_META_LINE: &str =
        r#"{"ordinal":0,"type":"session_meta","payload":{"cli_version":"0.166.0"}}"#;
    const OLD_META_LINE: &str = r#"{"type":"session_meta","payload":{"cli_version":"0.137.0"}}"#;

    #[test]
    fn only_a_codex_that_is_not_older_than_the_writer_can_resume() {
        let both = format!("{OLD_META_LINE}\n{NUMBERED_META_LINE}\n");
        let cases = [
            (NUMBERED_META_LINE, "0.166.0", true),
            (NUMBERED_META_LINE, "0.167.1", true),
            (NUMBERED_META_LINE, "0.137.0", false),
            (NUMBERED_META_LINE, "", false),
            (OLD_META_LINE, "0.166.0", true),
            (OLD_META_LINE, "", true),
            // The newest writer counts.
            (both.as_str(), "0.140.0", false),
            ("not JSON\n", "0.137.0", true),
            ("", "", true),
        ];
        for (file, version, can_resume) in cases {
            let outcome = read_rollout(file).check_resumable_by(parse_version(version));
            assert_eq!(outcome.is_ok(), can_resume, "{file} {version}: {outcome:?}");
        }
        let reason = read_rollout(NUMBERED_META_LINE)
            .check_resumable_by(parse_version("0.137.0"))
            .unwrap_err();
        assert!(
            reason
                .contains("Codex 0.166.0 wrote the native session; the older Codex 0.137.0 would"),
            "{reason}"
        );
    }

    #[test]
    fn the_last_token_count_is_the_total() {
        let count = |input: u64| {
            serde_json::json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
                "total_token_usage": {"input_tokens": input, "cached_input_tokens": 22, "output_tokens": 40},
                "last_token_usage": {"total_tokens": 121}, "model_context_window": 258_400}}})
        };
        let message_line = r#"{"type":"response_item","payload":{"text":"\"token_count\""}}"#;
        let rollout = read_rollout(&format!(
            "{OLD_META_LINE}\n{}\n{}\n{message_line}\n",
            count(101),
            count(202)
        ));
        let expected = serde_json::json!({"input_tokens": 202, "cached_input_tokens": 22, "output_tokens": 40});
        assert_eq!(
            rollout.total_tokens,
            CodexTokenCounts::from_snake_case(&expected)
        );
        assert_eq!(rollout.context.tokens, Some(121));
        assert_eq!(rollout.context.window, Some(258_400));
    }

    #[test]
    fn the_total_usage_is_read_for_the_end_of_each_turn() {
        let count = |input: u64| {
            let usage = serde_json::json!({"input_tokens": input, "cached_input_tokens": 1, "output_tokens": 2});
            serde_json::json!({"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": usage}}})
        };
        let end = |turn: &str| {
            format!(
                r#"{{"type":"event_msg","payload":{{"type":"task_complete","turn_id":"{turn}"}}}}"#
            )
        };
        let lines = [
            OLD_META_LINE.to_owned(),
            end("t0"),
            count(5).to_string(),
            count(7).to_string(),
            end("t1"),
            count(9).to_string(),
            end("t2"),
        ];
        let text = lines.join("\n");
        let has_second_count = |turn: &str| {
            let total = read_total_after_turn(text.as_bytes(), turn).unwrap();
            total.map(|total| {
                total
                    == CodexTokenCounts::from_snake_case(
                        &count(7)["payload"]["info"]["total_token_usage"],
                    )
                    .unwrap()
            })
        };
        assert_eq!(
            has_second_count("t0"),
            None,
            "no count before the end of t0"
        );
        assert_eq!(
            (
                has_second_count("t1"),
                has_second_count("t2"),
                has_second_count("t3")
            ),
            (Some(true), Some(false), None)
        );
    }
}
