//! Tests of files that are temporarily no sessions, of a damaged index, and of concurrent processes.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use segue_catalog::index::RefreshOutcome;
use segue_catalog::{
    Catalog, Index, ReadError, ReadStart, Reader, Records, SessionHead, SessionLocation,
    SessionScan,
};

use super::{create_catalog, dump, first_format_per_agent, list_sessions, refresh};
use crate::agents::{SAMPLE_AGENTS, line_based_agents};

fn set_old_modification_time(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let long_ago = SystemTime::now() - Duration::from_hours(1);
    file.set_modified(long_ago).unwrap();
}

#[test]
fn a_temporarily_malformed_source_retains_its_last_good_row() {
    for agent in SAMPLE_AGENTS
        .iter()
        .filter(|agent| agent.name != "opencode")
    {
        let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
        let catalog = create_catalog(home.path(), &[agent]);
        let index = Index::new(index_dir.path());
        refresh(&index, &catalog);
        let good = list_sessions(&index, false);
        assert_eq!(good.len(), 1, "{}", agent.name);
        for bad in ["", "{", "\0\0\0\0", "{\"type\":"] {
            fs::write(&path, bad).unwrap();
            // The agent may still be writing the file, so no failure is reported yet.
            assert_eq!(refresh(&index, &catalog).unreadable.len(), 0);
            set_old_modification_time(&path);
            assert_eq!(refresh(&index, &catalog).unreadable.len(), 1);
            let retained = list_sessions(&index, false);
            assert_eq!(retained.len(), 1, "{} with {bad:?}", agent.name);
            assert_eq!(retained[0].session.head, good[0].session.head);
            assert_eq!(retained[0].turns, good[0].turns);
            let failures = index.unreadable_sources().unwrap();
            assert_eq!(failures.len(), 1, "{} with {bad:?}", agent.name);
            assert!(failures[0].reason.contains(&*path.to_string_lossy()));
            let id = good[0].session.head.id.as_str();
            assert!(catalog.find_read_error(id).is_some(), "{}", agent.name);
            // The file is not read a second time before it changes.
            let second_refresh = refresh(&index, &catalog);
            assert_eq!(
                (second_refresh.sources_read, second_refresh.rows_changed),
                (0, 0),
                "{} with {bad:?}",
                agent.name
            );
        }
        if !agent.is_line_based {
            let half = agent.sample.floor_char_boundary(agent.sample.len() / 2);
            fs::write(&path, &agent.sample[..half]).unwrap();
            refresh(&index, &catalog);
            assert_eq!(
                list_sessions(&index, false)[0].turns,
                good[0].turns,
                "{}",
                agent.name
            );
        }
        fs::write(&path, agent.sample).unwrap();
        refresh(&index, &catalog);
        assert_eq!(list_sessions(&index, false)[0].turns, good[0].turns);
        assert_eq!(index.unreadable_sources().unwrap(), []);
        let id = good[0].session.head.id.as_str();
        assert!(catalog.find_read_error(id).is_none(), "{}", agent.name);
    }
}

#[test]
fn a_file_that_never_was_a_session_is_not_reported() {
    for agent in SAMPLE_AGENTS
        .iter()
        .filter(|agent| agent.name != "opencode")
    {
        for bad in ["", "{", "\0\0\0\0"] {
            let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            agent.write_session(&home.path().join(agent.name), bad.as_bytes());
            let index = Index::new(index_dir.path());
            let stats = refresh(&index, &create_catalog(home.path(), &[agent]));
            assert_eq!(stats.unreadable.len(), 0, "{} with {bad:?}", agent.name);
            assert_eq!(index.unreadable_sources().unwrap(), [], "{}", agent.name);
        }
    }
}

