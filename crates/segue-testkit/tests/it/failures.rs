//! Requested failures, in the format of each API.

use std::time::Duration;

use segue_testkit::model::{ModelStub, Reply, Script, StubFailure};
use serde_json::{Value, json};

use crate::http::{send_prompt, send_request};
use crate::{ALL_APIS, TestApi};

fn start_failing_stub(failure: StubFailure) -> ModelStub {
    ModelStub::start(Script::new().with_rule(
        "go",
        [Reply::from_text("one two three four").with_failure(failure)],
    ))
}

#[test]
fn statuses_are_the_same_streamed_or_not() {
    let cases = [
        (StubFailure::RateLimit { retry_after: 7 }, 429),
        (StubFailure::Unauthorized, 401),
        (StubFailure::ServerError, 500),
        (StubFailure::BadRequest, 400),
    ];
    for (failure, status) in cases {
        let model = start_failing_stub(failure);
        for api in ALL_APIS {
            for streaming in [true, false] {
                let response = send_prompt(&model, api, "go", streaming);
                assert_eq!(response.status, status, "{api:?} {failure:?}");
                assert!(
                    response.json()["error"]["message"].is_string(),
                    "{response:?}"
                );
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
fn errors_have_the_shape_of_their_api_format() {
    let model = start_failing_stub(StubFailure::Unauthorized);
    let error = send_prompt(&model, TestApi::Anthropic, "go", true).json();
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"]["type"], "authentication_error");
    let error = send_prompt(&model, TestApi::Responses, "go", true).json();
    assert_eq!(error["error"]["code"], "invalid_api_key");
    let error = send_prompt(&model, TestApi::Gemini, "go", true).json();
    assert_eq!(error["error"]["status"], "UNAUTHENTICATED");
}

#[test]
fn a_rate_limit_reports_the_retry_delay() {
    let model = start_failing_stub(StubFailure::RateLimit { retry_after: 7 });
    for api in ALL_APIS {
        let response = send_prompt(&model, api, "go", true);
        assert!(response.head.contains("retry-after: 7"), "{response:?}");
    }
    let error = send_prompt(&model, TestApi::Gemini, "go", true).json();
    assert_eq!(error["error"]["details"][0]["retryDelay"], "7s");
}

#[test]
fn a_prompt_that_is_too_long_fails_with_the_message_of_the_api() {
    let model = start_failing_stub(StubFailure::PromptTooLong);
    let response = send_prompt(&model, TestApi::Anthropic, "go", true);
    assert_eq!(response.status, 400);
    assert!(response.body.contains("prompt is too long"), "{response:?}");
    let response = send_prompt(&model, TestApi::Gemini, "go", true);
    assert_eq!(response.status, 400);
    assert!(
        response
            .body
            .contains("exceeds the maximum number of tokens"),
        "{response:?}"
    );
    let response = send_prompt(&model, TestApi::Responses, "go", false);
    assert_eq!(response.status, 400);
    assert_eq!(response.json()["error"]["code"], "context_length_exceeded");
    let response = send_prompt(&model, TestApi::Responses, "go", true);
    assert_eq!(response.status, 200);
    let failed = response.events().pop().unwrap();
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(
        failed["response"]["error"]["code"],
        "context_length_exceeded"
    );
}

/// Asserts that the body contains the beginning of the text, but not its end and not the end of the answer.
fn assert_text_is_truncated(api: TestApi, body: &str) {
    assert!(
        body.contains("one") && !body.contains("four"),
        "{api:?} {body}"
    );
    let ends = ["message_stop", "response.completed", "finishReason"];
    assert!(ends.iter().all(|end| !body.contains(end)), "{api:?} {body}");
}

#[test]
fn a_cut_follows_the_beginning_of_the_text() {
    let model = start_failing_stub(StubFailure::Cut);
    for api in ALL_APIS {
        let response = send_prompt(&model, api, "go", true);
        assert!(!response.is_complete, "{api:?} {response:?}");
        assert_text_is_truncated(api, &response.body);
        let response = send_prompt(&model, api, "go", false);
        assert!(
            !response.is_complete && response.body.is_empty(),
            "{api:?} {response:?}"
        );
    }
}

#[test]
fn a_stall_lasts_until_the_stub_ends() {
    let model = start_failing_stub(StubFailure::Stall);
    for api in ALL_APIS {
        let (path, body) = api.build_request("go", true);
        let read_timeout = Duration::from_millis(300);
        let response = send_request(&model, "POST", &path, &body.to_string(), read_timeout);
        assert!(!response.is_complete, "{api:?} {response:?}");
        assert_text_is_truncated(api, &response.body);
    }
    // Dropping the stub would take ten minutes if it waited for the stalled answers.
    drop(model);
}

#[test]
fn a_counted_failure_ends_after_its_count() {
    let reply = Reply::from_text("at last").with_failures(StubFailure::ServerError, 2);
    let model = ModelStub::start(Script::new().with_rule("go", [reply]));
    let statuses: Vec<u16> = (0..4)
        .map(|_| send_prompt(&model, TestApi::Anthropic, "go", false).status)
        .collect();
    assert_eq!(statuses, [500, 500, 200, 200]);
    let answer: Value = send_prompt(&model, TestApi::Anthropic, "go", false).json();
    assert_eq!(
        answer["content"],
        json!([{"type": "text", "text": "at last"}])
    );
}
