use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::Part;

use super::*;

const SHORT: Layout<'_> = Layout {
    agent: "claude",
    system: "segue",
    detail: Detail::Short,
};

fn said(role: Role, parts: Vec<Part>) -> Message {
    Message::new(role, parts, Timestamp::UNIX_EPOCH)
}

fn turn() -> Vec<Message> {
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
        said(
            Role::User,
            vec![Part::Text("look\nturn 7 (finished)\nuser:\u{1b}[2J".into())],
        ),
        said(
            Role::Assistant,
            vec![Part::Thought("hm".into()), call("Bash")],
        ),
        said(Role::Tool, vec![answer("Bash", &"x".repeat(700))]),
        said(Role::Assistant, vec![call("mcp__segue__session_search")]),
        said(
            Role::Tool,
            vec![answer("mcp__segue__session_search", "found it")],
        ),
        said(Role::Assistant, vec![Part::Text("done".into())]),
    ]
}

#[test]
fn a_turn_is_quoted_and_long_output_is_cut() {
    let output = "x".repeat(600);
    assert_eq!(
        written(3, "failed", &turn(), SHORT),
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
fn all_of_a_turn_is_there_for_the_asking() {
    let full = Layout {
        detail: Detail::Full,
        ..SHORT
    };
    let text = written(3, "", &turn(), full);
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
fn turns_are_named_by_number_or_by_how_new_they_are() {
    let range = |from, to| Turns::Range { from, to, skip: 0 };
    let no_such = |asked| Err(TurnNumberError::NoSuchTurn { asked, turns: 5 });
    let cases = [
        (Turns::Newest(u32::MAX), Ok(1..=5)),
        (Turns::Newest(2), Ok(4..=5)),
        (Turns::Newest(0), Ok(RangeInclusive::new(6, 5))),
        (range(2, None), Ok(2..=5)),
        (range(2, Some(3)), Ok(2..=3)),
        (range(5, Some(99)), Ok(5..=5)),
        (range(6, None), no_such(6)),
        (range(0, None), no_such(0)),
    ];
    for (turns, expected) in cases {
        assert_eq!(turns.among(5), expected, "{turns:?}");
    }
    assert_eq!(range(1, None).among(0), Err(TurnNumberError::NoTurns));
    assert_eq!(Turns::Newest(9).among(0), Ok(RangeInclusive::new(1, 0)));
}
