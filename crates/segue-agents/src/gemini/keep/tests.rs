//! Guard on a home of its own, with Gemini CLI's actions simulated by the tests.

use std::time::{Duration, SystemTime};

use super::*;
use crate::gemini::world::{
    FIRST, ID, OTHER, OTHERS, OTHERS_TWIN, TWIN, World, empty, id, said, session,
};
use crate::{Life, life, mark_of};

/// Current time in the tests: some seconds into a minute.
const NOW: i64 = 1_794_800_017;

const OUTSIDE: Outside = Outside {
    now: || Timestamp::from_second(NOW).unwrap(),
    random: || 7,
};

const REMOVED: &str = "removed an empty twin of Gemini session 11111111, for which Gemini CLI would have deleted 11111111";
const PUT_BACK: &str = "put back Gemini session 11111111, which had been deleted";
const PUT_BACK_OTHER: &str = "put back Gemini session 22222222, which Gemini CLI had deleted";

fn world() -> World {
    World::new(OUTSIDE)
}

impl World {
    fn before(&self) -> (Danger, Vec<String>) {
        self.keep.before(&self.cwd(), Some(&id(ID)))
    }

    fn after(&self, danger: &Danger) -> Vec<String> {
        self.keep.after(danger, &self.cwd(), &[id(ID)])
    }

    /// Makes the owners of all records appear dead.
    fn kill_owners(&self) {
        let all = self.kept().join(ENDANGERED);
        let mut mark = mark_of(std::process::id()).unwrap();
        mark.started = format!("{}/1", mark.started.rsplit_once('/').unwrap().0);
        assert_eq!(life(&mark), Life::Dead);
        for danger in entries(&all) {
            let owner = all.join(danger).join("owner");
            let mut json: serde_json::Value =
                serde_json::from_slice(&fs::read(&owner).unwrap()).unwrap();
            json["started"] = mark.started.clone().into();
            fs::write(owner, json.to_string()).unwrap();
        }
    }

    /// Returns the number of records on disk.
    fn dangers(&self) -> usize {
        entries(&self.kept().join(ENDANGERED)).len()
    }
}

#[test]
fn a_twin_is_removed_and_nothing_else() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.write(TWIN, &empty(ID));
    world.write("session-2026-11-16T03-31-33333333.jsonl", &empty(OTHER));
    assert_eq!(world.keep.sweep(&world.cwd(), &id(ID)), [REMOVED]);
    assert_eq!(world.text(FIRST), Some(session(ID)));
    assert_eq!(world.text(TWIN), None);
    assert!(
        world
            .text("session-2026-11-16T03-31-33333333.jsonl")
            .is_some()
    );
    assert!(world.keep.sweep(&world.cwd(), &id(ID)).is_empty());
}

#[test]
fn an_empty_session_without_another_file_is_no_twin() {
    let world = world();
    world.write(FIRST, &empty(ID));
    let (danger, told) = world.before();
    assert!(told.is_empty());
    assert!(world.after(&danger).is_empty());
    assert!(world.text(FIRST).is_some());
}

#[test]
fn a_deleted_session_is_put_back_as_it_was_last_seen() {
    let world = world();
    world.write(FIRST, &session(ID));
    let (danger, told) = world.before();
    assert!(told.is_empty());
    let longer = session(ID) + &said("second");
    world.write(FIRST, &longer);
    assert!(world.after(&danger).is_empty());
    world.remove(&[FIRST]);
    assert_eq!(world.before().1, [PUT_BACK]);
    assert_eq!(world.text(FIRST), Some(longer));
    assert!(world.before().1.is_empty());
}

#[test]
fn a_session_whose_directory_is_gone_is_put_back_too() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.before();
    fs::remove_dir_all(world.path("")).unwrap();
    assert_eq!(world.before().1, [PUT_BACK]);
    assert_eq!(world.text(FIRST), Some(session(ID)));
}

#[test]
fn a_session_that_was_begun_anew_gets_its_turns_back() {
    let world = world();
    world.write(FIRST, &session(ID));
    let (danger, _) = world.before();
    world.write(FIRST, &(session(ID) + &empty(ID)));
    let told = world.after(&danger);
    assert_eq!(
        told,
        ["put back Gemini session 11111111, which Gemini CLI had begun anew"]
    );
    assert_eq!(world.text(FIRST), Some(session(ID)));
}

