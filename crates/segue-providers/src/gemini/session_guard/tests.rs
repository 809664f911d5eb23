//! Guard on a home of its own, with Gemini CLI's actions simulated by the tests.

use std::time::{Duration, SystemTime};

use super::*;
use crate::gemini::test_home::{
    GuardTestHome, OTHER_SESSION_FILE, OTHER_SESSION_ID, OTHER_TWIN_FILE, SESSION_FILE, SESSION_ID,
    TWIN_FILE, empty_session_text, parse_id, session_text, turn_text,
};
use crate::{ProcessStatus, identify_process, process_status};

/// Current time in the tests: some seconds into a minute.
const NOW_SECONDS: i64 = 1_794_800_017;

const TEST_SYSTEM_FNS: SystemFns = SystemFns {
    now: || Timestamp::from_second(NOW_SECONDS).unwrap(),
    random: || 7,
};

fn twin_removed() -> GuardAction {
    GuardAction::DuplicateRemoved {
        short_id: "11111111".to_owned(),
    }
}

/// Returns the action that restored segue's own session.
fn restored(cause: RestoreCause) -> GuardAction {
    GuardAction::SessionRestored {
        short_id: "11111111".to_owned(),
        cause,
    }
}

/// Returns the action that restored the other session.
fn other_restored(cause: RestoreCause) -> GuardAction {
    GuardAction::SessionRestored {
        short_id: "22222222".to_owned(),
        cause,
    }
}

fn new_test_home() -> GuardTestHome {
    GuardTestHome::new(TEST_SYSTEM_FNS)
}

impl GuardTestHome {
    fn prepare_for_start(&self) -> (AtRiskSessions, Vec<GuardAction>) {
        self.guard
            .prepare_for_start(&self.cwd(), Some(&parse_id(SESSION_ID)))
    }

    fn repair_after_exit(&self, at_risk: &AtRiskSessions) -> Vec<GuardAction> {
        self.guard
            .repair_after_exit(at_risk, &self.cwd(), &[parse_id(SESSION_ID)])
    }

    /// Makes the owners of all records appear dead.
    fn mark_owners_dead(&self) {
        let at_risk_dir = self.copies_root().join(AT_RISK_DIR);
        let mut identity = identify_process(std::process::id()).unwrap();
        identity.start_time = format!("{}/1", identity.start_time.rsplit_once('/').unwrap().0);
        assert_eq!(process_status(&identity), ProcessStatus::Dead);
        for record_name in list_names(&at_risk_dir) {
            let owner = at_risk_dir.join(record_name).join("owner");
            let mut json: serde_json::Value =
                serde_json::from_slice(&fs::read(&owner).unwrap()).unwrap();
            json["started"] = identity.start_time.clone().into();
            fs::write(owner, json.to_string()).unwrap();
        }
    }

    /// Returns the number of records on disk.
    fn count_records(&self) -> usize {
        list_names(&self.copies_root().join(AT_RISK_DIR)).len()
    }
}

#[test]
fn only_the_twin_is_removed() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.write_session(TWIN_FILE, &empty_session_text(SESSION_ID));
    test_home.write_session(
        "session-2026-11-16T03-31-33333333.jsonl",
        &empty_session_text(OTHER_SESSION_ID),
    );
    assert_eq!(
        test_home
            .guard
            .remove_twins(&test_home.cwd(), &parse_id(SESSION_ID)),
        [twin_removed()]
    );
    assert_eq!(
        test_home.read_session(SESSION_FILE),
        Some(session_text(SESSION_ID))
    );
    assert_eq!(test_home.read_session(TWIN_FILE), None);
    assert!(
        test_home
            .read_session("session-2026-11-16T03-31-33333333.jsonl")
            .is_some()
    );
    assert!(
        test_home
            .guard
            .remove_twins(&test_home.cwd(), &parse_id(SESSION_ID))
            .is_empty()
    );
}

