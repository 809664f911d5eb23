//! Tests with generated sessions of Claude Code, whose home is the simplest to generate.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use segue_core::id::SessionId;
use segue_core::session::{Tag, Title, TitleSource};
use tempfile::TempDir;

use super::*;
use crate::belongings::stays_inside;
use crate::compression::compress;
use crate::{Catalog, Claude, Trash};

const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";
const SAMPLE: &str = include_str!("../../tests/it/samples/claude.jsonl");
const MAIN: &str = "projects/-w/0b5e4c3a-1111-4222-8333-444455556666.jsonl";
const SIDE: &str = "projects/-w/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt";

/// A home of Claude Code and one of segue.
struct World {
    directory: TempDir,
    catalog: Catalog,
    archive: Archive,
    trash: Trash,
}

impl World {
    /// Creates the homes, with one session.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let segue = directory.path().join("segue");
        let archive = Archive::open(&segue);
        let claude = Claude::new(directory.path().join("claude"));
        let world = Self {
            catalog: Catalog::new(vec![Arc::new(claude)]).with_archive(archive.clone()),
            trash: Trash::open(&segue),
            archive,
            directory,
        };
        world.write(MAIN, SAMPLE);
        world.write(SIDE, "what a tool said");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("claude").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(then)).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn session(&self) -> NativeSession {
        self.catalog.lookup(ID).sessions.remove(0)
    }

    fn save(&self) -> Result<Saved, KeepError> {
        self.catalog
            .save(&self.session(), &self.archive, Timestamp::UNIX_EPOCH)
    }

    fn saved(&self) -> Entry {
        self.save().unwrap().entry().clone()
    }

    fn remove(&self) {
        self.catalog.remove(&self.session(), None).unwrap();
    }

    fn restore(&self, entry: &Entry) -> Result<PutBack, KeepError> {
        entry.restore(
            &self.path(""),
            &self.directory.path().join("exports"),
            Times::Kept,
        )
    }
}

/// Returns all files below a directory.
fn all_files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for path in entries(directory) {
        if path.is_dir() {
            names.extend(all_files(&path));
        } else {
            names.push(path.to_string_lossy().into_owned());
        }
    }
    names
}

#[test]
fn a_copy_outlives_the_session_and_brings_it_back_as_it_was() {
    let world = World::new();
    let before = fs::metadata(world.path(MAIN)).unwrap();
    let saved = world.save().unwrap();
    assert!(matches!(saved, Saved::New(_)), "{saved:?}");
    let entry = saved.entry().clone();
    assert_eq!(entry.manifest.turns, Some(3));
    assert_eq!(
        entry.manifest.head.title.as_ref().unwrap().as_str(),
        "Shopping"
    );
    assert_eq!(entry.manifest.files.len(), 2);
    assert!(entry.packed_size() < entry.manifest.size());
    assert!(matches!(world.save().unwrap(), Saved::Already(_)));
    assert_eq!(
        Manifest::read(&entry.path).unwrap(),
        Some(entry.manifest.clone())
    );

    world.remove();
    assert_eq!(all_files(&world.path("projects")), Vec::<String>::new());
    assert!(!world.path("projects/-w").join(ID).exists());
    assert!(world.catalog.only_archived(&world.session()));

    let put_back = world.restore(&entry).unwrap();
    assert_eq!(put_back.files, [world.path(MAIN), world.path(SIDE)]);
    assert_eq!(world.text(MAIN).unwrap(), SAMPLE);
    assert_eq!(world.text(SIDE).unwrap(), "what a tool said");
    let after = fs::metadata(world.path(MAIN)).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
    assert!(!world.catalog.only_archived(&world.session()));
    // A second restore finds the files and succeeds.
    let again = world.restore(&entry).unwrap();
    assert_eq!((again.files.len(), again.there.len()), (0, 2));
}

#[test]
fn what_changed_is_copied_again_and_only_that() {
    let world = World::new();
    let first = world.saved();
    world.write(MAIN, &format!("{SAMPLE}{{\"type\":\"mode\"}}\n"));
    let saved = world.save().unwrap();
    assert!(matches!(saved, Saved::Renewed(_)), "{saved:?}");
    assert_ne!(
        saved.entry().manifest.files[0].sha256,
        first.manifest.files[0].sha256
    );
    assert_eq!(saved.entry().manifest.files[1], first.manifest.files[1]);
    // A manifest and two files: the outdated file was removed.
    assert_eq!(all_files(&first.path).len(), 3);
    fs::remove_file(world.path(SIDE)).unwrap();
    assert_eq!(world.saved().manifest.files.len(), 1);
}

