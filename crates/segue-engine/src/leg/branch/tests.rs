use std::fs;
use std::sync::Arc;

use segue_catalog::{Catalog, ClaudeReader};
use serde_json::{Value, json};

use super::*;

const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

/// A line of a Claude Code session file: role, text and stop reason.
type ClaudeTestLine = (&'static str, &'static str, Option<&'static str>);

const SESSION_LINES: [ClaudeTestLine; 6] = [
    ("user", "one", None),
    ("assistant", "first", Some("end_turn")),
    ("user", "two", None),
    ("assistant", "second", Some("end_turn")),
    ("user", "three", None),
    ("assistant", "third", None),
];

/// Returns the number of turns with these prompts and the key of the last record, in a session file with these lines
/// and with `damage` at its end.
fn find_point(
    lines: &[ClaudeTestLine],
    damage: &str,
    prompts: &[&str],
) -> Option<(usize, Option<String>)> {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("projects/-p");
    fs::create_dir_all(&directory).unwrap();
    let mut text = Vec::new();
    let mut parent = Value::Null;
    for (index, (role, content, stop)) in lines.iter().enumerate() {
        let message = json!({
            "role": role, "content": [{"type": "text", "text": content}], "stop_reason": stop,
        });
        let uuid = format!("u{index}");
        let line = json!({
            "type": role, "message": message, "uuid": uuid, "parentUuid": parent, "sessionId": ID,
            "cwd": "/p", "timestamp": format!("2026-01-02T03:04:{index:02}Z"),
        });
        text.push(format!("{line}\n"));
        // The parent chain of Claude Code contains more records than the messages.
        let note = json!({"type": "attachment", "uuid": format!("{uuid}a"), "parentUuid": uuid, "attachment": {}});
        text.push(format!("{note}\n"));
        parent = format!("{uuid}a").into();
    }
    fs::write(
        directory.join(format!("{ID}.jsonl")),
        text.concat() + damage,
    )
    .unwrap();
    let catalog = Catalog::new(vec![Arc::new(ClaudeReader::new(home.path()))]);
    let native = catalog.lookup_id(ID).sessions.remove(0);
    let prompts: Vec<String> = prompts.iter().map(|&prompt| prompt.to_owned()).collect();
    read_branch_point(&catalog, &native, &prompts)
        .map(|point| (point.turn_count, point.last_record_id))
}

#[test]
fn a_recorded_turn_is_found_in_the_native_session() {
    let point = |turns, record: &str| Some((turns, Some(record.to_owned())));
    let cases: [(&[&str], _); 6] = [
        (&["one"], point(1, "u1a")),
        (&["one", "two"], point(2, "u3a")),
        // The native session never finished the third turn.
        (&["one", "two", "three"], None),
        (&["one", "two", "three", "four"], None),
        (&["another one"], None),
        (&["two"], None),
    ];
    for (prompts, expected) in cases {
        assert_eq!(
            find_point(&SESSION_LINES, "", prompts),
            expected,
            "{prompts:?}"
        );
    }
}

#[test]
fn a_native_session_with_unreadable_lines_has_no_branch_point() {
    assert_eq!(find_point(&SESSION_LINES, "{\"torn", &["one"]), None);
    assert_eq!(
        find_point(&SESSION_LINES, "not a session record\n", &["one"]),
        None
    );
    assert_eq!(find_point(&SESSION_LINES[1..], "", &["one"]), None);
}
