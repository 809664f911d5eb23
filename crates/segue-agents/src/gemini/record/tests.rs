//! Session files, intact and damaged.

use super::*;

const HEAD: &str = r#"{"sessionId":"11111111-a","projectHash":"h","startTime":"t","lastUpdated":"t","kind":"main"}"#;
const CONTEXT: &str = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>\nx"}]}],"lastUpdated":"t"}}"#;
const ASKED: &str = r#"{"id":"u1","timestamp":"t","type":"user","content":[{"text":"first"}]}"#;
const UPDATED: &str = r#"{"$set":{"lastUpdated":"t"}}"#;
const ANSWERED: &str = r#"{"id":"g1","type":"gemini","content":"hi","thoughts":[],"tokens":{"input":101,"output":20},"model":"m"}"#;
const RESUMED: &str = r#"{"$set":{"sessionId":"11111111-a"}}"#;
const RESTORED: &str = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>\nx"}]},{"id":"u1","type":"user","content":[{"text":"first"}]}]}}"#;
const LATER: &str = r#"{"id":"g2","type":"gemini","content":"more","tokens":{"input":150}}"#;

fn file(lines: &[&str]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| [line.as_bytes(), b"\n"].concat())
        .collect()
}

fn session() -> Vec<u8> {
    file(&[HEAD, CONTEXT, ASKED, UPDATED, ANSWERED, UPDATED])
}

