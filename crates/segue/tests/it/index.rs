//! The index under fire: many at once, killed, written to while it is read, and in homes that let nobody write.
//!
//! Whatever happened to it, it must end up equal to one that is built anew ([`assert_equals_rebuilt_index`]).

mod damage;
mod command;
mod home;
mod kills;
mod concurrency;
mod concurrent_agents;

use segue_testkit::TestHome;
use serde_json::{Value, json};

pub(crate) use home::{NativeSessionFile, NativeSessionSet, SessionFileAgent};

/// A number from the environment, for campaigns that are longer or other than usual.
fn read_env_number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A small source of chance that can be repeated.
struct IndexTestRng(u64);

impl IndexTestRng {
    fn next_below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Everything that the index tells: all sessions with their counts, and every turn by each of its words' roles.
fn index_contents(home: &TestHome) -> Value {
    let search = |query: &str| {
        let args = [
            "session", "search", "--json", "--limit", "0", "--each", "9999", query,
        ];
        let mut hits = home.run_segue_json(args).as_array().unwrap().clone();
        // Sessions of the same time come in the order in which they were taken.
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
        "words": search("w1x* -nowhere"),
    })
}

/// The figures of a refresh.
fn refresh_index(home: &TestHome) -> Value {
    home.run_segue_json(["index", "refresh", "--json"])
}

/// The index holds what one that is built anew holds, and there is nothing left to do for it.
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

/// Like `assert_eq`, but tells only what differs: nobody reads a thousand turns.
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
