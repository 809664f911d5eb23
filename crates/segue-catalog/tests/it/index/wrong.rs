//! Files that are no sessions for a moment, an index that is damaged, and others who are at it.

use std::fs::{self, File};
use std::time::Duration;

use segue_catalog::Index;
use segue_catalog::index::Refreshed;

use super::{catalog, dump, listed, one_each, refresh};
use crate::agents::{AGENTS, of_lines};

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
            assert_eq!(refresh(&index, &catalog).read, 1);
            let kept = listed(&index, false);
            assert_eq!(kept.len(), 1, "{} with {bad:?}", agent.name);
            assert_eq!(kept[0].session.head, good[0].session.head);
            assert_eq!(kept[0].turns, good[0].turns);
            // It is not looked at again before it changes.
            let again = refresh(&index, &catalog);
            assert_eq!(
                (again.read, again.rows),
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
    assert_eq!(rows[0].session.found.path, path);
    assert_eq!(refresh(&index, &catalog).read, 0);

    fs::remove_file(&path).unwrap();
    refresh(&index, &catalog);
    let rows = listed(&index, false);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].session.found.path, other);

    // It comes to the same as looking at it for the first time.
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
        // Something has to have changed, or it would not be written to.
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
    let busy = index.refresh(&catalog, Duration::ZERO, &|_| ()).unwrap();
    assert!(matches!(busy, Refreshed::Busy));
    lock.unlock().unwrap();
    assert_eq!(refresh(&index, &catalog).read, 1);
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
    assert_eq!((work.gone, work.unreadable.len()), (0, 1));
    assert_eq!(listed(&index, false).len(), 1);
}
