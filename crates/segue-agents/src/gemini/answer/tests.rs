//! Answers with other text around them.

use super::*;
use segue_core::session::StopReason;

const ID: &str = "11111111-1";

fn read(text: &str) -> Answer {
    super::read(text.as_bytes(), &NativeId::parse(ID).unwrap())
}

fn words(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Given(events, _) => match events.as_slice() {
            [AgentEvent::Text(words)] => Some(words),
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn the_answer_is_found_among_noise() {
    let plain =
        format!("{{\n  \"session_id\": \"{ID}\",\n  \"response\": \"hi\",\n  \"stats\": {{}}\n}}");
    let cases = [
        plain.clone(),
        plain.replace('\n', "\r\n"),
        format!("Loaded cached credentials.\n{{ not json }}\n{plain}\nbye {{"),
        format!("\u{1b}[31m{plain}\u{1b}[0m"),
        format!("\u{feff}{plain}"),
        // The last answer counts; objects that are not answers do not.
        format!("{{\"session_id\":\"{ID}\",\"response\":\"old\"}}\n{plain}\n{{\"debug\":true}}"),
    ];
    for text in cases {
        assert_eq!(words(&read(&text)), Some("hi"), "{text:?}");
    }
}

#[test]
fn what_is_no_answer_is_told_in_excerpts() {
    let cut = format!("{{\"session_id\":\"{ID}\",\"response\":\"hi\",\"stats\":{{\"models\":{{}}");
    for text in [cut.as_str(), "Segmentation fault", "[1]", "{\"stats\":{}}"] {
        let Answer::NotUnderstood(refusal) = read(text) else {
            panic!("{text} was understood");
        };
        assert_eq!(refusal.class, FailureClass::NotUnderstood);
        let start: String = format!("{text:?}").chars().take(20).collect();
        assert!(refusal.message.contains(&start), "{}", refusal.message);
    }
    assert_eq!(read(" \r\n"), Answer::Nothing);
}

#[test]
fn errors_are_errors() {
    let cases = [
        (
            r#"{"session_id":"11111111-1","error":{"type":"Error","message":"no","code":400}}"#,
            "no",
        ),
        (r#"{"error":"just words"}"#, "just words"),
        (r#"{"response":"half","error":{"message":"cut"}}"#, "cut"),
    ];
    for (text, words) in cases {
        assert_eq!(read(text), Answer::Failed(words.into()), "{text}");
    }
    assert!(matches!(
        read(r#"{"response":"hi","error":null}"#),
        Answer::Given(..)
    ));
}

#[test]
fn another_session_is_an_error_that_names_both() {
    let Answer::Odd(refusal) = read(r#"{"session_id":"22222222-2","response":"hi"}"#) else {
        panic!("taken");
    };
    assert_eq!(refusal.class, FailureClass::SessionUnknown);
    assert!(refusal.message.contains(ID) && refusal.message.contains("22222222-2"));
}

#[test]
fn figures_are_summed_over_the_models() {
    let tokens = |prompt: u64| json!({"tokens": {"input": prompt - 11, "prompt": prompt, "candidates": 20, "total": prompt + 25, "cached": 11, "thoughts": 5, "tool": 0}});
    let answer =
        json!({"response": "hi", "stats": {"models": {"a": tokens(101), "b": tokens(200)}}});
    let Answer::Given(_, end) = read(&answer.to_string()) else {
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
    assert_eq!(usage(&json!({})), Usage::default());
    assert_eq!(usage(&json!([1])), Usage::default());
}

#[test]
fn a_turn_that_was_stopped_by_a_limit_says_so() {
    let text = r#"{"response":"","warnings":["Loop detected, stopping execution"]}"#;
    let Answer::Given(events, end) = read(text) else {
        panic!("no answer");
    };
    assert_eq!((events.len(), end.reason), (1, StopReason::Limit));
}
