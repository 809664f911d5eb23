//! `segue session tag`, and lists by tag.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use segue_testkit::World;
use serde_json::json;

use crate::native::{self, ID};
use crate::world;

fn chat(world: &World, prompt: &str) -> String {
    let said = world.json(["chat", "--json", prompt]);
    said["session_id"].as_str().unwrap().to_owned()
}

/// The titles of the sessions that a list with these options shows.
fn titles(world: &World, args: &[&str]) -> Vec<String> {
    let all = [&["session", "list", "--json"], args].concat();
    let listed = world.json(all);
    let listed = listed.as_array().unwrap().clone();
    let title = |entry: &serde_json::Value| entry["title"].as_str().unwrap().to_owned();
    listed.iter().map(title).collect()
}

#[test]
fn tags_are_put_on_shown_and_taken_off() {
    let world = world();
    let id = chat(&world, "hello");
    let tail = &id[16..];
    assert_snapshot!(world.segue(["session", "tag", tail]), @"
    [SESSION] has no tags
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "tag", tail, "Urgent", "auth", "urgent"]), @"
    [SESSION]: auth urgent
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "tag", tail, "done", "--remove", "URGENT", "-r", "other"]), @"
    [SESSION]: auth done
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "list"]), @"
    #  ID                    AGENT      TURNS  UPDATED   TAGS       TITLE
    1  [SESSION]  rehearsal  1      just now  auth done  hello
    --- exit 0
    ");
    let info = world.segue(["session", "info", tail]).stdout;
    assert!(info.contains("\ntags      auth done\n"), "{info}");
    let shown = world.json(["session", "info", "--json", tail]);
    assert_eq!(shown["session"]["tags"], json!(["auth", "done"]));
    let tagged = world.json(["session", "tag", "--json", tail, "--remove", "done"]);
    assert_eq!(tagged["tags"], json!(["auth"]));
    assert_eq!(tagged["updated_at"], shown["session"]["updated_at"]);
}

#[test]
fn lists_are_narrowed_by_tags() {
    let world = world();
    let [one, two, _] = ["one", "two", "three"].map(|prompt| chat(&world, prompt));
    let _ = world.segue(["session", "tag", &one, "a", "b"]);
    let _ = world.segue(["session", "tag", &two, "a"]);
    assert_eq!(titles(&world, &["--tag", "a"]), ["two", "one"]);
    assert_eq!(titles(&world, &["--tag", "A", "-t", "b"]), ["one"]);
    assert_eq!(titles(&world, &["--tag", "c"]), [""; 0]);
    assert_snapshot!(world.segue(["session", "list", "--tag", "c"]), @"
    --- stderr
    no sessions match
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "tag", "--list"]), @"
    SESSIONS  TAG
    2         a
    1         b
    --- exit 0
    ");
    let counted = json!([{"tag": "a", "sessions": 2}, {"tag": "b", "sessions": 1}]);
    assert_eq!(world.json(["session", "tag", "--list", "--json"]), counted);

    let fork = world.json(["session", "fork", "--json", &one]);
    assert_eq!(fork["tags"], json!(["a", "b"]), "a fork takes them over");
    let _ = world.segue(["session", "delete", "--yes", &one]);
    let _ = world.segue(["session", "delete", "--yes", &two]);
    let counted = json!([{"tag": "a", "sessions": 1}, {"tag": "b", "sessions": 1}]);
    assert_eq!(world.json(["session", "tag", "--list", "--json"]), counted);
}

