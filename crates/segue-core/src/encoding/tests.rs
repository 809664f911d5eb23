use proptest::prelude::*;

use super::*;

fn parts_of_every_kind() -> Vec<Part> {
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
    insta::assert_snapshot!(encode_parts(&parts_of_every_kind()), @r#"{"v":1,"parts":[{"type":"text","text":"a \"quoted\"\nline"},{"type":"thought","text":"hm"},{"type":"function_call","id":"c1","name":"read","args":{"b":1, "a":1.0e2}},{"type":"function_response","call_id":"c1","name":"read","response":{"output":"ok"},"is_error":false},{"type":"inline_data","mime_type":"image/png","data":"aGk="},{"type":"hologram","z":[1,2]}]}"#);
}

#[test]
fn encoded_parts_decode_to_the_same_parts() {
    let parts = parts_of_every_kind();
    assert_eq!(decode_parts(&encode_parts(&parts)), parts);
}

#[test]
fn a_part_with_an_invalid_field_is_stored_verbatim() {
    let payload = r#"{"v":1,"parts":[{"type":"text","text":7},{"type":"text","text":"fine"}]}"#;
    let parts = decode_parts(payload);
    assert_eq!(
        parts,
        [
            Part::Unknown(Json::parse(r#"{"type":"text","text":7}"#).unwrap()),
            Part::Text("fine".into())
        ]
    );
    assert_eq!(encode_parts(&parts), payload);
}

#[test]
fn a_payload_of_another_version_is_stored_verbatim() {
    let payload = r#"{"v":99,"parts":[]}"#;
    assert_eq!(
        decode_parts(payload),
        [Part::Unknown(Json::parse(payload).unwrap())]
    );
}

proptest! {
    #[test]
    fn decoding_any_payload_returns_at_least_one_part(payload in any::<String>()) {
        prop_assert!(!decode_parts(&payload).is_empty());
    }

    #[test]
    fn any_text_survives_encoding_and_decoding(text in any::<String>(), thought in any::<String>()) {
        let parts = vec![Part::Text(text), Part::Thought(thought)];
        prop_assert_eq!(decode_parts(&encode_parts(&parts)), parts);
    }
}