#[test]
fn an_empty_session_without_another_file_is_no_twin() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &empty_session_text(SESSION_ID));
    let (at_risk, actions) = test_home.prepare_for_start();
    assert!(actions.is_empty());
    assert!(test_home.repair_after_exit(&at_risk).is_empty());
    assert!(test_home.read_session(SESSION_FILE).is_some());
}

#[test]
fn a_deleted_session_is_restored_from_the_last_copy() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let (at_risk, actions) = test_home.prepare_for_start();
    assert!(actions.is_empty());
    let longer = session_text(SESSION_ID) + &turn_text("second");
    test_home.write_session(SESSION_FILE, &longer);
    assert!(test_home.repair_after_exit(&at_risk).is_empty());
    test_home.remove_sessions(&[SESSION_FILE]);
    assert_eq!(
        test_home.prepare_for_start().1,
        [restored(RestoreCause::Deleted)]
    );
    assert_eq!(test_home.read_session(SESSION_FILE), Some(longer));
    assert!(test_home.prepare_for_start().1.is_empty());
}

#[test]
fn a_session_with_a_deleted_directory_is_restored() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.prepare_for_start();
    fs::remove_dir_all(test_home.session_path("")).unwrap();
    assert_eq!(
        test_home.prepare_for_start().1,
        [restored(RestoreCause::Deleted)]
    );
    assert_eq!(
        test_home.read_session(SESSION_FILE),
        Some(session_text(SESSION_ID))
    );
}

#[test]
fn a_restarted_session_gets_its_turns_back() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let (at_risk, _) = test_home.prepare_for_start();
    test_home.write_session(
        SESSION_FILE,
        &(session_text(SESSION_ID) + &empty_session_text(SESSION_ID)),
    );
    let actions = test_home.repair_after_exit(&at_risk);
    assert_eq!(actions, [restored(RestoreCause::Restarted)]);
    assert_eq!(
        test_home.read_session(SESSION_FILE),
        Some(session_text(SESSION_ID))
    );
}

#[test]
fn a_session_deleted_during_a_turn_is_joined_with_its_later_messages() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let (at_risk, _) = test_home.prepare_for_start();
    test_home.write_session(SESSION_FILE, &turn_text("second"));
    // While the process runs, the remainder of the file does not replace the complete copy.
    assert!(
        test_home
            .guard
            .update_copy(&test_home.cwd(), &parse_id(SESSION_ID))
            .is_empty()
    );
    let actions = test_home.repair_after_exit(&at_risk);
    assert_eq!(actions, [restored(RestoreCause::DeletedInUse)]);
    assert_eq!(
        test_home.read_session(SESSION_FILE),
        Some(session_text(SESSION_ID) + &turn_text("second"))
    );
}

#[test]
fn a_copy_made_while_the_process_runs_is_restored() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let (at_risk, _) = test_home.prepare_for_start();
    let longer = session_text(SESSION_ID) + &turn_text("second");
    test_home.write_session(SESSION_FILE, &longer);
    assert!(
        test_home
            .guard
            .update_copy(&test_home.cwd(), &parse_id(SESSION_ID))
            .is_empty()
    );
    test_home.remove_sessions(&[SESSION_FILE]);
    assert_eq!(
        test_home.repair_after_exit(&at_risk),
        [restored(RestoreCause::Deleted)]
    );
    assert_eq!(test_home.read_session(SESSION_FILE), Some(longer));
}

#[test]
fn subagent_files_are_restored_with_the_session() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    fs::create_dir(test_home.session_path(SESSION_ID)).unwrap();
    test_home.write_session(&format!("{SESSION_ID}/helper.jsonl"), "done");
    test_home.prepare_for_start();
    fs::remove_dir_all(test_home.session_path(SESSION_ID)).unwrap();
    test_home.remove_sessions(&[SESSION_FILE]);
    assert_eq!(
        test_home.prepare_for_start().1,
        [restored(RestoreCause::Deleted)]
    );
    assert_eq!(
        test_home
            .read_session(&format!("{SESSION_ID}/helper.jsonl"))
            .as_deref(),
        Some("done")
    );
}