#[test]
fn what_is_no_tag_changes_nothing() {
    let world = world();
    assert_snapshot!(world.segue(["session", "tag", "--list"]), @"
    --- stderr
    no session has a tag; put one on with: segue session tag ID TAG
    --- exit 0
    ");
    let id = chat(&world, "hello");
    let long = "x".repeat(51);
    for bad in ["two words", "a,b", "a:b", "", &long, "a\u{7}"] {
        let put_on = world.segue(["session", "tag", &id, "good", bad]);
        assert_eq!(put_on.code, Some(2), "{bad:?}: {put_on}");
        let listed = world.segue(["session", "list", "--tag", bad]);
        assert_eq!(listed.code, Some(2), "{bad:?}: {listed}");
    }
    for args in [
        vec!["session", "tag"],
        vec!["session", "tag", "--list", &id],
        vec!["session", "tag", &id, "--", "-x"],
    ] {
        assert_eq!(world.segue(&args).code, Some(2), "{args:?}");
    }
    assert_snapshot!(world.segue(["session", "tag", &id, "good", "bad", "-r", "Bad"]), @"
    --- stderr
    error: bad is to be put on and taken off at once
    --- exit 2
    ");
    assert_eq!(
        world.json(["session", "tag", "--list", "--json"]),
        json!([])
    );
}

#[test]
fn naming_tagging_forking_or_reverting_a_native_session_takes_it_over_once() {
    let commands: [&[&str]; 5] = [
        &["adopt", ID],
        &["rename", ID, "milk"],
        &["tag", ID, "shop"],
        &["fork", ID, "--at", "2"],
        &["revert", ID, "--to", "1"],
    ];
    for command in commands {
        let world = world();
        native::put(&world, ID, "project");
        let first = world.segue([&["session"], command].concat());
        assert_eq!(first.code, Some(0), "{command:?}: {first}");
        let said = format!("took claude:{ID} over as session [SESSION], with its 3 turns");
        assert_eq!(
            format!("{}{}", first.stdout, first.stderr)
                .matches(&said)
                .count(),
            1,
            "{command:?}: {first}"
        );
        let again = world.segue(["session", "tag", ID, "again"]);
        assert_eq!(
            (again.code, again.stderr.as_str()),
            (Some(0), ""),
            "{again}"
        );
        let listed = world.json(["session", "list", "--json"]);
        let listed = listed.as_array().unwrap();
        let carriers: Vec<_> = listed
            .iter()
            .filter(|entry| entry["native_session_id"] == ID)
            .collect();
        assert_eq!(carriers.len(), 1, "{command:?}: {listed:#?}");
        assert_eq!(carriers[0]["provider"], "claude");
        if ["adopt", "tag", "fork"].contains(&command[0]) {
            let when = &carriers[0]["updated_at"];
            assert_eq!(when, "2026-01-02T03:05:01Z", "it is no newer: {command:?}");
        }
        assert_eq!(
            carriers[0]["tags"].as_array().unwrap().first(),
            Some(&json!("again"))
        );
        let info = world.segue(["session", "info", ID]).stdout;
        assert!(info.contains(&said), "the log has it: {info}");
    }
}

#[test]
fn adopting_is_said_and_done_once() {
    let world = world();
    native::put(&world, ID, "project");
    assert_snapshot!(world.segue(["session", "adopt", "0b5e"]), @"
    took claude:0b5e4c3a-1111-4222-8333-444455556666 over as session [SESSION], with its 3 turns
    --- exit 0
    ");
    for name in ["0b5e", ID, "latest"] {
        let again = world.segue(["session", "adopt", name]);
        let expected = "already segue's: session [SESSION] (Shopping)\n--- exit 0";
        assert_eq!(again.to_string(), expected, "{name}");
    }
    let shown = world.json(["session", "show", "--json", ID]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 3);
}

#[test]
fn bad_input_takes_nothing_over() {
    let world = world();
    native::put(&world, ID, "project");
    let commands: [&[&str]; 7] = [
        &["rename", ID, " "],
        &["tag", ID, "two words"],
        &["tag", ID],
        &["fork", ID, "--at", "4"],
        &["fork", ID, "--at", "0"],
        &["revert", ID, "--to", "9"],
        &["undo", ID],
    ];
    for command in commands {
        let output = world.segue([&["session"], command].concat());
        assert_ne!(output.code, Some(0), "{command:?}: {output}");
        let listed = world.json(["session", "list", "--json"]);
        assert_eq!(listed[0]["id"], json!(null), "{command:?}: {output}");
    }
}

#[test]
fn a_native_session_is_named_in_the_middle_of_a_conversation() {
    let world = world();
    native::put(&world, ID, "project");
    let claude = world.path().join("bin/claude");
    fs::write(&claude, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let typed = format!("/resume {ID}\n/rename milk\n/rename bread\n");
    let output = world.segue_with_input(["repl"], typed.as_bytes());
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(output.stderr.matches("took claude:").count(), 1, "{output}");
    let listed = world.json(["session", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["title"], "bread");
    assert_eq!(listed[0]["native_session_id"], ID);
}
