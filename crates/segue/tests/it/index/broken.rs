//! An index that is gone, damaged, in the way or can't be written: lists are read from the files, and the next refresh
//! with room puts everything right.

use std::fs;

use segue_testkit::{Output, World};
use serde_json::Value;

use super::{Home, assert_as_if_built_anew, assert_same, picture, refresh};
use crate::failing_disks::{as_nobody, make_read_only, with_file_limit};
use crate::world;

const SESSIONS: usize = 12;
const LIST: [&str; 6] = ["session", "list", "--all", "--json", "--limit", "0"];
const SEARCH: [&str; 4] = ["session", "search", "--json", "asked"];
const WITHOUT: &str = "segue: going on without the index: ";

/// A world with some sessions, an index of them, and what that tells.
fn indexed() -> (World, Value) {
    let world = world();
    let _ = Home::write(&world, SESSIONS);
    let _ = world.json(["chat", "--json", "asked by nobody"]);
    let before = picture(&world);
    (world, before)
}

fn count(list: &Output) -> usize {
    let list: Value = serde_json::from_str(&list.raw_stdout).unwrap();
    list.as_array().unwrap().len()
}

/// A list has all sessions, and one line says that it was made without the index.
fn assert_listed_without(list: &Output, sessions: usize) {
    assert_eq!(list.code, Some(0), "{list}");
    assert_eq!(count(list), sessions, "{list}");
    assert!(list.stderr.starts_with(WITHOUT), "{list}");
    assert_eq!(list.stderr.lines().count(), 1, "{list}");
}

/// A search that can't be made says so, and what to do.
fn assert_not_searched(search: &Output) {
    assert_eq!(search.code, Some(1), "{search}");
    let told = &search.stdout;
    assert!(
        told.is_empty() || told.starts_with("{\"error\":{"),
        "{search}"
    );
    let error = search
        .stderr
        .lines()
        .find(|line| line.starts_with("error: "));
    assert!(error.is_some_and(|line| line.contains("index")), "{search}");
    assert!(search.stderr.contains("\nhint: "), "{search}");
}

#[test]
fn an_index_that_is_deleted_is_built_anew() {
    let (world, before) = indexed();
    for name in [
        "catalog.db",
        "catalog.db-wal",
        "catalog.db-shm",
        "catalog.lock",
    ] {
        let _ = fs::remove_file(world.home().join(name));
    }
    let list = world.segue(["session", "list", "--all", "--no-refresh"]);
    assert_eq!((list.code, list.stderr.as_str()), (Some(0), ""), "{list}");
    assert_eq!(list.stdout.lines().count(), SESSIONS + 2, "{list}");
    let search = world.segue(["session", "search", "--no-refresh", "asked"]);
    assert_not_searched(&search);
    assert!(!world.home().join("catalog.db").exists());
    assert_same(&before, &picture(&world));
    assert_as_if_built_anew(&world);
}

#[test]
fn garbage_in_its_place_is_thrown_away() {
    let (world, before) = indexed();
    let garbage = "this is no database, whatever its name says\n".repeat(500);
    for (whole, beside) in [(true, false), (false, false), (true, true), (false, true)] {
        let path = world.home().join("catalog.db");
        let mut bytes = fs::read(&path).unwrap();
        if whole {
            bytes = garbage.clone().into_bytes();
        } else {
            let (start, end) = (bytes.len() / 8, bytes.len() / 2);
            bytes[start..end].fill(0xa5);
        }
        let _ = fs::remove_file(world.home().join("catalog.db-wal"));
        let _ = fs::remove_file(world.home().join("catalog.db-shm"));
        fs::write(&path, bytes).unwrap();
        if beside {
            fs::write(world.home().join("catalog.db-wal"), &garbage).unwrap();
        }
        let list = world.segue([&LIST[..], &["--no-refresh"]].concat());
        assert_eq!((list.code, count(&list)), (Some(0), SESSIONS + 1), "{list}");
        let search = world.segue([&SEARCH[..], &["--no-refresh"]].concat());
        if whole {
            assert_listed_without(&list, SESSIONS + 1);
            assert_not_searched(&search);
        }
        assert!(!search.stderr.contains("panicked"), "{search}");
        // Damage inside is come across, or not: either way the answer is right, or says what to do.
        let list = world.segue(LIST);
        assert_eq!((list.code, count(&list)), (Some(0), SESSIONS + 1), "{list}");
        let search = world.segue(SEARCH);
        if search.code != Some(0) {
            assert_not_searched(&search);
            assert!(search.stderr.contains("`segue index rebuild`"), "{search}");
            let _ = world.json(["index", "rebuild", "--json"]);
        }
        assert_same(&before, &picture(&world));
    }
    assert_as_if_built_anew(&world);
}

