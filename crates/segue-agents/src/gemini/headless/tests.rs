//! Input, arguments and target session of a turn.

use super::*;
use crate::gemini::world::{FIRST, ID, World, empty, session};
use crate::provider::OUTSIDE;

#[test]
fn a_prompt_is_never_a_command() {
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
        assert_eq!(input(prompt), Ok(expected.as_bytes().to_vec()), "{prompt}");
    }
}

#[test]
fn a_prompt_that_would_be_cut_is_refused() {
    let fits = "x".repeat(LONGEST_PROMPT);
    assert!(input(&fits).is_ok());
    let refusal = input(&(fits + "x")).unwrap_err();
    assert_eq!(refusal.class, FailureClass::Agent);
    assert!(refusal.message.contains("put the text into a file"));
}

#[test]
fn what_may_be_done_without_asking_is_what_the_policy_allows() {
    use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
    let cases = [
        (Ask, "default"),
        (AllowReads, "default"),
        (Deny, "default"),
        (AllowEdits, "auto_edit"),
        (AllowAll, "yolo"),
    ];
    for (policy, expected) in cases {
        assert_eq!(mode(policy), expected, "{policy:?}");
    }
}

#[test]
fn a_session_that_vanishes_before_the_prompt_is_not_begun_anew() {
    let world = World::new(OUTSIDE);
    world.write(FIRST, &session(ID));
    let host = Host {
        leash: Leash {
            program: "/nonexistent".into(),
            args: Vec::new(),
        },
        version: "0",
        kept: world.kept(),
        path: OsString::new(),
        outside: OUTSIDE,
    };
    let keep = Arc::clone(&world.keep);
    let settings = Settings::default();
    let agent = Headless::new("gemini".into(), &settings, &host, keep, Format::Lines);
    let request = world.request();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(async {
        let Opening {
            opened,
            mut conversation,
            ..
        } = agent.open(&request).await.unwrap();
        assert_eq!(opened, Opened::Resumed);
        for left in [Some(empty(ID)), None] {
            match left {
                Some(text) => world.write(FIRST, &text),
                None => world.remove(&[FIRST]),
            }
            let error = conversation.send("go on").await.unwrap_err();
            assert_eq!(error.class(), FailureClass::SessionUnknown, "{error}");
        }
    });
}
