//! Tests with generated sessions of Claude Code, whose home is the simplest to generate.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use segue_core::id::SessionId;
use segue_core::session::{Tag, Title, TitleSource};
use segue_providers::compression::Compressor;
use tempfile::TempDir;

use super::*;
use crate::{Catalog, ClaudeReader, Trash};

const SESSION_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";
const SAMPLE_TRANSCRIPT: &str =
    include_str!("../../../segue-providers/tests/it/samples/claude.jsonl");
const MAIN_FILE: &str = "projects/-w/0b5e4c3a-1111-4222-8333-444455556666.jsonl";
const SIDE_FILE: &str = "projects/-w/0b5e4c3a-1111-4222-8333-444455556666/tool-results/a.txt";

/// Compresses bytes as one file.
fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(Vec::new());
    compressor.write_all(bytes).unwrap();
    compressor.finish().unwrap()
}

/// A home of Claude Code and one of segue.
struct ArchiveTestHome {
    directory: TempDir,
    catalog: Catalog,
    archive: Archive,
    trash: Trash,
}

impl ArchiveTestHome {
    /// Creates the homes, with one session.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let segue = directory.path().join("segue");
        let archive = Archive::open(&segue);
        let claude = ClaudeReader::new(directory.path().join("claude"));
        let home = Self {
            catalog: Catalog::new(vec![Arc::new(claude)]).with_archive(archive.clone()),
            trash: Trash::open(&segue),
            archive,
            directory,
        };
        home.write(MAIN_FILE, SAMPLE_TRANSCRIPT);
        home.write(SIDE_FILE, "output of a tool");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("claude").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(modified))
            .unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn session(&self) -> NativeSession {
        self.catalog.lookup_id(SESSION_ID).sessions.remove(0)
    }

    fn save(&self) -> Result<ArchiveOutcome, ArchiveError> {
        self.catalog
            .archive_session(&self.session(), &self.archive, Timestamp::UNIX_EPOCH)
    }

    fn save_entry(&self) -> ArchivedSession {
        self.save().unwrap().entry().clone()
    }

    fn remove(&self) {
        self.catalog.remove_session(&self.session(), None).unwrap();
    }

    fn restore(&self, entry: &ArchivedSession) -> Result<RestoredFiles, ArchiveError> {
        entry.restore(
            &self.path(""),
            &self.directory.path().join("exports"),
            RestoredFileTimes::Original,
        )
    }
}

/// Returns all files below a directory.
fn list_files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for path in list_directory(directory) {
        if path.is_dir() {
            names.extend(list_files(&path));
        } else {
            names.push(path.to_string_lossy().into_owned());
        }
    }
    names
}

#[test]
fn a_copy_outlives_the_session_and_restores_it_unchanged() {
    let home = ArchiveTestHome::new();
    let before = fs::metadata(home.path(MAIN_FILE)).unwrap();
    let outcome = home.save().unwrap();
    assert!(matches!(outcome, ArchiveOutcome::Created(_)), "{outcome:?}");
    let entry = outcome.entry().clone();
    assert_eq!(entry.manifest.turns, Some(3));
    assert_eq!(
        entry.manifest.head.title.as_ref().unwrap().as_str(),
        "Shopping"
    );
    assert_eq!(entry.manifest.files.len(), 2);
    assert!(entry.packed_size() < entry.manifest.size());
    assert!(matches!(home.save().unwrap(), ArchiveOutcome::Unchanged(_)));
    assert_eq!(
        Manifest::read(&entry.path).unwrap(),
        Some(entry.manifest.clone())
    );

    home.remove();
    assert_eq!(list_files(&home.path("projects")), Vec::<String>::new());
    assert!(!home.path("projects/-w").join(SESSION_ID).exists());
    assert!(home.catalog.is_only_archived(&home.session()));

    let restored = home.restore(&entry).unwrap();
    assert_eq!(restored.files, [home.path(MAIN_FILE), home.path(SIDE_FILE)]);
    assert_eq!(home.text(MAIN_FILE).unwrap(), SAMPLE_TRANSCRIPT);
    assert_eq!(home.text(SIDE_FILE).unwrap(), "output of a tool");
    let after = fs::metadata(home.path(MAIN_FILE)).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
    assert!(!home.catalog.is_only_archived(&home.session()));
    // A second restore finds the files and succeeds.
    let second_restore = home.restore(&entry).unwrap();
    assert_eq!(
        (second_restore.files.len(), second_restore.existing.len()),
        (0, 2)
    );
}

