use super::*;
use crate::id::{LegId, NativeId, ProviderId, TurnId};
use crate::session::{LegEnd, TurnState, Usage};

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn turn(id: i64, sent: bool) -> Turn {
    Turn {
        id: TurnId(id),
        parent: None,
        n: 1,
        state: TurnState::Finished,
        usage: Usage::default(),
        failure: None,
        sent,
        outside: false,
        started_at: AT,
        ended_at: Some(AT),
    }
}

fn leg(tip: Option<i64>) -> Leg {
    Leg {
        id: LegId(1),
        n: 1,
        provider: ProviderId::rehearsal(),
        native_id: Some(NativeId::parse("n1").unwrap()),
        tip: tip.map(TurnId),
        consecutive_failures: 0,
        total_tokens: None,
        context_tokens: None,
        held_tokens: None,
        mark: None,
        forgot: false,
        opened_at: AT,
        ended: None,
    }
}

#[test]
fn a_leg_goes_on_exactly_when_it_has_seen_all_that_was_sent() {
    type Case = (Option<i64>, &'static [(i64, bool)], bool, &'static str);
    const SENT: bool = true;
    const UNSENT: bool = false;
    let cases: [Case; 7] = [
        (None, &[], true, "nothing sent, nothing seen"),
        (
            Some(2),
            &[(1, SENT), (2, SENT)],
            true,
            "its tip is the head",
        ),
        (
            Some(1),
            &[(1, SENT), (2, SENT)],
            false,
            "the head moved on elsewhere",
        ),
        (
            Some(3),
            &[(1, SENT), (2, SENT)],
            false,
            "the head was moved back",
        ),
        (
            Some(2),
            &[(1, SENT), (2, SENT), (3, UNSENT)],
            true,
            "a turn that was never sent",
        ),
        (
            None,
            &[(1, UNSENT)],
            true,
            "a first turn that was never sent",
        ),
        (
            None,
            &[(1, SENT)],
            false,
            "a leg that has seen nothing of what was sent",
        ),
    ];
    for (tip, turns, expected, why) in cases {
        let chain: Vec<Turn> = turns.iter().map(|&(id, sent)| turn(id, sent)).collect();
        assert_eq!(can_go_on(&leg(tip), &chain), expected, "{why}");
    }
    let mut ended = leg(Some(1));
    ended.ended = Some((AT, LegEnd::Lost));
    assert!(
        !can_go_on(&ended, &[turn(1, true)]),
        "an ended leg never does"
    );
}

#[test]
fn what_was_added_since_the_last_answer_is_untold() {
    #[derive(Clone, Copy)]
    enum Kind {
        Answered,
        Failed,
        Elsewhere,
        Added,
        NeverSent,
    }
    use Kind::{Added, Answered, Elsewhere, Failed, NeverSent};
    let cases: [(&[Kind], &[i64], &str); 9] = [
        (&[], &[], "nothing at all"),
        (&[Answered], &[], "nothing was added"),
        (&[Added], &[0], "before the first prompt"),
        (&[Answered, Added, Added], &[1, 2], "all of them"),
        (&[Added, Answered], &[], "told with the prompt"),
        (&[Added, Answered, Added], &[2], "only what is new"),
        (&[Answered, Added, Failed], &[1], "nobody may have read it"),
        (&[Answered, Added, Elsewhere], &[1], "told by nobody there"),
        (&[Answered, NeverSent], &[], "a prompt that never left"),
    ];
    for (kinds, expected, why) in cases {
        let made = |(id, kind): (i64, &Kind)| {
            let sent = !matches!(kind, Added | NeverSent);
            Turn {
                state: match kind {
                    Failed => TurnState::Failed,
                    NeverSent => TurnState::Interrupted,
                    Answered | Elsewhere | Added => TurnState::Finished,
                },
                outside: matches!(kind, Elsewhere),
                ..turn(id, sent)
            }
        };
        let chain: Vec<Turn> = (0..).zip(kinds).map(made).collect();
        let told: Vec<i64> = untold(&chain).map(|turn| turn.id.0).collect();
        assert_eq!(told, expected, "{why}");
    }
}

fn call(id: &str) -> Part {
    Part::FunctionCall {
        id: id.into(),
        name: "write".into(),
        args: Json::empty_object(),
    }
}