#[test]
fn a_session_deleted_in_mid_turn_is_joined_with_what_followed() {
    let world = world();
    world.write(FIRST, &session(ID));
    let (danger, _) = world.before();
    world.write(FIRST, &said("second"));
    // While the process runs, the remainder of the file does not replace the complete copy.
    assert!(world.keep.copy(&world.cwd(), &id(ID)).is_empty());
    let told = world.after(&danger);
    assert_eq!(
        told,
        ["put back Gemini session 11111111, which Gemini CLI had deleted while it was in use"]
    );
    assert_eq!(world.text(FIRST), Some(session(ID) + &said("second")));
}

#[test]
fn what_was_copied_in_mid_conversation_comes_back() {
    let world = world();
    world.write(FIRST, &session(ID));
    let (danger, _) = world.before();
    let longer = session(ID) + &said("second");
    world.write(FIRST, &longer);
    assert!(world.keep.copy(&world.cwd(), &id(ID)).is_empty());
    world.remove(&[FIRST]);
    assert_eq!(world.after(&danger), [PUT_BACK]);
    assert_eq!(world.text(FIRST), Some(longer));
}

#[test]
fn what_its_helpers_did_comes_back_with_the_session() {
    let world = world();
    world.write(FIRST, &session(ID));
    fs::create_dir(world.path(ID)).unwrap();
    world.write(&format!("{ID}/helper.jsonl"), "done");
    world.before();
    fs::remove_dir_all(world.path(ID)).unwrap();
    world.remove(&[FIRST]);
    assert_eq!(world.before().1, [PUT_BACK]);
    assert_eq!(
        world.text(&format!("{ID}/helper.jsonl")).as_deref(),
        Some("done")
    );
}

#[test]
fn others_are_put_back_if_a_twin_was_their_end_and_not_their_age() {
    let world = world();
    let old = "session-2026-10-01T00-00-33333333.jsonl";
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    world.write(old, &session("33333333-3"));
    let (danger, told) = world.before();
    assert!(told.is_empty());
    world.remove(&[OTHERS, OTHERS_TWIN, old]);
    assert_eq!(world.after(&danger), [PUT_BACK_OTHER]);
    assert_eq!(world.text(OTHERS), Some(session(OTHER)));
    assert_eq!(world.text(old), None);
    assert_eq!(world.dangers(), 0);
    // The session is no longer at risk, so segue does not restore it.
    world.remove(&[OTHERS]);
    assert!(world.before().1.is_empty());
    assert_eq!(world.text(OTHERS), None);
}

#[test]
fn a_session_that_nobody_asks_for_stays_deleted() {
    let world = world();
    world.write(OTHERS, &session(OTHER));
    let other = [id(OTHER)];
    let (danger, _) = world.keep.before(&world.cwd(), other.first());
    world.keep.after(&danger, &world.cwd(), &other);
    // Deleted because of its age, or by the user.
    world.remove(&[OTHERS]);
    world.write(FIRST, &session(ID));
    let (danger, told) = world.before();
    assert!(told.is_empty(), "{told:?}");
    assert!(world.after(&danger).is_empty());
    assert!(world.keep.before(&world.cwd(), None).1.is_empty());
    assert_eq!(world.text(OTHERS), None);
    // A request for the session restores it, and the user is informed.
    let (_, told) = world.keep.before(&world.cwd(), other.first());
    assert_eq!(
        told,
        ["put back Gemini session 22222222, which had been deleted"]
    );
    assert_eq!(world.text(OTHERS), Some(session(OTHER)));
}

#[test]
fn what_is_safe_for_one_process_is_still_in_danger_for_another() {
    let world = world();
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    let (slow, _) = world.keep.before(&world.cwd(), None);
    let (fast, _) = world.keep.before(&world.cwd(), None);
    assert!(world.keep.after(&fast, &world.cwd(), &[]).is_empty());
    // A third process that starts does not affect the running ones.
    let (third, _) = world.keep.before(&world.cwd(), None);
    assert!(world.keep.after(&third, &world.cwd(), &[]).is_empty());
    world.remove(&[OTHERS, OTHERS_TWIN]);
    let told = world.keep.after(&slow, &world.cwd(), &[]);
    assert_eq!(told, [PUT_BACK_OTHER]);
    assert_eq!(world.text(OTHERS), Some(session(OTHER)));
    assert_eq!(world.dangers(), 0);
}