#[test]
fn only_changed_files_are_copied_again() {
    let home = ArchiveTestHome::new();
    let first = home.save_entry();
    home.write(
        MAIN_FILE,
        &format!("{SAMPLE_TRANSCRIPT}{{\"type\":\"mode\"}}\n"),
    );
    let outcome = home.save().unwrap();
    assert!(matches!(outcome, ArchiveOutcome::Updated(_)), "{outcome:?}");
    assert_ne!(
        outcome.entry().manifest.files[0].sha256,
        first.manifest.files[0].sha256
    );
    assert_eq!(outcome.entry().manifest.files[1], first.manifest.files[1]);
    // A manifest and two files: the outdated file was removed.
    assert_eq!(list_files(&first.path).len(), 3);
    fs::remove_file(home.path(SIDE_FILE)).unwrap();
    assert_eq!(home.save_entry().manifest.files.len(), 1);
}

#[test]
fn a_session_that_only_the_archive_has_is_found_and_read() {
    let home = ArchiveTestHome::new();
    let live = home.session();
    let (turns, _) = home.catalog.read_recent_turns(&live, 9).unwrap();
    home.save_entry();
    home.remove();
    let session = home.session();
    assert!(session.location.archived);
    assert_eq!(session.head, live.head);
    let expected = std::slice::from_ref(&session);
    assert_eq!(home.catalog.list_sessions(None, None).sessions, expected);
    assert_eq!(home.catalog.lookup_id("claude:0b5e").sessions, expected);
    assert_eq!(home.catalog.lookup_id("0b5f").sessions, []);
    for _ in 0..2 {
        assert_eq!(
            home.catalog.read_recent_turns(&session, 9).unwrap().0,
            turns
        );
    }
    // The session is unpacked a second time if the record of its copy is missing.
    let unpacked_dir = home.archive.unpacked_dir(
        &Manifest::read(session.location.path.parent().unwrap())
            .unwrap()
            .unwrap(),
    );
    fs::write(unpacked_dir.join(MAIN_FILE), "").unwrap();
    fs::remove_file(unpacked_dir.join(".of")).unwrap();
    assert_eq!(
        home.catalog.read_recent_turns(&session, 9).unwrap().0,
        turns
    );
}

#[test]
fn a_file_that_differs_is_never_overwritten() {
    let home = ArchiveTestHome::new();
    let entry = home.save_entry();
    fs::remove_file(home.path(SIDE_FILE)).unwrap();
    home.write(MAIN_FILE, "the conversation continued");
    let error = home.restore(&entry).unwrap_err();
    assert!(
        matches!(&error, ArchiveError::FileConflict(path) if *path == home.path(MAIN_FILE)),
        "{error}"
    );
    assert_eq!(home.text(MAIN_FILE).unwrap(), "the conversation continued");
    assert_eq!(
        home.text(SIDE_FILE),
        None,
        "a failed restore writes no file"
    );
    fs::remove_file(home.path(MAIN_FILE)).unwrap();
    fs::create_dir(home.path(MAIN_FILE)).unwrap();
    assert!(matches!(
        home.restore(&entry),
        Err(ArchiveError::FileConflict(_))
    ));
}

