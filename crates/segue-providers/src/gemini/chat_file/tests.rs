//! Session files, intact and damaged.

use super::*;

const HEADER_LINE: &str = r#"{"sessionId":"11111111-a","projectHash":"h","startTime":"t","lastUpdated":"t","kind":"main"}"#;
const CONTEXT_LINE: &str = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>\nx"}]}],"lastUpdated":"t"}}"#;
const PROMPT_LINE: &str =
    r#"{"id":"u1","timestamp":"t","type":"user","content":[{"text":"first"}]}"#;
const UPDATE_LINE: &str = r#"{"$set":{"lastUpdated":"t"}}"#;
const ANSWER_LINE: &str = r#"{"id":"g1","type":"gemini","content":"hi","thoughts":[],"tokens":{"input":101,"output":20},"model":"m"}"#;
const RESUME_LINE: &str = r#"{"$set":{"sessionId":"11111111-a"}}"#;
const RESTORE_LINE: &str = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>\nx"}]},{"id":"u1","type":"user","content":[{"text":"first"}]}]}}"#;
const LATER_ANSWER_LINE: &str =
    r#"{"id":"g2","type":"gemini","content":"more","tokens":{"input":150}}"#;

fn render_file(lines: &[&str]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| [line.as_bytes(), b"\n"].concat())
        .collect()
}

fn render_session() -> Vec<u8> {
    render_file(&[
        HEADER_LINE,
        CONTEXT_LINE,
        PROMPT_LINE,
        UPDATE_LINE,
        ANSWER_LINE,
        UPDATE_LINE,
    ])
}

#[test]
fn file_names_contain_the_minute_and_the_short_id() {
    let file_name = |minute, short_id| Some(ChatFileName { minute, short_id });
    let cases = [
        (
            "session-2026-11-16T03-30-58be647e.jsonl",
            file_name("2026-11-16T03-30", "58be647e"),
        ),
        (
            "session-2026-11-16T03-30-58be647e.json",
            file_name("2026-11-16T03-30", "58be647e"),
        ),
        (
            "session-2026-11-16T03-30-abc.jsonl",
            file_name("2026-11-16T03-30", "abc"),
        ),
        ("session-2026-11-16T03-30-.jsonl", None),
        ("session-2026-11-16T03-30.jsonl", None),
        ("session-2026-11-16 03-30-58be647e.jsonl", None),
        ("session-58be647e.jsonl", None),
        ("58be647e-1111-4111-8111-111111111111.jsonl", None),
        ("session-2026-11-16T03-30-58be647e.jsonl.tmp-1", None),
        ("sessio\u{300}n-2026-11-16T03-30-58be647e.jsonl", None),
        ("session-2026-11-16T03-3ü-58be647e.jsonl", None),
    ];
    for (file, expected) in cases {
        assert_eq!(parse_file_name(file), expected, "{file}");
    }
}

#[test]
fn a_file_with_counted_messages_is_recognised() {
    let ignored = r#"{"id":"u2","type":"user","content":[{"text":" /help"}]}"#;
    let silent = r#"{"id":"g3","type":"gemini","content":"","thoughts":[]}"#;
    let calls = r#"{"id":"g4","type":"gemini","content":"","toolCalls":[{"id":"x"}]}"#;
    let response = r#"{"id":"u3","type":"user","content":[{"functionResponse":{"id":"x"}}]}"#;
    let rewound = r#"{"$rewindTo":"u1"}"#;
    let info = r#"{"id":"i","type":"info","content":"note"}"#;
    let cases: &[(&[&str], bool)] = &[
        (&[], false),
        (&[HEADER_LINE], false),
        (&[HEADER_LINE, CONTEXT_LINE], false),
        (&[HEADER_LINE, CONTEXT_LINE, PROMPT_LINE], true),
        (&[HEADER_LINE, CONTEXT_LINE, ignored], false),
        (&[HEADER_LINE, CONTEXT_LINE, silent, info], false),
        (&[HEADER_LINE, CONTEXT_LINE, calls], true),
        (&[HEADER_LINE, CONTEXT_LINE, response], true),
        (
            &[HEADER_LINE, CONTEXT_LINE, PROMPT_LINE, ANSWER_LINE, rewound],
            false,
        ),
        (&[HEADER_LINE, CONTEXT_LINE, "half a li", PROMPT_LINE], true),
        (
            &[HEADER_LINE, CONTEXT_LINE, RESUME_LINE, RESTORE_LINE],
            true,
        ),
        // A message that is repeated with less content.
        (
            &[
                HEADER_LINE,
                CONTEXT_LINE,
                calls,
                r#"{"id":"g4","type":"gemini","content":""}"#,
            ],
            false,
        ),
        (
            &[
                r#"{"sessionId":"11111111-a","projectHash":"h","messages":["#,
                PROMPT_LINE,
                "]}",
            ],
            true,
        ),
    ];
    for (lines, has_messages) in cases {
        assert_eq!(
            parse_chat_file(&render_file(lines)).has_messages,
            *has_messages,
            "{lines:?}"
        );
    }
}

#[test]
fn a_twin_is_an_empty_file_of_the_same_session() {
    let other_header = HEADER_LINE.replace("11111111-a", "11111111-b");
    let cases: &[(&[&str], bool)] = &[
        (&[HEADER_LINE, CONTEXT_LINE], true),
        (&[HEADER_LINE], true),
        (&[other_header.as_str(), CONTEXT_LINE], false),
        (&[HEADER_LINE, CONTEXT_LINE, PROMPT_LINE], false),
        (&[], false),
        (&["not a session"], false),
        // Damaged, not empty: the previous content can be restored.
        (
            &[
                HEADER_LINE,
                CONTEXT_LINE,
                PROMPT_LINE,
                ANSWER_LINE,
                HEADER_LINE,
                CONTEXT_LINE,
            ],
            false,
        ),
    ];
    for (lines, is_twin) in cases {
        assert_eq!(
            parse_chat_file(&render_file(lines)).is_empty_file_of("11111111-a"),
            *is_twin,
            "{lines:?}"
        );
    }
}

