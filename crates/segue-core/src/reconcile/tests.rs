use super::*;
use crate::brief::END_OF_RECORD;
use crate::json::Json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn recorded_prompt(started: i64, ended: Option<i64>, prompt: &str) -> RecordedPrompt<'_> {
    RecordedPrompt {
        started_at: at(started),
        ended_at: ended.map(at),
        sent: true,
        prompt,
    }
}

/// Builds a turn that was recorded but never sent.
fn unsent_prompt(started: i64, ended: Option<i64>, prompt: &str) -> RecordedPrompt<'_> {
    RecordedPrompt {
        sent: false,
        ..recorded_prompt(started, ended, prompt)
    }
}

fn native_prompt(started: i64, prompt: &str) -> NativePrompt<'_> {
    NativePrompt {
        started_at: Some(at(started)),
        prompt,
    }
}

type MatchCase<'a> = (
    &'a str,
    &'a [RecordedPrompt<'a>],
    Vec<NativePrompt<'a>>,
    Vec<Option<usize>>,
);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn native_turns_match_recorded_turns_or_were_made_outside_segue() {
    let two = [
        recorded_prompt(10, Some(20), "one"),
        recorded_prompt(30, Some(40), "two"),
    ];
    let interrupted = [
        recorded_prompt(10, Some(20), "one"),
        recorded_prompt(30, None, "go on"),
    ];
    // The first turn was recorded at 10, never sent, and closed at 60 by recovery; the user made a turn outside segue
    // in between.
    let late = [
        unsent_prompt(10, Some(60), "one"),
        recorded_prompt(30, Some(35), "by hand"),
    ];
    let waiting = [
        recorded_prompt(10, Some(20), "one"),
        unsent_prompt(30, None, "go on"),
    ];
    let briefed = format!("> hello\n{END_OF_RECORD}\n\ngo  on");
    let cases: [MatchCase<'_>; 20] = [
        ("no native turns", &two, vec![], vec![]),
        (
            "both turns are recorded",
            &two,
            vec![native_prompt(10, "one"), native_prompt(31, "two")],
            vec![Some(0), Some(1)],
        ),
        (
            "a turn made outside segue",
            &two,
            vec![native_prompt(31, "two"), native_prompt(50, "x")],
            vec![Some(1), None],
        ),
        (
            "the same prompt sent outside segue",
            &two,
            vec![native_prompt(31, "two"), native_prompt(50, "two")],
            vec![Some(1), None],
        ),
        (
            "the agent prompted itself",
            &two,
            vec![
                native_prompt(31, "two"),
                native_prompt(35, "Please continue."),
            ],
            vec![Some(1), Some(1)],
        ),
        (
            "a turn between two recorded turns",
            &two,
            vec![native_prompt(10, "one"), native_prompt(25, "x")],
            vec![Some(0), None],
        ),
        (
            "the interrupted turn",
            &interrupted,
            vec![native_prompt(30, "go on")],
            vec![Some(1)],
        ),
        (
            "the prompt follows a brief",
            &interrupted,
            vec![native_prompt(31, &briefed)],
            vec![Some(1)],
        ),
        (
            "the prompt contains an invisible character",
            &interrupted,
            vec![native_prompt(31, "\u{200b}go on")],
            vec![Some(1)],
        ),
        (
            "a file follows the prompt",
            &interrupted,
            vec![native_prompt(31, "go on\n--- file ---\nx")],
            vec![Some(1)],
        ),
        (
            "the prompt follows a heading",
            &interrupted,
            vec![native_prompt(31, "[Feature: pay]\n\ngo on")],
            vec![Some(1)],
        ),
        (
            "another prompt with the same beginning",
            &interrupted,
            vec![native_prompt(31, "go on with the login")],
            vec![None],
        ),
        (
            "another prompt with the same end",
            &interrupted,
            vec![native_prompt(31, "think, then\ngo on")],
            vec![None],
        ),
        (
            "the recorded prompt was not sent",
            &waiting,
            vec![
                native_prompt(31, "go on"),
                native_prompt(32, "go on, please"),
            ],
            vec![None, None],
        ),
        (
            "a turn made while an unsent prompt waited",
            &late,
            vec![native_prompt(20, "x")],
            vec![None],
        ),
        (
            "a turn after an unsent prompt",
            &late,
            vec![native_prompt(20, "one"), native_prompt(31, "by hand")],
            vec![None, Some(1)],
        ),
        (
            "the interrupted prompt never arrived",
            &interrupted,
            vec![native_prompt(50, "another thing")],
            vec![None],
        ),
        (
            "the same prompt sent again outside segue",
            &interrupted,
            vec![native_prompt(31, "go on"), native_prompt(50, "go on")],
            vec![Some(1), None],
        ),
        (
            "a turn before the interrupted turn",
            &interrupted,
            vec![native_prompt(25, "go on")],
            vec![None],
        ),
        (
            "the last turn that had begun",
            &late,
            vec![native_prompt(30, "by hand")],
            vec![Some(1)],
        ),
    ];
    for (name, recorded, native, expected) in cases {
        assert_eq!(match_native_turns(recorded, &native), expected, "{name}");
    }
}

#[test]
fn native_turns_without_times_match_in_order() {
    let recorded = [
        recorded_prompt(10, Some(20), "again"),
        recorded_prompt(30, Some(40), "again"),
    ];
    let untimed = |prompt| NativePrompt {
        started_at: None,
        prompt,
    };
    let native = [untimed("again"), untimed("again"), untimed("again")];
    assert_eq!(
        match_native_turns(&recorded, &native),
        [Some(0), Some(1), None]
    );
}