#[test]
fn links_are_not_followed_out_of_the_home() {
    let home = ArchiveTestHome::new();
    let secret = home.directory.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    let side_file = home.path(SIDE_FILE);
    symlink(secret.join("key"), side_file.with_file_name("key")).unwrap();
    symlink(&secret, side_file.with_file_name("more")).unwrap();
    let artifacts = home.catalog.collect_artifacts(&home.session()).unwrap();
    assert_eq!(artifacts.artifacts.len(), 2);
    assert_eq!(artifacts.skipped.len(), 2, "{artifacts:?}");
    home.save_entry();
    home.remove();
    assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), "secret");

    // A conversation that is a link, or behind one, is neither restored nor copied.
    let entry = home.archive.list().0.remove(0);
    for (from, to) in [("projects/-w", "outside"), ("projects/-w", "..")] {
        let _ = fs::remove_dir_all(home.path("projects/-w"));
        let _ = fs::remove_file(home.path("projects/-w"));
        let target = home.directory.path().join(to);
        fs::create_dir_all(&target).unwrap();
        symlink(&target, home.path(from)).unwrap();
        let error = home.restore(&entry).unwrap_err();
        assert!(matches!(error, ArchiveError::OutsideHome(_)), "{error}");
    }
    fs::remove_file(home.path("projects/-w")).unwrap();
    fs::write(secret.join("s.jsonl"), SAMPLE_TRANSCRIPT).unwrap();
    fs::create_dir(home.path("projects/-w")).unwrap();
    symlink(secret.join("s.jsonl"), home.path(MAIN_FILE)).unwrap();
    let session = home.session();
    assert!(!home.catalog.is_only_archived(&session));
    assert!(matches!(
        home.catalog.collect_artifacts(&session),
        Err(ArchiveError::OutsideHome(_))
    ));
    assert!(matches!(
        home.catalog.remove_session(&session, None),
        Err(ArchiveError::OutsideHome(_))
    ));
}

#[test]
fn an_invalid_manifest_or_a_path_outside_the_home_is_rejected() {
    let home = ArchiveTestHome::new();
    let entry = home.save_entry();
    let path = entry.path.join(manifest::MANIFEST_FILE_NAME);
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
            matches!(read, Err(ArchiveError::Damaged { .. })),
            "{to}: {read:?}"
        );
        let (entries, unreadable) = home.archive.list();
        assert_eq!((entries.len(), unreadable.len()), (0, 1), "{to}");
        // An unreadable copy does not prevent a new one.
        assert!(
            matches!(home.save().unwrap(), ArchiveOutcome::Created(_)),
            "{to}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), good, "{to}");
    }
    for (name, inside) in [
        ("a/b", true),
        ("a/../b", false),
        ("/a", false),
        ("..", false),
        ("", false),
    ] {
        assert_eq!(
            manifest::is_contained_path(Path::new(name)),
            inside,
            "{name}"
        );
    }
}

#[test]
fn a_damaged_copy_is_an_error_and_no_file_is_restored() {
    let home = ArchiveTestHome::new();
    let entry = home.save_entry();
    home.remove();
    let damaged = pack::packed_path(&entry.path, &entry.manifest.files[1].sha256);
    let good = fs::read(&damaged).unwrap();
    for bad in [
        Vec::new(),
        good[..good.len() - 3].to_vec(),
        compress(b"else"),
    ] {
        fs::write(&damaged, bad).unwrap();
        assert!(home.restore(&entry).is_err());
        assert_eq!(list_files(&home.path("projects")), Vec::<String>::new());
    }
    fs::remove_file(&damaged).unwrap();
    assert!(home.restore(&entry).is_err());
    fs::write(&damaged, good).unwrap();
    assert!(home.restore(&entry).is_ok());
}

#[test]
fn an_unfinished_copy_is_not_listed() {
    let home = ArchiveTestHome::new();
    let entry = home.save_entry();
    fs::remove_file(entry.path.join(manifest::MANIFEST_FILE_NAME)).unwrap();
    fs::write(entry.path.join(".new-1-1"), "half").unwrap();
    assert_eq!(home.archive.list().0, []);
    home.save_entry();
    assert_eq!(list_files(&entry.path).len(), 3);
}

#[test]
fn a_session_that_changes_during_every_attempt_is_not_copied() {
    let home = ArchiveTestHome::new();
    home.write(MAIN_FILE, &SAMPLE_TRANSCRIPT.repeat(2000));
    let session = home.session();
    let busy = AtomicBool::new(true);
    let (copied, archived) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options()
                .append(true)
                .open(home.path(MAIN_FILE))
                .unwrap();
            while busy.load(Ordering::Relaxed) {
                file.write_all(b"{\"type\":\"mode\"}\n").unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let copied = home
            .catalog
            .copy_to_trash(&session, &home.trash, Timestamp::UNIX_EPOCH);
        let archived = home.save();
        busy.store(false, Ordering::Relaxed);
        (copied, archived)
    });
    assert!(
        matches!(copied, Err(ArchiveError::Changing(_))),
        "{copied:?}"
    );
    assert!(
        matches!(archived, Err(ArchiveError::Changing(_))),
        "{archived:?}"
    );
    assert_eq!(
        list_files(&home.directory.path().join("segue/trash")).len(),
        1,
        "only the lock file remains"
    );
    assert_eq!(
        list_files(&home.directory.path().join("segue/archive")).len(),
        1
    );
    assert!(matches!(home.save(), Ok(ArchiveOutcome::Created(_))));
}

