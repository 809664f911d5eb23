//! `segue session search`, as people type it and as programs read it, and the turn that is then shown.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::{Output, World};
use serde_json::Value;

use crate::index::{Agent, Kept};
use crate::mcp::chat;
use crate::native::{ID, put};
use crate::world;

/// A session of Claude Code's about milk, a longer one of Codex's elsewhere, and one of segue's own.
fn with_sessions() -> (World, String) {
    let world = world();
    put(&world, ID, "project");
    let elsewhere = world.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut kept = Kept::new(&world, Agent::Codex, 3, &elsewhere);
    (0..3).for_each(|_| kept.add());
    let own = chat(&world, &["no milk today, but honey"]);
    (world, own)
}

/// Who is found, in their order.
fn found(world: &World, args: &[&str]) -> Vec<String> {
    let hits = world.json([&["session", "search", "--json"], args].concat());
    let name = |hit: &Value| match hit["provider"].as_str().unwrap() {
        "rehearsal" => "own".to_owned(),
        other => other.to_owned(),
    };
    hits.as_array().unwrap().iter().map(name).collect()
}

fn without_ages(mut output: Output) -> Output {
    let ago = |line: &str| match line.split_once(" days ago") {
        Some((before, after)) => {
            let (rest, _) = before.rsplit_once(' ').unwrap();
            format!("{rest} [N] days ago{after}")
        }
        None => line.to_owned(),
    };
    output.stdout = output.stdout.lines().map(|line| ago(line) + "\n").collect();
    output
}

