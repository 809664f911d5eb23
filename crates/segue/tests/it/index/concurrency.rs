//! Fifty concurrent processes with one index.

use std::sync::Barrier;

use segue_testkit::TestHome;
use serde_json::Value;

use super::{NativeSessionSet, assert_equals_rebuilt_index, index_contents, refresh_index};
use crate::new_test_home;

const PROCESS_COUNT: usize = 50;
const SESSION_COUNT: usize = 200;

/// Returns the arguments of process number `n`.
fn args_of_process(n: usize) -> &'static [&'static str] {
    match n % 5 {
        0 | 1 => &["index", "refresh", "--json"],
        2 => &["session", "list", "--all", "--json", "--limit", "0"],
        3 => &["session", "search", "--json", "--limit", "0", "asked"],
        _ => &["index", "status", "--json"],
    }
}

#[test]
fn fifty_processes_build_one_index() {
    let home = new_test_home();
    let natives = NativeSessionSet::write(&home, SESSION_COUNT);
    let _ = home.run_segue_json(["chat", "--json", "asked in segue"]);
    let start = Barrier::new(PROCESS_COUNT);
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let run = |n: usize| {
            let (home, start) = (&home, &start);
            scope.spawn(move || {
                start.wait();
                (n, home.run_segue(args_of_process(n)))
            })
        };
        let threads: Vec<_> = (0..PROCESS_COUNT).map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut files_read = 0;
    for (n, output) in outputs {
        assert_eq!(output.code, Some(0), "{:?}: {output}", args_of_process(n));
        assert!(!output.stderr.contains("without the index"), "{output}");
        let report: Value = serde_json::from_str(&output.raw_stdout).unwrap();
        match args_of_process(n)[1] {
            "refresh" => files_read += report["read"].as_u64().unwrap(),
            "list" => assert_eq!(
                report.as_array().unwrap().len(),
                SESSION_COUNT + 1,
                "{output}"
            ),
            _ => {}
        }
    }
    // No file was read more than once.
    assert!(files_read <= SESSION_COUNT as u64, "{files_read}");
    let turns = index_contents(&home)["prompts"].as_array().unwrap().len();
    assert_eq!(turns, natives.count_turns() + 1);
    assert_equals_rebuilt_index(&home);
}

/// A rebuild deletes the index file while other processes use it: a list is still complete, and a search reports that
/// there is no index.
#[test]
fn a_rebuild_does_not_disturb_concurrent_commands() {
    let home = new_test_home();
    let _ = NativeSessionSet::write(&home, 60);
    let _ = refresh_index(&home);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let home = &home;
            scope.spawn(move || (0..4).for_each(|round| run_during_rebuilds(home, n + round)));
        }
    });
    assert_equals_rebuilt_index(&home);
}

fn run_during_rebuilds(home: &TestHome, n: usize) {
    let args: &[&str] = match n % 4 {
        0 => &["index", "rebuild", "--json"],
        1 => &["index", "refresh", "--json"],
        2 => &["session", "list", "--all", "--json", "--limit", "0"],
        _ => &["session", "search", "--json", "--limit", "0", "asked"],
    };
    let output = home.run_segue(args);
    if args[1] == "search" && output.code == Some(1) {
        assert!(
            output
                .stderr
                .contains("the session index does not exist yet"),
            "{output}"
        );
        return;
    }
    assert_eq!(output.code, Some(0), "{args:?}: {output}");
    let report: Value = serde_json::from_str(&output.raw_stdout).unwrap();
    if args[1] == "list" {
        assert_eq!(report.as_array().unwrap().len(), 60, "{output}");
    }
}
