//! `segue session tag`, and lists by tag.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use segue_testkit::TestHome;
use serde_json::json;

use crate::native::{self, NATIVE_ID};
use crate::new_test_home;

fn run_chat(home: &TestHome, prompt: &str) -> String {
    let turn = home.run_segue_json(["chat", "--json", prompt]);
    turn["session_id"].as_str().unwrap().to_owned()
}

/// Returns the titles of the sessions that `session list` with these options shows.
fn list_titles(home: &TestHome, args: &[&str]) -> Vec<String> {
    let all = [&["session", "list", "--json"], args].concat();
    let listed = home.run_segue_json(all);
    let listed = listed.as_array().unwrap().clone();
    let title = |entry: &serde_json::Value| entry["title"].as_str().unwrap().to_owned();
    listed.iter().map(title).collect()
}

#[test]
fn tags_are_added_shown_and_removed() {
    let home = new_test_home();
    let id = run_chat(&home, "hello");
    let tail = &id[16..];
    assert_snapshot!(home.run_segue(["session", "tag", tail]), @"
    [SESSION] has no tags
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "tag", tail, "Urgent", "auth", "urgent"]), @"
    [SESSION] has the tags: auth urgent
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "tag", tail, "done", "--remove", "URGENT", "-r", "other"]), @"
    [SESSION] has the tags: auth done
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "list"]), @"
    #  ID                    AGENT      TURNS  UPDATED   TAGS       TITLE
    1  [SESSION]  rehearsal  1      just now  auth done  hello
    --- exit 0
    ");
    let info = home.run_segue(["session", "info", tail]).stdout;
    assert!(info.contains("\ntags      auth done\n"), "{info}");
    let info_json = home.run_segue_json(["session", "info", "--json", tail]);
    assert_eq!(info_json["session"]["tags"], json!(["auth", "done"]));
    let tagged = home.run_segue_json(["session", "tag", "--json", tail, "--remove", "done"]);
    assert_eq!(tagged["tags"], json!(["auth"]));
    assert_eq!(tagged["updated_at"], info_json["session"]["updated_at"]);
}

#[test]
fn lists_are_filtered_by_tags() {
    let home = new_test_home();
    let [first, second, _] = ["one", "two", "three"].map(|prompt| run_chat(&home, prompt));
    let _ = home.run_segue(["session", "tag", &first, "a", "b"]);
    let _ = home.run_segue(["session", "tag", &second, "a"]);
    assert_eq!(list_titles(&home, &["--tag", "a"]), ["two", "one"]);
    assert_eq!(list_titles(&home, &["--tag", "A", "-t", "b"]), ["one"]);
    assert_eq!(list_titles(&home, &["--tag", "c"]), [""; 0]);
    assert_snapshot!(home.run_segue(["session", "list", "--tag", "c"]), @"
    --- stderr
    no matching sessions
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "tag", "--list"]), @"
    SESSIONS  TAG
    2         a
    1         b
    --- exit 0
    ");
    let tag_counts = json!([{"tag": "a", "sessions": 2}, {"tag": "b", "sessions": 1}]);
    assert_eq!(
        home.run_segue_json(["session", "tag", "--list", "--json"]),
        tag_counts
    );

    let fork = home.run_segue_json(["session", "fork", "--json", &first]);
    assert_eq!(
        fork["tags"],
        json!(["a", "b"]),
        "the fork does not have the tags"
    );
    let _ = home.run_segue(["session", "delete", "--yes", &first]);
    let _ = home.run_segue(["session", "delete", "--yes", &second]);
    let tag_counts = json!([{"tag": "a", "sessions": 1}, {"tag": "b", "sessions": 1}]);
    assert_eq!(
        home.run_segue_json(["session", "tag", "--list", "--json"]),
        tag_counts
    );
}

#[test]
fn an_invalid_tag_is_refused_without_changes() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["session", "tag", "--list"]), @"
    --- stderr
    no tags in use; add one with `segue session tag ID TAG`
    --- exit 0
    ");
    let id = run_chat(&home, "hello");
    let long = "x".repeat(51);
    for bad in ["two words", "a,b", "a:b", "", &long, "a\u{7}"] {
        let tagged = home.run_segue(["session", "tag", &id, "good", bad]);
        assert_eq!(tagged.code, Some(2), "{bad:?}: {tagged}");
        let listed = home.run_segue(["session", "list", "--tag", bad]);
        assert_eq!(listed.code, Some(2), "{bad:?}: {listed}");
    }
    for args in [
        vec!["session", "tag"],
        vec!["session", "tag", "--list", &id],
        vec!["session", "tag", &id, "--", "-x"],
    ] {
        assert_eq!(home.run_segue(&args).code, Some(2), "{args:?}");
    }
    assert_snapshot!(home.run_segue(["session", "tag", &id, "good", "bad", "-r", "Bad"]), @"
    --- stderr
    error: cannot both add and remove tag `bad`
    --- exit 2
    ");
    assert_eq!(
        home.run_segue_json(["session", "tag", "--list", "--json"]),
        json!([])
    );
}

