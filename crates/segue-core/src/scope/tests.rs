use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::session::{Title, TitleSource};

fn feature(name: &str) -> Scope {
    Scope::Feature(FeatureId::parse(name).unwrap())
}

fn task(feature: Option<&str>, task: &str, state: &str) -> Scope {
    Scope::Task {
        feature: feature.map(|name| FeatureId::parse(name).unwrap()),
        task: TaskId::parse(task).unwrap(),
        state: TaskState::parse(state).unwrap(),
    }
}

fn purpose(scope: Scope, role: Option<&str>) -> Purpose {
    Purpose {
        scope,
        role: role.map(|name| RoleName::parse(name).unwrap()),
    }
}

/// Returns all kinds of purposes, each with its heading and its key.
fn purposes() -> Vec<(Purpose, Option<&'static str>, &'static str)> {
    vec![
        (purpose(Scope::Project, None), None, "[Project]"),
        (
            purpose(Scope::Project, Some("pm")),
            None,
            "[Project] [Role: pm]",
        ),
        (
            purpose(feature("auth"), None),
            Some("[Feature: auth]"),
            "[Feature: auth]",
        ),
        (
            purpose(feature("Zahlungen für 支払い"), None),
            Some("[Feature: Zahlungen für 支払い]"),
            "[Feature: Zahlungen für 支払い]",
        ),
        (
            purpose(feature("auth"), Some("qa")),
            Some("[Feature: auth] [Role: qa]"),
            "[Feature: auth] [Role: qa]",
        ),
        (
            purpose(task(None, "t-1", "in_dev"), None),
            Some("[Task: t-1/in_dev]"),
            "[Task: t-1/in_dev]",
        ),
        (
            purpose(task(Some("auth"), "t-1", "in_dev"), Some("dev")),
            Some("[Feature: auth] [Task: t-1/in_dev] [Role: dev]"),
            "[Feature: auth] [Task: t-1/in_dev] [Role: dev]",
        ),
    ]
}

/// Returns a first prompt with its heading.
fn with_heading(purpose: &Purpose, prompt: &str) -> String {
    purpose.heading_for_prompt(prompt).map_or_else(
        || prompt.to_owned(),
        |heading| format!("{heading}\n\n{prompt}"),
    )
}

#[test]
fn a_purpose_has_one_heading_and_one_key() {
    for (purpose, heading, key) in purposes() {
        assert_eq!(purpose.heading().as_deref(), heading);
        assert_eq!(purpose.key(), key);
    }
    // Names that are equal after joining, as other programs join them, have different keys.
    let scopes = [
        task(Some("a-b"), "c", "s"),
        task(Some("a"), "b-c", "s"),
        task(None, "c", "s"),
        feature("a-b"),
    ];
    let mut keys: Vec<_> = scopes
        .into_iter()
        .map(|scope| Purpose::for_scope(scope).key())
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4, "{keys:?}");
}

#[test]
fn a_heading_is_added_once_and_parsed_back() {
    for (purpose, heading, _) in purposes() {
        let prompt = with_heading(&purpose, "fix the login\n\nplease");
        match heading {
            None => assert_eq!(prompt, "fix the login\n\nplease"),
            Some(heading) => {
                assert_eq!(prompt, format!("{heading}\n\nfix the login\n\nplease"));
                let tagged = TaggedPrompt::parse(&prompt).unwrap();
                assert_eq!(tagged.purpose, purpose);
                assert_eq!(tagged.text, "fix the login\n\nplease");
            }
        }
        assert_eq!(with_heading(&purpose, &prompt), prompt, "once");
    }
    let auth = purpose(feature("auth"), None);
    assert_eq!(
        with_heading(&auth, "[Feature: pay] x"),
        "[Feature: auth]\n\n[Feature: pay] x"
    );
}