#[test]
fn other_sessions_are_restored_only_if_a_twin_caused_the_deletion() {
    let test_home = new_test_home();
    let old_file = "session-2026-10-01T00-00-33333333.jsonl";
    test_home.write_session(OTHER_SESSION_FILE, &session_text(OTHER_SESSION_ID));
    test_home.write_session(OTHER_TWIN_FILE, &empty_session_text(OTHER_SESSION_ID));
    test_home.write_session(old_file, &session_text("33333333-3"));
    let (at_risk, actions) = test_home.prepare_for_start();
    assert!(actions.is_empty());
    test_home.remove_sessions(&[OTHER_SESSION_FILE, OTHER_TWIN_FILE, old_file]);
    assert_eq!(
        test_home.repair_after_exit(&at_risk),
        [other_restored(RestoreCause::DeletedByAgent)]
    );
    assert_eq!(
        test_home.read_session(OTHER_SESSION_FILE),
        Some(session_text(OTHER_SESSION_ID))
    );
    assert_eq!(test_home.read_session(old_file), None);
    assert_eq!(test_home.count_records(), 0);
    // The session is no longer at risk, so segue does not restore it.
    test_home.remove_sessions(&[OTHER_SESSION_FILE]);
    assert!(test_home.prepare_for_start().1.is_empty());
    assert_eq!(test_home.read_session(OTHER_SESSION_FILE), None);
}

#[test]
fn a_deleted_session_is_restored_only_on_request() {
    let test_home = new_test_home();
    test_home.write_session(OTHER_SESSION_FILE, &session_text(OTHER_SESSION_ID));
    let other_ids = [parse_id(OTHER_SESSION_ID)];
    let (at_risk, _) = test_home
        .guard
        .prepare_for_start(&test_home.cwd(), other_ids.first());
    test_home
        .guard
        .repair_after_exit(&at_risk, &test_home.cwd(), &other_ids);
    // Deleted because of its age, or by the user.
    test_home.remove_sessions(&[OTHER_SESSION_FILE]);
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let (at_risk, actions) = test_home.prepare_for_start();
    assert!(actions.is_empty(), "{actions:?}");
    assert!(test_home.repair_after_exit(&at_risk).is_empty());
    assert!(
        test_home
            .guard
            .prepare_for_start(&test_home.cwd(), None)
            .1
            .is_empty()
    );
    assert_eq!(test_home.read_session(OTHER_SESSION_FILE), None);
    // A request for the session restores it, and the user is informed.
    let (_, actions) = test_home
        .guard
        .prepare_for_start(&test_home.cwd(), other_ids.first());
    assert_eq!(actions, [other_restored(RestoreCause::Deleted)]);
    assert_eq!(
        test_home.read_session(OTHER_SESSION_FILE),
        Some(session_text(OTHER_SESSION_ID))
    );
}

#[test]
fn a_session_stays_at_risk_until_every_process_has_ended() {
    let test_home = new_test_home();
    test_home.write_session(OTHER_SESSION_FILE, &session_text(OTHER_SESSION_ID));
    test_home.write_session(OTHER_TWIN_FILE, &empty_session_text(OTHER_SESSION_ID));
    let (slow, _) = test_home.guard.prepare_for_start(&test_home.cwd(), None);
    let (fast, _) = test_home.guard.prepare_for_start(&test_home.cwd(), None);
    assert!(
        test_home
            .guard
            .repair_after_exit(&fast, &test_home.cwd(), &[])
            .is_empty()
    );
    // A third process that starts does not affect the running ones.
    let (third, _) = test_home.guard.prepare_for_start(&test_home.cwd(), None);
    assert!(
        test_home
            .guard
            .repair_after_exit(&third, &test_home.cwd(), &[])
            .is_empty()
    );
    test_home.remove_sessions(&[OTHER_SESSION_FILE, OTHER_TWIN_FILE]);
    let actions = test_home
        .guard
        .repair_after_exit(&slow, &test_home.cwd(), &[]);
    assert_eq!(actions, [other_restored(RestoreCause::DeletedByAgent)]);
    assert_eq!(
        test_home.read_session(OTHER_SESSION_FILE),
        Some(session_text(OTHER_SESSION_ID))
    );
    assert_eq!(test_home.count_records(), 0);
}