#[test]
fn what_a_killed_segue_left_is_settled_by_the_next() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    world.before();
    world.remove(&[OTHERS, OTHERS_TWIN]);
    world.write(TWIN, &empty(ID));
    assert!(world.keep.before(&world.cwd(), None).1.is_empty(), "alive");
    world.kill_owners();
    // In any directory, and with any session.
    let (_, told) = world.keep.before(world.directory.path(), None);
    assert_eq!(told, [REMOVED, PUT_BACK_OTHER]);
    assert_eq!(world.text(TWIN), None);
    assert_eq!(world.text(OTHERS), Some(session(OTHER)));
    assert_eq!(world.dangers(), 0);

    world.before();
    world.remove(&[FIRST]);
    world.kill_owners();
    assert_eq!(world.keep.before(&world.cwd(), None).1, [PUT_BACK]);
    assert_eq!(world.text(FIRST), Some(session(ID)));
}

#[test]
fn what_was_left_in_another_home_is_not_put_into_this_one() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.before();
    world.kill_owners();
    let elsewhere = Keep::new(world.directory.path().join("other"), world.kept(), OUTSIDE);
    assert!(elsewhere.before(&world.cwd(), None).1.is_empty());
    assert!(!world.directory.path().join("other").exists());
    assert_eq!(world.dangers(), 1);
}

#[test]
fn a_twin_of_others_is_left_alone() {
    let world = world();
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    let (danger, _) = world.before();
    world.after(&danger);
    assert!(world.text(OTHERS_TWIN).is_some());
}

#[test]
fn a_copy_that_fails_is_told_and_stops_nothing() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.write(TWIN, &empty(ID));
    fs::write(world.kept(), "a file in the way").unwrap();
    let (_, told) = world.before();
    assert_eq!(told[0], REMOVED);
    let failed = "could not keep a copy of Gemini session 11111111: ";
    assert!(told.len() > 1 && told[1..].iter().all(|line| line.starts_with(failed)));
}

#[test]
fn copies_of_sessions_that_are_not_used_any_more_are_forgotten() {
    const DAY: u64 = 24 * 60 * 60;
    let days_ago = |days: u64| {
        SystemTime::from(Timestamp::from_second(NOW).unwrap()) - Duration::from_secs(days * DAY)
    };
    let age = |path: &Path, days: u64| {
        let file = fs::File::open(path).unwrap();
        file.set_modified(days_ago(days)).unwrap();
    };
    let world = world();
    let mut ages = Vec::new();
    for (n, days) in [("1", 31), ("2", 29), ("3", 31), ("4", 400)] {
        let directory = world.kept().join(n.repeat(8));
        fs::create_dir_all(directory.join("project")).unwrap();
        fs::write(directory.join("project/file"), "words").unwrap();
        for path in ["project/file", "project", ""] {
            ages.push((directory.join(path), days));
        }
    }
    // A copy with a newer file is still in use.
    fs::write(world.kept().join("44444444/new"), "words").unwrap();
    ages.push((world.kept().join("44444444/new"), 1));
    fs::create_dir_all(world.kept().join(ENDANGERED).join("1-0-0")).unwrap();
    ages.push((world.kept().join(ENDANGERED).join("1-0-0"), 31));
    fs::create_dir_all(world.kept().join(".nowhere")).unwrap();
    ages.push((world.kept().join(".nowhere"), 31));
    for (path, days) in ages {
        age(&path, days);
    }
    world.keep.before(&world.cwd(), Some(&id("33333333")));
    let mut left = entries(&world.kept());
    left.sort();
    assert_eq!(
        left,
        [ENDANGERED, ".nowhere", "22222222", "33333333", "44444444"]
    );
    assert!(!world.kept().join(ENDANGERED).join("1-0-0").exists());
}

#[test]
fn one_session_is_forgotten_wherever_it_was_copied_to() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    world.before();
    world.keep.before(&world.cwd(), Some(&id("33333333")));
    assert!(forget(&world.kept(), &id("44444444")).is_ok());
    for id in [ID, OTHER] {
        forget(&world.kept(), &NativeId::parse(id).unwrap()).unwrap();
    }
    world.remove(&[FIRST, OTHERS, OTHERS_TWIN]);
    world.kill_owners();
    assert!(world.before().1.is_empty());
    assert_eq!((world.text(FIRST), world.text(OTHERS)), (None, None));
}

