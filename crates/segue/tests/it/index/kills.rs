//! Crash test of the index: a refresh is killed repeatedly while sessions grow.
//!
//! After each kill, lists and searches must work, and at the end no turn may be missing. The default is 40 kills;
//! `SEGUE_INDEX_KILLS` changes that number, and `SEGUE_SEED` repeats a run.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use segue_testkit::TestHome;

use super::{NativeSessionSet, assert_equals_rebuilt_index, index_contents};
use crate::new_test_home;
use crate::{CampaignRng, read_env_number};

const SESSION_COUNT: usize = 60;

fn remove_index(home: &TestHome) {
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        let _ = fs::remove_file(home.segue_home().join(name));
    }
}

/// Starts a refresh and kills it after `delay`. Returns `true` if it was still running.
fn kill_refresh_after(home: &TestHome, delay: Duration) -> bool {
    let mut command = home.segue_command(["index", "refresh"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(delay);
    // The process may have exited.
    let _ = child.kill();
    child.wait().unwrap().code().is_none()
}

/// Checks that list and search work after a kill: a list has all sessions, a search may have only some of the turns.
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
        // The refresh was killed before the index was created.
        _ => assert!(
            search
                .stderr
                .contains("the session index does not exist yet"),
            "{search}"
        ),
    }
}

#[test]
fn a_killed_refresh_loses_no_session() {
    let home = new_test_home();
    let mut natives = NativeSessionSet::write(&home, SESSION_COUNT);
    let _ = home.run_segue_json(["chat", "--json", "asked in segue"]);
    let kills = read_env_number("SEGUE_INDEX_KILLS", 40);
    let seed = read_env_number("SEGUE_SEED", 7);
    let mut rng = CampaignRng(seed);
    // The duration of a complete build is the limit for the delay of a kill.
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
        "{kills} kills of a refresh, seed {seed}: {while_building} during a build, {while_growing} during an update, the others after the end\n"
    ));
    assert!(
        while_building > 0 && while_growing > 0,
        "{effective_kills:?}"
    );
    assert_equals_rebuilt_index(&home);
}
