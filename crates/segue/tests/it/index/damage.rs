//! A missing, corrupt, blocked or read-only index: lists are read from the files, and the next refresh that can write
//! repairs the index.

use std::fs;

use segue_testkit::{ProgramOutput, TestHome};
use serde_json::Value;

use super::{
    NativeSessionSet, assert_equals_rebuilt_index, assert_same_contents, index_contents,
    refresh_index,
};
use crate::failing_disks::{make_segue_home_read_only, run_unprivileged, run_with_file_limit};
use crate::new_test_home;

const SESSION_COUNT: usize = 12;
const LIST_ARGS: [&str; 6] = ["session", "list", "--all", "--json", "--limit", "0"];
const SEARCH_ARGS: [&str; 4] = ["session", "search", "--json", "asked"];
const NO_INDEX_NOTICE: &str = "segue: reading the agents' files without the index: ";

/// Creates a home with sessions and an index. Returns the home and the contents of the index.
fn home_with_index() -> (TestHome, Value) {
    let home = new_test_home();
    let _ = NativeSessionSet::write(&home, SESSION_COUNT);
    let _ = home.run_segue_json(["chat", "--json", "asked in segue"]);
    let before = index_contents(&home);
    (home, before)
}

fn count_listed(list: &ProgramOutput) -> usize {
    let list: Value = serde_json::from_str(&list.raw_stdout).unwrap();
    list.as_array().unwrap().len()
}

/// Checks that a list has all sessions and prints one line about the missing index.
fn assert_listed_without_index(list: &ProgramOutput, sessions: usize) {
    assert_eq!(list.code, Some(0), "{list}");
    assert_eq!(count_listed(list), sessions, "{list}");
    assert!(list.stderr.starts_with(NO_INDEX_NOTICE), "{list}");
    assert_eq!(list.stderr.lines().count(), 1, "{list}");
}

