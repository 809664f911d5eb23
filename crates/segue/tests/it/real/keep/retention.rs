//! What agents delete by themselves: said before, and seen.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use segue_catalog::retention::{self, SettingsDirs, Retention};
use segue_catalog::{Catalog, ClaudeReader, GeminiReader, Reader};
use segue_core::id::ProviderId;
use segue_testkit::model::{Reply, Script};
use segue_testkit::sandbox::Sandbox;

use super::{CLAUDE, GEMINI, assert_goes_on, home, json, named, only_session};
use crate::real::stage::{Stage, Way};

/// Makes a session so many days old, in the way that its CLI goes by.
fn age(stage: &Stage, id: &str, days: i64) {
    let short = if stage.way == GEMINI { &id[..8] } else { id };
    let path = named(&home(stage), short)
        .into_iter()
        .find(|path| path.strip_suffix(".jsonl").is_some());
    let path = path.unwrap();
    let now = Timestamp::now();
    let then = now - SignedDuration::from_hours(24 * days);
    if stage.way == GEMINI {
        let day = |at: Timestamp| at.strftime("%Y-%m-%dT").to_string();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&day(now), &day(then))).unwrap();
    }
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::from(then)).unwrap();
}

/// What is said to be due is what the CLI deletes, and what was archived comes back to stay.
fn deletes_what_is_due(way: Way) {
    let slow = Reply::from_text("one two three four five six").with_pace(Duration::from_secs(2));
    let sandbox = Sandbox::new(Script::new().with_rule("take your time", [slow]));
    let stage = Stage::of(way, crate::real::gemini::with_retention(sandbox));
    stage.begin_elsewhere("my favourite colour is teal");
    let old = only_session(&stage);
    age(&stage, &old, 31);
    let provider = ProviderId::parse(way.provider).unwrap();
    let user = stage.sandbox.home();
    let (reader, agent_home): (Arc<dyn Reader>, _) = if way == CLAUDE {
        let home = user.join(".claude");
        (Arc::new(ClaudeReader::new(&home)), home)
    } else {
        let home = user.join(".gemini");
        (Arc::new(GeminiReader::new(&home)), home)
    };
    let catalog = Catalog::new(vec![reader]);
    let places = SettingsDirs {
        home: agent_home,
        project: stage.sandbox.project(),
        root: "/nowhere".into(),
    };
    let Some(Retention::Limited(limits)) = retention::provider_retention(way.provider, &places) else {
        panic!("{way:?} deletes nothing?");
    };
    let due = |at: Timestamp| {
        let sessions = catalog.list_sessions(Some(&provider), None).sessions;
        let due = limits.list_due_sessions(&sessions, at).into_iter();
        due.map(|(session, _)| session.head.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(due(Timestamp::now()), [old.as_str()]);
    let ran = stage.run(&["session", "archive", &old]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");

    stage.begin_elsewhere("take your time");
    let listed = json(&stage, &["session", "list", "--json"]);
    let rows = listed.as_array().unwrap();
    assert_eq!(rows.len(), 2, "{listed:#}");
    let (gone, new): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["status"] == "archived");
    assert_eq!(gone[0]["native_session_id"], old.as_str(), "{listed:#}");
    let new = new[0]["native_session_id"].as_str().unwrap();

    // One that is not old enough stays.
    age(&stage, new, 29);
    assert_eq!(due(Timestamp::now()), Vec::<String>::new());
    let soon = Timestamp::now() + SignedDuration::from_hours(7 * 24);
    assert_eq!(due(soon), [new]);
    stage.begin_elsewhere("take your time once more");
    assert!(!named(&home(&stage), &new[..8]).is_empty());
    let ran = stage.run(&["session", "restore", "--touch", &old]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_goes_on(&stage, &old);
    stage.assert_nothing_runs();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_is_due_is_what_the_cli_deletes() {
    for way in [CLAUDE, GEMINI] {
        deletes_what_is_due(way);
    }
}