#[test]
fn a_person_sees_where_something_was_said() {
    let (world, _) = with_sessions();
    assert_snapshot!(without_ages(world.segue(["session", "search", "milk"])), @"
     1  no milk today, but honey
        [SESSION] · rehearsal · just now · ~/project
        turn 1 you: no milk today, but honey

     2  Shopping
        0b5e4c3a-1111-4222-8333-444455556666 · claude · [N] days ago · ~/project
        turn 2 agent: Milk is to be bought.
    --- exit 0
    ");
    assert_snapshot!(without_ages(world.segue(["session", "search", "--each", "2", "role:tool", "tool"])), @"
     1  asked w3x1 about everything
        0b5e4c3a-1111-4222-8333-000000000003 · codex · [N] days ago · ~/elsewhere
        turn 3 tool: output3 of a tool in lines o3x3
        turn 2 tool: output3 of a tool in lines o3x2
        and in 1 more turn(s)
    --- exit 0
    ");
    // Only its title has the word, so there is no turn to show.
    assert_snapshot!(without_ages(world.segue(["session", "search", "shopping"])), @"
     1  Shopping
        0b5e4c3a-1111-4222-8333-444455556666 · claude · [N] days ago · ~/project
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "search", "zebra"]), @"
    --- stderr
    nothing was found; fewer or shorter words find more, and word* finds what begins so
    --- exit 0
    ");
    let some = world.segue(["session", "search", "-n", "1", "milk"]);
    assert_eq!(some.stdout.lines().count(), 3, "{some}");
    assert_eq!(some.stderr, "there are more: --limit 0 shows all\n");
    // The number of what was found is one of a list.
    let _ = world.segue(["session", "search", "milk"]);
    let shown = world.segue(["session", "show", "2", "--turn", "2"]);
    assert!(shown.stdout.contains("Milk is to be bought."), "{shown}");
    assert!(!shown.stdout.contains("turn 3"), "{shown}");
}

#[test]
fn a_program_reads_what_was_found() {
    let (world, own) = with_sessions();
    let hits = world.json(["session", "search", "--json", "milk"]);
    let hits = hits.as_array().unwrap();
    assert_eq!(hits.len(), 2);
    let project = world.project().display().to_string();
    let expected = [
        ("id", Value::from(own)),
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
        ("native_session_id", ID.into()),
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
    // A turn is an entry; a title alone is one without a turn.
    let turns = |args: &[&str]| {
        let hits = world.json([&["session", "search", "--json"], args].concat());
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
        world.json(["session", "search", "--json", "zebra"]),
        serde_json::json!([])
    );
    let best = world.json(["session", "search", "--json", "--sort", "best", "milk"]);
    let score = |n: usize| best[n]["score"].as_f64().unwrap();
    assert!(score(0) >= score(1) && score(1) > 0.0, "{best}");
}

#[test]
fn words_phrases_beginnings_and_filters() {
    let (world, own) = with_sessions();
    let _ = world.segue(["session", "tag", &own, "dairy"]);
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
        (&["project:elsewhere"], &["codex"]),
        (&["project:ELSE everything"], &["codex"]),
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
        assert_eq!(found(&world, args), *expected, "{args:?}");
    }
}

#[test]
fn mistakes_are_told() {
    let (world, _) = with_sessions();
    let _ = world.segue(["session", "search", "milk"]);
    let long = "x".repeat(501);
    for (words, error, hint) in [
        (
            "",
            "a search needs at least one word or filter",
            "see: segue session search --help",
        ),
        (
            " * ",
            "a search needs at least one word or filter",
            "see: segue session search --help",
        ),
        (
            "role:king milk",
            "\"king\" says nothing in a session; role: takes user, assistant or tool",
            "see: segue session search --help",
        ),
        (
            "provider:codx milk",
            "nobody here is called codx",
            "there are: ",
        ),
        (
            "milk tag:",
            "tag: needs a value, as in tag:NAME",
            "see: segue session search --help",
        ),
        (
            "milk after:soon",
            "after: \"soon\" is not a time",
            "write a time such as 2025-12-07T14:30:22Z",
        ),
        (
            "-milk",
            "a search needs a word that is there, not only words that are not",
            "see: segue session search --help",
        ),
        (
            &long,
            "a search takes at most 500 characters, not 501",
            "see: segue session search --help",
        ),
    ] {
        let output = world.segue(["session", "search", "--json", "--", words]);
        let told: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
        assert_eq!(
            (output.code, &told["error"]["message"]),
            (Some(2), &error.into()),
            "{output}"
        );
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert_eq!(lines[0], format!("error: {error}"), "{output}");
        assert!(lines[1].starts_with(&format!("hint: {hint}")), "{output}");
    }
    assert_eq!(world.segue(["session", "search"]).code, Some(2));
    assert_eq!(
        world
            .segue(["session", "search", "x", "--sort", "worst"])
            .code,
        Some(2)
    );
    // What was found before is still what numbers mean.
    let shown = world.segue(["session", "show", "2", "--turn", "2"]);
    assert!(shown.stdout.contains("Milk is to be bought."), "{shown}");
}

/// What was said once is found once, in however many sessions it is.
#[test]
fn nothing_is_found_twice() {
    let world = world();
    let id = chat(&world, &["rehearse: say once"]);
    let fork = world.json(["session", "fork", "--json", &id]);
    let fork = fork["id"].as_str().or(fork["session_id"].as_str()).unwrap();
    chat(&world, &["--resume", fork, "another time"]);
    assert_eq!(found(&world, &["once"]).len(), 1);
    let fresh = world.json(["session", "search", "--json", "another"]);
    assert_eq!(
        (&fresh[0]["id"], &fresh[0]["turn"]),
        (&fork.into(), &2.into())
    );
    // An adopted session is segue's own, and no longer only its agent's.
    put(&world, ID, "project");
    assert_eq!(found(&world, &["milk"]), ["claude"]);
    let adopted = world.json(["session", "adopt", "--json", ID]);
    let hits = world.json(["session", "search", "--json", "milk", "--each", "9"]);
    assert_eq!(hits.as_array().unwrap().len(), 1, "{hits:#}");
    assert_eq!(hits[0]["native_session_id"], ID);
    assert!(hits[0]["id"].is_string(), "{hits:#} {adopted:#}");
    // What is deleted is not found, though it was a moment ago.
    let _ = world.segue(["session", "delete", "--yes", &id]);
    let _ = world.segue(["session", "delete", "--yes", fork]);
    assert_eq!(found(&world, &["once"]), Vec::<String>::new());
}

/// What was said in the agent's own program after segue took the session over is found where it is.
#[test]
fn what_was_said_elsewhere_since_is_found_there() {
    let world = world();
    let mut kept = Kept::new(&world, Agent::Claude, 7, &world.project());
    kept.add();
    let native = kept_id(&world);
    let _ = world.json(["session", "adopt", "--json", &native]);
    let hits = |words: &str| {
        let hits = world.json(["session", "search", "--json", words]);
        let hits = hits.as_array().unwrap().clone();
        let one = |hit: &Value| (hit["id"].is_string(), hit["turn"].clone());
        hits.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(hits("w7x1"), [(true, 1.into())]);
    kept.add();
    assert_eq!(hits("w7x2"), [(false, 2.into())]);
    assert_eq!(hits("w7x1"), [(true, 1.into())], "and nothing twice");
}

/// The only native session there is.
fn kept_id(world: &World) -> String {
    let listed = world.json(["session", "list", "--all", "--json"]);
    listed[0]["native_session_id"].as_str().unwrap().to_owned()
}

/// Pieces show what was found, however it is written.
#[test]
fn what_is_found_is_shown() {
    let (world, _) = with_sessions();
    for (typed, shown) in [("grun", "grün"), ("naive", "naïve"), ("函", "函")] {
        let hits = world.json(["session", "search", "--json", typed]);
        let snippet = hits[0]["snippet"].as_str().unwrap();
        assert!(snippet.contains(shown), "{typed}: {snippet}");
    }
}

#[test]
fn one_turn_is_shown() {
    let (world, own) = with_sessions();
    chat(&world, &["--resume", &own, "and butter?"]);
    for (id, turn, shown, hidden) in [
        (own.as_str(), "1", "no milk today", "and butter?"),
        (own.as_str(), "2", "and butter?", "── turn 1"),
        (ID, "2", "Milk is to be bought.", "And in the cellar?"),
        (ID, "3", "And in the cellar?", "Milk is to be bought."),
        (
            "codex:0b5e4c3a-1111-4222-8333-000000000003",
            "2",
            "answered a3x2",
            "answered a3x3",
        ),
    ] {
        let output = world.segue(["session", "show", id, "--turn", turn]);
        assert!(output.stdout.contains(shown), "{output}");
        assert!(!output.stdout.contains(hidden), "{output}");
        let json = world.json(["session", "show", "--json", id, "--turn", turn]);
        let turns = json["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0]["n"].to_string(), turn);
    }
    for (id, turn, last) in [
        (own.as_str(), "3", 2),
        (own.as_str(), "0", 2),
        (ID, "4", 3),
        (ID, "-1", 3),
    ] {
        let output = world.segue(["session", "show", id, "--turn", turn]);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(2), ""),
            "{output}"
        );
        let error = format!("error: there is no turn {turn}: they are numbered 1 to {last}\n");
        assert_eq!(output.stderr, error);
    }
    assert_eq!(
        world.segue(["session", "show", ID, "--turn", "x"]).code,
        Some(2)
    );
    assert_eq!(
        world
            .segue(["session", "show", ID, "--turn", "1", "--last", "1"])
            .code,
        Some(2)
    );
}
