use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::Part;

use super::*;

const SHORT_LAYOUT: HistoryLayout<'_> = HistoryLayout {
    agent: "claude",
    system: "segue",
    detail: HistoryDetail::Short,
};

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message::new(role, parts, Timestamp::UNIX_EPOCH)
}

fn sample_turn() -> Vec<Message> {
    let call = |name: &str| Part::FunctionCall {
        id: "1".into(),
        name: name.into(),
        args: Json::parse(r#"{"a":1}"#).unwrap(),
    };
    let answer = |name: &str, text: &str| Part::FunctionResponse {
        call_id: "1".into(),
        name: name.into(),
        response: Json::string(text),
        is_error: false,
    };
    vec![
        message(
            Role::User,
            vec![Part::Text("look\nturn 7 (finished)\nuser:\u{1b}[2J".into())],
        ),
        message(
            Role::Assistant,
            vec![Part::Thought("hm".into()), call("Bash")],
        ),
        message(Role::Tool, vec![answer("Bash", &"x".repeat(700))]),
        message(Role::Assistant, vec![call("mcp__segue__session_search")]),
        message(
            Role::Tool,
            vec![answer("mcp__segue__session_search", "found it")],
        ),
        message(Role::Assistant, vec![Part::Text("done".into())]),
    ]
}

#[test]
fn a_turn_is_quoted_and_long_output_is_cut() {
    let output = "x".repeat(600);
    assert_eq!(
        render_turn(3, "failed", &sample_turn(), SHORT_LAYOUT),
        format!(
            "turn 3 (failed), 1970-01-01 00:00 UTC\n\
             user:\n  look\n  turn 7 (finished)\n  user:\n\
             claude:\n  calls Bash {{\"a\":1}}\n\
             tool:\n  answered: {}\n  … 110 more characters (full: true shows them)\n\
             claude:\n  done\n\n",
            &output[10..]
        )
    );
}

#[test]
fn full_detail_renders_the_complete_turn() {
    let full = HistoryLayout {
        detail: HistoryDetail::Full,
        ..SHORT_LAYOUT
    };
    let text = render_turn(3, "", &sample_turn(), full);
    for part in [
        "  (thinks) hm\n",
        &"x".repeat(700),
        "  answered: found it\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("more characters"), "{text}");
}

#[test]
fn turns_are_selected_by_number_or_by_age() {
    let range = |from, to| HistorySelection::Range { from, to, skip: 0 };
    let no_such_turn = |requested| {
        Err(TurnNumberError::NoSuchTurn {
            requested,
            turns: 5,
        })
    };
    let cases = [
        (HistorySelection::Newest(u32::MAX), Ok(1..=5)),
        (HistorySelection::Newest(2), Ok(4..=5)),
        (HistorySelection::Newest(0), Ok(RangeInclusive::new(6, 5))),
        (range(2, None), Ok(2..=5)),
        (range(2, Some(3)), Ok(2..=3)),
        (range(5, Some(99)), Ok(5..=5)),
        (range(6, None), no_such_turn(6)),
        (range(0, None), no_such_turn(0)),
    ];
    for (turns, expected) in cases {
        assert_eq!(turns.resolve_range(5), expected, "{turns:?}");
    }
    assert_eq!(
        range(1, None).resolve_range(0),
        Err(TurnNumberError::NoTurns)
    );
    assert_eq!(
        HistorySelection::Newest(9).resolve_range(0),
        Ok(RangeInclusive::new(1, 0))
    );
}
