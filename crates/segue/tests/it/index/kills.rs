//! The crash campaign of the index: a refresh is killed without warning, over and over, while sessions grow.
//!
//! After each kill lists and searches answer with what is there, and in the end nothing is missing. 40 kills by
//! default; `SEGUE_INDEX_KILLS` makes it a longer campaign, `SEGUE_SEED` repeats one.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use segue_testkit::World;

use super::{Dice, Home, assert_as_if_built_anew, picture, setting};
use crate::world;

const SESSIONS: usize = 60;

fn remove_index(world: &World) {
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        let _ = fs::remove_file(world.home().join(name));
    }
}

/// Starts a refresh and kills it after a while; whether it was still at work.
fn attack(world: &World, after: Duration) -> bool {
    let mut command = world.command(["index", "refresh"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(after);
    // It may have ended by itself just now.
    let _ = child.kill();
    child.wait().unwrap().code().is_none()
}

/// Both answer, whatever the kill left: a list with every session there is, a search with some of the turns.
fn check(world: &World) {
    let list = world.segue([
        "session",
        "list",
        "--all",
        "--json",
        "--limit",
        "0",
        "--no-refresh",
    ]);
    assert_eq!(list.code, Some(0), "{list}");
    let rows: serde_json::Value = serde_json::from_str(&list.raw_stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), SESSIONS + 1, "{list}");
    assert_eq!(list.stderr, "", "{list}");
    let search = world.segue(["session", "search", "--no-refresh", "--json", "asked"]);
    match search.code {
        Some(0) => assert!(search.stdout.starts_with('['), "{search}"),
        // Killed before there was an index.
        _ => assert!(search.stderr.contains("there is no index yet"), "{search}"),
    }
}

#[test]
fn a_killed_refresh_loses_nothing() {
    let world = world();
    let mut home = Home::write(&world, SESSIONS);
    let _ = world.json(["chat", "--json", "asked by nobody"]);
    let kills = setting("SEGUE_INDEX_KILLS", 40);
    let seed = setting("SEGUE_SEED", 7);
    let mut dice = Dice(seed);
    // How long a cold build takes here tells when to kill.
    let since = Instant::now();
    let _ = super::refresh(&world);
    let cold = u64::try_from(since.elapsed().as_micros()).unwrap();
    let mut hit = [0, 0];
    for n in 0..kills {
        let anew = n % 3 == 0;
        if anew {
            remove_index(&world);
        }
        for _ in 0..3 {
            let which = usize::try_from(dice.below(SESSIONS as u64)).unwrap();
            home.sessions[which].add();
        }
        let after = Duration::from_micros(dice.below(cold));
        hit[usize::from(anew)] += u64::from(attack(&world, after));
        check(&world);
        if n % 10 == 9 {
            let found = picture(&world)["prompts"].as_array().unwrap().len();
            assert_eq!(found, home.turns() + 1, "after {n} kills, seed {seed}");
        }
    }
    let [grown, anew] = hit;
    crate::say(&format!(
        "{kills} kills of a refresh, seed {seed}: {anew} while the index was made, {grown} while it grew, the others too late\n"
    ));
    assert!(anew > 0 && grown > 0, "{hit:?}");
    assert_as_if_built_anew(&world);
}
