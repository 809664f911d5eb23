//! `segue index`, and lists that do not look at files.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Agent, Home, Kept, refresh};
use crate::world;

#[test]
fn the_index_tells_about_itself() {
    let world = world();
    let path = world.home().join("catalog.db");
    assert_snapshot!(world.segue(["index", "path"]), @"
    [WORLD]/home/catalog.db
    --- exit 0
    ");
    assert_snapshot!(world.segue(["index", "status"]), @"
    there is no index yet; `segue index refresh` builds it
    --- exit 0
    ");
    assert_eq!(
        world.json(["index", "status", "--json"]),
        json!({"path": path, "sessions": null})
    );
    assert!(!path.exists(), "telling about it makes none");
    let mut home = Home::write(&world, 3);
    let work = refresh(&world);
    assert_eq!(
        (&work["places"], &work["read"], &work["gone"]),
        (&json!(3), &json!(3), &json!(0))
    );
    let size = |kept: &Kept| fs::metadata(&kept.path).unwrap().len();
    let bytes: u64 = home.sessions.iter().map(size).sum();
    assert_eq!(work["bytes_read"], bytes);
    // Four rows at least for each session: its place, itself, its turns and their words.
    assert!(work["rows_written"].as_u64() >= Some(12), "{work}");
    assert_snapshot!(world.segue(["index", "refresh"]), @"
    nothing has changed in 3 session file(s)
    --- exit 0
    ");
    // What is appended costs what is appended, and the turn before it.
    let kept = &mut home.sessions[2];
    let (before, turn) = (size(kept), kept.whole().len() as u64 / 3);
    kept.add();
    let work = refresh(&world);
    assert_eq!(work["read"], 1, "{work}");
    let read = work["bytes_read"].as_u64().unwrap();
    assert!(
        (1..before).contains(&read) && read < 3 * turn,
        "{read} of {before}"
    );
    fs::remove_file(&home.sessions[0].path).unwrap();
    let work = refresh(&world);
    assert_eq!(
        (&work["places"], &work["read"], &work["gone"]),
        (&json!(2), &json!(0), &json!(1))
    );
    let status = world.json(["index", "status", "--json"]);
    assert_eq!(
        (&status["sessions"], &status["gone"], &status["unreadable"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert!(status["bytes"].as_u64() > Some(0), "{status}");
    let status = world.segue(["index", "status"]);
    assert!(
        status.stdout.starts_with("[WORLD]/home/catalog.db ("),
        "{status}"
    );
    assert!(
        status
            .stdout
            .ends_with("\n2 native session(s), 1 more that are not there any more\n"),
        "{status}"
    );
    let rebuilt = world.json(["index", "rebuild", "--json"]);
    assert_eq!(
        (&rebuilt["places"], &rebuilt["read"], &rebuilt["gone"]),
        (&json!(2), &json!(2), &json!(0))
    );
    // What is gone from its agent's home is gone with the index.
    assert_eq!(world.json(["index", "status", "--json"])["gone"], 0);
    let rebuilt = world.segue(["index", "rebuild"]);
    assert!(
        rebuilt.stdout.starts_with("read 2 of 2 session file(s), "),
        "{rebuilt}"
    );
    assert_eq!(world.segue(["index"]).code, Some(2));
}

#[test]
fn what_cannot_be_read_is_told() {
    let world = world();
    let home = Home::write(&world, 2);
    let _ = refresh(&world);
    // A directory where a session was: it is there, and can't be read.
    let chats = world.path().join(".gemini");
    fs::create_dir_all(&chats).unwrap();
    fs::write(chats.join("tmp"), "").unwrap();
    let work = refresh(&world);
    assert_eq!(work["unreadable"][0]["provider"], "gemini", "{work}");
    assert_eq!((&work["places"], &work["gone"]), (&json!(2), &json!(0)));
    let list = world.segue(["session", "list", "--all"]);
    assert!(
        list.stderr
            .starts_with("segue: some of gemini's sessions are missing here: "),
        "{list}"
    );
    assert_eq!(
        world
            .segue(["session", "list", "--all", "-p", "claude"])
            .stderr,
        ""
    );
    let search = world.segue(["session", "search", "w0x1"]);
    assert!(search.stdout.contains(&home.sessions[0].id), "{search}");
    assert_eq!(
        search.stderr,
        "segue: 1 session file(s) could not be read; `segue session list` tells which\n"
    );
}

#[test]
fn a_session_whose_file_is_spoilt_stays_listed_and_that_is_told() {
    for (spoilt, why) in [
        (&[][..], "it is empty"),
        (
            &[0x9f, 0x07, 0xff, b'\n', 0x80],
            "there is no conversation in it",
        ),
    ] {
        let world = world();
        let kept = &Home::write(&world, 1).sessions[0];
        let _ = refresh(&world);
        fs::write(&kept.path, spoilt).unwrap();
        let young = world.segue(["session", "list", "--all"]);
        assert_eq!(young.stdout.lines().count(), 2, "{young}");
        assert_eq!(young.stderr, "", "it may be in the middle of being written");
        let file = fs::File::options().write(true).open(&kept.path).unwrap();
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
        file.set_modified(long_ago).unwrap();
        // Told when it is come across, and as long as it is so.
        for _ in 0..2 {
            let list = world.segue(["session", "list", "--all"]);
            assert_eq!(list.stdout.lines().count(), 2, "{list}");
            assert!(
                list.stderr
                    .ends_with(&format!(" is not a session: {why}\n")),
                "{list}"
            );
            assert_eq!(list.stderr.lines().count(), 1, "{list}");
        }
        assert_eq!(world.json(["index", "status", "--json"])["unreadable"], 1);
        let status = world.segue(["index", "status"]).stdout;
        assert!(
            status.contains("\n1 file(s) could not be read:\n"),
            "{status}"
        );
        assert!(status.ends_with(&format!(": {why}\n")), "{status}");
        let named = format!("claude:{}", kept.id);
        for (command, name) in [
            ("show", "latest"),
            ("info", "latest"),
            ("show", "1"),
            ("info", "1"),
            ("show", &kept.id),
            ("info", &named),
        ] {
            let failed = world.segue(["session", command, name]);
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
fn a_list_without_a_refresh_is_as_the_index_has_it() {
    let world = world();
    let mut home = Home::write(&world, 2);
    let list = |more: &[&str]| {
        let list = world.json([&["session", "list", "--all", "--json"], more].concat());
        let row = |row: &Value| (row["native_session_id"].clone(), row["turns"].clone());
        list.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    // Without an index there is nothing but the files, and none is made.
    assert_eq!(list(&["--no-refresh"]).len(), 2);
    assert!(!world.home().join("catalog.db").exists());
    let before = list(&[]);
    Kept::new(&world, Agent::Codex, 5, &world.project()).add();
    home.sessions[0].add();
    fs::remove_file(&home.sessions[1].path).unwrap();
    assert_eq!(list(&["--no-refresh"]), before);
    let search = world.segue(["session", "search", "--no-refresh", "w5x1"]);
    assert!(search.stderr.starts_with("nothing was found"), "{search}");
    let after = list(&[]);
    let turns = |number: usize| {
        let id = format!("0b5e4c3a-1111-4222-8333-{number:012}");
        let row = after.iter().find(|(of, _)| *of == id);
        row.map(|(_, turns)| turns.as_u64().unwrap())
    };
    assert_eq!([turns(0), turns(1), turns(5)], [Some(2), None, Some(1)]);
    assert_eq!(list(&["--no-refresh"]), after);
}
