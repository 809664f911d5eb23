//! Requested failures, in the format of each API.

use std::time::Duration;

use segue_testkit::model::{Failure, Model, Reply, Script};
use serde_json::{Value, json};

use crate::http::{ask, send};
use crate::{ALL, Asked};

fn failing(failure: Failure) -> Model {
    Model::start(Script::new().on("go", [Reply::say("one two three four").failing(failure)]))
}

#[test]
fn statuses_are_the_same_streamed_or_not() {
    let cases = [
        (Failure::RateLimit { retry_after: 7 }, 429),
        (Failure::Unauthorized, 401),
        (Failure::Server, 500),
        (Failure::BadRequest, 400),
    ];
    for (failure, status) in cases {
        let model = failing(failure);
        for asked in ALL {
            for streaming in [true, false] {
                let got = ask(&model, asked, "go", streaming);
                assert_eq!(got.status, status, "{asked:?} {failure:?}");
                assert!(got.json()["error"]["message"].is_string(), "{got:?}");
            }
        }
        assert!(
            model
                .requests()
                .iter()
                .all(|request| request.status == status)
        );
    }
}

#[test]
fn errors_have_the_shape_of_their_dialect() {
    let model = failing(Failure::Unauthorized);
    let error = ask(&model, Asked::Anthropic, "go", true).json();
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"]["type"], "authentication_error");
    let error = ask(&model, Asked::Responses, "go", true).json();
    assert_eq!(error["error"]["code"], "invalid_api_key");
    let error = ask(&model, Asked::Gemini, "go", true).json();
    assert_eq!(error["error"]["status"], "UNAUTHENTICATED");
}

#[test]
fn a_rate_limit_says_when_to_come_back() {
    let model = failing(Failure::RateLimit { retry_after: 7 });
    for asked in ALL {
        let got = ask(&model, asked, "go", true);
        assert!(got.head.contains("retry-after: 7"), "{got:?}");
    }
    let error = ask(&model, Asked::Gemini, "go", true).json();
    assert_eq!(error["error"]["details"][0]["retryDelay"], "7s");
}

#[test]
fn too_long_is_said_in_the_words_of_the_dialect() {
    let model = failing(Failure::TooLong);
    let got = ask(&model, Asked::Anthropic, "go", true);
    assert_eq!(got.status, 400);
    assert!(got.body.contains("prompt is too long"), "{got:?}");
    let got = ask(&model, Asked::Gemini, "go", true);
    assert_eq!(got.status, 400);
    assert!(
        got.body.contains("exceeds the maximum number of tokens"),
        "{got:?}"
    );
    let got = ask(&model, Asked::Responses, "go", false);
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["code"], "context_length_exceeded");
    let got = ask(&model, Asked::Responses, "go", true);
    assert_eq!(got.status, 200);
    let failed = got.events().pop().unwrap();
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(
        failed["response"]["error"]["code"],
        "context_length_exceeded"
    );
}

/// Asserts that the body contains the beginning of the text, but not its end and not the end of the answer.
fn assert_begun(asked: Asked, body: &str) {
    assert!(
        body.contains("one") && !body.contains("four"),
        "{asked:?} {body}"
    );
    let ends = ["message_stop", "response.completed", "finishReason"];
    assert!(
        ends.iter().all(|end| !body.contains(end)),
        "{asked:?} {body}"
    );
}

#[test]
fn a_cut_comes_behind_the_beginning_of_the_text() {
    let model = failing(Failure::Cut);
    for asked in ALL {
        let got = ask(&model, asked, "go", true);
        assert!(!got.whole, "{asked:?} {got:?}");
        assert_begun(asked, &got.body);
        let got = ask(&model, asked, "go", false);
        assert!(!got.whole && got.body.is_empty(), "{asked:?} {got:?}");
    }
}

#[test]
fn a_stall_lasts_until_the_stub_ends() {
    let model = failing(Failure::Stall);
    for asked in ALL {
        let (path, body) = asked.request("go", true);
        let patience = Duration::from_millis(300);
        let got = send(&model, "POST", &path, &body.to_string(), patience);
        assert!(!got.whole, "{asked:?} {got:?}");
        assert_begun(asked, &got.body);
    }
    // Dropping the stub would take ten minutes if it waited for the stalled answers.
    drop(model);
}

#[test]
fn a_failure_with_a_count_is_over_after_it() {
    let reply = Reply::say("at last").failing_times(Failure::Server, 2);
    let model = Model::start(Script::new().on("go", [reply]));
    let statuses: Vec<u16> = (0..4)
        .map(|_| ask(&model, Asked::Anthropic, "go", false).status)
        .collect();
    assert_eq!(statuses, [500, 500, 200, 200]);
    let answer: Value = ask(&model, Asked::Anthropic, "go", false).json();
    assert_eq!(
        answer["content"],
        json!([{"type": "text", "text": "at last"}])
    );
}