#[test]
fn a_home_that_is_read_only_is_read() {
    let (world, _) = indexed();
    let mut late = super::Kept::new(&world, super::Agent::Claude, 99, &world.project());
    late.add();
    make_read_only(&world);
    assert_listed_without(&as_nobody(&world, &LIST), SESSIONS + 2);
    let search = as_nobody(&world, &SEARCH);
    assert!([Some(0), Some(1)].contains(&search.code), "{search}");
    assert!(
        search
            .stderr
            .contains("the index could not be brought up to date: "),
        "{search}"
    );
    for command in ["refresh", "rebuild"] {
        let failed = as_nobody(&world, &["index", command]);
        assert_eq!(failed.code, Some(1), "{failed}");
        assert_eq!(
            failed.stderr,
            "error: cannot use the index [WORLD]/home/catalog.db: Permission denied (os error 13)\n\
             hint: make the directory writable, or set SEGUE_HOME to one that is\n"
        );
    }
    let shown = as_nobody(&world, &["session", "show", &format!("claude:{}", late.id)]);
    assert!(shown.stdout.contains("asked w99x1"), "{shown}");
}

#[test]
fn a_disk_that_is_full_takes_no_index_and_spoils_nothing() {
    let (world, before) = indexed();
    let mut late = super::Kept::new(&world, super::Agent::Codex, 99, &world.project());
    late.add();
    // Room for what every database needs beside it, and for no more, or a little.
    for (anew, blocks) in [(false, 64), (true, 64), (true, 150)] {
        if anew {
            for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
                let _ = fs::remove_file(world.home().join(name));
            }
        }
        assert_listed_without(&with_file_limit(&world, blocks, &LIST), SESSIONS + 2);
        let search = with_file_limit(&world, blocks, &SEARCH);
        let refreshed = with_file_limit(&world, blocks, &["index", "refresh"]);
        assert!(
            refreshed.stderr.contains("\nhint: free some space"),
            "{refreshed}"
        );
        if anew {
            assert_not_searched(&search);
            assert!(!search.stderr.contains("rebuild"), "{search}");
        } else {
            // What was there before is still found.
            assert_eq!(search.code, Some(0), "{search}");
        }
        assert!(
            search
                .stderr
                .contains("the index could not be brought up to date: "),
            "{search}"
        );
        let shown = with_file_limit(&world, blocks, &["session", "show", "latest"]);
        assert!(shown.stdout.contains("asked by nobody"), "{shown}");
    }
    fs::remove_file(&late.path).unwrap();
    assert_same(&before, &picture(&world));
    assert_as_if_built_anew(&world);
}

/// A directory where the file should be: nothing can be made of it, and nothing but searching needs it.
#[test]
fn nothing_but_searching_needs_the_index() {
    let (world, _) = indexed();
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        let _ = fs::remove_file(world.home().join(name));
    }
    fs::create_dir(world.home().join("catalog.db")).unwrap();
    assert_listed_without(&world.segue(LIST), SESSIONS + 1);
    assert_not_searched(&world.segue(SEARCH));
    for command in ["refresh", "rebuild"] {
        let failed = world.segue(["index", command]);
        assert_not_searched(&failed);
        let hint = "\nhint: move away what stands in its place";
        assert!(failed.stderr.contains(hint), "{failed}");
    }
    let own = world.json(["session", "list", "--json", "-p", "rehearsal"])[0]["id"].clone();
    let own = own.as_str().unwrap();
    for (args, turn) in [
        (vec!["--continue"], 2),
        (vec!["--resume", own], 3),
        (vec!["--resume", "latest"], 4),
    ] {
        let args = [vec!["chat", "--json"], args, vec!["go on"]].concat();
        let told = world.json(args);
        assert_eq!(
            (&told["session_id"], &told["turn"]),
            (&own.into(), &turn.into())
        );
    }
    for name in [
        "0b5e4c3a-1111-4222-8333-000000000003",
        "codex:0b5e4c3a-1111-4222-8333-000000000003",
    ] {
        let shown = world.segue(["session", "show", name]);
        assert!(shown.stdout.contains("answered a3x4"), "{shown}");
    }
    let taken = world.json([
        "session",
        "adopt",
        "--json",
        "codex:0b5e4c3a-1111-4222-8333-000000000003",
    ]);
    assert!(taken.is_object(), "{taken}");
    // Out of the way with it, and everything is found again.
    fs::remove_dir(world.home().join("catalog.db")).unwrap();
    assert_eq!(refresh(&world)["read"], SESSIONS);
    assert_as_if_built_anew(&world);
}
