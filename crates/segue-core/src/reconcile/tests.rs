use super::*;
use crate::brief::END_OF_RECORD;
use crate::json::Json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ours(started: i64, ended: Option<i64>, prompt: &str) -> Ours<'_> {
    Ours {
        started_at: at(started),
        ended_at: ended.map(at),
        sent: true,
        prompt,
    }
}

/// Builds a turn that was recorded but never sent.
fn unsent(started: i64, ended: Option<i64>, prompt: &str) -> Ours<'_> {
    Ours {
        sent: false,
        ..ours(started, ended, prompt)
    }
}

fn theirs(started: i64, prompt: &str) -> Theirs<'_> {
    Theirs {
        started_at: Some(at(started)),
        prompt,
    }
}

type Aligned<'a> = (&'a str, &'a [Ours<'a>], Vec<Theirs<'a>>, Vec<Option<usize>>);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn native_turns_are_ours_or_made_elsewhere() {
    let two = [ours(10, Some(20), "one"), ours(30, Some(40), "two")];
    let cut = [ours(10, Some(20), "one"), ours(30, None, "go on")];
    // The first turn was recorded at 10, never sent, and closed at 60 by recovery; the user made a turn outside segue
    // in between.
    let late = [unsent(10, Some(60), "one"), ours(30, Some(35), "by hand")];
    let waiting = [ours(10, Some(20), "one"), unsent(30, None, "go on")];
    let briefed = format!("the story so far\n{END_OF_RECORD}\n\ngo  on");
    let cases: [Aligned<'_>; 20] = [
        ("nothing new", &two, vec![], vec![]),
        (
            "both are ours",
            &two,
            vec![theirs(10, "one"), theirs(31, "two")],
            vec![Some(0), Some(1)],
        ),
        (
            "one more",
            &two,
            vec![theirs(31, "two"), theirs(50, "x")],
            vec![Some(1), None],
        ),
        (
            "the same words again",
            &two,
            vec![theirs(31, "two"), theirs(50, "two")],
            vec![Some(1), None],
        ),
        (
            "the agent asked itself to go on",
            &two,
            vec![theirs(31, "two"), theirs(35, "Please continue.")],
            vec![Some(1), Some(1)],
        ),
        (
            "between two of ours",
            &two,
            vec![theirs(10, "one"), theirs(25, "x")],
            vec![Some(0), None],
        ),
        (
            "the one that was cut off",
            &cut,
            vec![theirs(30, "go on")],
            vec![Some(1)],
        ),
        (
            "it was briefed",
            &cut,
            vec![theirs(31, &briefed)],
            vec![Some(1)],
        ),
        (
            "with what nobody sees",
            &cut,
            vec![theirs(31, "\u{200b}go on")],
            vec![Some(1)],
        ),
        (
            "with a file after it",
            &cut,
            vec![theirs(31, "go on\n--- file ---\nx")],
            vec![Some(1)],
        ),
        (
            "under a heading",
            &cut,
            vec![theirs(31, "[Feature: pay]\n\ngo on")],
            vec![Some(1)],
        ),
        (
            "another that begins like it",
            &cut,
            vec![theirs(31, "go on with the login")],
            vec![None],
        ),
        (
            "another that ends like it",
            &cut,
            vec![theirs(31, "think, then\ngo on")],
            vec![None],
        ),
        (
            "it was not sent, whatever was asked",
            &waiting,
            vec![theirs(31, "go on"), theirs(32, "go on, please")],
            vec![None, None],
        ),
        (
            "made while one waited that was never sent",
            &late,
            vec![theirs(20, "x")],
            vec![None],
        ),
        (
            "after one that waited in vain",
            &late,
            vec![theirs(20, "one"), theirs(31, "by hand")],
            vec![None, Some(1)],
        ),
        (
            "it never arrived",
            &cut,
            vec![theirs(50, "another thing")],
            vec![None],
        ),
        (
            "and then by hand",
            &cut,
            vec![theirs(31, "go on"), theirs(50, "go on")],
            vec![Some(1), None],
        ),
        ("before it", &cut, vec![theirs(25, "go on")], vec![None]),
        (
            "the last that had begun",
            &late,
            vec![theirs(30, "by hand")],
            vec![Some(1)],
        ),
    ];
    for (what, ours, theirs, expected) in cases {
        assert_eq!(whose(ours, &theirs), expected, "{what}");
    }
}

#[test]
fn without_times_prompts_tell_in_their_order() {
    let ours = [ours(10, Some(20), "again"), ours(30, Some(40), "again")];
    let untimed = |prompt| Theirs {
        started_at: None,
        prompt,
    };
    let theirs = [untimed("again"), untimed("again"), untimed("again")];
    assert_eq!(whose(&ours, &theirs), [Some(0), Some(1), None]);
}

