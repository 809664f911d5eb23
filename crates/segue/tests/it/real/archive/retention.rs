//! Automatic deletion of sessions by the agents: predicted by segue, and observed.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use segue_catalog::retention::{self, Retention, SettingsDirs};
use segue_catalog::{Catalog, ClaudeReader, GeminiReader, Reader};
use segue_core::id::ProviderId;
use segue_testkit::model::{Reply, Script};
use segue_testkit::sandbox::Sandbox;

use super::{
    CLAUDE_SETUP, GEMINI_SETUP, assert_cli_resumes, find_only_session, paths_containing, run_json,
    session_dir,
};
use crate::real::harness::{AgentSetup, CliHarness};

/// Sets the age of a session by its file time and, for Gemini CLI, by the dates in the file.
fn age_session(harness: &CliHarness, id: &str, days: i64) {
    let name_part = if harness.setup == GEMINI_SETUP {
        &id[..8]
    } else {
        id
    };
    let path = paths_containing(&session_dir(harness), name_part)
        .into_iter()
        .find(|path| path.strip_suffix(".jsonl").is_some());
    let path = path.unwrap();
    let now = Timestamp::now();
    let past = now - SignedDuration::from_hours(24 * days);
    if harness.setup == GEMINI_SETUP {
        let format_day = |at: Timestamp| at.strftime("%Y-%m-%dT").to_string();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&format_day(now), &format_day(past))).unwrap();
    }
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::from(past)).unwrap();
}

/// Checks that the CLI deletes exactly the sessions that segue reports as due, and that a restored copy is not deleted
/// again.
fn assert_due_sessions_are_deleted(setup: AgentSetup) {
    let slow = Reply::from_text("one two three four five six").with_pace(Duration::from_secs(2));
    let sandbox = Sandbox::new(Script::new().with_rule("take your time", [slow]));
    let harness = CliHarness::from_sandbox(setup, crate::real::gemini::enable_retention(sandbox));
    harness.start_native_session("my favourite colour is teal");
    let old_id = find_only_session(&harness);
    age_session(&harness, &old_id, 31);
    let provider = ProviderId::parse(setup.provider).unwrap();
    let user_home = harness.sandbox.home();
    let (reader, agent_home): (Arc<dyn Reader>, _) = if setup == CLAUDE_SETUP {
        let home = user_home.join(".claude");
        (Arc::new(ClaudeReader::new(&home)), home)
    } else {
        let home = user_home.join(".gemini");
        (Arc::new(GeminiReader::new(&home)), home)
    };
    let catalog = Catalog::new(vec![reader]);
    let settings_dirs = SettingsDirs {
        home: agent_home,
        project: harness.sandbox.project(),
        root: "/nonexistent".into(),
    };
    let Some(Retention::Limited(limits)) =
        retention::provider_retention(setup.provider, &settings_dirs)
    else {
        panic!("{setup:?} has no retention limit");
    };
    let list_due = |at: Timestamp| {
        let sessions = catalog.list_sessions(Some(&provider), None).sessions;
        let due_sessions = retention::list_due_sessions(&limits, &sessions, at).into_iter();
        due_sessions
            .map(|(session, _)| session.head.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(list_due(Timestamp::now()), [old_id.as_str()]);
    let outcome = harness.run_segue(&["session", "archive", &old_id]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");

    harness.start_native_session("take your time");
    let listed = run_json(&harness, &["session", "list", "--json"]);
    let rows = listed.as_array().unwrap();
    assert_eq!(rows.len(), 2, "{listed:#}");
    let (archived, remaining): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row["status"] == "archived");
    assert_eq!(
        archived[0]["native_session_id"],
        old_id.as_str(),
        "{listed:#}"
    );
    let new_id = remaining[0]["native_session_id"].as_str().unwrap();

    // A session that is not old enough is not deleted.
    age_session(&harness, new_id, 29);
    assert_eq!(list_due(Timestamp::now()), Vec::<String>::new());
    let next_week = Timestamp::now() + SignedDuration::from_hours(7 * 24);
    assert_eq!(list_due(next_week), [new_id]);
    harness.start_native_session("take your time once more");
    assert!(!paths_containing(&session_dir(&harness), &new_id[..8]).is_empty());
    let outcome = harness.run_segue(&["session", "restore", "--touch", &old_id]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert_cli_resumes(&harness, &old_id);
    harness.assert_no_processes();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn sessions_reported_as_due_are_deleted_by_the_cli() {
    for setup in [CLAUDE_SETUP, GEMINI_SETUP] {
        assert_due_sessions_are_deleted(setup);
    }
}
