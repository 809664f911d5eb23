use std::fs;
use std::sync::Arc;

use segue_catalog::{Catalog, Claude};
use serde_json::{Value, json};

use super::*;

const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

/// A line of a Claude Code session file: role, text and stop reason.
type Line = (&'static str, &'static str, Option<&'static str>);

const TALK: [Line; 6] = [
    ("user", "one", None),
    ("assistant", "first", Some("end_turn")),
    ("user", "two", None),
    ("assistant", "second", Some("end_turn")),
    ("user", "three", None),
    ("assistant", "third", None),
];

/// Returns the number of turns with these prompts and the key of the last record, in a session file with these lines
/// and with `damage` at its end.
fn placed(lines: &[Line], damage: &str, prompts: &[&str]) -> Option<(usize, Option<String>)> {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("projects/-p");
    fs::create_dir_all(&directory).unwrap();
    let mut text = Vec::new();
    let mut parent = Value::Null;
    for (index, (role, said, stop)) in lines.iter().enumerate() {
        let message = json!({
            "role": role, "content": [{"type": "text", "text": said}], "stop_reason": stop,
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
    let catalog = Catalog::new(vec![Arc::new(Claude::new(home.path()))]);
    let native = catalog.lookup(ID).sessions.remove(0);
    let prompts: Vec<String> = prompts.iter().map(|&prompt| prompt.to_owned()).collect();
    place(&catalog, &native, &prompts).map(|point| (point.turns, point.record))
}

#[test]
fn a_turn_of_ours_is_found_in_the_native_session() {
    let found = |turns, record: &str| Some((turns, Some(record.to_owned())));
    let cases: [(&[&str], _); 6] = [
        (&["one"], found(1, "u1a")),
        (&["one", "two"], found(2, "u3a")),
        // The native session never finished the third turn.
        (&["one", "two", "three"], None),
        (&["one", "two", "three", "four"], None),
        (&["another one"], None),
        (&["two"], None),
    ];
    for (prompts, expected) in cases {
        assert_eq!(placed(&TALK, "", prompts), expected, "{prompts:?}");
    }
}

#[test]
fn a_native_session_that_cannot_be_read_whole_is_in_doubt() {
    assert_eq!(placed(&TALK, "{\"torn", &["one"]), None);
    assert_eq!(placed(&TALK, "no line of theirs\n", &["one"]), None);
    assert_eq!(placed(&TALK[1..], "", &["one"]), None);
}
