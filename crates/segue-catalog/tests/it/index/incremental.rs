//! Tests that a refresh reads only appended records, with the same result as a complete read.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use segue_catalog::Index;
use segue_catalog::index::NativeStatus;

use super::{create_catalog, dump, list_sessions, refresh};
use crate::agents::line_based_agents;

#[test]
fn an_index_that_grew_line_by_line_equals_a_rebuilt_one() {
    for agent in line_based_agents() {
        let home = tempfile::tempdir().unwrap();
        let (grown_dir, rebuilt_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let lines: Vec<&str> = agent.sample.lines().collect();
        let path = agent.write_session(&home.path().join(agent.name), b"");
        let catalog = create_catalog(home.path(), &[agent]);
        let index = Index::new(grown_dir.path());
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
            let rebuilt_index = Index::new(rebuilt_dir.path());
            assert!(rebuilt_index.reset(Duration::ZERO).unwrap());
            refresh(&rebuilt_index, &catalog);
            if list_sessions(&rebuilt_index, false).is_empty() {
                // The session has no turn that counts at the moment. The old data remains until it has one.
                continue;
            }
            let (grown_content, rebuilt_content) = (dump(&index), dump(&rebuilt_index));
            let missing: Vec<_> = rebuilt_content.difference(&grown_content).take(5).collect();
            let extra: Vec<_> = grown_content.difference(&rebuilt_content).take(5).collect();
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
fn an_appended_file_is_not_read_from_the_start() {
    for agent in line_based_agents() {
        let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
        let catalog = create_catalog(home.path(), &[agent]);
        let index = Index::new(index_dir.path());
        refresh(&index, &catalog);
        let before = list_sessions(&index, false);
        let size = std::fs::metadata(&path).unwrap().len();
        // A line without meaning for segue, of which agents write many.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "{{\"type\":\"nothing\"}}").unwrap();
        let stats = refresh(&index, &catalog);
        assert_eq!(stats.sources_read, 1, "{}", agent.name);
        assert!(
            stats.bytes_read < size,
            "{} of {size} bytes of {}",
            stats.bytes_read,
            agent.name
        );
        let after = list_sessions(&index, false);
        assert_eq!(before[0].turns, after[0].turns, "{}", agent.name);
        assert_eq!(before[0].usage, after[0].usage, "{}", agent.name);
    }
}

#[test]
fn a_missing_session_stays_indexed_and_is_live_after_its_return() {
    for agent in line_based_agents() {
        let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
        let catalog = create_catalog(home.path(), &[agent]);
        let index = Index::new(index_dir.path());
        refresh(&index, &catalog);
        let indexed = list_sessions(&index, false);
        let moved_path = home.path().join("aside");
        std::fs::rename(&path, &moved_path).unwrap();
        assert_eq!(refresh(&index, &catalog).sources_missing, 1);
        assert_eq!(list_sessions(&index, false), []);
        let missing = list_sessions(&index, true);
        assert_eq!(
            (missing[0].status, missing[0].turns),
            (NativeStatus::Missing, indexed[0].turns)
        );
        assert_eq!(refresh(&index, &catalog).rows_changed, 0);

        std::fs::rename(&moved_path, &path).unwrap();
        refresh(&index, &catalog);
        assert_eq!(list_sessions(&index, false), indexed, "{}", agent.name);
    }
}
