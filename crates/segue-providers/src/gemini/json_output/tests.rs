//! Answers with other text around them.

use super::*;
use segue_core::session::StopReason;

const SESSION_ID: &str = "11111111-1";

fn parse(text: &str) -> GeminiAnswer {
    parse_answer(text.as_bytes(), &NativeId::parse(SESSION_ID).unwrap())
}

fn answer_text(answer: &GeminiAnswer) -> Option<&str> {
    match answer {
        GeminiAnswer::Finished(events, _) => match events.as_slice() {
            [AgentEvent::Text(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn the_answer_is_found_among_noise() {
    let answer_json = format!(
        "{{\n  \"session_id\": \"{SESSION_ID}\",\n  \"response\": \"hi\",\n  \"stats\": {{}}\n}}"
    );
    let cases = [
        answer_json.clone(),
        answer_json.replace('\n', "\r\n"),
        format!("Loaded cached credentials.\n{{ not json }}\n{answer_json}\nbye {{"),
        format!("\u{1b}[31m{answer_json}\u{1b}[0m"),
        format!("\u{feff}{answer_json}"),
        // The last answer counts; objects that are not answers do not.
        format!(
            "{{\"session_id\":\"{SESSION_ID}\",\"response\":\"old\"}}\n{answer_json}\n{{\"debug\":true}}"
        ),
    ];
    for text in cases {
        assert_eq!(answer_text(&parse(&text)), Some("hi"), "{text:?}");
    }
}

#[test]
fn output_without_an_answer_is_quoted_in_the_error() {
    let truncated = format!(
        "{{\"session_id\":\"{SESSION_ID}\",\"response\":\"hi\",\"stats\":{{\"models\":{{}}"
    );
    for text in [
        truncated.as_str(),
        "Segmentation fault",
        "[1]",
        "{\"stats\":{}}",
    ] {
        let GeminiAnswer::Unparsable(refusal) = parse(text) else {
            panic!("{text} was parsed");
        };
        assert_eq!(refusal.class, FailureClass::UnparsableOutput);
        let start: String = format!("{text:?}").chars().take(20).collect();
        assert!(refusal.message.contains(&start), "{}", refusal.message);
    }
    assert_eq!(parse(" \r\n"), GeminiAnswer::Empty);
}

#[test]
fn error_objects_become_failures() {
    let cases = [
        (
            r#"{"session_id":"11111111-1","error":{"type":"Error","message":"no","code":400}}"#,
            "no",
        ),
        (r#"{"error":"plain text"}"#, "plain text"),
        (r#"{"response":"half","error":{"message":"cut"}}"#, "cut"),
    ];
    for (text, message) in cases {
        assert_eq!(parse(text), GeminiAnswer::Failed(message.into()), "{text}");
    }
    assert!(matches!(
        parse(r#"{"response":"hi","error":null}"#),
        GeminiAnswer::Finished(..)
    ));
}

#[test]
fn an_answer_of_another_session_is_an_error_that_names_both() {
    let GeminiAnswer::Mismatched(refusal) = parse(r#"{"session_id":"22222222-2","response":"hi"}"#)
    else {
        panic!("the answer was accepted");
    };
    assert_eq!(refusal.class, FailureClass::SessionUnknown);
    assert!(refusal.message.contains(SESSION_ID) && refusal.message.contains("22222222-2"));
}

#[test]
fn token_counts_are_summed_over_the_models() {
    let tokens = |prompt: u64| json!({"tokens": {"input": prompt - 11, "prompt": prompt, "candidates": 20, "total": prompt + 25, "cached": 11, "thoughts": 5, "tool": 0}});
    let answer =
        json!({"response": "hi", "stats": {"models": {"a": tokens(101), "b": tokens(200)}}});
    let GeminiAnswer::Finished(_, end) = parse(&answer.to_string()) else {
        panic!("no answer");
    };
    assert_eq!(
        end.usage,
        Usage {
            input_tokens: Some(301),
            output_tokens: Some(50),
            cached_tokens: Some(22),
            total_tokens: Some(351),
            ..Usage::default()
        }
    );
    assert_eq!(sum_usage(&json!({})), Usage::default());
    assert_eq!(sum_usage(&json!([1])), Usage::default());
}

#[test]
fn a_turn_stopped_by_a_limit_has_the_limit_stop_reason() {
    let text = r#"{"response":"","warnings":["Loop detected, stopping execution"]}"#;
    let GeminiAnswer::Finished(events, end) = parse(text) else {
        panic!("no answer");
    };
    assert_eq!((events.len(), end.reason), (1, StopReason::Limit));
}