#[test]
fn a_project_is_known_by_its_mark_if_the_list_is_lost() {
    let world = world();
    fs::remove_file(world.home().join("projects.json")).unwrap();
    assert!(world.keep.chats(&world.cwd()).is_none());
    let cwd = world.cwd().canonicalize().unwrap();
    fs::write(world.path("../.project_root"), cwd.to_str().unwrap()).unwrap();
    assert_eq!(world.keep.chats(&world.cwd()).unwrap().project, "project");
}

#[test]
fn a_project_name_leads_nowhere_else() {
    let world = world();
    let cwd = world.cwd().canonicalize().unwrap();
    for name in ["../..", "..", ".", "", "a/b", "/etc"] {
        world.list_projects(&serde_json::json!({cwd.to_str().unwrap(): name}));
        assert!(world.keep.chats(&world.cwd()).is_none(), "{name}");
    }
}

#[test]
fn a_session_of_this_minute_must_wait() {
    let world = world();
    world.write(FIRST, &session(ID));
    assert_eq!(world.keep.seconds_to_wait(&world.cwd(), &id(ID)), None);
    let minute = Timestamp::from_second(NOW).unwrap().to_string()[..16].replace(':', "-");
    world.write(&format!("session-{minute}-11111111.jsonl"), &session(ID));
    let left = world.keep.seconds_to_wait(&world.cwd(), &id(ID));
    assert_eq!(left, Some(60 - NOW % 60));
}

const KEPT: &str =
    "kept a copy of Gemini session 11111111; if Gemini CLI deletes it, the next segue puts it back";

/// Appends another turn to an existing file.
fn append(world: &World, text: &str) {
    use std::io::Write;
    let mut file = fs::File::options()
        .append(true)
        .open(world.path(FIRST))
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Action of Gemini CLI while it has the terminal.
type Deed = fn(&World);

#[test]
fn what_was_handed_over_comes_back_with_all_that_was_said_since() {
    let longer = session(ID) + &said("second");
    let join = "put back Gemini session 11111111, which Gemini CLI had deleted while it was in use";
    // (name, action of Gemini CLI while it has the terminal, reported lines, content of the file afterwards)
    let cases: [(&str, Deed, &[&str], String); 4] = [
        ("nothing", |_| {}, &[], session(ID)),
        (
            "a twin",
            |world| {
                append(world, &said("second"));
                world.write(TWIN, &empty(ID));
            },
            &[REMOVED],
            longer.clone(),
        ),
        (
            "it is deleted with its twin",
            |world| {
                append(world, &said("second"));
                world.remove(&[FIRST]);
            },
            &[PUT_BACK],
            longer.clone(),
        ),
        (
            "it is deleted while it is in use",
            |world| {
                append(world, &said("second"));
                world.remove(&[FIRST]);
                world.write(FIRST, &said("third"));
            },
            &[join],
            longer + &said("third"),
        ),
    ];
    for (what, deed, told, text) in cases {
        let world = world();
        world.write(FIRST, &session(ID));
        assert_eq!(world.keep.entrust(&world.cwd(), &id(ID)), [KEPT], "{what}");
        deed(&world);
        assert!(world.keep.settle_entrusted().is_empty(), "{what}: it runs");
        world.kill_owners();
        assert_eq!(world.keep.settle_entrusted(), told, "{what}");
        assert_eq!(world.text(FIRST), Some(text), "{what}");
        assert_eq!(world.text(TWIN), None, "{what}");
        assert_eq!(world.dangers(), 0, "{what}");
        // segue does not restore what is deleted from now on.
        world.remove(&[FIRST]);
        assert!(world.keep.settle_entrusted().is_empty(), "{what}");
    }
}

#[test]
fn only_what_was_handed_over_is_settled_by_whoever_looks() {
    let world = world();
    world.write(FIRST, &session(ID));
    world.before();
    world.remove(&[FIRST]);
    world.kill_owners();
    assert!(world.keep.settle_entrusted().is_empty());
    assert_eq!(world.before().1, [PUT_BACK]);
}

#[test]
fn a_session_nobody_has_is_not_said_to_be_kept() {
    let world = world();
    assert!(world.keep.entrust(&world.cwd(), &id(ID)).is_empty());
}
