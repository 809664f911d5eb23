//! Tests of files that are temporarily no sessions, of a damaged index, and of concurrent processes.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use segue_catalog::index::RefreshOutcome;
use segue_catalog::{Catalog, SessionLocation, SessionHead, Index, ReadError, Reader, Records, ReadStart, SessionScan};

use super::{catalog, dump, listed, one_each, refresh};
use crate::agents::{AGENTS, of_lines};

fn was_written_long_ago(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let long_ago = SystemTime::now() - Duration::from_hours(1);
    file.set_modified(long_ago).unwrap();
}

#[test]
fn a_source_that_is_malformed_for_a_moment_keeps_its_last_good_row() {
    for agent in AGENTS.iter().filter(|agent| agent.name != "opencode") {
        let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
        let catalog = catalog(home.path(), &[agent]);
        let index = Index::new(place.path());
        refresh(&index, &catalog);
        let good = listed(&index, false);
        assert_eq!(good.len(), 1, "{}", agent.name);
        for bad in ["", "{", "\0\0\0\0", "{\"type\":"] {
            fs::write(&path, bad).unwrap();
            // The agent may still be writing the file, so no failure is reported yet.
            assert_eq!(refresh(&index, &catalog).unreadable.len(), 0);
            was_written_long_ago(&path);
            assert_eq!(refresh(&index, &catalog).unreadable.len(), 1);
            let kept = listed(&index, false);
            assert_eq!(kept.len(), 1, "{} with {bad:?}", agent.name);
            assert_eq!(kept[0].session.head, good[0].session.head);
            assert_eq!(kept[0].turns, good[0].turns);
            let failures = index.unreadable_sources().unwrap();
            assert_eq!(failures.len(), 1, "{} with {bad:?}", agent.name);
            assert!(failures[0].reason.contains(&*path.to_string_lossy()));
            let id = good[0].session.head.id.as_str();
            assert!(catalog.find_read_error(id).is_some(), "{}", agent.name);
            // The file is not read a second time before it changes.
            let again = refresh(&index, &catalog);
            assert_eq!(
                (again.sources_read, again.rows_changed),
                (0, 0),
                "{} with {bad:?}",
                agent.name
            );
        }
        if !agent.lines {
            let half = agent.sample.floor_char_boundary(agent.sample.len() / 2);
            fs::write(&path, &agent.sample[..half]).unwrap();
            refresh(&index, &catalog);
            assert_eq!(
                listed(&index, false)[0].turns,
                good[0].turns,
                "{}",
                agent.name
            );
        }
        fs::write(&path, agent.sample).unwrap();
        refresh(&index, &catalog);
        assert_eq!(listed(&index, false)[0].turns, good[0].turns);
        assert_eq!(index.unreadable_sources().unwrap(), []);
        let id = good[0].session.head.id.as_str();
        assert!(catalog.find_read_error(id).is_none(), "{}", agent.name);
    }
}

#[test]
fn what_never_was_a_session_is_nothing_to_complain_about() {
    for agent in AGENTS.iter().filter(|agent| agent.name != "opencode") {
        for bad in ["", "{", "\0\0\0\0"] {
            let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            agent.put(&home.path().join(agent.name), bad.as_bytes());
            let index = Index::new(place.path());
            let work = refresh(&index, &catalog(home.path(), &[agent]));
            assert_eq!(work.unreadable.len(), 0, "{} with {bad:?}", agent.name);
            assert_eq!(index.unreadable_sources().unwrap(), [], "{}", agent.name);
        }
    }
}

#[test]
fn of_two_files_of_one_session_the_fuller_one_counts_while_it_is_there() {
    let agent = of_lines().find(|agent| agent.name == "claude").unwrap();
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
    let other = path.parent().unwrap().parent().unwrap().join("-elsewhere");
    fs::create_dir(&other).unwrap();
    let other = other.join(path.file_name().unwrap());
    let lines: Vec<&str> = agent.sample.lines().collect();
    let less = lines[..lines.len() / 2].join("\n");
    fs::write(&other, format!("{less}\n")).unwrap();
    let catalog = catalog(home.path(), &[agent]);
    let index = Index::new(place.path());
    refresh(&index, &catalog);
    let rows = listed(&index, false);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].session.location.path, path);
    assert_eq!(refresh(&index, &catalog).sources_read, 0);

    fs::remove_file(&path).unwrap();
    refresh(&index, &catalog);
    let rows = listed(&index, false);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].session.location.path, other);

    // The result equals that of a first refresh.
    let anew = tempfile::tempdir().unwrap();
    let fresh = Index::new(anew.path());
    refresh(&fresh, &catalog);
    assert_eq!(dump(&index), dump(&fresh));
}

#[test]
fn a_damaged_index_is_built_anew() {
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agents = one_each();
    for agent in &agents {
        agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
    }
    let catalog = catalog(home.path(), &agents);
    refresh(&Index::new(place.path()), &catalog);
    let good = dump(&Index::new(place.path()));
    let file = place.path().join("catalog.db");
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
        let touched = agents[0].put(&home.path().join(agents[0].name), b"");
        fs::write(&touched, agents[0].sample).unwrap();
        let index = Index::new(place.path());
        refresh(&index, &catalog);
        let words = |all: &std::collections::BTreeSet<String>| {
            let words = all.iter().filter(|line| !line.contains("\"source\""));
            words.cloned().collect::<Vec<_>>()
        };
        assert_eq!(words(&dump(&index)), words(&good), "damage {n}");
    }
}

