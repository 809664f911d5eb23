//! The guard on a home of its own, with Gemini CLI's deeds done by hand.

use super::*;

/// What time it is: some seconds into a minute.
const NOW: i64 = 1_794_800_017;

const ID: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";

struct World {
    directory: tempfile::TempDir,
    keep: Keep,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        fs::create_dir_all(home.join("tmp/project/chats")).unwrap();
        fs::create_dir_all(directory.path().join("project")).unwrap();
        let world = Self {
            keep: Keep::new(home.clone(), directory.path().join("kept"), || {
                Timestamp::from_second(NOW).unwrap()
            }),
            directory,
        };
        let project = world.cwd().canonicalize().unwrap();
        let projects = serde_json::json!({"projects": {project.to_str().unwrap(): "project"}});
        fs::write(home.join("projects.json"), projects.to_string()).unwrap();
        world
    }

    fn cwd(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory
            .path()
            .join("home/tmp/project/chats")
            .join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn before(&self) -> Vec<String> {
        self.keep.before(&self.cwd(), Some(&id(ID)))
    }

    fn after(&self) -> Vec<String> {
        self.keep.after(&self.cwd(), Some(&id(ID)))
    }
}

fn id(text: &str) -> NativeId {
    NativeId::parse(text).unwrap()
}

fn empty(id: &str) -> String {
    let context = r#"{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"<session_context>"}]}]}}"#;
    format!("{{\"sessionId\":\"{id}\",\"projectHash\":\"h\"}}\n{context}\n")
}

fn session(id: &str) -> String {
    format!("{}{}", empty(id), said("first"))
}

fn said(text: &str) -> String {
    format!("{{\"id\":\"{text}\",\"type\":\"user\",\"content\":[{{\"text\":\"{text}\"}}]}}\n")
}

const FIRST: &str = "session-2026-11-16T03-30-11111111.jsonl";
const TWIN: &str = "session-2026-11-16T03-31-11111111.jsonl";
const OTHERS: &str = "session-2026-11-16T03-20-22222222.jsonl";
const OTHERS_TWIN: &str = "session-2026-11-16T03-25-22222222.jsonl";
const REMOVED: &str = "removed an empty twin of Gemini session 11111111, for which Gemini CLI would have deleted 11111111";
const PUT_BACK: &str = "put back Gemini session 11111111, which Gemini CLI had deleted";

#[test]
fn a_twin_is_removed_and_nothing_else() {
    let world = World::new();
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
    let world = World::new();
    world.write(FIRST, &empty(ID));
    assert!(world.after().is_empty());
    assert!(world.text(FIRST).is_some());
}

#[test]
fn a_deleted_session_is_put_back_as_it_was_last_seen() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    assert!(world.before().is_empty());
    let longer = session(ID) + &said("second");
    world.write(FIRST, &longer);
    assert!(world.after().is_empty());
    fs::remove_file(world.path(FIRST)).unwrap();
    assert_eq!(world.before(), [PUT_BACK]);
    assert_eq!(world.text(FIRST), Some(longer));
    assert!(world.before().is_empty());
}

#[test]
fn a_session_whose_directory_is_gone_is_put_back_too() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    world.before();
    fs::remove_dir_all(world.path("")).unwrap();
    assert_eq!(world.before(), [PUT_BACK]);
    assert_eq!(world.text(FIRST), Some(session(ID)));
}

#[test]
fn a_session_that_was_begun_anew_gets_its_turns_back() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    world.before();
    world.write(FIRST, &(session(ID) + &empty(ID)));
    let told = world.after();
    assert_eq!(
        told,
        ["put back Gemini session 11111111, which Gemini CLI had begun anew"]
    );
    assert_eq!(world.text(FIRST), Some(session(ID)));
}

#[test]
fn a_session_deleted_in_mid_turn_is_joined_with_what_followed() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    world.before();
    world.write(FIRST, &said("second"));
    let told = world.after();
    assert_eq!(
        told,
        ["put back Gemini session 11111111, which Gemini CLI had deleted while it was in use"]
    );
    assert_eq!(world.text(FIRST), Some(session(ID) + &said("second")));
}