#[test]
fn the_next_segue_repairs_the_damage_after_a_killed_one() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.write_session(OTHER_SESSION_FILE, &session_text(OTHER_SESSION_ID));
    test_home.write_session(OTHER_TWIN_FILE, &empty_session_text(OTHER_SESSION_ID));
    test_home.prepare_for_start();
    test_home.remove_sessions(&[OTHER_SESSION_FILE, OTHER_TWIN_FILE]);
    test_home.write_session(TWIN_FILE, &empty_session_text(SESSION_ID));
    assert!(
        test_home
            .guard
            .prepare_for_start(&test_home.cwd(), None)
            .1
            .is_empty(),
        "the owner is alive"
    );
    test_home.mark_owners_dead();
    // In any directory, and with any session.
    let (_, actions) = test_home
        .guard
        .prepare_for_start(test_home.temp_dir.path(), None);
    assert_eq!(
        actions,
        [twin_removed(), other_restored(RestoreCause::DeletedByAgent)]
    );
    assert_eq!(test_home.read_session(TWIN_FILE), None);
    assert_eq!(
        test_home.read_session(OTHER_SESSION_FILE),
        Some(session_text(OTHER_SESSION_ID))
    );
    assert_eq!(test_home.count_records(), 0);

    test_home.prepare_for_start();
    test_home.remove_sessions(&[SESSION_FILE]);
    test_home.mark_owners_dead();
    assert_eq!(
        test_home.guard.prepare_for_start(&test_home.cwd(), None).1,
        [restored(RestoreCause::Deleted)]
    );
    assert_eq!(
        test_home.read_session(SESSION_FILE),
        Some(session_text(SESSION_ID))
    );
}

#[test]
fn records_of_another_home_are_ignored() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.prepare_for_start();
    test_home.mark_owners_dead();
    let other_guard = SessionGuard::new(
        test_home.temp_dir.path().join("other"),
        test_home.copies_root(),
        TEST_SYSTEM_FNS,
    );
    assert!(
        other_guard
            .prepare_for_start(&test_home.cwd(), None)
            .1
            .is_empty()
    );
    assert!(!test_home.temp_dir.path().join("other").exists());
    assert_eq!(test_home.count_records(), 1);
}

#[test]
fn twins_of_other_sessions_are_not_removed() {
    let test_home = new_test_home();
    test_home.write_session(OTHER_SESSION_FILE, &session_text(OTHER_SESSION_ID));
    test_home.write_session(OTHER_TWIN_FILE, &empty_session_text(OTHER_SESSION_ID));
    let (at_risk, _) = test_home.prepare_for_start();
    test_home.repair_after_exit(&at_risk);
    assert!(test_home.read_session(OTHER_TWIN_FILE).is_some());
}

#[test]
fn a_failed_copy_is_reported_and_does_not_stop_the_start() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.write_session(TWIN_FILE, &empty_session_text(SESSION_ID));
    fs::write(test_home.copies_root(), "a file instead of a directory").unwrap();
    let (_, actions) = test_home.prepare_for_start();
    assert_eq!(actions[0], twin_removed());
    let is_copy_failure = |action: &GuardAction| {
        matches!(
            action,
            GuardAction::CopyFailed { short_id, is_at_risk: false, .. } if short_id == "11111111"
        )
    };
    assert!(actions.len() > 1 && actions[1..].iter().all(is_copy_failure));
}

