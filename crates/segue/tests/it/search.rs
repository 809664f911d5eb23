//! `segue session search` with text and JSON output, and showing the turn of a hit.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};
use serde_json::Value;

use crate::index::{NativeSessionFile, SessionFileAgent};
use crate::mcp::run_chat;
use crate::native::{NATIVE_ID, write_claude_session};
use crate::new_test_home;

/// Creates a home with a Claude Code session about milk, a longer Codex session in another directory, and a session of
/// segue. Returns the home and the id of the last one.
fn home_with_sessions() -> (TestHome, String) {
    let home = new_test_home();
    write_claude_session(&home, NATIVE_ID, "project");
    let other_dir = home.path().join("other-dir");
    fs::create_dir(&other_dir).unwrap();
    let mut session_file = NativeSessionFile::new(&home, SessionFileAgent::Codex, 3, &other_dir);
    (0..3).for_each(|_| session_file.append_turn());
    let own_id = run_chat(&home, &["no milk today, but honey"]);
    (home, own_id)
}

/// Returns the providers of the hits in order, with `own` for sessions of segue.
fn search_providers(home: &TestHome, args: &[&str]) -> Vec<String> {
    let hits = home.run_segue_json([&["session", "search", "--json"], args].concat());
    let name = |hit: &Value| match hit["provider"].as_str().unwrap() {
        "rehearsal" => "own".to_owned(),
        provider => provider.to_owned(),
    };
    hits.as_array().unwrap().iter().map(name).collect()
}

fn replace_ages(mut output: ProgramOutput) -> ProgramOutput {
    let replace_age = |line: &str| match line.split_once(" days ago") {
        Some((before, after)) => {
            let (prefix, _) = before.rsplit_once(' ').unwrap();
            format!("{prefix} [N] days ago{after}")
        }
        None => line.to_owned(),
    };
    output.stdout = output
        .stdout
        .lines()
        .map(|line| replace_age(line) + "\n")
        .collect();
    output
}

