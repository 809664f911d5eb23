//! Fifty processes come at once, and there is one index.

use std::sync::Barrier;

use super::{Home, assert_as_if_built_anew, picture};
use crate::world;

const PROCESSES: usize = 50;
const SESSIONS: usize = 200;

/// What the process of this number does; `rebuild` is what the others have to bear.
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
        let told: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
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

/// A rebuild takes the file away under everybody's hands.
#[test]
fn rebuilding_disturbs_nobody() {
    let world = world();
    let _ = Home::write(&world, 60);
    let _ = super::refresh(&world);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..4 {
                    let args: &[&str] = match (n + round) % 4 {
                        0 => &["index", "rebuild", "--json"],
                        1 => &["index", "refresh", "--json"],
                        2 => &["session", "list", "--all", "--json", "--limit", "0"],
                        _ => &["session", "search", "--json", "--limit", "0", "asked"],
                    };
                    let output = world.segue(args);
                    assert_eq!(output.code, Some(0), "{args:?}: {output}");
                    if args[1] == "list" {
                        let told: serde_json::Value =
                            serde_json::from_str(&output.raw_stdout).unwrap();
                        assert_eq!(told.as_array().unwrap().len(), 60, "{output}");
                    }
                }
            });
        }
    });
    assert_as_if_built_anew(&world);
}