#[test]
fn names_tell_minute_and_id() {
    let name = |minute, short| Some(Name { minute, short });
    let cases = [
        (
            "session-2026-11-16T03-30-58be647e.jsonl",
            name("2026-11-16T03-30", "58be647e"),
        ),
        (
            "session-2026-11-16T03-30-58be647e.json",
            name("2026-11-16T03-30", "58be647e"),
        ),
        (
            "session-2026-11-16T03-30-abc.jsonl",
            name("2026-11-16T03-30", "abc"),
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
        assert_eq!(super::name(file), expected, "{file}");
    }
}

#[test]
fn a_file_says_something_or_not() {
    let ignored = r#"{"id":"u2","type":"user","content":[{"text":" /help"}]}"#;
    let silent = r#"{"id":"g3","type":"gemini","content":"","thoughts":[]}"#;
    let calls = r#"{"id":"g4","type":"gemini","content":"","toolCalls":[{"id":"x"}]}"#;
    let response = r#"{"id":"u3","type":"user","content":[{"functionResponse":{"id":"x"}}]}"#;
    let rewound = r#"{"$rewindTo":"u1"}"#;
    let info = r#"{"id":"i","type":"info","content":"note"}"#;
    let cases: &[(&[&str], bool)] = &[
        (&[], false),
        (&[HEAD], false),
        (&[HEAD, CONTEXT], false),
        (&[HEAD, CONTEXT, ASKED], true),
        (&[HEAD, CONTEXT, ignored], false),
        (&[HEAD, CONTEXT, silent, info], false),
        (&[HEAD, CONTEXT, calls], true),
        (&[HEAD, CONTEXT, response], true),
        (&[HEAD, CONTEXT, ASKED, ANSWERED, rewound], false),
        (&[HEAD, CONTEXT, "half a li", ASKED], true),
        (&[HEAD, CONTEXT, RESUMED, RESTORED], true),
        // A message that is repeated with less content.
        (
            &[
                HEAD,
                CONTEXT,
                calls,
                r#"{"id":"g4","type":"gemini","content":""}"#,
            ],
            false,
        ),
        (
            &[
                r#"{"sessionId":"11111111-a","projectHash":"h","messages":["#,
                ASKED,
                "]}",
            ],
            true,
        ),
    ];
    for (lines, said) in cases {
        assert_eq!(read(&file(lines)).said, *said, "{lines:?}");
    }
}

#[test]
fn a_twin_is_an_empty_file_of_the_same_session() {
    let other = HEAD.replace("11111111-a", "11111111-b");
    let cases: &[(&[&str], bool)] = &[
        (&[HEAD, CONTEXT], true),
        (&[HEAD], true),
        (&[other.as_str(), CONTEXT], false),
        (&[HEAD, CONTEXT, ASKED], false),
        (&[], false),
        (&["not a session"], false),
        // Damaged, not empty: the previous content can be restored.
        (&[HEAD, CONTEXT, ASKED, ANSWERED, HEAD, CONTEXT], false),
    ];
    for (lines, twin) in cases {
        assert_eq!(
            read(&file(lines)).is_empty_of("11111111-a"),
            *twin,
            "{lines:?}"
        );
    }
}

#[test]
fn a_reset_is_a_second_beginning_that_nothing_follows() {
    let whole = session();
    let at = Some(whole.len());
    let cleared = r#"{"$set":{"messages":[]}}"#;
    let cases: &[(&[&str], Option<usize>)] = &[
        (&[], None),
        (&[HEAD, CONTEXT], at),
        // A resume in the minute of creation also restarts the file, but then restores everything.
        (&[HEAD, CONTEXT, RESUMED], at),
        (&[HEAD, CONTEXT, RESUMED, RESTORED], None),
        (&[HEAD, CONTEXT, RESUMED, RESTORED, LATER], None),
        (&[HEAD], None),
        (&[CONTEXT], None),
        // Cleared by the user.
        (&[cleared], None),
        (&[HEAD, CONTEXT, LATER], None),
    ];
    for (lines, expected) in cases {
        let bytes = [whole.clone(), file(lines)].concat();
        assert_eq!(read(&bytes).reset_at, *expected, "{lines:?}");
    }
}

#[test]
fn the_last_request_tells_how_full_the_context_is() {
    let cases: &[(&[&str], Option<u64>)] = &[
        (&[HEAD, CONTEXT, ASKED], None),
        (&[HEAD, CONTEXT, ASKED, ANSWERED], Some(101)),
        (&[HEAD, CONTEXT, ASKED, ANSWERED, LATER, UPDATED], Some(150)),
    ];
    for (lines, tokens) in cases {
        assert_eq!(read(&file(lines)).context_tokens, *tokens, "{lines:?}");
    }
}

#[test]
fn what_was_lost_is_mended() {
    type Case<'a> = (&'a str, Option<&'a [u8]>, Option<&'a [u8]>, Mend);
    let whole = session();
    let longer = [whole.clone(), file(&[LATER])].concat();
    let reset = [whole.clone(), file(&[HEAD, CONTEXT])].concat();
    let tail = file(&[RESUMED, LATER]);
    let empty = file(&[HEAD, CONTEXT]);
    let rewritten = file(&[HEAD, LATER]);
    let cases: &[Case<'_>] = &[
        ("nothing anywhere", None, None, Mend::Nothing),
        ("no copy", Some(&whole), None, Mend::Nothing),
        ("the same", Some(&whole), Some(&whole), Mend::Nothing),
        ("it went on", Some(&longer), Some(&whole), Mend::Nothing),
        ("gone", None, Some(&whole), Mend::PutBack(whole.clone())),
        ("gone, and empty anyway", None, Some(&empty), Mend::Nothing),
        (
            "emptied",
            Some(&empty),
            Some(&whole),
            Mend::PutBack(whole.clone()),
        ),
        (
            "reset",
            Some(&reset),
            Some(&whole),
            Mend::Undo(whole.clone()),
        ),
        (
            "reset without a copy",
            Some(&reset),
            None,
            Mend::Undo(whole.clone()),
        ),
        (
            "reset after it was put back short",
            Some(&reset),
            Some(&longer),
            Mend::Undo(longer.clone()),
        ),
        (
            "deleted in mid-turn",
            Some(&tail),
            Some(&whole),
            Mend::Join([whole.clone(), tail.clone()].concat()),
        ),
        (
            "rewritten by the program",
            Some(&rewritten),
            Some(&whole),
            Mend::Nothing,
        ),
    ];
    for (what, now, kept, expected) in cases {
        assert_eq!(mend(*now, *kept), *expected, "{what}");
    }
}

#[test]
fn a_minute_has_so_many_seconds_left() {
    let cases = [
        ("2026-11-16T03-30", "2026-11-16T03:30:00Z", Some(60)),
        ("2026-11-16T03-30", "2026-11-16T03:30:59.999Z", Some(1)),
        ("2026-11-16T03-30", "2026-11-16T03:31:00Z", None),
        ("2026-11-16T03-30", "2026-11-17T03:30:10Z", None),
        ("2026-11-16T03-30", "2026-11-16T03:29:59Z", None),
    ];
    for (minute, now, left) in cases {
        assert_eq!(
            left_of(minute, now.parse().unwrap()),
            left,
            "{minute} {now}"
        );
    }
}
