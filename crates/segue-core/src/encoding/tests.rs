use proptest::prelude::*;

use super::*;

fn one_of_each() -> Vec<Part> {
    vec![
        Part::Text("a \"quoted\"\nline".into()),
        Part::Thought("hm".into()),
        Part::FunctionCall {
            id: "c1".into(),
            name: "read".into(),
            args: Json::parse(r#"{"b":1, "a":1.0e2}"#).unwrap(),
        },
        Part::FunctionResponse {
            call_id: "c1".into(),
            name: "read".into(),
            response: Json::parse(r#"{"output":"ok"}"#).unwrap(),
            is_error: false,
        },
        Part::InlineData(InlineData {
            mime_type: "image/png".into(),
            data: Some("aGk=".into()),
        }),
        Part::Unknown(Json::parse(r#"{"type":"hologram","z":[1,2]}"#).unwrap()),
    ]
}

#[test]
fn version_1_is_pinned() {
    insta::assert_snapshot!(encode(&one_of_each()), @r#"{"v":1,"parts":[{"type":"text","text":"a \"quoted\"\nline"},{"type":"thought","text":"hm"},{"type":"function_call","id":"c1","name":"read","args":{"b":1, "a":1.0e2}},{"type":"function_response","call_id":"c1","name":"read","response":{"output":"ok"},"is_error":false},{"type":"inline_data","mime_type":"image/png","data":"aGk="},{"type":"hologram","z":[1,2]}]}"#);
}

#[test]
fn what_is_encoded_decodes_to_the_same() {
    let parts = one_of_each();
    assert_eq!(decode(&encode(&parts)), parts);
}

#[test]
fn a_known_kind_with_a_wrong_field_is_kept_verbatim() {
    let payload = r#"{"v":1,"parts":[{"type":"text","text":7},{"type":"text","text":"fine"}]}"#;
    let parts = decode(payload);
    assert_eq!(
        parts,
        [
            Part::Unknown(Json::parse(r#"{"type":"text","text":7}"#).unwrap()),
            Part::Text("fine".into())
        ]
    );
    assert_eq!(encode(&parts), payload);
}

#[test]
fn a_payload_of_another_version_is_kept_whole() {
    let payload = r#"{"v":99,"parts":[]}"#;
    assert_eq!(
        decode(payload),
        [Part::Unknown(Json::parse(payload).unwrap())]
    );
}

proptest! {
    #[test]
    fn decoding_never_panics_and_loses_nothing(payload in any::<String>()) {
        prop_assert!(!decode(&payload).is_empty());
    }

    #[test]
    fn any_text_survives(text in any::<String>(), thought in any::<String>()) {
        let parts = vec![Part::Text(text), Part::Thought(thought)];
        prop_assert_eq!(decode(&encode(&parts)), parts);
    }
}