#[test]
fn a_search_prints_sessions_turns_and_snippets() {
    let (home, _) = home_with_sessions();
    assert_snapshot!(replace_ages(home.run_segue(["session", "search", "milk"])), @"
     1  no milk today, but honey
        [SESSION] · rehearsal · just now · ~/project
        turn 1 you: no milk today, but honey

     2  Shopping
        0b5e4c3a-1111-4222-8333-444455556666 · claude · [N] days ago · ~/project
        turn 2 agent: Milk is to be bought.
    --- exit 0
    ");
    assert_snapshot!(replace_ages(home.run_segue(["session", "search", "--each", "2", "role:tool", "tool"])), @"
     1  asked w3x1 about everything
        0b5e4c3a-1111-4222-8333-000000000003 · codex · [N] days ago · ~/other-dir
        turn 3 tool: output3 of a tool in lines o3x3
        turn 2 tool: output3 of a tool in lines o3x2
        and in 1 more turn
    --- exit 0
    ");
    // Only the title matches, so no turn is shown.
    assert_snapshot!(replace_ages(home.run_segue(["session", "search", "shopping"])), @"
     1  Shopping
        0b5e4c3a-1111-4222-8333-444455556666 · claude · [N] days ago · ~/project
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "search", "zebra"]), @"
    --- stderr
    no matches; try fewer words, or a prefix such as `word*`
    --- exit 0
    ");
    let limited = home.run_segue(["session", "search", "-n", "1", "milk"]);
    assert_eq!(limited.stdout.lines().count(), 3, "{limited}");
    assert_eq!(
        limited.stderr,
        "there are more sessions; use --limit 0 to show all\n"
    );
    // The numbers of hits are list numbers.
    let _ = home.run_segue(["session", "search", "milk"]);
    let transcript = home.run_segue(["session", "show", "2", "--turn", "2"]);
    assert!(
        transcript.stdout.contains("Milk is to be bought."),
        "{transcript}"
    );
    assert!(!transcript.stdout.contains("turn 3"), "{transcript}");
}

#[test]
fn the_search_json_has_the_documented_fields() {
    let (home, own_id) = home_with_sessions();
    let hits = home.run_segue_json(["session", "search", "--json", "milk"]);
    let hits = hits.as_array().unwrap();
    assert_eq!(hits.len(), 2);
    let project = home.project().display().to_string();
    let expected = [
        ("id", Value::from(own_id)),
        ("provider", "rehearsal".into()),
        ("turn", 1.into()),
        ("role", "user".into()),
        ("snippet", "no milk today, but honey".into()),
        ("score", Value::Null),
        ("found_in_turns", 1.into()),
        ("title", "no milk today, but honey".into()),
        ("cwd", project.clone().into()),
        ("status", "idle".into()),
    ];
    for (field, value) in expected {
        assert_eq!(hits[0][field], value, "{field}");
    }
    let expected = [
        ("id", Value::Null),
        ("provider", "claude".into()),
        ("native_session_id", NATIVE_ID.into()),
        ("turn", 2.into()),
        ("role", "assistant".into()),
        ("at", "2026-01-02T03:04:10Z".into()),
        ("snippet", "Milk is to be bought.".into()),
        ("found_in_turns", 1.into()),
        ("title", "Shopping".into()),
        ("project", project.into()),
        ("updated_at", "2026-01-02T03:05:01Z".into()),
    ];
    for (field, value) in expected {
        assert_eq!(hits[1][field], value, "{field}");
    }
    // Each matching turn is an entry; a match in the title only is an entry without a turn.
    let turns = |args: &[&str]| {
        let hits = home.run_segue_json([&["session", "search", "--json"], args].concat());
        let turn = |hit: &Value| (hit["turn"].clone(), hit["found_in_turns"].clone());
        hits.as_array()
            .unwrap()
            .iter()
            .map(turn)
            .collect::<Vec<_>>()
    };
    let pair = |turn: Value, count: u32| (turn, Value::from(count));
    assert_eq!(turns(&["everything"]), [pair(3.into(), 3)]);
    assert_eq!(
        turns(&["everything", "--each", "2"]),
        [pair(3.into(), 3), pair(2.into(), 3)]
    );
    assert_eq!(turns(&["shopping"]), [pair(Value::Null, 0)]);
    assert_eq!(
        home.run_segue_json(["session", "search", "--json", "zebra"]),
        serde_json::json!([])
    );
    let best = home.run_segue_json(["session", "search", "--json", "--sort", "best", "milk"]);
    let score = |n: usize| best[n]["score"].as_f64().unwrap();
    assert!(score(0) >= score(1) && score(1) > 0.0, "{best}");
}

#[test]
fn a_query_supports_words_phrases_prefixes_and_filters() {
    let (home, own_id) = home_with_sessions();
    let _ = home.run_segue(["session", "tag", &own_id, "dairy"]);
    let cases: &[(&[&str], &[&str])] = &[
        (&["milk"], &["own", "claude"]),
        (&["MILK"], &["own", "claude"]),
        (&["milk honey"], &["own"]),
        (&["milk", "honey"], &["own"]),
        (&["\"honey milk\""], &[]),
        (&["\"milk today\""], &["own"]),
        (&["milk today"], &["own"]),
        (&["milk today", "honey"], &["own"]),
        (&["today milk", "honey"], &[]),
        (&["mil*"], &["own", "claude"]),
        (&["mil"], &[]),
        (&["ought*"], &[]),
        (&["milk -honey"], &["claude"]),
        (&["--", "milk", "-honey"], &["claude"]),
        (&["gruen OR grun"], &[]),
        (&["grun"], &["codex"]),
        (&["naive", "函数"], &["codex"]),
        (&["函"], &["codex"]),
        (&["provider:claude"], &["claude"]),
        (&["provider:claude,codex"], &["codex", "claude"]),
        (&["milk provider:codex"], &[]),
        (&["milk role:user"], &["own"]),
        (&["milk role:tool"], &["claude"]),
        (&["milk role:assistant"], &["own", "claude"]),
        (&["milk role:user,tool"], &["own", "claude"]),
        (&["milk role:user role:tool"], &["own", "claude"]),
        (&["MILK PROVIDER:CLAUDE"], &["claude"]),
        (&["project:other-dir"], &["codex"]),
        (&["project:OTHER everything"], &["codex"]),
        (&["--here", "everything"], &[]),
        (&["--here", "milk"], &["own", "claude"]),
        (&["milk after:1d"], &["own"]),
        (&["milk after: 1d"], &["own"]),
        (&["milk", "--since", "1d"], &["own"]),
        (&["--since", "1d"], &["own"]),
        (&["-p", "codex"], &["codex"]),
        (&["milk", "-p", "claude"], &["claude"]),
        (&["milk before:1d"], &["claude"]),
        (&["milk after:2026-01-02T03:04:10Z before:1d"], &["claude"]),
        (&["milk after:2026-01-02T03:04:11Z before:1d"], &[]),
        (&["tag:dairy"], &["own"]),
        (&["milk tag:dairy"], &["own"]),
        (&["milk tag:other"], &[]),
        (&["feature:none milk"], &[]),
        (&["-n", "1", "milk"], &["own"]),
        (&["-n", "0", "milk"], &["own", "claude"]),
        (&["https://x.y"], &[]),
        (&["'; DROP TABLE text; --"], &[]),
        (&["milk*)"], &["own", "claude"]),
    ];
    for (args, expected) in cases {
        assert_eq!(search_providers(&home, args), *expected, "{args:?}");
    }
}

#[test]
fn an_invalid_query_is_an_error_with_a_hint() {
    let (home, _) = home_with_sessions();
    let _ = home.run_segue(["session", "search", "milk"]);
    let long = "x".repeat(501);
    for (words, error, hint) in [
        (
            "",
            "a search needs at least one word or filter",
            "run `segue session search --help` for the syntax",
        ),
        (
            " * ",
            "a search needs at least one word or filter",
            "run `segue session search --help` for the syntax",
        ),
        (
            "role:king milk",
            "unknown role \"king\": expected user, assistant or tool",
            "run `segue session search --help` for the syntax",
        ),
        (
            "provider:codx milk",
            "unknown agent `codx`",
            "available agents: ",
        ),
        (
            "milk tag:",
            "`tag:` needs a value, for example `tag:NAME`",
            "run `segue session search --help` for the syntax",
        ),
        (
            "milk after:soon",
            "after: \"soon\" is not a valid time",
            "use a time such as 2025-12-07T14:30:22Z",
        ),
        (
            "-milk",
            "a search needs at least one word that is not excluded",
            "run `segue session search --help` for the syntax",
        ),
        (
            &long,
            "a query can have at most 500 characters; this one has 501",
            "run `segue session search --help` for the syntax",
        ),
    ] {
        let output = home.run_segue(["session", "search", "--json", "--", words]);
        let result: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
        assert_eq!(
            (output.code, &result["error"]["message"]),
            (Some(2), &error.into()),
            "{output}"
        );
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert_eq!(lines[0], format!("error: {error}"), "{output}");
        assert!(lines[1].starts_with(&format!("hint: {hint}")), "{output}");
    }
    assert_eq!(home.run_segue(["session", "search"]).code, Some(2));
    assert_eq!(
        home.run_segue(["session", "search", "x", "--sort", "worst"])
            .code,
        Some(2)
    );
    // The list numbers still refer to the last successful search.
    let transcript = home.run_segue(["session", "show", "2", "--turn", "2"]);
    assert!(
        transcript.stdout.contains("Milk is to be bought."),
        "{transcript}"
    );
}

/// A turn that several sessions share is one hit.
#[test]
fn a_turn_is_found_once_across_sessions() {
    let home = new_test_home();
    let id = run_chat(&home, &["rehearse: say once"]);
    let fork = home.run_segue_json(["session", "fork", "--json", &id]);
    let fork = fork["id"].as_str().or(fork["session_id"].as_str()).unwrap();
    run_chat(&home, &["--resume", fork, "another time"]);
    assert_eq!(search_providers(&home, &["once"]).len(), 1);
    let fresh = home.run_segue_json(["session", "search", "--json", "another"]);
    assert_eq!(
        (&fresh[0]["id"], &fresh[0]["turn"]),
        (&fork.into(), &2.into())
    );
    // An adopted session is found as a session of segue, not as a native session.
    write_claude_session(&home, NATIVE_ID, "project");
    assert_eq!(search_providers(&home, &["milk"]), ["claude"]);
    let adopted = home.run_segue_json(["session", "adopt", "--json", NATIVE_ID]);
    let hits = home.run_segue_json(["session", "search", "--json", "milk", "--each", "9"]);
    assert_eq!(hits.as_array().unwrap().len(), 1, "{hits:#}");
    assert_eq!(hits[0]["native_session_id"], NATIVE_ID);
    assert!(hits[0]["id"].is_string(), "{hits:#} {adopted:#}");
    // A deleted session is no longer found.
    let _ = home.run_segue(["session", "delete", "--yes", &id]);
    let _ = home.run_segue(["session", "delete", "--yes", fork]);
    assert_eq!(search_providers(&home, &["once"]), Vec::<String>::new());
}

/// After an adoption, turns that the agent's own program adds are found in the native session.
#[test]
fn turns_made_outside_segue_are_found_in_the_native_session() {
    let home = new_test_home();
    let mut session_file =
        NativeSessionFile::new(&home, SessionFileAgent::Claude, 7, &home.project());
    session_file.append_turn();
    let native = only_native_id(&home);
    let _ = home.run_segue_json(["session", "adopt", "--json", &native]);
    let hits = |words: &str| {
        let hits = home.run_segue_json(["session", "search", "--json", words]);
        let hits = hits.as_array().unwrap().clone();
        let id_and_turn = |hit: &Value| (hit["id"].is_string(), hit["turn"].clone());
        hits.iter().map(id_and_turn).collect::<Vec<_>>()
    };
    assert_eq!(hits("w7x1"), [(true, 1.into())]);
    session_file.append_turn();
    assert_eq!(hits("w7x2"), [(false, 2.into())]);
    assert_eq!(hits("w7x1"), [(true, 1.into())], "the turn was found twice");
}

/// Returns the id of the only native session.
fn only_native_id(home: &TestHome) -> String {
    let listed = home.run_segue_json(["session", "list", "--all", "--json"]);
    listed[0]["native_session_id"].as_str().unwrap().to_owned()
}

/// The search ignores accents, and the snippet shows the original text.
#[test]
fn a_snippet_shows_the_match_as_it_was_written() {
    let (home, _) = home_with_sessions();
    for (typed, original) in [("grun", "grün"), ("naive", "naïve"), ("函", "函")] {
        let hits = home.run_segue_json(["session", "search", "--json", typed]);
        let snippet = hits[0]["snippet"].as_str().unwrap();
        assert!(snippet.contains(original), "{typed}: {snippet}");
    }
}

#[test]
fn the_turn_option_shows_a_single_turn() {
    let (home, own_id) = home_with_sessions();
    run_chat(&home, &["--resume", &own_id, "and butter?"]);
    for (id, turn, included, excluded) in [
        (own_id.as_str(), "1", "no milk today", "and butter?"),
        (own_id.as_str(), "2", "and butter?", "── turn 1"),
        (
            NATIVE_ID,
            "2",
            "Milk is to be bought.",
            "And in the cellar?",
        ),
        (
            NATIVE_ID,
            "3",
            "And in the cellar?",
            "Milk is to be bought.",
        ),
        (
            "codex:0b5e4c3a-1111-4222-8333-000000000003",
            "2",
            "answered a3x2",
            "answered a3x3",
        ),
    ] {
        let output = home.run_segue(["session", "show", id, "--turn", turn]);
        assert!(output.stdout.contains(included), "{output}");
        assert!(!output.stdout.contains(excluded), "{output}");
        let json = home.run_segue_json(["session", "show", "--json", id, "--turn", turn]);
        let turns = json["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0]["n"].to_string(), turn);
    }
    for (id, turn, last) in [
        (own_id.as_str(), "3", 2),
        (own_id.as_str(), "0", 2),
        (NATIVE_ID, "4", 3),
        (NATIVE_ID, "-1", 3),
    ] {
        let output = home.run_segue(["session", "show", id, "--turn", turn]);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(2), ""),
            "{output}"
        );
        let error =
            format!("error: turn {turn} does not exist; turns are numbered from 1 to {last}\n");
        assert_eq!(output.stderr, error);
    }
    assert_eq!(
        home.run_segue(["session", "show", NATIVE_ID, "--turn", "x"])
            .code,
        Some(2)
    );
    assert_eq!(
        home.run_segue(["session", "show", NATIVE_ID, "--turn", "1", "--last", "1"])
            .code,
        Some(2)
    );
}
