//! `segue events`: the change feed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;

use crate::new_test_home;

#[test]
fn events_continue_after_a_cursor() {
    let home = new_test_home();
    let chat = home.run_segue_json(["chat", "-p", "rehearsal", "--json", "one"]);
    let lines = |args: &[&str]| -> Vec<Value> {
        let output = home.run_segue(args);
        let lines = output.raw_stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let all = lines(&["events"]);
    let names: Vec<_> = all
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"session_created"));
    assert!(
        all.iter()
            .all(|line| line["session_id"] == chat["session_id"])
    );
    assert!(
        names.contains(&"turn_started") && names.contains(&"message_saved"),
        "{names:?}"
    );
    assert_eq!(lines(&["events", "--since", "start"]), all);
    for (n, line) in all.iter().enumerate() {
        let cursor = line["cursor"].as_str().unwrap();
        assert_eq!(lines(&["events", "--since", cursor]), all[n + 1..]);
    }
    assert_snapshot!(home.run_segue(["events", "--since", "7"]), @r#"
    --- stderr
    error: cannot use --since: "7" is not a cursor of a change feed, which looks like c1-0k3f9v7m2q8xt
    --- exit 2
    "#);
}

#[test]
fn a_follower_receives_the_changes_of_another_process() {
    let home = new_test_home();
    let mut follow = home.segue_command(["events", "--follow", "--since", "start"]);
    let mut follower = follow.stdout(Stdio::piped()).spawn().unwrap();
    let chat = home.run_segue_json(["chat", "-p", "rehearsal", "--json", "one"]);
    let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut events = events.inspect(|event| assert_eq!(event["session_id"], chat["session_id"]));
    assert!(events.any(|event| event["event"] == "turn_ended"));
    follower.kill().unwrap();
    follower.wait().unwrap();
}
