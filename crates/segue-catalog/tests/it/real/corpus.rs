//! Corpus of fixtures: files that the real CLIs wrote in these tests.
//!
//! `cargo xtask fixtures` runs the tests with `SEGUE_FIXTURES` set. Each test then saves the files of its CLI under
//! `fixtures/<agent>/<version>/<scenario>`. Paths on this machine become `/sandbox`. Long texts are cut, because they
//! are the agents' own prompts, which this repository must not contain.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use segue_catalog::Reader;
use segue_testkit::sandbox::Sandbox;

use crate::real::session::read;
use crate::story::story;

/// Maximum length of a text. Longer texts are cut, unless they contain a text of the scripts, which are all shorter.
const LONGEST: usize = 96;
const OURS: &[&str] = &["hi-from-here", "They looked around.", "Process exited"];

/// Constructor of an agent's reader.
pub(crate) type MakeReader = fn(&Path) -> Box<dyn Reader>;

/// Saves the files under `directory` of the sandbox's home, if the corpus is being created.
pub(crate) fn keep(
    sandbox: &Sandbox,
    version: &str,
    scenario: &str,
    directory: &str,
    reader: MakeReader,
) {
    if std::env::var_os("SEGUE_FIXTURES").is_none() {
        return;
    }
    let from = sandbox.home().join(directory);
    let agent = reader(&from).provider();
    let target = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(agent)
        .join(version)
        .join(scenario);
    let _ = fs::remove_dir_all(&target);
    copy(sandbox, &from, &target);
    // The cut files must contain the same conversations.
    let told = |home: &Path| {
        let reader = reader(home);
        let mut found = reader.scan_sessions().locations;
        found.sort_by_key(|found| found.path.file_name().map(ToOwned::to_owned));
        let stories = found
            .iter()
            .map(|found| story(&read(reader.as_ref(), found)));
        steady(sandbox, &stories.collect::<String>())
    };
    assert_eq!(told(&target), told(&from));
}

fn copy(sandbox: &Sandbox, from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let name = steady(sandbox, entry.file_name().to_str().unwrap());
        if path.is_dir() {
            copy(sandbox, &path, &to.join(name));
        } else if is_session(&path) {
            let text = fs::read_to_string(&path).unwrap();
            fs::create_dir_all(to).unwrap();
            fs::write(to.join(name), cut(&steady(sandbox, &text))).unwrap();
        }
    }
}

/// Returns `true` for sessions, and for files that assign them to projects.
fn is_session(path: &Path) -> bool {
    let inside = |names: &[&str]| {
        let above = path
            .ancestors()
            .filter_map(|above| above.file_name()?.to_str());
        above.into_iter().any(|above| names.contains(&above))
    };
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        _ if ["projects.json", ".project_root", "session_index.jsonl"].contains(&name) => true,
        Some("jsonl") => inside(&["projects", "sessions", "archived_sessions", "chats"]),
        Some("json") => inside(&["chats"]),
        _ => false,
    }
}

/// Replaces paths of this machine, so that the text is the same on every machine.
fn steady(sandbox: &Sandbox, text: &str) -> String {
    let place = sandbox.path().display().to_string();
    let encoded: String = place
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let text = text
        .replace(&place, "/sandbox")
        .replace(&encoded, "-sandbox");
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(kernel) => text.replace(kernel.trim(), "6.0"),
        Err(_) => text,
    }
}

/// Cuts the long strings in JSON, and changes nothing else.
fn cut(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('"') {
        let (before, string) = rest.split_at(open);
        out.push_str(before);
        let length = end_of_string(string);
        let (string, after) = string.split_at(length);
        let ours = OURS.iter().filter_map(|ours| string.find(ours)).min();
        let short = string.len()
            <= if ours.is_some() {
                2 * LONGEST
            } else {
                LONGEST + 2
            };
        if short {
            out.push_str(string);
        } else {
            // A text of the scripts at the end is retained.
            let kept = ours.map_or("\"", |at| string.split_at(at).1);
            let left_out = string.len() - 1 - kept.len();
            let _ = write!(out, "\"{}({left_out} bytes left out){kept}", tag(string));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the part of a long string that is retained: a tag at its beginning, because it identifies the text.
fn tag(string: &str) -> &str {
    let inside = string.strip_prefix('"').unwrap_or(string);
    if !inside.starts_with('<') {
        return "";
    }
    let end = inside
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|&at| at <= 48)
        .last();
    let start = inside.split_at(end.unwrap_or(0)).0;
    // The cut must not be within an escape.
    start.split_once('\\').map_or(start, |(start, _)| start)
}

/// Returns the length of the JSON string at the beginning of `text`, including both quotes.
fn end_of_string(text: &str) -> usize {
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