/// Checks that a failed search prints an error with a hint.
fn assert_index_error(search: &ProgramOutput) {
    assert_eq!(search.code, Some(1), "{search}");
    let stdout = &search.stdout;
    assert!(
        stdout.is_empty() || stdout.starts_with("{\"error\":{"),
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
fn a_deleted_index_is_rebuilt() {
    let (home, before) = home_with_index();
    for name in [
        "catalog.db",
        "catalog.db-wal",
        "catalog.db-shm",
        "catalog.lock",
    ] {
        let _ = fs::remove_file(home.segue_home().join(name));
    }
    let list = home.run_segue(["session", "list", "--all", "--no-refresh"]);
    assert_eq!((list.code, list.stderr.as_str()), (Some(0), ""), "{list}");
    assert_eq!(list.stdout.lines().count(), SESSION_COUNT + 2, "{list}");
    let search = home.run_segue(["session", "search", "--no-refresh", "asked"]);
    assert_index_error(&search);
    assert!(!home.segue_home().join("catalog.db").exists());
    assert_same_contents(&before, &index_contents(&home));
    assert_equals_rebuilt_index(&home);
}

#[test]
fn a_corrupt_index_is_replaced() {
    let (home, before) = home_with_index();
    let garbage = "this is not a database\n".repeat(500);
    for (is_replaced, has_corrupt_wal) in
        [(true, false), (false, false), (true, true), (false, true)]
    {
        let path = home.segue_home().join("catalog.db");
        let mut bytes = fs::read(&path).unwrap();
        if is_replaced {
            bytes = garbage.clone().into_bytes();
        } else {
            let (start, end) = (bytes.len() / 8, bytes.len() / 2);
            bytes[start..end].fill(0xa5);
        }
        let _ = fs::remove_file(home.segue_home().join("catalog.db-wal"));
        let _ = fs::remove_file(home.segue_home().join("catalog.db-shm"));
        fs::write(&path, bytes).unwrap();
        if has_corrupt_wal {
            fs::write(home.segue_home().join("catalog.db-wal"), &garbage).unwrap();
        }
        let list = home.run_segue([&LIST_ARGS[..], &["--no-refresh"]].concat());
        assert_eq!(
            (list.code, count_listed(&list)),
            (Some(0), SESSION_COUNT + 1),
            "{list}"
        );
        let search = home.run_segue([&SEARCH_ARGS[..], &["--no-refresh"]].concat());
        if is_replaced {
            assert_listed_without_index(&list, SESSION_COUNT + 1);
            assert_index_error(&search);
        }
        assert!(!search.stderr.contains("panicked"), "{search}");
        // The damage may or may not be detected: the search is correct, or it fails with a hint.
        let list = home.run_segue(LIST_ARGS);
        assert_eq!(
            (list.code, count_listed(&list)),
            (Some(0), SESSION_COUNT + 1),
            "{list}"
        );
        let search = home.run_segue(SEARCH_ARGS);
        if search.code != Some(0) {
            assert_index_error(&search);
            assert!(search.stderr.contains("`segue index rebuild`"), "{search}");
            let _ = home.run_segue_json(["index", "rebuild", "--json"]);
        }
        assert_same_contents(&before, &index_contents(&home));
    }
    assert_equals_rebuilt_index(&home);
}

#[test]
fn a_read_only_home_is_listed_without_the_index() {
    let (home, _) = home_with_index();
    let mut late_session =
        super::NativeSessionFile::new(&home, super::SessionFileAgent::Claude, 99, &home.project());
    late_session.append_turn();
    make_segue_home_read_only(&home);
    assert_listed_without_index(&run_unprivileged(&home, &LIST_ARGS), SESSION_COUNT + 2);
    let search = run_unprivileged(&home, &SEARCH_ARGS);
    assert!([Some(0), Some(1)].contains(&search.code), "{search}");
    assert!(
        search.stderr.contains("cannot refresh the index: "),
        "{search}"
    );
    for command in ["refresh", "rebuild"] {
        let failed = run_unprivileged(&home, &["index", command]);
        assert_eq!(failed.code, Some(1), "{failed}");
        assert_eq!(
            failed.stderr,
            "error: cannot use the session index [HOME]/home/catalog.db: Permission denied (os error 13)\n\
             hint: make the directory writable, or set SEGUE_HOME to a writable directory\n"
        );
    }
    let transcript = run_unprivileged(
        &home,
        &["session", "show", &format!("claude:{}", late_session.id)],
    );
    assert!(transcript.stdout.contains("asked w99x1"), "{transcript}");
}

#[test]
fn a_full_disk_prevents_indexing_and_damages_no_data() {
    let (home, before) = home_with_index();
    let mut late_session =
        super::NativeSessionFile::new(&home, super::SessionFileAgent::Codex, 99, &home.project());
    late_session.append_turn();
    // Space for the auxiliary files of a database, and at most a little more.
    for (without_index, blocks) in [(false, 64), (true, 64), (true, 150)] {
        if without_index {
            for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
                let _ = fs::remove_file(home.segue_home().join(name));
            }
        }
        assert_listed_without_index(
            &run_with_file_limit(&home, blocks, &LIST_ARGS),
            SESSION_COUNT + 2,
        );
        let search = run_with_file_limit(&home, blocks, &SEARCH_ARGS);
        let refreshed = run_with_file_limit(&home, blocks, &["index", "refresh"]);
        assert!(
            refreshed.stderr.contains("\nhint: free disk space"),
            "{refreshed}"
        );
        if without_index {
            assert_index_error(&search);
            assert!(!search.stderr.contains("rebuild"), "{search}");
        } else {
            // Sessions that were indexed before are still found.
            assert_eq!(search.code, Some(0), "{search}");
        }
        assert!(
            search.stderr.contains("cannot refresh the index: "),
            "{search}"
        );
        let transcript = run_with_file_limit(&home, blocks, &["session", "show", "latest"]);
        assert!(transcript.stdout.contains("asked in segue"), "{transcript}");
    }
    fs::remove_file(&late_session.path).unwrap();
    assert_same_contents(&before, &index_contents(&home));
    assert_equals_rebuilt_index(&home);
}

/// A directory blocks the path of the index, so that no index can be created.
#[test]
fn only_search_needs_the_index() {
    let (home, _) = home_with_index();
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        let _ = fs::remove_file(home.segue_home().join(name));
    }
    fs::create_dir(home.segue_home().join("catalog.db")).unwrap();
    assert_listed_without_index(&home.run_segue(LIST_ARGS), SESSION_COUNT + 1);
    assert_index_error(&home.run_segue(SEARCH_ARGS));
    for command in ["refresh", "rebuild"] {
        let failed = home.run_segue(["index", command]);
        assert_index_error(&failed);
        let hint = "\nhint: move or fix the file at the path that `segue index path` prints";
        assert!(failed.stderr.contains(hint), "{failed}");
    }
    let own_id =
        home.run_segue_json(["session", "list", "--json", "-p", "rehearsal"])[0]["id"].clone();
    let own_id = own_id.as_str().unwrap();
    for (args, turn) in [
        (vec!["--continue"], 2),
        (vec!["--resume", own_id], 3),
        (vec!["--resume", "latest"], 4),
    ] {
        let args = [vec!["chat", "--json"], args, vec!["go on"]].concat();
        let result = home.run_segue_json(args);
        assert_eq!(
            (&result["session_id"], &result["turn"]),
            (&own_id.into(), &turn.into())
        );
    }
    for name in [
        "0b5e4c3a-1111-4222-8333-000000000003",
        "codex:0b5e4c3a-1111-4222-8333-000000000003",
    ] {
        let transcript = home.run_segue(["session", "show", name]);
        assert!(transcript.stdout.contains("answered a3x4"), "{transcript}");
    }
    let adopted = home.run_segue_json([
        "session",
        "adopt",
        "--json",
        "codex:0b5e4c3a-1111-4222-8333-000000000003",
    ]);
    assert!(adopted.is_object(), "{adopted}");
    // Without the directory, the index is built again.
    fs::remove_dir(home.segue_home().join("catalog.db")).unwrap();
    assert_eq!(refresh_index(&home)["read"], SESSION_COUNT);
    assert_equals_rebuilt_index(&home);
}
