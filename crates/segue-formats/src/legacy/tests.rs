use jiff::Timestamp;
use segue_core::session::Role;

use super::{LegacyFile, parse_legacy_file};

fn modified_at() -> Timestamp {
    "2025-02-01T00:00:00Z".parse().unwrap()
}

/// Formats the result of reading a file: messages, remarks and times, or the error.
fn describe_parsed(file: LegacyFile, content: &str) -> String {
    let parsed = parse_legacy_file(file, "/p/chat.json", content, None, modified_at());
    let session = match &parsed.session {
        Err(reason) => return format!("failed: {reason}"),
        Ok(session) => session,
    };
    let messages = session.messages.iter();
    let messages = messages.map(|message| {
        format!(
            "{} {} {:?}",
            message.at,
            message.role.as_str(),
            message.text
        )
    });
    let remarks = parsed.remarks.iter().map(|remark| format!("- {remark}"));
    let times = format!("{} to {}", session.created_at, session.updated_at);
    let output: Vec<String> = messages.chain(remarks).chain([times]).collect();
    output.join("\n")
}

#[test]
fn both_forms_of_chat_entries_are_parsed_with_their_times() {
    let content = r#"{"entries":[
        {"role":"user","content":"plan it","timestamp":"2025-01-15T10:00:00.000Z","media":["a.png"]},
        {"role":"assistant","content":"done","timestamp":"2025-01-15T10:00:05.000Z"},
        {"type":"user","text":"older","timestamp":"2025-01-15T11:00:00+01:00"},
        {"type":"system","text":"note","timestamp":1736937000000},
        {"role":"assistant","content":"no time"}
    ]}"#;
    insta::assert_snapshot!(describe_parsed(LegacyFile::Chat, content), @r#"
    2025-01-15T10:00:00Z user "plan it"
    2025-01-15T10:00:05Z assistant "done"
    2025-01-15T10:00:00Z user "older"
    2025-01-15T10:30:00Z system "note"
    2025-01-15T10:30:00Z assistant "no time"
    - entry 5 has no time; used the time of the previous entry
    2025-01-15T10:00:00Z to 2025-01-15T10:30:00Z
    "#);
    let session = parse_legacy_file(LegacyFile::Chat, "x", content, None, modified_at())
        .session
        .unwrap();
    assert_eq!(session.messages[0].extra_fields["media"][0], "a.png");
}

#[test]
fn messages_between_agent_and_harness_are_marked_internal() {
    let content = r#"{"taskId":"t","agentId":"a","status":"completed","startedAt":"2025-01-15T09:59:00Z","completedAt":"2025-01-15T12:00:00Z","messages":[
        {"timestamp":"2025-01-15T10:00:00Z","direction":"task_to_harness","type":"intention","content":"I will"},
        {"timestamp":"2025-01-15T10:00:01Z","direction":"harness_to_task","type":"approval","content":"go on","metadata":{"toolName":"Bash"}},
        {"timestamp":"2025-01-15T10:00:02Z","direction":"sideways","content":"?"},
        {"timestamp":"2025-01-15T10:00:03Z","direction":"task_to_harness"}
    ]}"#;
    insta::assert_snapshot!(describe_parsed(LegacyFile::Session, content), @r#"
    2025-01-15T10:00:00Z assistant "I will"
    2025-01-15T10:00:01Z user "go on"
    - entry 3 was omitted: unknown direction "sideways"
    - entry 4 was omitted: it has no text
    2025-01-15T09:59:00Z to 2025-01-15T12:00:00Z
    "#);
    let session = parse_legacy_file(LegacyFile::Session, "x", content, None, modified_at())
        .session
        .unwrap();
    assert_eq!(session.messages[0].role, Role::Assistant);
    assert_eq!(session.messages[1].extra_fields["internal"], true);
    assert_eq!(
        session.messages[1].extra_fields["metadata"]["toolName"],
        "Bash"
    );
}

