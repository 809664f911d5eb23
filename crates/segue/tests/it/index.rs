//! The index under fire: many at once, killed, written to while it is read, and in homes that let nobody write.
//!
//! Whatever happened to it, it must end up equal to one that is built anew ([`assert_as_if_built_anew`]).

mod broken;
mod command;
mod home;
mod kills;
mod many;
mod writing;

use segue_testkit::World;
use serde_json::{Value, json};

pub(crate) use home::{Agent, Home, Kept};

/// A number from the environment, for campaigns that are longer or other than usual.
fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A small source of chance that can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Everything that the index tells: all sessions with their counts, and every turn by each of its words' roles.
fn picture(world: &World) -> Value {
    let search = |words: &str| {
        let args = [
            "session", "search", "--json", "--limit", "0", "--each", "9999", words,
        ];
        let mut hits = world.json(args).as_array().unwrap().clone();
        // Sessions of the same time come in the order in which they were taken.
        hits.sort_by_key(ToString::to_string);
        hits
    };
    let list = world.json(["session", "list", "--all", "--json", "--limit", "0"]);
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
fn refresh(world: &World) -> Value {
    world.json(["index", "refresh", "--json"])
}

/// The index holds what one that is built anew holds, and there is nothing left to do for it.
fn assert_as_if_built_anew(world: &World) {
    let work = refresh(world);
    assert_eq!(work["unreadable"], json!([]), "{work:#}");
    let again = refresh(world);
    let work = |field: &str| again[field].as_u64().unwrap();
    assert_eq!(
        (work("read"), work("bytes_read"), work("rows_written")),
        (0, 0, 0)
    );
    let grown = picture(world);
    let rebuilt = world.json(["index", "rebuild", "--json"]);
    assert_eq!(rebuilt["read"], rebuilt["places"], "{rebuilt:#}");
    assert_same(&grown, &picture(world));
}

/// Like `assert_eq`, but tells only what differs: nobody reads a thousand turns.
fn assert_same(left: &Value, right: &Value) {
    for (name, left) in left.as_object().unwrap() {
        let (left, right) = (left.as_array().unwrap(), right[name].as_array().unwrap());
        let lacks = |these: &[Value], those: &[Value]| {
            let mut missing: Vec<Value> = these.to_vec();
            missing.retain(|entry| !those.contains(entry));
            missing.truncate(3);
            json!(missing)
        };
        assert!(
            left == right,
            "{name}: {} and {}; only left: {:#}; only right: {:#}",
            left.len(),
            right.len(),
            lacks(left, right),
            lacks(right, left)
        );
    }
}
