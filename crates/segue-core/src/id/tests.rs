use proptest::prelude::*;

use super::*;

#[test]
fn session_ids_have_one_format() {
    assert!(SessionId::parse("20251207_143022_k3f9").is_ok());
    let refused = [
        ("", "a session id may not be empty"),
        ("../x", "a session id may not contain '.'"),
        ("-rf", "a session id may not contain '-'"),
        ("a\0b", "a session id may not contain '\\0'"),
        (
            "20251207_143022",
            "a session id must look like 20251207_143022_k3f9, not \"20251207_143022\"",
        ),
        (
            "20251207_143022_K3F9",
            "a session id must look like 20251207_143022_k3f9, not \"20251207_143022_K3F9\"",
        ),
    ];
    for (text, message) in refused {
        assert_eq!(SessionId::parse(text).unwrap_err().to_string(), message);
    }
    let long = "x".repeat(300);
    assert_eq!(
        SessionId::parse(&long).unwrap_err().to_string(),
        "a session id may have at most 64 bytes, not 300"
    );
}

#[test]
fn a_session_id_contains_its_creation_time() {
    let created_at: Timestamp = "2025-12-07T14:30:22.9Z".parse().unwrap();
    let id = SessionId::from_timestamp(created_at, 0);
    assert_eq!(id.as_str(), "20251207_143022_aaaa");
    assert_eq!(id.tail(), "aaaa");
    assert_eq!(SessionId::parse(id.as_str()), Ok(id));
}

#[test]
fn native_ids_of_real_providers_are_accepted() {
    for text in [
        "bb01ad6b-942f-41f0-9479-4ce6fbb50c89",
        "ses_4f1a2b",
        "01a1e0cf-4eff-7f50-887a-feb5036ba03b",
    ] {
        assert_eq!(NativeId::parse(text).unwrap().as_str(), text);
    }
    for text in [
        "", "-r", "../x", "a/b", "a b", "a\0", ".hidden", "ü", "a\nb",
    ] {
        assert!(NativeId::parse(text).is_err(), "{text:?} was accepted");
    }
}

#[test]
fn feature_names_are_stored_exactly_or_rejected() {
    for text in [
        "auth",
        "auth-2",
        "Zahlungen für Österreich",
        "支払い",
        "v1.2 (beta)",
    ] {
        assert_eq!(FeatureId::parse(text).unwrap().as_str(), text);
    }
    let long = "x".repeat(300);
    for text in [
        "",
        "a]b",
        "a\nb",
        " a",
        "a ",
        "-x",
        "../x",
        "a/b",
        ".x",
        "a\u{202e}b",
        &long,
    ] {
        assert!(FeatureId::parse(text).is_err(), "{text:?} was accepted");
    }
}

proptest! {
    #[test]
    fn an_accepted_id_is_safe(text in any::<String>()) {
        let accepted = [
            SessionId::parse(&text).map(|id| id.to_string()),
            NativeId::parse(&text).map(|id| id.to_string()),
            FeatureId::parse(&text).map(|id| id.to_string()),
            ProviderId::parse(&text).map(|id| id.to_string()),
        ];
        for id in accepted.into_iter().flatten() {
            prop_assert_eq!(&id, &text);
            prop_assert!(!id.is_empty() && id.len() <= 200);
            prop_assert!(!id.starts_with(['-', '.']));
            prop_assert!(!id.contains(['/', '\\', '\0', '\n']));
        }
    }

    #[test]
    fn every_generated_session_id_parses(seconds in 0i64..4_000_000_000, random in any::<u32>()) {
        let id = SessionId::from_timestamp(Timestamp::from_second(seconds).unwrap(), random);
        prop_assert_eq!(SessionId::parse(id.as_str()), Ok(id));
    }
}

#[test]
fn an_opaque_id_is_parsed_from_its_text() {
    for bits in [0, 1, 31, 32, 0x0123_4567_89ab_cdef, u64::MAX] {
        let id = TurnId::from_bits(bits);
        let text = id.to_string();
        assert_eq!(text.len(), 13);
        assert_eq!(text.parse(), Ok(id));
    }
    assert_eq!(LegId::from_bits(u64::MAX).to_string(), "fzzzzzzzzzzzz");
    for text in [
        "",
        "1",
        "0k3f9v7m2q8x",
        "0k3f9v7m2q8xtt",
        "gzzzzzzzzzzzz",
        "0K3F9V7M2Q8XT",
    ] {
        assert!(text.parse::<TurnId>().is_err(), "{text}");
    }
}