#[test]
fn the_fuller_of_two_files_of_a_session_is_indexed_while_it_exists() {
    let agent = line_based_agents()
        .find(|agent| agent.name == "claude")
        .unwrap();
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
    let other_dir = path.parent().unwrap().parent().unwrap().join("-elsewhere");
    fs::create_dir(&other_dir).unwrap();
    let other_path = other_dir.join(path.file_name().unwrap());
    let lines: Vec<&str> = agent.sample.lines().collect();
    let first_half = lines[..lines.len() / 2].join("\n");
    fs::write(&other_path, format!("{first_half}\n")).unwrap();
    let catalog = create_catalog(home.path(), &[agent]);
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    let rows = list_sessions(&index, false);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].session.location.path, path);
    assert_eq!(refresh(&index, &catalog).sources_read, 0);

    fs::remove_file(&path).unwrap();
    refresh(&index, &catalog);
    let rows = list_sessions(&index, false);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].session.location.path, other_path);

    // The result equals that of a first refresh.
    let fresh_dir = tempfile::tempdir().unwrap();
    let fresh_index = Index::new(fresh_dir.path());
    refresh(&fresh_index, &catalog);
    assert_eq!(dump(&index), dump(&fresh_index));
}

#[test]
fn a_damaged_index_is_rebuilt() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agents = first_format_per_agent();
    for agent in &agents {
        agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
    }
    let catalog = create_catalog(home.path(), &agents);
    refresh(&Index::new(index_dir.path()), &catalog);
    let good = dump(&Index::new(index_dir.path()));
    let file = index_dir.path().join("catalog.db");
    let size = fs::metadata(&file).unwrap().len();
    let damages: [&dyn Fn(); 4] = [
        &|| fs::write(&file, "this is no database, and never was one").unwrap(),
        &|| fs::write(&file, "").unwrap(),
        &|| {
            let half = File::options().write(true).open(&file).unwrap();
            half.set_len(size / 2).unwrap();
        },
        &|| fs::remove_file(&file).unwrap(),
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        damage();
        // A refresh without a change would not write to the index.
        let touched_path = agents[0].write_session(&home.path().join(agents[0].name), b"");
        fs::write(&touched_path, agents[0].sample).unwrap();
        let index = Index::new(index_dir.path());
        refresh(&index, &catalog);
        let without_sources = |content: &std::collections::BTreeSet<String>| {
            let lines = content.iter().filter(|line| !line.contains("\"source\""));
            lines.cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            without_sources(&dump(&index)),
            without_sources(&good),
            "damage {n}"
        );
    }
}

#[test]
fn a_refresh_gives_up_while_the_index_is_locked() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agents = first_format_per_agent();
    agents[0].write_session(
        &home.path().join(agents[0].name),
        agents[0].sample.as_bytes(),
    );
    let catalog = create_catalog(home.path(), &agents);
    let index = Index::new(index_dir.path());
    let lock = File::create(index_dir.path().join("catalog.lock")).unwrap();
    lock.lock().unwrap();
    let outcome = index
        .refresh(&catalog, Timestamp::now(), Duration::ZERO, &|_| ())
        .unwrap();
    assert!(matches!(outcome, RefreshOutcome::Busy));
    lock.unlock().unwrap();
    assert_eq!(refresh(&index, &catalog).sources_read, 1);
}

#[test]
fn sessions_in_an_unreadable_directory_are_not_missing() {
    let agent = line_based_agents()
        .find(|agent| agent.name == "claude")
        .unwrap();
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
    let projects = path.parent().unwrap().parent().unwrap().to_owned();
    let catalog = create_catalog(home.path(), &[agent]);
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    fs::rename(&projects, home.path().join("aside")).unwrap();
    fs::write(&projects, "a file where a directory was").unwrap();
    let stats = refresh(&index, &catalog);
    assert_eq!((stats.sources_missing, stats.unreadable.len()), (0, 1));
    assert_eq!(list_sessions(&index, false).len(), 1);
}

/// A reader that fails at first.
struct FailingReader(Box<dyn Reader>, Arc<AtomicBool>);

