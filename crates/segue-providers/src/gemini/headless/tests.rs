//! Input, arguments and target session of a turn.

use super::*;
use crate::gemini::test_home::{
    GuardTestHome, SESSION_FILE, SESSION_ID, empty_session_text, session_text,
};
use crate::provider::TEST_SYSTEM_FNS;

#[test]
fn a_prompt_is_never_sent_as_a_command() {
    let cases = [
        ("hello", "hello"),
        ("", ""),
        ("/clear up", "\u{200b}/clear up"),
        ("  /x", "\u{200b}  /x"),
        ("? what", "\u{200b}? what"),
        (
            "<session_context> is what?",
            "\u{200b}<session_context> is what?",
        ),
        ("a /b", "a /b"),
        ("@file and more", "@file and more"),
        ("-p", "-p"),
    ];
    for (prompt, expected) in cases {
        assert_eq!(
            encode_prompt(prompt),
            Ok(expected.as_bytes().to_vec()),
            "{prompt}"
        );
    }
}

#[test]
fn a_prompt_that_would_be_truncated_is_refused() {
    let longest_prompt = "x".repeat(MAX_PROMPT_BYTES);
    assert!(encode_prompt(&longest_prompt).is_ok());
    let refusal = encode_prompt(&(longest_prompt + "x")).unwrap_err();
    assert_eq!(refusal.class, FailureClass::Agent);
    assert!(refusal.message.contains("put the text into a file"));
}

#[test]
fn the_policy_determines_the_approval_mode() {
    use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
    let cases = [
        (Ask, "default"),
        (AllowReads, "default"),
        (Deny, "default"),
        (AllowEdits, "auto_edit"),
        (AllowAll, "yolo"),
    ];
    for (policy, expected) in cases {
        assert_eq!(approval_mode(policy), expected, "{policy:?}");
    }
}

#[test]
fn a_session_deleted_before_the_prompt_is_not_restarted() {
    let test_home = GuardTestHome::new(TEST_SYSTEM_FNS);
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let guard = Arc::clone(&test_home.guard);
    let settings = ProviderSettings::default();
    let agent = HeadlessAgent::new(
        Path::new("gemini"),
        &settings,
        &crate::provider::test_host(),
        guard,
        GeminiOutputFormat::JsonLines,
    );
    let request = test_home.open_request();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(async {
        let OpenedConnection {
            open_mode,
            mut connection,
            ..
        } = agent.open(&request).await.unwrap();
        assert_eq!(open_mode, OpenMode::Resumed);
        for remaining in [Some(empty_session_text(SESSION_ID)), None] {
            match remaining {
                Some(text) => test_home.write_session(SESSION_FILE, &text),
                None => test_home.remove_sessions(&[SESSION_FILE]),
            }
            let error = connection.send_prompt("continue").await.unwrap_err();
            assert_eq!(error.class(), FailureClass::SessionUnknown, "{error}");
        }
    });
}