#[test]
fn copies_of_unused_sessions_are_removed() {
    const DAY_SECONDS: u64 = 24 * 60 * 60;
    let days_ago = |days: u64| {
        SystemTime::from(Timestamp::from_second(NOW_SECONDS).unwrap())
            - Duration::from_secs(days * DAY_SECONDS)
    };
    let set_age = |path: &Path, days: u64| {
        let file = fs::File::open(path).unwrap();
        file.set_modified(days_ago(days)).unwrap();
    };
    let test_home = new_test_home();
    let mut ages = Vec::new();
    for (digit, days) in [("1", 31), ("2", 29), ("3", 31), ("4", 400)] {
        let directory = test_home.copies_root().join(digit.repeat(8));
        fs::create_dir_all(directory.join("project")).unwrap();
        fs::write(directory.join("project/file"), "text").unwrap();
        for path in ["project/file", "project", ""] {
            ages.push((directory.join(path), days));
        }
    }
    // A copy with a newer file is still in use.
    fs::write(test_home.copies_root().join("44444444/new"), "text").unwrap();
    ages.push((test_home.copies_root().join("44444444/new"), 1));
    fs::create_dir_all(test_home.copies_root().join(AT_RISK_DIR).join("1-0-0")).unwrap();
    ages.push((test_home.copies_root().join(AT_RISK_DIR).join("1-0-0"), 31));
    fs::create_dir_all(test_home.copies_root().join(".nowhere")).unwrap();
    ages.push((test_home.copies_root().join(".nowhere"), 31));
    for (path, days) in ages {
        set_age(&path, days);
    }
    test_home
        .guard
        .prepare_for_start(&test_home.cwd(), Some(&parse_id("33333333")));
    let mut remaining = list_names(&test_home.copies_root());
    remaining.sort();
    assert_eq!(
        remaining,
        [AT_RISK_DIR, ".nowhere", "22222222", "33333333", "44444444"]
    );
    assert!(
        !test_home
            .copies_root()
            .join(AT_RISK_DIR)
            .join("1-0-0")
            .exists()
    );
}

#[test]
fn all_copies_of_a_session_are_removed() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.write_session(OTHER_SESSION_FILE, &session_text(OTHER_SESSION_ID));
    test_home.write_session(OTHER_TWIN_FILE, &empty_session_text(OTHER_SESSION_ID));
    test_home.prepare_for_start();
    test_home
        .guard
        .prepare_for_start(&test_home.cwd(), Some(&parse_id("33333333")));
    assert!(remove_copies(&test_home.copies_root(), &parse_id("44444444")).is_ok());
    for id in [SESSION_ID, OTHER_SESSION_ID] {
        remove_copies(&test_home.copies_root(), &NativeId::parse(id).unwrap()).unwrap();
    }
    test_home.remove_sessions(&[SESSION_FILE, OTHER_SESSION_FILE, OTHER_TWIN_FILE]);
    test_home.mark_owners_dead();
    assert!(test_home.prepare_for_start().1.is_empty());
    assert_eq!(
        (
            test_home.read_session(SESSION_FILE),
            test_home.read_session(OTHER_SESSION_FILE)
        ),
        (None, None)
    );
}

#[test]
fn a_project_is_found_by_its_root_file_if_the_list_is_missing() {
    let test_home = new_test_home();
    fs::remove_file(test_home.home().join("projects.json")).unwrap();
    assert!(test_home.guard.find_chats(&test_home.cwd()).is_none());
    let cwd = test_home.cwd().canonicalize().unwrap();
    fs::write(
        test_home.session_path("../.project_root"),
        cwd.to_str().unwrap(),
    )
    .unwrap();
    assert_eq!(
        test_home
            .guard
            .find_chats(&test_home.cwd())
            .unwrap()
            .project,
        "project"
    );
}

#[test]
fn a_project_name_cannot_lead_out_of_the_home() {
    let test_home = new_test_home();
    let cwd = test_home.cwd().canonicalize().unwrap();
    for name in ["../..", "..", ".", "", "a/b", "/etc"] {
        test_home.write_projects(&serde_json::json!({cwd.to_str().unwrap(): name}));
        assert!(
            test_home.guard.find_chats(&test_home.cwd()).is_none(),
            "{name}"
        );
    }
}