#[test]
fn a_reset_is_a_second_header_without_later_messages() {
    let complete = render_session();
    let reset_offset = Some(complete.len());
    let cleared = r#"{"$set":{"messages":[]}}"#;
    let cases: &[(&[&str], Option<usize>)] = &[
        (&[], None),
        (&[HEADER_LINE, CONTEXT_LINE], reset_offset),
        // A resume in the minute of creation also restarts the file, but then restores everything.
        (&[HEADER_LINE, CONTEXT_LINE, RESUME_LINE], reset_offset),
        (
            &[HEADER_LINE, CONTEXT_LINE, RESUME_LINE, RESTORE_LINE],
            None,
        ),
        (
            &[
                HEADER_LINE,
                CONTEXT_LINE,
                RESUME_LINE,
                RESTORE_LINE,
                LATER_ANSWER_LINE,
            ],
            None,
        ),
        (&[HEADER_LINE], None),
        (&[CONTEXT_LINE], None),
        // Cleared by the user.
        (&[cleared], None),
        (&[HEADER_LINE, CONTEXT_LINE, LATER_ANSWER_LINE], None),
    ];
    for (lines, expected) in cases {
        let bytes = [complete.clone(), render_file(lines)].concat();
        assert_eq!(parse_chat_file(&bytes).reset_at, *expected, "{lines:?}");
    }
}

#[test]
fn the_context_size_is_that_of_the_last_request() {
    let cases: &[(&[&str], Option<u64>)] = &[
        (&[HEADER_LINE, CONTEXT_LINE, PROMPT_LINE], None),
        (
            &[HEADER_LINE, CONTEXT_LINE, PROMPT_LINE, ANSWER_LINE],
            Some(101),
        ),
        (
            &[
                HEADER_LINE,
                CONTEXT_LINE,
                PROMPT_LINE,
                ANSWER_LINE,
                LATER_ANSWER_LINE,
                UPDATE_LINE,
            ],
            Some(150),
        ),
    ];
    for (lines, tokens) in cases {
        assert_eq!(
            parse_chat_file(&render_file(lines)).context_tokens,
            *tokens,
            "{lines:?}"
        );
    }
}

#[test]
fn lost_content_is_restored() {
    type RepairCase<'a> = (&'a str, Option<&'a [u8]>, Option<&'a [u8]>, ChatFileRepair);
    let complete = render_session();
    let longer = [complete.clone(), render_file(&[LATER_ANSWER_LINE])].concat();
    let reset = [complete.clone(), render_file(&[HEADER_LINE, CONTEXT_LINE])].concat();
    let tail = render_file(&[RESUME_LINE, LATER_ANSWER_LINE]);
    let empty = render_file(&[HEADER_LINE, CONTEXT_LINE]);
    let rewritten = render_file(&[HEADER_LINE, LATER_ANSWER_LINE]);
    let cases: &[RepairCase<'_>] = &[
        (
            "neither a file nor a copy",
            None,
            None,
            ChatFileRepair::NotNeeded,
        ),
        ("no copy", Some(&complete), None, ChatFileRepair::NotNeeded),
        (
            "unchanged",
            Some(&complete),
            Some(&complete),
            ChatFileRepair::NotNeeded,
        ),
        (
            "continued",
            Some(&longer),
            Some(&complete),
            ChatFileRepair::NotNeeded,
        ),
        (
            "deleted",
            None,
            Some(&complete),
            ChatFileRepair::Restoration(complete.clone()),
        ),
        (
            "deleted, with an empty copy",
            None,
            Some(&empty),
            ChatFileRepair::NotNeeded,
        ),
        (
            "emptied",
            Some(&empty),
            Some(&complete),
            ChatFileRepair::Restoration(complete.clone()),
        ),
        (
            "reset",
            Some(&reset),
            Some(&complete),
            ChatFileRepair::Rollback(complete.clone()),
        ),
        (
            "reset without a copy",
            Some(&reset),
            None,
            ChatFileRepair::Rollback(complete.clone()),
        ),
        (
            "reset after the restoration of a shorter copy",
            Some(&reset),
            Some(&longer),
            ChatFileRepair::Rollback(longer.clone()),
        ),
        (
            "deleted during a turn",
            Some(&tail),
            Some(&complete),
            ChatFileRepair::Concatenation([complete.clone(), tail.clone()].concat()),
        ),
        (
            "rewritten by Gemini CLI",
            Some(&rewritten),
            Some(&complete),
            ChatFileRepair::NotNeeded,
        ),
    ];
    for (name, current, copy, expected) in cases {
        assert_eq!(plan_repair(*current, *copy), *expected, "{name}");
    }
}

#[test]
fn the_remaining_seconds_of_a_minute_are_counted() {
    let cases = [
        ("2026-11-16T03-30", "2026-11-16T03:30:00Z", Some(60)),
        ("2026-11-16T03-30", "2026-11-16T03:30:59.999Z", Some(1)),
        ("2026-11-16T03-30", "2026-11-16T03:31:00Z", None),
        ("2026-11-16T03-30", "2026-11-17T03:30:10Z", None),
        ("2026-11-16T03-30", "2026-11-16T03:29:59Z", None),
    ];
    for (minute, now, expected) in cases {
        assert_eq!(
            seconds_left_in_minute(minute, now.parse().unwrap()),
            expected,
            "{minute} {now}"
        );
    }
}