fn response(id: &str) -> Part {
    Part::FunctionResponse {
        call_id: id.into(),
        name: "write".into(),
        response: Json::empty_object(),
        is_error: false,
    }
}

#[test]
fn only_calls_without_an_answer_are_closed() {
    let messages = [
        Message::text(Role::User, "go", AT),
        Message::new(Role::Assistant, vec![call("a"), call("b")], AT),
        Message::new(Role::Tool, vec![response("a")], AT),
    ];
    let closing = close_open_calls(&messages, AT);
    let [
        Message {
            role: Role::Tool,
            parts,
            ..
        },
    ] = closing.as_slice()
    else {
        panic!("expected one tool message, got {closing:?}");
    };
    let [
        Part::FunctionResponse {
            call_id,
            is_error: true,
            response,
            ..
        },
    ] = parts.as_slice()
    else {
        panic!("expected one failed response, got {parts:?}");
    };
    assert_eq!(call_id, "b");
    assert!(response.as_str().contains("\"interrupted\":true"));
    assert!(close_open_calls(&messages[..1], AT).is_empty());
}

#[test]
fn a_revert_goes_back_to_a_turn_that_exists() {
    assert_eq!(plan_revert(5, 2), Ok(3));
    assert_eq!(plan_revert(5, 1), Ok(4));
    let refused = [
        (5, 5, "already at turn 5, no changes made"),
        (
            5,
            6,
            "turn 6 does not exist; turns are numbered from 1 to 5",
        ),
        (
            5,
            0,
            "turn 0 does not exist; turns are numbered from 1 to 5",
        ),
        (
            5,
            -1,
            "turn -1 does not exist; turns are numbered from 1 to 5",
        ),
        (
            5,
            i64::MAX,
            "turn 9223372036854775807 does not exist; turns are numbered from 1 to 5",
        ),
        (0, 1, "the session has no turn that has ended yet"),
    ];
    for (turns, asked, message) in refused {
        assert_eq!(plan_revert(turns, asked).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_fork_leaves_at_a_turn_that_exists() {
    let cases = [
        (5, None, Ok(5)),
        (5, Some(1), Ok(1)),
        (5, Some(5), Ok(5)),
        (
            5,
            Some(6),
            Err(TurnNumberError::NoSuchTurn { asked: 6, turns: 5 }),
        ),
        (
            5,
            Some(0),
            Err(TurnNumberError::NoSuchTurn { asked: 0, turns: 5 }),
        ),
        (
            5,
            Some(-1),
            Err(TurnNumberError::NoSuchTurn {
                asked: -1,
                turns: 5,
            }),
        ),
        (0, None, Err(TurnNumberError::NoTurns)),
        (0, Some(1), Err(TurnNumberError::NoTurns)),
    ];
    for (turns, asked, expected) in cases {
        assert_eq!(plan_fork(turns, asked), expected, "{asked:?} of {turns}");
    }
}

#[test]
fn a_leg_that_was_left_is_taken_up_again_where_the_head_is_back_at_its_tip() {
    let ended = |tip, why| Leg {
        ended: Some((AT, why)),
        ..leg(tip)
    };
    let chain = [turn(1, true), turn(2, true), turn(3, false)];
    let cases = [
        (ended(Some(2), LegEnd::HeadMoved), true, true),
        (ended(Some(2), LegEnd::Handoff), true, true),
        (ended(Some(2), LegEnd::NotNow), true, true),
        // The native session contains more turns than the chain, or fewer.
        (ended(Some(5), LegEnd::HeadMoved), false, true),
        (ended(Some(1), LegEnd::HeadMoved), false, true),
        // The native session is not usable.
        (ended(Some(2), LegEnd::Lost), false, false),
        (ended(Some(2), LegEnd::Full), false, false),
        (ended(None, LegEnd::HeadMoved), false, false),
        // The leg is open, so it needs no reopening.
        (leg(Some(2)), false, true),
        (leg(Some(5)), false, true),
        (leg(None), false, false),
    ];
    for (leg, taken_up, branched) in cases {
        assert_eq!(can_be_taken_up(&leg, &chain), taken_up, "{leg:?}");
        assert_eq!(can_be_branched(&leg), branched, "{leg:?}");
        let nameless = Leg {
            native_id: None,
            ..leg
        };
        assert!(!can_be_taken_up(&nameless, &chain) && !can_be_branched(&nameless));
    }
}