#[test]
fn a_session_of_the_current_minute_must_wait() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    assert_eq!(
        test_home
            .guard
            .seconds_to_wait(&test_home.cwd(), &parse_id(SESSION_ID)),
        None
    );
    let minute = Timestamp::from_second(NOW_SECONDS).unwrap().to_string()[..16].replace(':', "-");
    test_home.write_session(
        &format!("session-{minute}-11111111.jsonl"),
        &session_text(SESSION_ID),
    );
    let seconds = test_home
        .guard
        .seconds_to_wait(&test_home.cwd(), &parse_id(SESSION_ID));
    assert_eq!(seconds, Some(60 - NOW_SECONDS % 60));
}

/// Appends another turn to an existing file.
fn append_to_session(test_home: &GuardTestHome, text: &str) {
    use std::io::Write;
    let mut file = fs::File::options()
        .append(true)
        .open(test_home.session_path(SESSION_FILE))
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Action of Gemini CLI while it has the terminal.
type GeminiAction = fn(&GuardTestHome);

#[test]
fn a_handed_over_session_is_restored_with_its_later_messages() {
    let longer = session_text(SESSION_ID) + &turn_text("second");
    // (name, action of Gemini CLI while it has the terminal, reported actions, content of the file afterwards)
    let cases: [(&str, GeminiAction, Vec<GuardAction>, String); 4] = [
        ("nothing", |_| {}, Vec::new(), session_text(SESSION_ID)),
        (
            "a twin",
            |test_home| {
                append_to_session(test_home, &turn_text("second"));
                test_home.write_session(TWIN_FILE, &empty_session_text(SESSION_ID));
            },
            vec![twin_removed()],
            longer.clone(),
        ),
        (
            "deleted with its twin",
            |test_home| {
                append_to_session(test_home, &turn_text("second"));
                test_home.remove_sessions(&[SESSION_FILE]);
            },
            vec![restored(RestoreCause::Deleted)],
            longer.clone(),
        ),
        (
            "deleted while it is in use",
            |test_home| {
                append_to_session(test_home, &turn_text("second"));
                test_home.remove_sessions(&[SESSION_FILE]);
                test_home.write_session(SESSION_FILE, &turn_text("third"));
            },
            vec![restored(RestoreCause::DeletedInUse)],
            longer + &turn_text("third"),
        ),
    ];
    for (name, action, expected_actions, text) in cases {
        let test_home = new_test_home();
        test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
        assert_eq!(
            test_home
                .guard
                .prepare_handover(&test_home.cwd(), &parse_id(SESSION_ID)),
            [GuardAction::CopySaved {
                short_id: "11111111".to_owned()
            }],
            "{name}"
        );
        action(&test_home);
        assert!(
            test_home.guard.repair_handed_over().is_empty(),
            "{name}: Gemini CLI is running"
        );
        test_home.mark_owners_dead();
        assert_eq!(
            test_home.guard.repair_handed_over(),
            expected_actions,
            "{name}"
        );
        assert_eq!(test_home.read_session(SESSION_FILE), Some(text), "{name}");
        assert_eq!(test_home.read_session(TWIN_FILE), None, "{name}");
        assert_eq!(test_home.count_records(), 0, "{name}");
        // segue does not restore what is deleted from now on.
        test_home.remove_sessions(&[SESSION_FILE]);
        assert!(test_home.guard.repair_handed_over().is_empty(), "{name}");
    }
}

#[test]
fn records_that_were_not_handed_over_are_repaired_only_at_a_start() {
    let test_home = new_test_home();
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    test_home.prepare_for_start();
    test_home.remove_sessions(&[SESSION_FILE]);
    test_home.mark_owners_dead();
    assert!(test_home.guard.repair_handed_over().is_empty());
    assert_eq!(
        test_home.prepare_for_start().1,
        [restored(RestoreCause::Deleted)]
    );
}

#[test]
fn a_missing_session_is_not_reported_as_copied() {
    let test_home = new_test_home();
    assert!(
        test_home
            .guard
            .prepare_handover(&test_home.cwd(), &parse_id(SESSION_ID))
            .is_empty()
    );
}
