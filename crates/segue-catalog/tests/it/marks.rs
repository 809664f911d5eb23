//! Tests that reading resumes after a mark, and that a changed file is detected.

use std::fs::{self, OpenOptions};
use std::io::Write;

use segue_catalog::{Mark, ReadError, ReadStart, read_turns, read_tail};

use crate::agents::{AGENTS, of_lines};
use crate::story::story;

#[test]
fn a_later_read_starts_where_a_turn_ended() {
    for agent in AGENTS {
        let home = tempfile::tempdir().unwrap();
        agent.put(home.path(), agent.sample.as_bytes());
        let reader = (agent.reader)(home.path());
        let found = agent.only(home.path());
        let mut records = reader.open_records(&found, &ReadStart::Beginning).unwrap();
        let turns = read_turns(records.as_mut()).unwrap().into_turns();
        assert!(turns.len() >= 2, "{}", agent.name);
        for (n, turn) in turns.iter().enumerate() {
            // Marks are saved as text.
            let mark: Mark = turn.until.to_string().parse().unwrap();
            let mut rest = reader.open_records(&found, &ReadStart::After(mark)).unwrap();
            let rest = read_turns(rest.as_mut()).unwrap().into_turns();
            assert_eq!(
                story(&rest),
                story(&turns[n + 1..]),
                "{} after {n}",
                agent.name
            );
        }
    }
}

#[test]
fn what_is_appended_is_read_alone_and_what_is_changed_is_noticed() {
    for agent in of_lines() {
        let home = tempfile::tempdir().unwrap();
        let lines: Vec<&str> = agent.sample.lines().collect();
        let (first, second) = lines.split_at(lines.len() / 2);
        let path = agent.put(home.path(), format!("{}\n", first.join("\n")).as_bytes());
        let reader = (agent.reader)(home.path());
        let mut records = reader
            .open_records(&agent.only(home.path()), &ReadStart::Beginning)
            .unwrap();
        let mut last = None;
        while let Some(record) = records.next().unwrap() {
            last = Some(record.mark);
        }
        let last = ReadStart::After(last.unwrap());

        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "{}", second.join("\n")).unwrap();
        let found = agent.only(home.path());
        let mut records = reader.open_records(&found, &last).unwrap();
        let mut appended = 0;
        while records.next().unwrap().is_some() {
            appended += 1;
        }
        assert!((1..=second.len()).contains(&appended), "{}", agent.name);

        // A file that was truncated before the mark, and one that was rewritten.
        for changed in ["", &agent.sample.replace("2026-01", "2026-02")] {
            fs::write(&path, changed).unwrap();
            let outcome = reader.open_records(&found, &last).map(|_| ());
            assert!(
                matches!(outcome, Err(ReadError::MarkNotFound { .. })),
                "{}: {outcome:?}",
                agent.name
            );
        }
    }
}

#[test]
fn wherever_an_agent_was_when_its_end_was_noted_later_turns_are_told_whole() {
    for agent in AGENTS {
        let home = tempfile::tempdir().unwrap();
        agent.put(home.path(), agent.sample.as_bytes());
        let reader = (agent.reader)(home.path());
        let found = agent.only(home.path());
        let mut records = reader.open_records(&found, &ReadStart::Beginning).unwrap();
        let mut marks = Vec::new();
        while let Some(record) = records.next().unwrap() {
            marks.push(record.mark);
        }
        let mut records = reader.open_records(&found, &ReadStart::Beginning).unwrap();
        let turns = read_turns(records.as_mut()).unwrap().into_turns();
        let end = reader.find_last_mark(&found).unwrap().unwrap();
        assert!(marks.contains(&end), "{}", agent.name);

        let mut told = turns.len();
        for mark in &marks {
            let mut rest = reader.open_records(&found, &ReadStart::After(mark.clone())).unwrap();
            let rest = read_tail(rest.as_mut()).unwrap();
            // A rewind needs earlier records.
            if rest.rewound {
                continue;
            }
            assert!(rest.turns.len() <= told, "{} {mark}", agent.name);
            told = rest.turns.len();
            let last = turns.len() - told;
            assert_eq!(
                story(&rest.turns),
                story(&turns[last..]),
                "{} {mark}",
                agent.name
            );
        }
        let mut rest = reader.open_records(&found, &ReadStart::After(end)).unwrap();
        let rest = read_tail(rest.as_mut()).unwrap();
        assert!(rest.turns.is_empty() && !rest.rewound, "{}", agent.name);
    }
}

#[test]
fn a_line_in_the_making_is_no_end() {
    for agent in of_lines() {
        let home = tempfile::tempdir().unwrap();
        let path = agent.put(home.path(), agent.sample.as_bytes());
        let reader = (agent.reader)(home.path());
        let end = reader.find_last_mark(&agent.only(home.path())).unwrap();
        let last = agent.sample.lines().next_back().unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{last}").unwrap();
        let found = agent.only(home.path());
        assert_eq!(reader.find_last_mark(&found).unwrap(), end, "{}", agent.name);
        fs::write(&path, "").unwrap();
        assert_eq!(reader.find_last_mark(&found).unwrap(), None, "{}", agent.name);
    }
}