#[test]
fn whoever_comes_second_waits_and_then_goes_without() {
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agents = one_each();
    agents[0].put(
        &home.path().join(agents[0].name),
        agents[0].sample.as_bytes(),
    );
    let catalog = catalog(home.path(), &agents);
    let index = Index::new(place.path());
    let lock = File::create(place.path().join("catalog.lock")).unwrap();
    lock.lock().unwrap();
    let busy = index
        .refresh(&catalog, Timestamp::now(), Duration::ZERO, &|_| ())
        .unwrap();
    assert!(matches!(busy, RefreshOutcome::Busy));
    lock.unlock().unwrap();
    assert_eq!(refresh(&index, &catalog).sources_read, 1);
}

#[test]
fn what_can_not_be_looked_at_is_not_gone() {
    let agent = of_lines().find(|agent| agent.name == "claude").unwrap();
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
    let projects = path.parent().unwrap().parent().unwrap().to_owned();
    let catalog = catalog(home.path(), &[agent]);
    let index = Index::new(place.path());
    refresh(&index, &catalog);
    fs::rename(&projects, home.path().join("aside")).unwrap();
    fs::write(&projects, "a file where a directory was").unwrap();
    let work = refresh(&index, &catalog);
    assert_eq!((work.sources_missing, work.unreadable.len()), (0, 1));
    assert_eq!(listed(&index, false).len(), 1);
}

/// A reader that fails at first.
struct Hindered(Box<dyn Reader>, Arc<AtomicBool>);

impl Reader for Hindered {
    fn provider(&self) -> &'static str {
        self.0.provider()
    }

    fn scan_sessions(&self) -> SessionScan {
        self.0.scan_sessions()
    }

    fn read_head(&self, found: &SessionLocation) -> Result<SessionHead, ReadError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(ReadError::Io {
                path: found.path.clone(),
                source: std::io::ErrorKind::PermissionDenied.into(),
            });
        }
        self.0.read_head(found)
    }

    fn open_records(&self, found: &SessionLocation, start: &ReadStart) -> Result<Box<dyn Records>, ReadError> {
        self.0.open_records(found, start)
    }
}

#[test]
fn what_could_not_be_read_for_a_moment_is_read_as_soon_as_it_can_be() {
    let agent = of_lines().find(|agent| agent.name == "claude").unwrap();
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    agent.put(home.path(), agent.sample.as_bytes());
    let hindered = Arc::new(AtomicBool::new(true));
    let reader = Hindered((agent.reader)(home.path()), Arc::clone(&hindered));
    let catalog = Catalog::new(vec![Arc::new(reader)]);
    let index = Index::new(place.path());
    assert_eq!(refresh(&index, &catalog).unreadable.len(), 1);
    assert_eq!(index.unreadable_sources().unwrap().len(), 1);
    assert_eq!(listed(&index, false), []);
    hindered.store(false, Ordering::Relaxed);
    refresh(&index, &catalog);
    assert_eq!(listed(&index, false).len(), 1);
    assert_eq!(index.unreadable_sources().unwrap(), []);
    assert_eq!(refresh(&index, &catalog).rows_changed, 0);
}

#[test]
fn a_session_that_grows_while_a_fuller_one_of_its_name_appears_is_found() {
    let agent = of_lines().find(|agent| agent.name == "claude").unwrap();
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines: Vec<&str> = agent.sample.lines().collect();
    let half = lines.len() / 2;
    let less = format!("{}\n", lines[..half].join("\n"));
    let path = agent.put(&home.path().join(agent.name), less.as_bytes());
    let catalog = catalog(home.path(), &[agent]);
    let index = Index::new(place.path());
    refresh(&index, &catalog);
    let other = path.parent().unwrap().parent().unwrap().join("-copied");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(path.file_name().unwrap()), agent.sample).unwrap();
    let more = format!("{}\n", lines[..=half].join("\n"));
    fs::write(&path, more).unwrap();
    for _ in 0..3 {
        refresh(&index, &catalog);
    }
    let anew = tempfile::tempdir().unwrap();
    let fresh = Index::new(anew.path());
    refresh(&fresh, &catalog);
    assert_eq!(dump(&index), dump(&fresh));
    assert_eq!(refresh(&index, &catalog).sources_read, 0);
}

#[test]
fn what_was_forgotten_and_put_back_as_it_was_is_found_again() {
    let agent = of_lines().find(|agent| agent.name == "claude").unwrap();
    let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
    let catalog = catalog(home.path(), &[agent]);
    let index = Index::new(place.path());
    refresh(&index, &catalog);
    let known = listed(&index, false);
    let aside = home.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    let id = &known[0].session.head.id;
    assert!(index.remove_native_session("claude", id, Duration::from_secs(1)).unwrap());
    fs::rename(&aside, &path).unwrap();
    refresh(&index, &catalog);
    assert_eq!(listed(&index, false), known);
}

#[test]
fn what_is_in_another_home_is_not_gone() {
    let agent = of_lines().find(|agent| agent.name == "claude").unwrap();
    let (home, other, place) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
    let (one, two) = (
        catalog(home.path(), &[agent]),
        catalog(other.path(), &[agent]),
    );
    let index = Index::new(place.path());
    refresh(&index, &one);
    assert_eq!(refresh(&index, &two).sources_missing, 0);
    assert_eq!(listed(&index, false).len(), 1);
}
