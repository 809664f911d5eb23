//! Tests that a refresh reads only appended records, with the same result as a complete read.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use segue_catalog::Index;
use segue_catalog::index::NativeStatus;

use super::{catalog, dump, listed, refresh};
use crate::agents::of_lines;

#[test]
fn an_index_that_grew_line_by_line_is_the_one_that_is_built_at_once() {
    for agent in of_lines() {
        let home = tempfile::tempdir().unwrap();
        let (grown, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let lines: Vec<&str> = agent.sample.lines().collect();
        let path = agent.put(&home.path().join(agent.name), b"");
        let catalog = catalog(home.path(), &[agent]);
        let index = Index::new(grown.path());
        for (n, line) in lines.iter().enumerate() {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            // The line is incomplete for a moment.
            let half = line.floor_char_boundary(line.len() / 2);
            file.write_all(&line.as_bytes()[..half]).unwrap();
            refresh(&index, &catalog);
            writeln!(file, "{}", &line[half..]).unwrap();
            if n % 3 == 1 && n + 1 < lines.len() {
                // Sometimes several lines are new.
                continue;
            }
            refresh(&index, &catalog);
            let fresh = Index::new(whole.path());
            assert!(fresh.reset(Duration::ZERO).unwrap());
            refresh(&fresh, &catalog);
            if listed(&fresh, false).is_empty() {
                // The session has no turn that counts at the moment. The old data remains until it has one.
                continue;
            }
            let (grown, whole) = (dump(&index), dump(&fresh));
            let missing: Vec<_> = whole.difference(&grown).take(5).collect();
            let extra: Vec<_> = grown.difference(&whole).take(5).collect();
            assert!(
                missing.is_empty() && extra.is_empty(),
                "{} after line {}: missing {missing:#?}, too much {extra:#?}",
                agent.name,
                n + 1
            );
        }
    }
}

#[test]
fn an_appended_file_costs_its_new_bytes_and_the_turn_they_belong_to() {
    for agent in of_lines() {
        let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
        let catalog = catalog(home.path(), &[agent]);
        let index = Index::new(place.path());
        refresh(&index, &catalog);
        let before = listed(&index, false);
        let size = std::fs::metadata(&path).unwrap().len();
        // A line without meaning for segue, of which agents write many.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "{{\"type\":\"nothing\"}}").unwrap();
        let work = refresh(&index, &catalog);
        assert_eq!(work.sources_read, 1, "{}", agent.name);
        assert!(
            work.bytes_read < size,
            "{} of {size} bytes of {}",
            work.bytes_read,
            agent.name
        );
        let after = listed(&index, false);
        assert_eq!(before[0].turns, after[0].turns, "{}", agent.name);
        assert_eq!(before[0].usage, after[0].usage, "{}", agent.name);
    }
}

#[test]
fn what_is_gone_is_remembered_and_what_comes_back_is_live() {
    for agent in of_lines() {
        let (home, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = agent.put(&home.path().join(agent.name), agent.sample.as_bytes());
        let catalog = catalog(home.path(), &[agent]);
        let index = Index::new(place.path());
        refresh(&index, &catalog);
        let known = listed(&index, false);
        let aside = home.path().join("aside");
        std::fs::rename(&path, &aside).unwrap();
        assert_eq!(refresh(&index, &catalog).sources_missing, 1);
        assert_eq!(listed(&index, false), []);
        let gone = listed(&index, true);
        assert_eq!(
            (gone[0].status, gone[0].turns),
            (NativeStatus::Missing, known[0].turns)
        );
        assert_eq!(refresh(&index, &catalog).rows_changed, 0);

        std::fs::rename(&aside, &path).unwrap();
        refresh(&index, &catalog);
        assert_eq!(listed(&index, false), known, "{}", agent.name);
    }
}