#[test]
fn a_session_that_only_the_archive_has_is_found_and_read() {
    let world = World::new();
    let live = world.session();
    let (turns, _) = world.catalog.recent(&live, 9).unwrap();
    world.saved();
    world.remove();
    let session = world.session();
    assert!(session.found.archived);
    assert_eq!(session.head, live.head);
    let alone = std::slice::from_ref(&session);
    assert_eq!(world.catalog.sessions(None, None).sessions, alone);
    assert_eq!(world.catalog.lookup("claude:0b5e").sessions, alone);
    assert_eq!(world.catalog.lookup("0b5f").sessions, []);
    for _ in 0..2 {
        assert_eq!(world.catalog.recent(&session, 9).unwrap().0, turns);
    }
    // The session is unpacked a second time if the record of its copy is missing.
    let opened = world.archive.opened(
        &Manifest::read(session.found.path.parent().unwrap())
            .unwrap()
            .unwrap(),
    );
    fs::write(opened.join(MAIN), "").unwrap();
    fs::remove_file(opened.join(".of")).unwrap();
    assert_eq!(world.catalog.recent(&session, 9).unwrap().0, turns);
}

#[test]
fn a_file_that_differs_is_never_written_over() {
    let world = World::new();
    let entry = world.saved();
    fs::remove_file(world.path(SIDE)).unwrap();
    world.write(MAIN, "somebody went on with it");
    let error = world.restore(&entry).unwrap_err();
    assert!(
        matches!(&error, KeepError::Differs(path) if *path == world.path(MAIN)),
        "{error}"
    );
    assert_eq!(world.text(MAIN).unwrap(), "somebody went on with it");
    assert_eq!(world.text(SIDE), None, "nothing is done by halves");
    fs::remove_file(world.path(MAIN)).unwrap();
    fs::create_dir(world.path(MAIN)).unwrap();
    assert!(matches!(world.restore(&entry), Err(KeepError::Differs(_))));
}

#[test]
fn links_are_not_followed_out_of_the_home() {
    let world = World::new();
    let secret = world.directory.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    let beside = world.path(SIDE);
    symlink(secret.join("key"), beside.with_file_name("key")).unwrap();
    symlink(&secret, beside.with_file_name("more")).unwrap();
    let belongings = world.catalog.belongings(&world.session()).unwrap();
    assert_eq!(belongings.pieces.len(), 2);
    assert_eq!(belongings.left.len(), 2, "{belongings:?}");
    world.saved();
    world.remove();
    assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), "secret");

    // A conversation that is a link, or behind one, is neither restored nor copied.
    let entry = world.archive.list().0.remove(0);
    for (from, to) in [("projects/-w", "elsewhere"), ("projects/-w", "..")] {
        let _ = fs::remove_dir_all(world.path("projects/-w"));
        let _ = fs::remove_file(world.path("projects/-w"));
        let target = world.directory.path().join(to);
        fs::create_dir_all(&target).unwrap();
        symlink(&target, world.path(from)).unwrap();
        let error = world.restore(&entry).unwrap_err();
        assert!(matches!(error, KeepError::Outside(_)), "{error}");
    }
    fs::remove_file(world.path("projects/-w")).unwrap();
    fs::write(secret.join("s.jsonl"), SAMPLE).unwrap();
    fs::create_dir(world.path("projects/-w")).unwrap();
    symlink(secret.join("s.jsonl"), world.path(MAIN)).unwrap();
    let session = world.session();
    assert!(!world.catalog.only_archived(&session));
    assert!(matches!(
        world.catalog.belongings(&session),
        Err(KeepError::Outside(_))
    ));
    assert!(matches!(
        world.catalog.remove(&session, None),
        Err(KeepError::Outside(_))
    ));
}

#[test]
fn a_manifest_that_leads_elsewhere_or_makes_no_sense_is_refused() {
    let world = World::new();
    let entry = world.saved();
    let path = entry.path.join(manifest::NAME);
    let good = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("projects/-w/", "../../../"),
        ("projects/-w/", "/etc/"),
        ("\"version\": 1", "\"version\": 2"),
        ("\"main\"", "\"mane\""),
        (&entry.manifest.files[0].sha256, "../../x"),
        ("\"id\": \"0b5e", "\"id\": \"../"),
        ("{", "{{"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from}");
        fs::write(&path, bad).unwrap();
        let read = Manifest::read(&entry.path);
        assert!(
            matches!(read, Err(KeepError::Broken { .. })),
            "{to}: {read:?}"
        );
        let (all, unreadable) = world.archive.list();
        assert_eq!((all.len(), unreadable.len()), (0, 1), "{to}");
        // An unreadable copy does not prevent a new one.
        assert!(matches!(world.save().unwrap(), Saved::New(_)), "{to}");
        assert_eq!(fs::read_to_string(&path).unwrap(), good, "{to}");
    }
    for (name, inside) in [
        ("a/b", true),
        ("a/../b", false),
        ("/a", false),
        ("..", false),
        ("", false),
    ] {
        assert_eq!(stays_inside(Path::new(name)), inside, "{name}");
    }
}

#[test]
fn a_damaged_copy_is_told_and_nothing_is_put_back() {
    let world = World::new();
    let entry = world.saved();
    world.remove();
    let damaged = pack::file_of(&entry.path, &entry.manifest.files[1].sha256);
    let good = fs::read(&damaged).unwrap();
    for bad in [
        Vec::new(),
        good[..good.len() - 3].to_vec(),
        compress(b"else"),
    ] {
        fs::write(&damaged, bad).unwrap();
        assert!(world.restore(&entry).is_err());
        assert_eq!(all_files(&world.path("projects")), Vec::<String>::new());
    }
    fs::remove_file(&damaged).unwrap();
    assert!(world.restore(&entry).is_err());
    fs::write(&damaged, good).unwrap();
    assert!(world.restore(&entry).is_ok());
}

