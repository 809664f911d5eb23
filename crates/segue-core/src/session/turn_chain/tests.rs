use super::*;
use crate::id::{LegId, NativeId, ProviderId, TurnId};
use crate::session::{LegEnd, TurnState, Usage};

const TEST_TIME: Timestamp = Timestamp::UNIX_EPOCH;

fn turn(id: u64, sent: bool) -> Turn {
    Turn {
        id: TurnId::from_bits(id),
        parent: None,
        number: 1,
        state: TurnState::Finished,
        usage: Usage::default(),
        failure: None,
        sent,
        made_outside: false,
        started_at: TEST_TIME,
        ended_at: Some(TEST_TIME),
    }
}

fn leg(tip: Option<u64>) -> Leg {
    Leg {
        id: LegId::from_bits(1),
        number: 1,
        provider: ProviderId::rehearsal(),
        native_id: Some(NativeId::parse("n1").unwrap()),
        tip: tip.map(TurnId::from_bits),
        consecutive_failures: 0,
        total_tokens: None,
        context_tokens: None,
        estimated_tokens: None,
        mark: None,
        lost_context: false,
        opened_at: TEST_TIME,
        ended: None,
    }
}

#[test]
fn a_leg_can_be_resumed_exactly_if_it_contains_all_sent_turns() {
    type Case = (Option<u64>, &'static [(u64, bool)], bool, &'static str);
    const SENT: bool = true;
    const UNSENT: bool = false;
    let cases: [Case; 7] = [
        (None, &[], true, "no turns"),
        (
            Some(2),
            &[(1, SENT), (2, SENT)],
            true,
            "the tip is the head",
        ),
        (
            Some(1),
            &[(1, SENT), (2, SENT)],
            false,
            "the head moved on without the leg",
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
        (None, &[(1, SENT)], false, "a leg without the sent turn"),
    ];
    for (tip, turns, expected, name) in cases {
        let chain: Vec<Turn> = turns.iter().map(|&(id, sent)| turn(id, sent)).collect();
        assert_eq!(can_resume_leg(&leg(tip), &chain), expected, "{name}");
    }
    let mut ended = leg(Some(1));
    ended.ended = Some((TEST_TIME, LegEnd::Lost));
    assert!(
        !can_resume_leg(&ended, &[turn(1, true)]),
        "an ended leg cannot be resumed"
    );
}

#[test]
fn turns_added_since_the_last_answer_are_unsent() {
    #[derive(Clone, Copy)]
    enum TestTurnKind {
        Answered,
        Failed,
        Outside,
        Added,
        NeverSent,
    }
    use TestTurnKind::{Added, Answered, Failed, NeverSent, Outside};
    let cases: [(&[TestTurnKind], &[u64], &str); 9] = [
        (&[], &[], "no turns"),
        (&[Answered], &[], "no added turns"),
        (&[Added], &[0], "added before the first prompt"),
        (&[Answered, Added, Added], &[1, 2], "all added turns"),
        (&[Added, Answered], &[], "sent with the prompt"),
        (
            &[Added, Answered, Added],
            &[2],
            "only the newest added turn",
        ),
        (
            &[Answered, Added, Failed],
            &[1],
            "the agent may not have read the failed prompt",
        ),
        (
            &[Answered, Added, Outside],
            &[1],
            "an outside prompt includes no added turns",
        ),
        (&[Answered, NeverSent], &[], "a prompt that was never sent"),
    ];
    for (kinds, expected, name) in cases {
        let build_turn = |(id, kind): (u64, &TestTurnKind)| {
            let sent = !matches!(kind, Added | NeverSent);
            Turn {
                state: match kind {
                    Failed => TurnState::Failed,
                    NeverSent => TurnState::Interrupted,
                    Answered | Outside | Added => TurnState::Finished,
                },
                made_outside: matches!(kind, Outside),
                ..turn(id, sent)
            }
        };
        let chain: Vec<Turn> = (0..).zip(kinds).map(build_turn).collect();
        let unsent: Vec<u64> = unsent_added_turns(&chain)
            .map(|turn| turn.id.to_bits())
            .collect();
        assert_eq!(unsent, expected, "{name}");
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
fn only_calls_without_a_response_are_closed() {
    let messages = [
        Message::from_text(Role::User, "go", TEST_TIME),
        Message::new(Role::Assistant, vec![call("a"), call("b")], TEST_TIME),
        Message::new(Role::Tool, vec![response("a")], TEST_TIME),
    ];
    let closing = close_open_calls(&messages, TEST_TIME);
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
    assert!(close_open_calls(&messages[..1], TEST_TIME).is_empty());
}

#[test]
fn a_revert_needs_an_existing_earlier_turn() {
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
    for (turns, requested, message) in refused {
        assert_eq!(
            plan_revert(turns, requested).unwrap_err().to_string(),
            message
        );
    }
}

#[test]
fn a_fork_needs_an_existing_turn() {
    let cases = [
        (5, None, Ok(5)),
        (5, Some(1), Ok(1)),
        (5, Some(5), Ok(5)),
        (
            5,
            Some(6),
            Err(TurnNumberError::NoSuchTurn {
                requested: 6,
                turns: 5,
            }),
        ),
        (
            5,
            Some(0),
            Err(TurnNumberError::NoSuchTurn {
                requested: 0,
                turns: 5,
            }),
        ),
        (
            5,
            Some(-1),
            Err(TurnNumberError::NoSuchTurn {
                requested: -1,
                turns: 5,
            }),
        ),
        (0, None, Err(TurnNumberError::NoTurns)),
        (0, Some(1), Err(TurnNumberError::NoTurns)),
    ];
    for (turns, requested, expected) in cases {
        assert_eq!(
            plan_fork(turns, requested),
            expected,
            "{requested:?} of {turns}"
        );
    }
}

#[test]
fn an_intact_leg_can_be_reopened_if_the_head_is_at_its_tip() {
    let ended_leg = |tip, reason| Leg {
        ended: Some((TEST_TIME, reason)),
        ..leg(tip)
    };
    let chain = [turn(1, true), turn(2, true), turn(3, false)];
    let cases = [
        (ended_leg(Some(2), LegEnd::HeadMoved), true, true),
        (ended_leg(Some(2), LegEnd::Handoff), true, true),
        (ended_leg(Some(2), LegEnd::Unavailable), true, true),
        // The native session contains more turns than the chain, or fewer.
        (ended_leg(Some(5), LegEnd::HeadMoved), false, true),
        (ended_leg(Some(1), LegEnd::HeadMoved), false, true),
        // The native session is not usable.
        (ended_leg(Some(2), LegEnd::Lost), false, false),
        (ended_leg(Some(2), LegEnd::Full), false, false),
        (ended_leg(None, LegEnd::HeadMoved), false, false),
        // The leg is open, so it needs no reopening.
        (leg(Some(2)), false, true),
        (leg(Some(5)), false, true),
        (leg(None), false, false),
    ];
    for (leg, can_reopen, can_branch) in cases {
        assert_eq!(can_reopen_leg(&leg, &chain), can_reopen, "{leg:?}");
        assert_eq!(can_branch_leg(&leg), can_branch, "{leg:?}");
        let without_native_id = Leg {
            native_id: None,
            ..leg
        };
        assert!(!can_reopen_leg(&without_native_id, &chain) && !can_branch_leg(&without_native_id));
    }
}