impl Reader for FailingReader {
    fn provider(&self) -> &'static str {
        self.0.provider()
    }

    fn scan_sessions(&self) -> SessionScan {
        self.0.scan_sessions()
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(ReadError::Io {
                path: location.path.clone(),
                source: std::io::ErrorKind::PermissionDenied.into(),
            });
        }
        self.0.read_head(location)
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        self.0.open_records(location, start)
    }
}

#[test]
fn a_temporarily_unreadable_session_is_indexed_once_it_is_readable() {
    let agent = line_based_agents()
        .find(|agent| agent.name == "claude")
        .unwrap();
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    agent.write_session(home.path(), agent.sample.as_bytes());
    let is_failing = Arc::new(AtomicBool::new(true));
    let reader = FailingReader((agent.new_reader)(home.path()), Arc::clone(&is_failing));
    let catalog = Catalog::new(vec![Arc::new(reader)]);
    let index = Index::new(index_dir.path());
    assert_eq!(refresh(&index, &catalog).unreadable.len(), 1);
    assert_eq!(index.unreadable_sources().unwrap().len(), 1);
    assert_eq!(list_sessions(&index, false), []);
    is_failing.store(false, Ordering::Relaxed);
    refresh(&index, &catalog);
    assert_eq!(list_sessions(&index, false).len(), 1);
    assert_eq!(index.unreadable_sources().unwrap(), []);
    assert_eq!(refresh(&index, &catalog).rows_changed, 0);
}

#[test]
fn a_fuller_copy_is_indexed_although_the_original_grows() {
    let agent = line_based_agents()
        .find(|agent| agent.name == "claude")
        .unwrap();
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines: Vec<&str> = agent.sample.lines().collect();
    let half = lines.len() / 2;
    let shorter = format!("{}\n", lines[..half].join("\n"));
    let path = agent.write_session(&home.path().join(agent.name), shorter.as_bytes());
    let catalog = create_catalog(home.path(), &[agent]);
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    let copy_dir = path.parent().unwrap().parent().unwrap().join("-copied");
    fs::create_dir(&copy_dir).unwrap();
    fs::write(copy_dir.join(path.file_name().unwrap()), agent.sample).unwrap();
    let longer = format!("{}\n", lines[..=half].join("\n"));
    fs::write(&path, longer).unwrap();
    for _ in 0..3 {
        refresh(&index, &catalog);
    }
    let fresh_dir = tempfile::tempdir().unwrap();
    let fresh_index = Index::new(fresh_dir.path());
    refresh(&fresh_index, &catalog);
    assert_eq!(dump(&index), dump(&fresh_index));
    assert_eq!(refresh(&index, &catalog).sources_read, 0);
}

#[test]
fn a_forgotten_session_is_reindexed_when_its_file_returns() {
    let agent = line_based_agents()
        .find(|agent| agent.name == "claude")
        .unwrap();
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
    let catalog = create_catalog(home.path(), &[agent]);
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    let indexed = list_sessions(&index, false);
    let moved_path = home.path().join("aside");
    fs::rename(&path, &moved_path).unwrap();
    let id = &indexed[0].session.head.id;
    assert!(
        index
            .remove_native_session("claude", id, Duration::from_secs(1))
            .unwrap()
    );
    fs::rename(&moved_path, &path).unwrap();
    refresh(&index, &catalog);
    assert_eq!(list_sessions(&index, false), indexed);
}

#[test]
fn sessions_of_another_home_are_not_missing() {
    let agent = line_based_agents()
        .find(|agent| agent.name == "claude")
        .unwrap();
    let (home, other_home, index_dir) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
    let (first_catalog, second_catalog) = (
        create_catalog(home.path(), &[agent]),
        create_catalog(other_home.path(), &[agent]),
    );
    let index = Index::new(index_dir.path());
    refresh(&index, &first_catalog);
    assert_eq!(refresh(&index, &second_catalog).sources_missing, 0);
    assert_eq!(list_sessions(&index, false).len(), 1);
}
