//! The index under stress: concurrent processes, kills, sessions that change while they are read, and read-only homes.
//!
//! In each case it must end up equal to a rebuilt index ([`assert_equals_rebuilt_index`]).

mod command;
mod concurrency;
mod concurrent_agents;
mod damage;
mod home;
mod kills;

use segue_testkit::TestHome;
use serde_json::{Value, json};

pub(crate) use home::{NativeSessionFile, NativeSessionSet, SessionFileAgent};

/// Returns the contents of the index: all sessions with their counts, and the turns that searches for each role find.
fn index_contents(home: &TestHome) -> Value {
    let search = |query: &str| {
        let args = [
            "session", "search", "--json", "--limit", "0", "--each", "9999", query,
        ];
        let mut hits = home.run_segue_json(args).as_array().unwrap().clone();
        // The order of sessions with equal times depends on the order of indexing.
        hits.sort_by_key(ToString::to_string);
        hits
    };
    let list = home.run_segue_json(["session", "list", "--all", "--json", "--limit", "0"]);
    let mut list = list.as_array().unwrap().clone();
    list.sort_by_key(ToString::to_string);
    json!({
        "list": list,
        "prompts": search("role:user asked"),
        "answers": search("role:assistant answered"),
        "output": search("role:tool output*"),
        "words": search("w1x* -absent"),
    })
}

/// Refreshes the index and returns the statistics.
fn refresh_index(home: &TestHome) -> Value {
    home.run_segue_json(["index", "refresh", "--json"])
}

/// Checks that the index equals a rebuilt one and that a second refresh has no work.
fn assert_equals_rebuilt_index(home: &TestHome) {
    let stats = refresh_index(home);
    assert_eq!(stats["unreadable"], json!([]), "{stats:#}");
    let second_stats = refresh_index(home);
    let count = |field: &str| second_stats[field].as_u64().unwrap();
    assert_eq!(
        (count("read"), count("bytes_read"), count("rows_written")),
        (0, 0, 0)
    );
    let incremental = index_contents(home);
    let rebuilt = home.run_segue_json(["index", "rebuild", "--json"]);
    assert_eq!(rebuilt["read"], rebuilt["places"], "{rebuilt:#}");
    assert_same_contents(&incremental, &index_contents(home));
}

/// Compares like `assert_eq`, but prints only the differences, because the contents are long.
fn assert_same_contents(left: &Value, right: &Value) {
    for (name, left) in left.as_object().unwrap() {
        let (left, right) = (left.as_array().unwrap(), right[name].as_array().unwrap());
        let entries_only_in = |entries: &[Value], other_entries: &[Value]| {
            let mut missing: Vec<Value> = entries.to_vec();
            missing.retain(|entry| !other_entries.contains(entry));
            missing.truncate(3);
            json!(missing)
        };
        assert!(
            left == right,
            "{name}: {} and {}; only left: {:#}; only right: {:#}",
            left.len(),
            right.len(),
            entries_only_in(left, right),
            entries_only_in(right, left)
        );
    }
}
