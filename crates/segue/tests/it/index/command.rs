//! `segue index`, and lists that use only the index.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{NativeSessionFile, NativeSessionSet, SessionFileAgent, refresh_index};
use crate::new_test_home;

#[test]
fn index_commands_report_the_path_and_the_counts() {
    let home = new_test_home();
    let path = home.segue_home().join("catalog.db");
    assert_snapshot!(home.run_segue(["index", "path"]), @"
    [HOME]/home/catalog.db
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["index", "status"]), @"
    no index yet; run `segue index refresh` to build it
    --- exit 0
    ");
    assert_eq!(
        home.run_segue_json(["index", "status", "--json"]),
        json!({"path": path, "sessions": null})
    );
    assert!(!path.exists(), "`index status` created an index");
    let mut natives = NativeSessionSet::write(&home, 3);
    let stats = refresh_index(&home);
    assert_eq!(
        (&stats["places"], &stats["read"], &stats["gone"]),
        (&json!(3), &json!(3), &json!(0))
    );
    let size = |session_file: &NativeSessionFile| fs::metadata(&session_file.path).unwrap().len();
    let bytes: u64 = natives.sessions.iter().map(size).sum();
    assert_eq!(stats["bytes_read"], bytes);
    // At least four rows for each session: its source, itself, its turns and their texts.
    assert!(stats["rows_written"].as_u64() >= Some(12), "{stats}");
    assert_snapshot!(home.run_segue(["index", "refresh"]), @"
    no changes in 3 session files
    --- exit 0
    ");
    // After an append, only the new turn and the one before it are read.
    let session_file = &mut natives.sessions[2];
    let (before, turn) = (
        size(session_file),
        session_file.full_text().len() as u64 / 3,
    );
    session_file.append_turn();
    let stats = refresh_index(&home);
    assert_eq!(stats["read"], 1, "{stats}");
    let read = stats["bytes_read"].as_u64().unwrap();
    assert!(
        (1..before).contains(&read) && read < 3 * turn,
        "{read} of {before}"
    );
    fs::remove_file(&natives.sessions[0].path).unwrap();
    let stats = refresh_index(&home);
    assert_eq!(
        (&stats["places"], &stats["read"], &stats["gone"]),
        (&json!(2), &json!(0), &json!(1))
    );
    let index = home.run_segue_json(["index", "status", "--json"]);
    assert_eq!(
        (&index["sessions"], &index["gone"], &index["unreadable"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert!(index["bytes"].as_u64() > Some(0), "{index}");
    let output = home.run_segue(["index", "status"]);
    assert!(
        output.stdout.starts_with("[HOME]/home/catalog.db ("),
        "{output}"
    );
    assert!(
        output.stdout.ends_with("\n2 native sessions, 1 deleted\n"),
        "{output}"
    );
    let rebuilt = home.run_segue_json(["index", "rebuild", "--json"]);
    assert_eq!(
        (&rebuilt["places"], &rebuilt["read"], &rebuilt["gone"]),
        (&json!(2), &json!(2), &json!(0))
    );
    // A rebuild drops sessions whose files are missing.
    assert_eq!(
        home.run_segue_json(["index", "status", "--json"])["gone"],
        0
    );
    let rebuilt = home.run_segue(["index", "rebuild"]);
    assert!(
        rebuilt.stdout.starts_with("read 2 of 2 session files ("),
        "{rebuilt}"
    );
    assert_eq!(home.run_segue(["index"]).code, Some(2));
}

#[test]
fn an_unreadable_source_is_reported() {
    let home = new_test_home();
    let natives = NativeSessionSet::write(&home, 2);
    let _ = refresh_index(&home);
    // A file where Gemini CLI has a directory, so it exists, but cannot be read.
    let chats = home.path().join(".gemini");
    fs::create_dir_all(&chats).unwrap();
    fs::write(chats.join("tmp"), "").unwrap();
    let stats = refresh_index(&home);
    assert_eq!(stats["unreadable"][0]["provider"], "gemini", "{stats}");
    assert_eq!((&stats["places"], &stats["gone"]), (&json!(2), &json!(0)));
    let list = home.run_segue(["session", "list", "--all"]);
    assert!(
        list.stderr
            .starts_with("segue: some sessions of gemini are not listed: "),
        "{list}"
    );
    assert_eq!(
        home.run_segue(["session", "list", "--all", "-p", "claude"])
            .stderr,
        ""
    );
    let search = home.run_segue(["session", "search", "w0x1"]);
    assert!(search.stdout.contains(&natives.sessions[0].id), "{search}");
    assert_eq!(
        search.stderr,
        "segue: cannot read 1 session file; `segue session list` shows details\n"
    );
}

#[test]
fn a_session_with_a_corrupt_file_stays_listed_and_is_reported() {
    for (content, reason) in [
        (&[][..], "the file is empty"),
        (
            &[0x9f, 0x07, 0xff, b'\n', 0x80],
            "it contains no conversation",
        ),
    ] {
        let home = new_test_home();
        let session_file = &NativeSessionSet::write(&home, 1).sessions[0];
        let _ = refresh_index(&home);
        fs::write(&session_file.path, content).unwrap();
        let recent_list = home.run_segue(["session", "list", "--all"]);
        assert_eq!(recent_list.stdout.lines().count(), 2, "{recent_list}");
        assert_eq!(
            recent_list.stderr, "",
            "a recently changed file was reported, but it may still be being written"
        );
        let file = fs::File::options()
            .write(true)
            .open(&session_file.path)
            .unwrap();
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
        file.set_modified(long_ago).unwrap();
        // The error is reported each time while the file is corrupt.
        for _ in 0..2 {
            let list = home.run_segue(["session", "list", "--all"]);
            assert_eq!(list.stdout.lines().count(), 2, "{list}");
            assert!(
                list.stderr
                    .ends_with(&format!(" is not a session: {reason}\n")),
                "{list}"
            );
            assert_eq!(list.stderr.lines().count(), 1, "{list}");
        }
        assert_eq!(
            home.run_segue_json(["index", "status", "--json"])["unreadable"],
            1
        );
        let status = home.run_segue(["index", "status"]).stdout;
        assert!(status.contains("\ncannot read 1 file:\n"), "{status}");
        assert!(status.ends_with(&format!(": {reason}\n")), "{status}");
        let session_ref = format!("claude:{}", session_file.id);
        for (command, name) in [
            ("show", "latest"),
            ("info", "latest"),
            ("show", "1"),
            ("info", "1"),
            ("show", &session_file.id),
            ("info", &session_ref),
        ] {
            let failed = home.run_segue(["session", command, name]);
            assert_eq!(
                (failed.stdout.as_str(), failed.code),
                ("", Some(1)),
                "{failed}"
            );
            assert!(failed.stderr.contains(" is not a session: "), "{failed}");
        }
    }
}

#[test]
fn a_list_without_a_refresh_shows_the_indexed_state() {
    let home = new_test_home();
    let mut natives = NativeSessionSet::write(&home, 2);
    let list = |more: &[&str]| {
        let list = home.run_segue_json([&["session", "list", "--all", "--json"], more].concat());
        let row = |row: &Value| (row["native_session_id"].clone(), row["turns"].clone());
        list.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    // Without an index, the files are read, and no index is created.
    assert_eq!(list(&["--no-refresh"]).len(), 2);
    assert!(!home.segue_home().join("catalog.db").exists());
    let before = list(&[]);
    NativeSessionFile::new(&home, SessionFileAgent::Codex, 5, &home.project()).append_turn();
    natives.sessions[0].append_turn();
    fs::remove_file(&natives.sessions[1].path).unwrap();
    assert_eq!(list(&["--no-refresh"]), before);
    let search = home.run_segue(["session", "search", "--no-refresh", "w5x1"]);
    assert!(search.stderr.starts_with("no matches; "), "{search}");
    let after = list(&[]);
    let turns = |number: usize| {
        let id = format!("0b5e4c3a-1111-4222-8333-{number:012}");
        let row = after.iter().find(|(native_id, _)| *native_id == id);
        row.map(|(_, turns)| turns.as_u64().unwrap())
    };
    assert_eq!([turns(0), turns(1), turns(5)], [Some(2), None, Some(1)]);
    assert_eq!(list(&["--no-refresh"]), after);
}