#[test]
fn only_tags_at_the_very_start_are_tags() {
    let untagged = [
        "",
        "auth",
        "do [Feature: auth]",
        "[feature: auth] x",
        "[Feature:auth] x",
        "[Feature: ] x",
        "[Feature:  auth] x",
        "[Feature: auth ] x",
        "[Feature: auth",
        "[Feature: a\nb] x",
        "[Role: dev] x",
        "[Task: t] x",
        "[Task: t/] x",
        "> [Feature: auth] x",
    ];
    for prompt in untagged {
        assert_eq!(TaggedPrompt::parse(prompt), None, "{prompt:?}");
        assert_eq!(TaggedPrompt::strip_tags(prompt), prompt);
    }
    let parse =
        |prompt| TaggedPrompt::parse(prompt).map(|tagged| (tagged.purpose.key(), tagged.text));
    let cases = [
        ("[Feature: auth]", "[Feature: auth]", ""),
        ("\n [Feature: auth] go", "[Feature: auth]", "go"),
        ("[Feature: auth]go", "[Feature: auth]", "go"),
        (
            "[Feature: a] [Feature: b] go",
            "[Feature: a]",
            "[Feature: b] go",
        ),
        ("[Feature: a]\r\n[Task: t/s]", "[Feature: a]", "[Task: t/s]"),
        ("[Feature: a]\n\n  go", "[Feature: a]", "  go"),
        (
            "[Feature: a]  [Task: t/s]\r\ngo",
            "[Feature: a] [Task: t/s]",
            "go",
        ),
        ("[Task: t/s] [Feature: a]", "[Task: t/s]", "[Feature: a]"),
        (
            "[Feature: a] [Role: x]y] go",
            "[Feature: a] [Role: x]",
            "y] go",
        ),
    ];
    for (prompt, key, text) in cases {
        assert_eq!(parse(prompt), Some((key.to_owned(), text)), "{prompt:?}");
    }
    assert_eq!(
        TaggedPrompt::strip_tags("[Feature: auth]"),
        "[Feature: auth]"
    );
    assert_eq!(TaggedPrompt::strip_tags("[Feature: auth]\n\ngo"), "go");
}

#[test]
fn a_native_session_matches_by_its_tags_or_its_title() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let make_title = |text: &str, source| Title::new(text, source).unwrap();
    let user = make_title("auth", TitleSource::User);
    let model = make_title("auth", TitleSource::Model);
    let from_prompt = make_title("auth", TitleSource::Prompt);
    let other_title = make_title("auth-2", TitleSource::User);
    let auth = purpose(feature("auth"), None);
    let as_qa = purpose(feature("auth"), Some("qa"));
    let in_dev = purpose(task(Some("auth"), "t", "dev"), None);
    let project = purpose(Scope::Project, None);
    let (tag, title) = (Some(PurposeEvidence::Tag), Some(PurposeEvidence::Title));
    let cases = [
        (&auth, Some("[Feature: auth]\n\nx"), None, tag),
        (&auth, Some("[Feature: auth-2]\n\nx"), None, None),
        (&auth, Some("[Feature: aut]\n\nx"), None, None),
        (&auth, Some("see [Feature: auth]"), None, None),
        (
            &auth,
            Some("[Feature: auth] [Task: t/dev]\n\nx"),
            None,
            None,
        ),
        (&auth, Some("[Feature: auth] [Role: qa]\n\nx"), None, None),
        (&auth, Some("x"), Some(&user), title),
        (&auth, None, Some(&model), title),
        (&auth, Some("auth"), Some(&from_prompt), None),
        (&auth, Some("x"), Some(&other_title), None),
        (&auth, Some("[Feature: pay]\n\nx"), Some(&user), None),
        (&auth, None, None, None),
        (&as_qa, Some("[Feature: auth] [Role: qa]\n\nx"), None, tag),
        (&as_qa, Some("[Feature: auth]\n\nx"), None, None),
        (&as_qa, Some("x"), Some(&user), None),
        (
            &in_dev,
            Some("[Feature: auth] [Task: t/dev]\n\nx"),
            None,
            tag,
        ),
        (
            &in_dev,
            Some("[Feature: auth] [Task: t/qa]\n\nx"),
            None,
            None,
        ),
        (&in_dev, Some("[Task: t/dev]\n\nx"), None, None),
        (&in_dev, Some("x"), Some(&user), None),
        (&project, Some("x"), None, None),
    ];
    for (purpose, first_prompt, title, expected) in cases {
        let native = NativeSummary {
            first_prompt,
            title,
            updated_at: now,
        };
        let evidence = purpose.match_native(&native, now);
        assert_eq!(evidence, expected, "{purpose}: {native:?}");
    }
}

