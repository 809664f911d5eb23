//! Fifty processes come at once, and there is one index.

use std::sync::Barrier;

use segue_testkit::World;
use serde_json::Value;

use super::{Home, assert_as_if_built_anew, picture, refresh};
use crate::world;

const PROCESSES: usize = 50;
const SESSIONS: usize = 200;

/// What the process of this number does.
fn args(n: usize) -> &'static [&'static str] {
    match n % 5 {
        0 | 1 => &["index", "refresh", "--json"],
        2 => &["session", "list", "--all", "--json", "--limit", "0"],
        3 => &["session", "search", "--json", "--limit", "0", "asked"],
        _ => &["index", "status", "--json"],
    }
}

#[test]
fn fifty_processes_make_one_index() {
    let world = world();
    let home = Home::write(&world, SESSIONS);
    let _ = world.json(["chat", "--json", "asked by nobody"]);
    let start = Barrier::new(PROCESSES);
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let run = |n: usize| {
            let (world, start) = (&world, &start);
            scope.spawn(move || {
                start.wait();
                (n, world.segue(args(n)))
            })
        };
        let threads: Vec<_> = (0..PROCESSES).map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut read = 0;
    for (n, output) in outputs {
        assert_eq!(output.code, Some(0), "{:?}: {output}", args(n));
        assert!(!output.stderr.contains("without the index"), "{output}");
        let told: Value = serde_json::from_str(&output.raw_stdout).unwrap();
        match args(n)[1] {
            "refresh" => read += told["read"].as_u64().unwrap(),
            "list" => assert_eq!(told.as_array().unwrap().len(), SESSIONS + 1, "{output}"),
            _ => {}
        }
    }
    // Whoever came first read everything; nobody read anything again.
    assert!(read <= SESSIONS as u64, "{read}");
    let turns = picture(&world)["prompts"].as_array().unwrap().len();
    assert_eq!(turns, home.turns() + 1);
    assert_as_if_built_anew(&world);
}

/// A rebuild takes the file away under everybody's hands: a list is whole all the same, and a search says that it has
/// nothing to ask just now.
#[test]
fn rebuilding_disturbs_nobody() {
    let world = world();
    let _ = Home::write(&world, 60);
    let _ = refresh(&world);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let world = &world;
            scope.spawn(move || (0..4).for_each(|round| amid_rebuilds(world, n + round)));
        }
    });
    assert_as_if_built_anew(&world);
}

fn amid_rebuilds(world: &World, n: usize) {
    let args: &[&str] = match n % 4 {
        0 => &["index", "rebuild", "--json"],
        1 => &["index", "refresh", "--json"],
        2 => &["session", "list", "--all", "--json", "--limit", "0"],
        _ => &["session", "search", "--json", "--limit", "0", "asked"],
    };
    let output = world.segue(args);
    if args[1] == "search" && output.code == Some(1) {
        assert!(output.stderr.contains("there is no index yet"), "{output}");
        return;
    }
    assert_eq!(output.code, Some(0), "{args:?}: {output}");
    let told: Value = serde_json::from_str(&output.raw_stdout).unwrap();
    if args[1] == "list" {
        assert_eq!(told.as_array().unwrap().len(), 60, "{output}");
    }
}
