//! Tests that reading resumes after a mark, and that a changed file is detected.

use std::fs::{self, OpenOptions};
use std::io::Write;

use segue_providers::{Mark, ReadError, ReadStart, read_tail, read_turns};

use crate::agents::{SAMPLE_AGENTS, line_based_agents};
use crate::conversation_text::format_turns;

#[test]
fn a_read_after_a_mark_starts_where_the_turn_ended() {
    for agent in SAMPLE_AGENTS {
        let home = tempfile::tempdir().unwrap();
        agent.write_session(home.path(), agent.sample.as_bytes());
        let reader = (agent.new_reader)(home.path());
        let location = agent.find_only_session(home.path());
        let mut records = reader
            .open_records(&location, &ReadStart::Beginning)
            .unwrap();
        let turns = read_turns(records.as_mut()).unwrap().into_turns();
        assert!(turns.len() >= 2, "{}", agent.name);
        for (n, turn) in turns.iter().enumerate() {
            // Marks are saved as text.
            let mark: Mark = turn.until.to_string().parse().unwrap();
            let mut tail_records = reader
                .open_records(&location, &ReadStart::After(mark))
                .unwrap();
            let tail_turns = read_turns(tail_records.as_mut()).unwrap().into_turns();
            assert_eq!(
                format_turns(&tail_turns),
                format_turns(&turns[n + 1..]),
                "{} after {n}",
                agent.name
            );
        }
    }
}

#[test]
fn only_appended_records_are_read_and_a_changed_file_is_detected() {
    for agent in line_based_agents() {
        let home = tempfile::tempdir().unwrap();
        let lines: Vec<&str> = agent.sample.lines().collect();
        let (first, second) = lines.split_at(lines.len() / 2);
        let path = agent.write_session(home.path(), format!("{}\n", first.join("\n")).as_bytes());
        let reader = (agent.new_reader)(home.path());
        let mut records = reader
            .open_records(&agent.find_only_session(home.path()), &ReadStart::Beginning)
            .unwrap();
        let mut last_mark = None;
        while let Some(record) = records.next().unwrap() {
            last_mark = Some(record.mark);
        }
        let after_last = ReadStart::After(last_mark.unwrap());

        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "{}", second.join("\n")).unwrap();
        let location = agent.find_only_session(home.path());
        let mut records = reader.open_records(&location, &after_last).unwrap();
        let mut appended = 0;
        while records.next().unwrap().is_some() {
            appended += 1;
        }
        assert!((1..=second.len()).contains(&appended), "{}", agent.name);

        // A file that was truncated before the mark, and one that was rewritten.
        for changed in ["", &agent.sample.replace("2026-01", "2026-02")] {
            fs::write(&path, changed).unwrap();
            let outcome = reader.open_records(&location, &after_last).map(|_| ());
            assert!(
                matches!(outcome, Err(ReadError::MarkNotFound { .. })),
                "{}: {outcome:?}",
                agent.name
            );
        }
    }
}

#[test]
fn turns_after_any_mark_are_read_completely() {
    for agent in SAMPLE_AGENTS {
        let home = tempfile::tempdir().unwrap();
        agent.write_session(home.path(), agent.sample.as_bytes());
        let reader = (agent.new_reader)(home.path());
        let location = agent.find_only_session(home.path());
        let mut records = reader
            .open_records(&location, &ReadStart::Beginning)
            .unwrap();
        let mut marks = Vec::new();
        while let Some(record) = records.next().unwrap() {
            marks.push(record.mark);
        }
        let mut records = reader
            .open_records(&location, &ReadStart::Beginning)
            .unwrap();
        let turns = read_turns(records.as_mut()).unwrap().into_turns();
        let end = reader.find_last_mark(&location).unwrap().unwrap();
        assert!(marks.contains(&end), "{}", agent.name);

        let mut turn_count = turns.len();
        for mark in &marks {
            let mut tail_records = reader
                .open_records(&location, &ReadStart::After(mark.clone()))
                .unwrap();
            let tail = read_tail(tail_records.as_mut()).unwrap();
            // A rewind needs earlier records.
            if tail.rewound {
                continue;
            }
            assert!(tail.turns.len() <= turn_count, "{} {mark}", agent.name);
            turn_count = tail.turns.len();
            let first_new = turns.len() - turn_count;
            assert_eq!(
                format_turns(&tail.turns),
                format_turns(&turns[first_new..]),
                "{} {mark}",
                agent.name
            );
        }
        let mut tail_records = reader
            .open_records(&location, &ReadStart::After(end))
            .unwrap();
        let tail = read_tail(tail_records.as_mut()).unwrap();
        assert!(tail.turns.is_empty() && !tail.rewound, "{}", agent.name);
    }
}

#[test]
fn an_incomplete_line_is_not_the_end() {
    for agent in line_based_agents() {
        let home = tempfile::tempdir().unwrap();
        let path = agent.write_session(home.path(), agent.sample.as_bytes());
        let reader = (agent.new_reader)(home.path());
        let end = reader
            .find_last_mark(&agent.find_only_session(home.path()))
            .unwrap();
        let last_line = agent.sample.lines().next_back().unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{last_line}").unwrap();
        let location = agent.find_only_session(home.path());
        assert_eq!(
            reader.find_last_mark(&location).unwrap(),
            end,
            "{}",
            agent.name
        );
        fs::write(&path, "").unwrap();
        assert_eq!(
            reader.find_last_mark(&location).unwrap(),
            None,
            "{}",
            agent.name
        );
    }
}