#[test]
fn the_match_window_is_exactly_seven_days() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let week = SignedDuration::from_hours(168);
    let moment = SignedDuration::from_millis(1);
    for (ago, expected) in [
        (SignedDuration::ZERO, true),
        (week - moment, true),
        (week, true),
        (week + moment, false),
        (SignedDuration::from_hours(192), false),
        // A timestamp in the future, from a clock that was ahead, counts as recent.
        (-SignedDuration::from_hours(1), true),
    ] {
        assert_eq!(is_recent(now - ago, now), expected, "{ago}");
    }
}

#[test]
fn names_are_stored_exactly_or_rejected() {
    let accepted = ["t-1", "TASK 7", "Prüfung", "計画", "v1.2 (beta)"];
    for text in accepted {
        assert_eq!(TaskId::parse(text).unwrap().as_str(), text);
        assert_eq!(TaskState::parse(text).unwrap().as_str(), text);
        assert_eq!(RoleName::parse(text).unwrap().as_str(), text);
    }
    let allowed = |limit| {
        format!(
            "a name starts with a letter, a digit or _, has at most {limit} bytes, does not contain [ ] / \\, line \
             breaks or invisible characters, and does not end with a space"
        )
    };
    let long = "x".repeat(300);
    let refused = [
        ("", "a task name may not be empty"),
        ("a]b", "a task name may not contain ']'"),
        ("a[b", "a task name may not contain '['"),
        ("a/b", "a task name may not contain '/'"),
        ("a\nb", "a task name may not contain '\\n'"),
        ("a\u{1b}b", "a task name may not contain '\\u{1b}'"),
        ("-a", "a task name may not start with '-'"),
        ("a ", "a task name may not end with a space"),
        (&long, "a task name may have at most 200 bytes, not 300"),
    ];
    for (text, reason) in refused {
        let message = TaskId::parse(text).unwrap_err().to_string();
        assert_eq!(message, format!("{reason}; {}", allowed(200)));
        assert!(TaskState::parse(text).is_err());
        assert!(RoleName::parse(text).is_err());
    }
    let state = TaskState::parse(&"x".repeat(65)).unwrap_err().to_string();
    let reason = "a state name may have at most 64 bytes, not 65";
    assert_eq!(state, format!("{reason}; {}", allowed(64)));
}

proptest! {
    #[test]
    fn any_name_is_parsed_back_from_a_heading(name in "[a-z支ü_][a-z0-9 ü支().-]{0,20}", prompt in "(\\[Task: t/s\\])?.*") {
        if let (Ok(feature), Ok(task)) = (FeatureId::parse(&name), TaskId::parse(&name)) {
            let state = TaskState::parse("s").unwrap();
            let scopes = [
                Scope::Feature(feature.clone()),
                Scope::Task { feature: Some(feature), task, state },
            ];
            for scope in scopes {
                let purpose = Purpose::for_scope(scope);
                let prompt_with_heading = with_heading(&purpose, &prompt);
                let tagged = TaggedPrompt::parse(&prompt_with_heading).unwrap();
                prop_assert_eq!(tagged.purpose, purpose);
                prop_assert_eq!(tagged.text, prompt.as_str());
            }
        }
    }
}