#[test]
fn times_match_despite_millisecond_rounding() {
    let started = Timestamp::from_microsecond(10_000_900).unwrap();
    let recorded = RecordedPrompt {
        started_at: started,
        ended_at: Some(at(20)),
        sent: true,
        prompt: "x",
    };
    let native = NativePrompt {
        started_at: Some(Timestamp::from_millisecond(10_000).unwrap()),
        prompt: "x",
    };
    assert_eq!(match_native_turns(&[recorded], &[native]), [Some(0)]);
}

fn message_with(part: Part) -> Message {
    let role = match part {
        Part::FunctionResponse { .. } => Role::Tool,
        _ => Role::Assistant,
    };
    Message::new(role, vec![part], at(1))
}

fn text(content: &str) -> Message {
    message_with(Part::Text(content.into()))
}

fn partial_text(content: &str) -> Message {
    Message {
        complete: false,
        ..text(content)
    }
}

fn thought(content: &str) -> Message {
    message_with(Part::Thought(content.into()))
}

fn call(id: &str) -> Message {
    message_with(Part::FunctionCall {
        id: id.into(),
        name: "sh".into(),
        args: Json::empty_object(),
    })
}

fn result(id: &str) -> Message {
    message_with(Part::FunctionResponse {
        call_id: id.into(),
        name: "sh".into(),
        response: Json::string("done"),
        is_error: false,
    })
}

#[test]
fn recorded_messages_stay_and_missing_messages_are_added() {
    let prompt = || Message::from_text(Role::User, "go on", at(1));
    let briefed_prompt = || Message::from_text(Role::User, "> hello, go on", at(1));
    let cases = [
        (
            "no recorded answer",
            vec![],
            vec![text("all")],
            vec![text("all")],
        ),
        (
            "a partial message",
            vec![partial_text("al")],
            vec![text("all")],
            vec![text("all")],
        ),
        (
            "a complete message",
            vec![text("all")],
            vec![text("all ")],
            vec![text("all")],
        ),
        (
            "a call without its result",
            vec![text("look"), call("1")],
            vec![text("look"), call("1"), result("1"), text("seen")],
            vec![text("look"), call("1"), result("1"), text("seen")],
        ),
        (
            "a thought that the native record omits",
            vec![thought("hm"), partial_text("a")],
            vec![text("answer")],
            vec![thought("hm"), text("answer")],
        ),
        (
            "a partial message that the native record omits",
            vec![partial_text("so far")],
            vec![],
            vec![partial_text("so far")],
        ),
        (
            "two messages with the same beginning",
            vec![text("ok"), partial_text("ok")],
            vec![text("ok"), text("ok, done")],
            vec![text("ok"), text("ok, done")],
        ),
    ];
    for (name, received, native, expected) in cases {
        let recorded = [vec![prompt()], received].concat();
        let native = [vec![briefed_prompt()], native].concat();
        let expected = [vec![prompt()], expected].concat();
        assert_eq!(merge_interrupted_turn(recorded, native), expected, "{name}");
    }
}

type VerdictCase<'a> = (
    &'a str,
    NativeChange,
    &'a [bool],
    &'a [bool],
    &'a [Option<usize>],
    NativeVerdict,
);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_native_session_with_missing_turns_was_rewound_or_truncated() {
    use NativeChange::{Grown, Lost, Rewound};
    use NativeVerdict::{Complete, RewoundTo, Truncated};
    let all = [true, true, true];
    let cases: [VerdictCase<'_>; 13] = [
        (
            "a native session that grew",
            Grown,
            &all,
            &[true],
            &[None],
            Complete,
        ),
        (
            "rewritten with the same turns",
            Lost,
            &all,
            &all,
            &[Some(0), Some(1), Some(2)],
            Complete,
        ),
        (
            "truncated after the first turn",
            Lost,
            &all,
            &[true],
            &[Some(0)],
            Truncated,
        ),
        (
            "truncated within the last turn",
            Lost,
            &all,
            &[true, true, false],
            &[Some(0), Some(1), Some(2)],
            Truncated,
        ),
        ("no turns remain", Lost, &all, &[], &[], Truncated),
        (
            "another conversation",
            Lost,
            &all,
            &[true],
            &[None],
            Truncated,
        ),
        (
            "reverted and continued",
            Lost,
            &all,
            &[true, true],
            &[Some(0), None],
            RewoundTo(0),
        ),
        (
            "rewound and continued",
            Rewound,
            &all,
            &[true, false],
            &[Some(1), None],
            RewoundTo(1),
        ),
        (
            "only rewound",
            Rewound,
            &all,
            &[true],
            &[Some(0)],
            RewoundTo(0),
        ),
        (
            "rewound to the beginning",
            Rewound,
            &all,
            &[true],
            &[None],
            Truncated,
        ),
        (
            "a failed turn is missing",
            Rewound,
            &[true, false],
            &[true],
            &[Some(0)],
            Complete,
        ),
        (
            "a native compaction was undone",
            Rewound,
            &all,
            &all,
            &[Some(0), Some(1), Some(2)],
            Complete,
        ),
        (
            "no finished recorded turn",
            Lost,
            &[false],
            &[],
            &[],
            Complete,
        ),
    ];
    for (name, change, finished, ended, matches, expected) in cases {
        assert_eq!(
            judge_native_session(change, finished, ended, matches),
            expected,
            "{name}"
        );
    }
}
