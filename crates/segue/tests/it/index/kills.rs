//! The crash campaign of the index: a refresh is killed without warning, over and over, while sessions grow.
//!
//! After each kill lists and searches answer with what is there, and in the end nothing is missing. 40 kills by
//! default; `SEGUE_INDEX_KILLS` makes it a longer campaign, `SEGUE_SEED` repeats one.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use segue_testkit::TestHome;

use super::{
    IndexTestRng, NativeSessionSet, assert_equals_rebuilt_index, index_contents, read_env_number,
};
use crate::new_test_home;

const SESSION_COUNT: usize = 60;

fn remove_index(home: &TestHome) {
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        let _ = fs::remove_file(home.segue_home().join(name));
    }
}

/// Starts a refresh and kills it after a while; whether it was still at work.
fn kill_refresh_after(home: &TestHome, delay: Duration) -> bool {
    let mut command = home.segue_command(["index", "refresh"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(delay);
    // It may have ended by itself just now.
    let _ = child.kill();
    child.wait().unwrap().code().is_none()
}

/// Both answer, whatever the kill left: a list with every session there is, a search with some of the turns.
fn assert_list_and_search_answer(home: &TestHome) {
    let list = home.run_segue([
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
    assert_eq!(rows.as_array().unwrap().len(), SESSION_COUNT + 1, "{list}");
    assert_eq!(list.stderr, "", "{list}");
    let search = home.run_segue(["session", "search", "--no-refresh", "--json", "asked"]);
    match search.code {
        Some(0) => assert!(search.stdout.starts_with('['), "{search}"),
        // Killed before there was an index.
        _ => assert!(search.stderr.contains("there is no index yet"), "{search}"),
    }
}

#[test]
fn a_killed_refresh_loses_no_session() {
    let home = new_test_home();
    let mut natives = NativeSessionSet::write(&home, SESSION_COUNT);
    let _ = home.run_segue_json(["chat", "--json", "asked by nobody"]);
    let kills = read_env_number("SEGUE_INDEX_KILLS", 40);
    let seed = read_env_number("SEGUE_SEED", 7);
    let mut rng = IndexTestRng(seed);
    // How long a cold build takes here tells when to kill.
    let start = Instant::now();
    let _ = super::refresh_index(&home);
    let cold_micros = u64::try_from(start.elapsed().as_micros()).unwrap();
    let mut effective_kills = [0, 0];
    for n in 0..kills {
        let without_index = n % 3 == 0;
        if without_index {
            remove_index(&home);
        }
        for _ in 0..3 {
            let session_index = usize::try_from(rng.next_below(SESSION_COUNT as u64)).unwrap();
            natives.sessions[session_index].append_turn();
        }
        let delay = Duration::from_micros(rng.next_below(cold_micros));
        effective_kills[usize::from(without_index)] += u64::from(kill_refresh_after(&home, delay));
        assert_list_and_search_answer(&home);
        if n % 10 == 9 {
            let found = index_contents(&home)["prompts"].as_array().unwrap().len();
            assert_eq!(
                found,
                natives.count_turns() + 1,
                "after {n} kills, seed {seed}"
            );
        }
    }
    let [while_growing, while_building] = effective_kills;
    crate::print_to_stderr(&format!(
        "{kills} kills of a refresh, seed {seed}: {while_building} while the index was made, {while_growing} while it grew, the others too late\n"
    ));
    assert!(
        while_building > 0 && while_growing > 0,
        "{effective_kills:?}"
    );
    assert_equals_rebuilt_index(&home);
}