#[test]
fn what_its_helpers_did_comes_back_with_the_session() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    fs::create_dir(world.path(ID)).unwrap();
    world.write(&format!("{ID}/helper.jsonl"), "done");
    world.before();
    fs::remove_dir_all(world.path(ID)).unwrap();
    fs::remove_file(world.path(FIRST)).unwrap();
    assert_eq!(world.before(), [PUT_BACK]);
    assert_eq!(
        world.text(&format!("{ID}/helper.jsonl")).as_deref(),
        Some("done")
    );
}

#[test]
fn others_are_put_back_if_a_twin_was_their_end_and_not_their_age() {
    let world = World::new();
    let old = "session-2026-10-01T00-00-33333333.jsonl";
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    world.write(old, &session("33333333-3"));
    assert!(world.before().is_empty());
    for name in [OTHERS, OTHERS_TWIN, old] {
        fs::remove_file(world.path(name)).unwrap();
    }
    let told = world.after();
    assert_eq!(
        told,
        ["put back Gemini session 22222222, which Gemini CLI had deleted"]
    );
    assert_eq!(world.text(OTHERS), Some(session(OTHER)));
    assert_eq!(world.text(old), None);
    // It is safe now, and no business of ours any more.
    fs::remove_file(world.path(OTHERS)).unwrap();
    assert!(world.before().is_empty());
    assert_eq!(world.text(OTHERS), None);
}

#[test]
fn what_a_killed_segue_left_is_put_back_by_the_next() {
    let world = World::new();
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    world.before();
    fs::remove_file(world.path(OTHERS)).unwrap();
    fs::remove_file(world.path(OTHERS_TWIN)).unwrap();
    let told = world.keep.before(&world.cwd(), None);
    assert_eq!(
        told,
        ["put back Gemini session 22222222, which Gemini CLI had deleted"]
    );
}

#[test]
fn a_twin_of_others_is_left_alone() {
    let world = World::new();
    world.write(OTHERS, &session(OTHER));
    world.write(OTHERS_TWIN, &empty(OTHER));
    world.before();
    world.after();
    assert!(world.text(OTHERS_TWIN).is_some());
}

#[test]
fn a_copy_that_fails_is_told_and_stops_nothing() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    world.write(TWIN, &empty(ID));
    fs::write(world.directory.path().join("kept"), "a file in the way").unwrap();
    let told = world.before();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], REMOVED);
    assert!(told[1].starts_with("could not keep a copy of Gemini session 11111111: "));
}

#[test]
fn a_project_is_known_by_its_mark_if_the_list_is_lost() {
    let world = World::new();
    fs::remove_file(world.keep.home.join("projects.json")).unwrap();
    assert!(world.keep.chats(&world.cwd()).is_none());
    let cwd = world.cwd().canonicalize().unwrap();
    fs::write(world.path("../.project_root"), cwd.to_str().unwrap()).unwrap();
    assert_eq!(world.keep.chats(&world.cwd()).unwrap().project, "project");
}

#[test]
fn a_project_name_leads_nowhere_else() {
    let world = World::new();
    let cwd = world.cwd().canonicalize().unwrap();
    for name in ["../..", "..", ".", "", "a/b", "/etc"] {
        let projects = serde_json::json!({"projects": {cwd.to_str().unwrap(): name}});
        fs::write(world.keep.home.join("projects.json"), projects.to_string()).unwrap();
        assert!(world.keep.chats(&world.cwd()).is_none(), "{name}");
    }
}

#[test]
fn a_session_of_this_minute_must_wait() {
    let world = World::new();
    world.write(FIRST, &session(ID));
    assert_eq!(world.keep.seconds_to_wait(&world.cwd(), &id(ID)), None);
    let minute = Timestamp::from_second(NOW).unwrap().to_string()[..16].replace(':', "-");
    world.write(&format!("session-{minute}-11111111.jsonl"), &session(ID));
    let left = world.keep.seconds_to_wait(&world.cwd(), &id(ID));
    assert_eq!(left, Some(60 - NOW % 60));
}