#[test]
fn a_session_that_changes_before_its_removal_is_not_removed() {
    let home = ArchiveTestHome::new();
    let session = home.session();
    let first_copy = home
        .catalog
        .copy_to_trash(&session, &home.trash, Timestamp::UNIX_EPOCH)
        .unwrap();
    // The agent continues the session between the copy and the removal.
    home.write(
        MAIN_FILE,
        &format!("{SAMPLE_TRANSCRIPT}{{\"type\":\"mode\"}}\n"),
    );
    let error = home
        .catalog
        .remove_session(&session, Some(&first_copy))
        .unwrap_err();
    assert!(matches!(error, ArchiveError::Changing(_)), "{error}");
    assert!(home.text(MAIN_FILE).is_some() && home.text(SIDE_FILE).is_some());
    let second_copy = home
        .catalog
        .copy_to_trash(&session, &home.trash, Timestamp::UNIX_EPOCH)
        .unwrap();
    assert_ne!(
        second_copy.path, first_copy.path,
        "the first copy still exists"
    );
    home.catalog
        .remove_session(&session, Some(&second_copy))
        .unwrap();
    assert_eq!(home.text(MAIN_FILE), None);
    assert_eq!(home.trash.list().0.len(), 2);
    assert!(home.text(SIDE_FILE).is_none());
}

#[test]
fn concurrent_saves_make_one_copy() {
    let home = ArchiveTestHome::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| home.save_entry());
        }
    });
    let (entries, unreadable) = home.archive.list();
    assert_eq!((entries.len(), unreadable.len()), (1, 0));
    assert_eq!(list_files(&entries[0].path).len(), 3);
}

#[test]
fn only_recently_used_copies_stay_unpacked() {
    let home = ArchiveTestHome::new();
    let ids: Vec<String> = (0..MAX_UNPACKED_COPIES + 3)
        .map(|n| format!("{n:08}{}", &SESSION_ID[8..]))
        .collect();
    for id in &ids {
        home.write(
            &MAIN_FILE.replace(SESSION_ID, id),
            &SAMPLE_TRANSCRIPT.replace(SESSION_ID, id),
        );
        let session = home.catalog.lookup_id(id).sessions.remove(0);
        let outcome = home
            .catalog
            .archive_session(&session, &home.archive, Timestamp::UNIX_EPOCH);
        outcome.unwrap();
        home.catalog.remove_session(&session, None).unwrap();
        let session = home.catalog.lookup_id(id).sessions.remove(0);
        assert_eq!(
            home.catalog.read_recent_turns(&session, 9).unwrap().0.len(),
            3
        );
    }
    let unpacked_dirs = list_directory(&home.archive.root.join(UNPACKED_DIR_NAME).join("claude"));
    assert_eq!(unpacked_dirs.len(), MAX_UNPACKED_COPIES);
    let last = ids.last().unwrap();
    assert!(unpacked_dirs.iter().any(|path| path.ends_with(last)));
    assert!(!unpacked_dirs.iter().any(|path| path.ends_with(&ids[0])));
}

#[test]
fn a_copy_in_the_trash_records_the_session_it_was_deleted_with() {
    let home = ArchiveTestHome::new();
    let (session, at) = (home.session(), Timestamp::UNIX_EPOCH);
    let copy = home
        .catalog
        .copy_to_trash(&session, &home.trash, at)
        .unwrap();
    let id = SessionId::parse("20261116_080718_6ee7").unwrap();
    for labels in [
        None,
        Some(SessionLabels {
            title: Title::new("Pay \"twice\"", TitleSource::User).unwrap(),
            tags: vec![Tag::parse("支払い").unwrap()],
        }),
    ] {
        let deleted_with = DeletedWith {
            id: id.clone(),
            labels,
        };
        let recorded = home
            .trash
            .record_deleted_with(copy.clone(), deleted_with.clone())
            .unwrap();
        assert_eq!(recorded.manifest.deleted_with, Some(deleted_with));
        assert_eq!(home.trash.list().0, [recorded]);
    }
}
