use segue_core::session::{Part, Role};

use super::*;

fn used(request: Option<&str>, tokens: u64, model: &str, micros: Option<u64>) -> Event {
    Event::Used {
        request: request.map(str::to_owned),
        usage: Usage {
            total_tokens: Some(tokens),
            ..Usage::default()
        },
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        cost: micros.map(Cost::from_micros),
    }
}

/// Returns the tokens, the model and the cost of a turn with these requests.
fn turn(requests: Vec<Event>) -> (Option<u64>, Option<String>, Option<u64>) {
    let prompt = Event::Prompt(Said {
        key: None,
        message: Message::new(
            Role::User,
            vec![Part::Text("x".into())],
            Timestamp::UNIX_EPOCH,
        ),
    });
    let mut fold = Fold::outline();
    for event in [prompt].into_iter().chain(requests) {
        fold.add(Record {
            mark: Mark::Id("x".into()),
            at: None,
            events: vec![event],
        });
    }
    let turn = fold.into_turns().remove(0);
    (
        turn.usage.total_tokens,
        turn.model,
        turn.cost.map(Cost::micros),
    )
}

#[test]
fn a_request_that_is_told_again_counts_once() {
    let a = Some("a");
    let b = Some("b");
    let named = |name: &str| Some(name.to_owned());
    let cases = [
        (vec![], (None, None, None)),
        (
            vec![used(a, 10, "m", Some(5)), used(a, 12, "m", Some(6))],
            (Some(12), named("m"), Some(6)),
        ),
        (
            vec![
                used(a, 10, "m", Some(5)),
                used(b, 1, "n", Some(2)),
                used(b, 2, "", Some(3)),
            ],
            (Some(12), named("n"), Some(8)),
        ),
        // Requests without ids count separately.
        (
            vec![used(None, 10, "m", Some(5)), used(None, 10, "m", Some(5))],
            (Some(20), named("m"), Some(10)),
        ),
        // The cost of one request is not reported, so the cost of the turn is unknown.
        (
            vec![
                used(a, 10, "m", None),
                used(b, 10, "m", Some(5)),
                used(a, 1, "m", Some(5)),
            ],
            (Some(21), named("m"), None),
        ),
    ];
    for (requests, expected) in cases {
        assert_eq!(turn(requests.clone()), expected, "{requests:?}");
    }
}
