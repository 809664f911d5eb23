use segue_core::session::{Part, Role};

use super::*;

fn request_usage(
    request_id: Option<&str>,
    tokens: u64,
    model: &str,
    micros: Option<u64>,
) -> RecordEvent {
    RecordEvent::RequestUsage {
        request_id: request_id.map(str::to_owned),
        usage: Usage {
            total_tokens: Some(tokens),
            ..Usage::default()
        },
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        cost: micros.map(Cost::from_micros),
    }
}

/// Returns the tokens, the model and the cost of a turn with these requests.
fn turn_totals(requests: Vec<RecordEvent>) -> (Option<u64>, Option<String>, Option<u64>) {
    let prompt = RecordEvent::Prompt(KeyedMessage {
        key: None,
        message: Message::new(
            Role::User,
            vec![Part::Text("x".into())],
            Timestamp::UNIX_EPOCH,
        ),
    });
    let mut builder = TurnBuilder::for_outline();
    for event in [prompt].into_iter().chain(requests) {
        builder.add_record(NativeRecord {
            mark: Mark::Id("x".into()),
            at: None,
            events: vec![event],
        });
    }
    let turn = builder.into_turns().remove(0);
    (
        turn.usage.total_tokens,
        turn.model,
        turn.cost.map(Cost::micros),
    )
}

#[test]
fn a_request_that_is_reported_twice_counts_once() {
    let a = Some("a");
    let b = Some("b");
    let model = |name: &str| Some(name.to_owned());
    let cases = [
        (vec![], (None, None, None)),
        (
            vec![
                request_usage(a, 10, "m", Some(5)),
                request_usage(a, 12, "m", Some(6)),
            ],
            (Some(12), model("m"), Some(6)),
        ),
        (
            vec![
                request_usage(a, 10, "m", Some(5)),
                request_usage(b, 1, "n", Some(2)),
                request_usage(b, 2, "", Some(3)),
            ],
            (Some(12), model("n"), Some(8)),
        ),
        // Requests without ids count separately.
        (
            vec![
                request_usage(None, 10, "m", Some(5)),
                request_usage(None, 10, "m", Some(5)),
            ],
            (Some(20), model("m"), Some(10)),
        ),
        // The cost of one request is not reported, so the cost of the turn is unknown.
        (
            vec![
                request_usage(a, 10, "m", None),
                request_usage(b, 10, "m", Some(5)),
                request_usage(a, 1, "m", Some(5)),
            ],
            (Some(21), model("m"), None),
        ),
    ];
    for (requests, expected) in cases {
        assert_eq!(turn_totals(requests.clone()), expected, "{requests:?}");
    }
}