#[test]
fn a_copy_that_was_never_finished_is_none() {
    let world = World::new();
    let entry = world.saved();
    fs::remove_file(entry.path.join(manifest::NAME)).unwrap();
    fs::write(entry.path.join(".new-1-1"), "half").unwrap();
    assert_eq!(world.archive.list().0, []);
    world.saved();
    assert_eq!(all_files(&entry.path).len(), 3);
}

#[test]
fn a_session_that_is_written_to_all_the_while_is_not_copied() {
    let world = World::new();
    world.write(MAIN, &SAMPLE.repeat(2000));
    let session = world.session();
    let busy = AtomicBool::new(true);
    let (copied, archived) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(world.path(MAIN)).unwrap();
            while busy.load(Ordering::Relaxed) {
                file.write_all(b"{\"type\":\"mode\"}\n").unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let copied = world
            .catalog
            .discard(&session, &world.trash, Timestamp::UNIX_EPOCH);
        let archived = world.save();
        busy.store(false, Ordering::Relaxed);
        (copied, archived)
    });
    assert!(matches!(copied, Err(KeepError::Changing(_))), "{copied:?}");
    assert!(
        matches!(archived, Err(KeepError::Changing(_))),
        "{archived:?}"
    );
    assert_eq!(
        all_files(&world.directory.path().join("segue/trash")).len(),
        1,
        "the lock"
    );
    assert_eq!(
        all_files(&world.directory.path().join("segue/archive")).len(),
        1
    );
    assert!(matches!(world.save(), Ok(Saved::New(_))));
}

#[test]
fn a_session_that_changes_before_it_is_removed_stays() {
    let world = World::new();
    let session = world.session();
    let copied = world
        .catalog
        .discard(&session, &world.trash, Timestamp::UNIX_EPOCH)
        .unwrap();
    // The agent continues the session between the copy and the removal.
    world.write(MAIN, &format!("{SAMPLE}{{\"type\":\"mode\"}}\n"));
    let error = world.catalog.remove(&session, Some(&copied)).unwrap_err();
    assert!(matches!(error, KeepError::Changing(_)), "{error}");
    assert!(world.text(MAIN).is_some() && world.text(SIDE).is_some());
    let again = world
        .catalog
        .discard(&session, &world.trash, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_ne!(again.path, copied.path, "the first copy is still there");
    world.catalog.remove(&session, Some(&again)).unwrap();
    assert_eq!(world.text(MAIN), None);
    assert_eq!(world.trash.list().0.len(), 2);
    assert!(world.text(SIDE).is_none());
}

#[test]
fn several_at_once_make_one_copy() {
    let world = World::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| world.saved());
        }
    });
    let (all, unreadable) = world.archive.list();
    assert_eq!((all.len(), unreadable.len()), (1, 0));
    assert_eq!(all_files(&all[0].path).len(), 3);
}

#[test]
fn few_copies_are_left_unpacked() {
    let world = World::new();
    let ids: Vec<String> = (0..OPEN + 3)
        .map(|n| format!("{n:08}{}", &ID[8..]))
        .collect();
    for id in &ids {
        world.write(&MAIN.replace(ID, id), &SAMPLE.replace(ID, id));
        let session = world.catalog.lookup(id).sessions.remove(0);
        let saved = world
            .catalog
            .save(&session, &world.archive, Timestamp::UNIX_EPOCH);
        saved.unwrap();
        world.catalog.remove(&session, None).unwrap();
        let session = world.catalog.lookup(id).sessions.remove(0);
        assert_eq!(world.catalog.recent(&session, 9).unwrap().0.len(), 3);
    }
    let opened = entries(&world.archive.root.join(OPENED).join("claude"));
    assert_eq!(opened.len(), OPEN);
    let last = ids.last().unwrap();
    assert!(opened.iter().any(|path| path.ends_with(last)));
    assert!(!opened.iter().any(|path| path.ends_with(&ids[0])));
}

#[test]
fn a_copy_in_the_trash_remembers_what_it_went_with() {
    let world = World::new();
    let (session, at) = (world.session(), Timestamp::UNIX_EPOCH);
    let copy = world.catalog.discard(&session, &world.trash, at).unwrap();
    let id = SessionId::parse("20261116_080718_6ee7").unwrap();
    for called in [
        None,
        Some(Called {
            title: Title::given("Pay \"twice\"", TitleSource::User).unwrap(),
            tags: vec![Tag::parse("支払い").unwrap()],
        }),
    ] {
        let gone = WentWith {
            id: id.clone(),
            called,
        };
        let noted = world.trash.note(copy.clone(), gone.clone()).unwrap();
        assert_eq!(noted.manifest.went_with, Some(gone));
        assert_eq!(world.trash.list().0, [noted]);
    }
}
