//! Corpus of fixtures: files that the real CLIs wrote in these tests.
//!
//! `cargo xtask fixtures` runs the tests with `SEGUE_FIXTURES` set. Each test then saves the files of its CLI under
//! `fixtures/<agent>/<version>/<scenario>`. Paths on this machine become `/sandbox`. Long texts are cut, because they
//! are the agents' own prompts, which this repository must not contain.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use segue_providers::Reader;
use segue_testkit::sandbox::Sandbox;

use crate::conversation_text::format_turns;
use crate::real::session::read_turns;

/// Maximum length of a text. Longer texts are cut, unless they contain a text of the scripts, which are all shorter.
const MAX_TEXT_BYTES: usize = 96;
const SCRIPT_TEXTS: &[&str] = &["hi-from-here", "They looked around.", "Process exited"];

/// Constructor of an agent's reader.
pub(crate) type ReaderFactory = fn(&Path) -> Box<dyn Reader>;

/// Saves the files under `directory` of the sandbox's home, if the corpus is being created.
pub(crate) fn save_fixture(
    sandbox: &Sandbox,
    version: &str,
    scenario: &str,
    directory: &str,
    new_reader: ReaderFactory,
) {
    if std::env::var_os("SEGUE_FIXTURES").is_none() {
        return;
    }
    let from = sandbox.home().join(directory);
    let agent = new_reader(&from).provider();
    let target = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(agent)
        .join(version)
        .join(scenario);
    let _ = fs::remove_dir_all(&target);
    copy_sessions(sandbox, &from, &target);
    // The cut files must contain the same conversations.
    let format_home = |home: &Path| {
        let reader = new_reader(home);
        let mut locations = reader.scan_sessions().locations;
        locations.sort_by_key(|location| location.path.file_name().map(ToOwned::to_owned));
        let texts = locations
            .iter()
            .map(|location| format_turns(&read_turns(reader.as_ref(), location)));
        mask_machine_paths(sandbox, &texts.collect::<String>())
    };
    assert_eq!(format_home(&target), format_home(&from));
}

fn copy_sessions(sandbox: &Sandbox, from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let name = mask_machine_paths(sandbox, entry.file_name().to_str().unwrap());
        if path.is_dir() {
            copy_sessions(sandbox, &path, &to.join(name));
        } else if is_session_file(&path) {
            let text = fs::read_to_string(&path).unwrap();
            fs::create_dir_all(to).unwrap();
            fs::write(
                to.join(name),
                cut_long_strings(&mask_machine_paths(sandbox, &text)),
            )
            .unwrap();
        }
    }
}

/// Returns `true` for sessions, and for files that assign them to projects.
fn is_session_file(path: &Path) -> bool {
    let is_inside = |names: &[&str]| {
        let ancestors = path
            .ancestors()
            .filter_map(|ancestor| ancestor.file_name()?.to_str());
        ancestors
            .into_iter()
            .any(|ancestor| names.contains(&ancestor))
    };
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        _ if ["projects.json", ".project_root", "session_index.jsonl"].contains(&name) => true,
        Some("jsonl") => is_inside(&["projects", "sessions", "archived_sessions", "chats"]),
        Some("json") => is_inside(&["chats"]),
        _ => false,
    }
}

/// Replaces paths of this machine, so that the text is the same on every machine.
fn mask_machine_paths(sandbox: &Sandbox, text: &str) -> String {
    let sandbox_path = sandbox.path().display().to_string();
    let encoded: String = sandbox_path
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let text = text
        .replace(&sandbox_path, "/sandbox")
        .replace(&encoded, "-sandbox");
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(kernel) => text.replace(kernel.trim(), "6.0"),
        Err(_) => text,
    }
}

/// Cuts the long strings in JSON, and changes nothing else.
fn cut_long_strings(text: &str) -> String {
    let mut out = String::new();
    let mut remaining = text;
    while let Some(open) = remaining.find('"') {
        let (before, string) = remaining.split_at(open);
        out.push_str(before);
        let length = json_string_len(string);
        let (string, after) = string.split_at(length);
        let script_text_at = SCRIPT_TEXTS
            .iter()
            .filter_map(|script_text| string.find(script_text))
            .min();
        let is_short = string.len()
            <= if script_text_at.is_some() {
                2 * MAX_TEXT_BYTES
            } else {
                MAX_TEXT_BYTES + 2
            };
        if is_short {
            out.push_str(string);
        } else {
            // A text of the scripts at the end is retained.
            let retained = script_text_at.map_or("\"", |at| string.split_at(at).1);
            let omitted_bytes = string.len() - 1 - retained.len();
            let _ = write!(
                out,
                "\"{}({omitted_bytes} bytes left out){retained}",
                leading_tag(string)
            );
        }
        remaining = after;
    }
    out.push_str(remaining);
    out
}

/// Returns the part of a long string that is retained: a tag at its beginning, because it identifies the text.
fn leading_tag(string: &str) -> &str {
    let content = string.strip_prefix('"').unwrap_or(string);
    if !content.starts_with('<') {
        return "";
    }
    let end = content
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|&at| at <= 48)
        .last();
    let start = content.split_at(end.unwrap_or(0)).0;
    // The cut must not be within an escape.
    start.split_once('\\').map_or(start, |(start, _)| start)
}

/// Returns the length of the JSON string at the beginning of `text`, including both quotes.
fn json_string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