#[test]
fn agents_note_the_millisecond() {
    let started = Timestamp::from_microsecond(10_000_900).unwrap();
    let turn = Ours {
        started_at: started,
        ended_at: Some(at(20)),
        sent: true,
        prompt: "x",
    };
    let noted = Theirs {
        started_at: Some(Timestamp::from_millisecond(10_000).unwrap()),
        prompt: "x",
    };
    assert_eq!(whose(&[turn], &[noted]), [Some(0)]);
}

fn say(part: Part) -> Message {
    let role = match part {
        Part::FunctionResponse { .. } => Role::Tool,
        _ => Role::Assistant,
    };
    Message::new(role, vec![part], at(1))
}

fn text(words: &str) -> Message {
    say(Part::Text(words.into()))
}

fn half(words: &str) -> Message {
    Message {
        complete: false,
        ..text(words)
    }
}

fn thought(words: &str) -> Message {
    say(Part::Thought(words.into()))
}

fn call(id: &str) -> Message {
    say(Part::FunctionCall {
        id: id.into(),
        name: "sh".into(),
        args: Json::empty_object(),
    })
}

fn result(id: &str) -> Message {
    say(Part::FunctionResponse {
        call_id: id.into(),
        name: "sh".into(),
        response: Json::string("done"),
        is_error: false,
    })
}

#[test]
fn what_was_heard_stays_and_the_rest_is_added() {
    let asked = || Message::text(Role::User, "go on", at(1));
    let briefed = || Message::text(Role::User, "the story so far, go on", at(1));
    let cases = [
        (
            "nothing heard",
            vec![],
            vec![text("all")],
            vec![text("all")],
        ),
        (
            "by half",
            vec![half("al")],
            vec![text("all")],
            vec![text("all")],
        ),
        (
            "all of it",
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
            "thoughts that the record leaves out",
            vec![thought("hm"), half("a")],
            vec![text("answer")],
            vec![thought("hm"), text("answer")],
        ),
        (
            "words that it never wrote",
            vec![half("so far")],
            vec![],
            vec![half("so far")],
        ),
        (
            "the same words twice",
            vec![text("ok"), half("ok")],
            vec![text("ok"), text("ok, done")],
            vec![text("ok"), text("ok, done")],
        ),
    ];
    for (what, heard, native, expected) in cases {
        let recorded = [vec![asked()], heard].concat();
        let native = [vec![briefed()], native].concat();
        let expected = [vec![asked()], expected].concat();
        assert_eq!(completed(recorded, native), expected, "{what}");
    }
}

type Judged<'a> = (
    &'a str,
    Changed,
    &'a [bool],
    &'a [bool],
    &'a [Option<usize>],
    Verdict,
);

#[test]
fn a_native_session_that_lacks_turns_was_rewound_or_cut() {
    use Changed::{Grown, Lost, Rewound};
    use Verdict::{BackTo, Cut, Whole};
    let all = [true, true, true];
    let cases: [Judged<'_>; 13] = [
        ("it grew", Grown, &all, &[true], &[None], Whole),
        (
            "written anew as it was",
            Lost,
            &all,
            &all,
            &[Some(0), Some(1), Some(2)],
            Whole,
        ),
        ("cut after the first", Lost, &all, &[true], &[Some(0)], Cut),
        (
            "cut in the middle of the last",
            Lost,
            &all,
            &[true, true, false],
            &[Some(0), Some(1), Some(2)],
            Cut,
        ),
        ("all of it is gone", Lost, &all, &[], &[], Cut),
        ("another conversation", Lost, &all, &[true], &[None], Cut),
        (
            "reverted, and on from there",
            Lost,
            &all,
            &[true, true],
            &[Some(0), None],
            BackTo(0),
        ),
        (
            "rewound, and on from there",
            Rewound,
            &all,
            &[true, false],
            &[Some(1), None],
            BackTo(1),
        ),
        (
            "only rewound",
            Rewound,
            &all,
            &[true],
            &[Some(0)],
            BackTo(0),
        ),
        (
            "rewound to the beginning",
            Rewound,
            &all,
            &[true],
            &[None],
            Cut,
        ),
        (
            "what failed is left out",
            Rewound,
            &[true, false],
            &[true],
            &[Some(0)],
            Whole,
        ),
        (
            "a summary was taken back",
            Rewound,
            &all,
            &all,
            &[Some(0), Some(1), Some(2)],
            Whole,
        ),
        ("nothing was ours yet", Lost, &[false], &[], &[], Whole),
    ];
    for (what, changed, finished, ended, whose, expected) in cases {
        assert_eq!(verdict(changed, finished, ended, whose), expected, "{what}");
    }
}