#[test]
fn invalid_files_fail_and_invalid_entries_are_omitted() {
    let cases = [
        "",
        " \n",
        "null",
        "{}",
        r#"{"entries":null}"#,
        r#"{"entries":[]}"#,
        r#"{"version":1,"name":"x"}"#,
        "{ not json",
        "[]",
        "7",
        r#"{"entries":"all of it"}"#,
        r#"{"entries":{"0":1}}"#,
        r#"{"entries":[null,7,"x",["y"],{},{"role":"user"},{"content":"x"},{"role":"tool","content":"x"},{"role":"user","content":3},{"role":"user","content":""},{"role":"user","content":" \n"},{"role":"user","content":[]}]}"#,
    ];
    let descriptions = cases.map(|content| {
        format!(
            "{content:?}\n{}\n",
            describe_parsed(LegacyFile::Chat, content)
        )
    });
    insta::assert_snapshot!(descriptions.join("\n"), @r#"
    ""
    - the file is empty
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    " \n"
    - the file is empty
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    "null"
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    "{}"
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    "{\"entries\":null}"
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    "{\"entries\":[]}"
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    "{\"version\":1,\"name\":\"x\"}"
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z

    "{ not json"
    failed: not valid JSON: key must be a string at line 1 column 3

    "[]"
    failed: expected an object, found a list

    "7"
    failed: expected an object, found a number

    "{\"entries\":\"all of it\"}"
    failed: field `entries` is a string, not a list

    "{\"entries\":{\"0\":1}}"
    failed: field `entries` is an object, not a list

    "{\"entries\":[null,7,\"x\",[\"y\"],{},{\"role\":\"user\"},{\"content\":\"x\"},{\"role\":\"tool\",\"content\":\"x\"},{\"role\":\"user\",\"content\":3},{\"role\":\"user\",\"content\":\"\"},{\"role\":\"user\",\"content\":\" \\n\"},{\"role\":\"user\",\"content\":[]}]}"
    - entry 1 was omitted: it is null, not an object
    - entry 2 was omitted: it is a number, not an object
    - entry 3 was omitted: it is a string, not an object
    - entry 4 was omitted: it is a list, not an object
    - entry 5 was omitted: it has no role
    - entry 6 was omitted: it has no text
    - entry 7 was omitted: it has no role
    - entry 8 was omitted: unknown role "tool"
    - entry 9 was omitted: it has no text
    - entry 10 was omitted: it has no text
    - entry 11 was omitted: it has no text
    - entry 12 was omitted: it has no text
    2025-02-01T00:00:00Z to 2025-02-01T00:00:00Z
    "#);
}

#[test]
fn times_and_texts_are_parsed_in_every_form() {
    let content = r#"{"entries":[
        {"role":"user","content":"a","timestamp":"2025-01-05T12:00:00"},
        {"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}],"timestamp":"2025-01-05"},
        {"role":"user","content":"d","timestamp":"1736071200000"},
        {"role":"user","content":"e","timestamp":"yesterday"},
        {"role":"user","content":"f","timestamp":null}
    ]}"#;
    let content = &format!("\u{feff}{content}");
    insta::assert_snapshot!(describe_parsed(LegacyFile::Chat, content), @r#"
    2025-01-05T12:00:00Z user "a"
    2025-01-05T00:00:00Z user "b\nc"
    2025-01-05T10:00:00Z user "d"
    2025-01-05T10:00:00Z user "e"
    2025-01-05T10:00:00Z user "f"
    - entry 4 has the invalid time "yesterday"; used the time of the previous entry
    - entry 5 has no time; used the time of the previous entry
    2025-01-05T00:00:00Z to 2025-01-05T12:00:00Z
    "#);
}

#[test]
fn the_location_of_a_file_determines_its_purpose() {
    let cases = [
        (LegacyFile::Chat, Some("pay"), None, "feature pay as pm"),
        (LegacyFile::Chat, None, None, "the project as pm"),
        (
            LegacyFile::Chat,
            Some("pay"),
            Some("t"),
            "task t in state planning of feature pay as pm",
        ),
        (
            LegacyFile::Session,
            Some("pay"),
            Some("t"),
            "task t in state in_dev of feature pay as dev",
        ),
        (LegacyFile::Session, None, Some("a/b"), "the project as dev"),
    ];
    for (file, feature, task, expected) in cases {
        let purpose = file.purpose(feature, task).unwrap();
        assert_eq!(purpose.to_string(), expected);
    }
}