#[test]
fn renaming_tagging_forking_or_reverting_a_native_session_adopts_it_once() {
    let commands: [&[&str]; 5] = [
        &["adopt", NATIVE_ID],
        &["rename", NATIVE_ID, "milk"],
        &["tag", NATIVE_ID, "shop"],
        &["fork", NATIVE_ID, "--at", "2"],
        &["revert", NATIVE_ID, "--to", "1"],
    ];
    for command in commands {
        let home = new_test_home();
        native::write_claude_session(&home, NATIVE_ID, "project");
        let first = home.run_segue([&["session"], command].concat());
        assert_eq!(first.code, Some(0), "{command:?}: {first}");
        let notice = format!("adopted claude:{NATIVE_ID} as session [SESSION], with 3 turns");
        assert_eq!(
            format!("{}{}", first.stdout, first.stderr)
                .matches(&notice)
                .count(),
            1,
            "{command:?}: {first}"
        );
        let second = home.run_segue(["session", "tag", NATIVE_ID, "again"]);
        assert_eq!(
            (second.code, second.stderr.as_str()),
            (Some(0), ""),
            "{second}"
        );
        let listed = home.run_segue_json(["session", "list", "--json"]);
        let listed = listed.as_array().unwrap();
        let attached_sessions: Vec<_> = listed
            .iter()
            .filter(|entry| entry["native_session_id"] == NATIVE_ID)
            .collect();
        assert_eq!(attached_sessions.len(), 1, "{command:?}: {listed:#?}");
        assert_eq!(attached_sessions[0]["provider"], "claude");
        if ["adopt", "tag", "fork"].contains(&command[0]) {
            let updated_at = &attached_sessions[0]["updated_at"];
            assert_eq!(
                updated_at, "2026-01-02T03:05:01Z",
                "the update time was changed: {command:?}"
            );
        }
        assert_eq!(
            attached_sessions[0]["tags"].as_array().unwrap().first(),
            Some(&json!("again"))
        );
        let info = home.run_segue(["session", "info", NATIVE_ID]).stdout;
        assert!(
            info.contains(&notice),
            "the decision is not in the log: {info}"
        );
    }
}

#[test]
fn an_adoption_is_reported_and_done_once() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    assert_snapshot!(home.run_segue(["session", "adopt", "0b5e"]), @"
    adopted claude:0b5e4c3a-1111-4222-8333-444455556666 as session [SESSION], with 3 turns
    --- exit 0
    ");
    for name in ["0b5e", NATIVE_ID, "latest"] {
        let second = home.run_segue(["session", "adopt", name]);
        let expected = "already a segue session: [SESSION] (Shopping)\n--- exit 0";
        assert_eq!(second.to_string(), expected, "{name}");
    }
    let transcript = home.run_segue_json(["session", "show", "--json", NATIVE_ID]);
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 3);
}

#[test]
fn invalid_input_adopts_no_session() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    let commands: [&[&str]; 7] = [
        &["rename", NATIVE_ID, " "],
        &["tag", NATIVE_ID, "two words"],
        &["tag", NATIVE_ID],
        &["fork", NATIVE_ID, "--at", "4"],
        &["fork", NATIVE_ID, "--at", "0"],
        &["revert", NATIVE_ID, "--to", "9"],
        &["undo", NATIVE_ID],
    ];
    for command in commands {
        let output = home.run_segue([&["session"], command].concat());
        assert_ne!(output.code, Some(0), "{command:?}: {output}");
        let listed = home.run_segue_json(["session", "list", "--json"]);
        assert_eq!(listed[0]["id"], json!(null), "{command:?}: {output}");
    }
}

#[test]
fn a_native_session_is_renamed_from_the_repl() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    let claude = home.path().join("bin/claude");
    fs::write(&claude, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let typed = format!("/resume {NATIVE_ID}\n/rename milk\n/rename bread\n");
    let output = home.run_segue_with_input(["repl"], typed.as_bytes());
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(
        output.stderr.matches("adopted claude:").count(),
        1,
        "{output}"
    );
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["title"], "bread");
    assert_eq!(listed[0]["native_session_id"], NATIVE_ID);
}
