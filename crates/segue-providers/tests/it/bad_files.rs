//! Tests of damaged files. No damage may end a read, or cause a panic or an endless loop.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use segue_providers::{NativeSessionKind, NativeTurn, ReadStart, SkippedContent, read_turns};

use crate::agents::{SAMPLE_AGENTS, SampleAgent, line_based_agents};

/// Reads a session by all methods.
fn read_by_all_methods(agent: &SampleAgent, home: &Path) -> (Vec<NativeTurn>, SkippedContent) {
    let reader = (agent.new_reader)(home);
    let location = agent.find_only_session(home);
    let _ = reader.read_head(&location);
    let _ = reader.read_recent_turns(&location, 3);
    let mut records = reader
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let turns = read_turns(records.as_mut()).unwrap().into_turns();
    (turns, records.skipped())
}

fn write_and_read(agent: &SampleAgent, bytes: &[u8]) -> (Vec<NativeTurn>, SkippedContent) {
    let home = tempfile::tempdir().unwrap();
    agent.write_session(home.path(), bytes);
    read_by_all_methods(agent, home.path())
}

#[test]
fn a_truncated_file_yields_the_turns_before_the_cut() {
    for agent in line_based_agents() {
        let complete_turns = write_and_read(agent, agent.sample.as_bytes()).0;
        let mut max_turns = 0;
        for length in (0..agent.sample.len()).step_by(97) {
            let (turns, skipped) = write_and_read(agent, &agent.sample.as_bytes()[..length]);
            assert!(turns.len() <= complete_turns.len());
            assert_eq!(skipped.malformed, 0, "{} cut at {length}", agent.name);
            max_turns = max_turns.max(turns.len());
        }
        assert!(max_turns + 1 >= complete_turns.len(), "{}", agent.name);
    }
}

#[test]
fn an_empty_file_has_no_turns() {
    for agent in SAMPLE_AGENTS {
        for blank in [&b""[..], b"\n\n\n", b"   \n"] {
            let (turns, skipped) = write_and_read(agent, blank);
            assert!(
                turns.is_empty() && skipped.is_empty(),
                "{}: {skipped:?}",
                agent.name
            );
        }
    }
}

#[test]
fn a_malformed_line_is_counted_and_the_other_lines_are_read() {
    for agent in line_based_agents() {
        let complete_turns = write_and_read(agent, agent.sample.as_bytes()).0;
        let garbage: &[&[u8]] = &[
            b"garbage",
            b"{\"type\":\"user\",\"uuid\":",
            b"[1,2,3]",
            b"null",
            b"\xff\xfe\x00",
        ];
        for bad_line in garbage {
            let mut bytes = Vec::new();
            for line in agent.sample.lines() {
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
                bytes.extend_from_slice(bad_line);
                bytes.push(b'\n');
            }
            let (turns, skipped) = write_and_read(agent, &bytes);
            let read_messages = turns.iter().map(|turn| &turn.messages);
            assert!(
                read_messages.eq(complete_turns.iter().map(|turn| &turn.messages)),
                "{}",
                agent.name
            );
            let lines = agent.sample.lines().count() as u64;
            assert_eq!(skipped.malformed, lines, "{} with {bad_line:?}", agent.name);
        }
    }
}

#[test]
fn invalid_utf8_is_replaced_and_counted() {
    for agent in line_based_agents() {
        let text = agent.sample.replacen("milk", "m\u{1}lk", 1).into_bytes();
        let broken: Vec<u8> = text
            .into_iter()
            .map(|b| if b == 1 { 0xff } else { b })
            .collect();
        let (turns, skipped) = write_and_read(agent, &broken);
        assert_eq!(skipped.repaired, 1, "{}: {skipped:?}", agent.name);
        assert!(format!("{turns:?}").contains('\u{fffd}'), "{}", agent.name);
    }
}

#[test]
fn a_line_of_200_megabytes_is_skipped() {
    for agent in line_based_agents() {
        let complete_turns = write_and_read(agent, agent.sample.as_bytes()).0;
        let home = tempfile::tempdir().unwrap();
        let path = agent.write_session(home.path(), agent.sample.as_bytes());
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        let block = vec![b'x'; 1 << 20];
        file.write_all(b"{\"type\":\"user\",\"uuid\":\"").unwrap();
        for _ in 0..200 {
            file.write_all(&block).unwrap();
        }
        file.write_all(b"\"}\n").unwrap();
        file.write_all(agent.sample.lines().last().unwrap().as_bytes())
            .unwrap();
        let (turns, skipped) = read_by_all_methods(agent, home.path());
        assert_eq!(skipped.oversized, 1, "{}", agent.name);
        assert_eq!(turns.len(), complete_turns.len(), "{}", agent.name);
    }
}

#[test]
fn a_directory_at_the_path_of_a_session_is_ignored() {
    for agent in SAMPLE_AGENTS {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(agent.session_path)).unwrap();
        let scan = (agent.new_reader)(home.path()).scan_sessions();
        assert!(
            scan.locations.is_empty() && scan.unreadable.is_empty(),
            "{}",
            agent.name
        );
    }
}

#[test]
fn a_file_at_the_path_of_a_directory_is_ignored() {
    for agent in SAMPLE_AGENTS {
        let depth = Path::new(agent.session_path).ancestors().count();
        for ancestor in Path::new(agent.session_path)
            .ancestors()
            .skip(1)
            .take(depth - 2)
        {
            let home = tempfile::tempdir().unwrap();
            let file = home.path().join(ancestor);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            File::create(&file).unwrap();
            let scan = (agent.new_reader)(home.path()).scan_sessions();
            assert!(
                scan.locations.is_empty(),
                "{}: {}",
                agent.name,
                ancestor.display()
            );
        }
    }
}

#[test]
fn a_missing_home_has_no_sessions() {
    for agent in SAMPLE_AGENTS {
        let scan = (agent.new_reader)(Path::new("/nowhere/at/all")).scan_sessions();
        assert!(
            scan.locations.is_empty() && scan.unreadable.is_empty(),
            "{}",
            agent.name
        );
    }
}

#[test]
fn a_file_that_grows_during_a_read_has_no_malformed_lines() {
    for agent in SAMPLE_AGENTS {
        let home = tempfile::tempdir().unwrap();
        let path = agent.write_session(home.path(), agent.sample.as_bytes());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                while !stop.load(Ordering::Relaxed) && file.metadata().unwrap().len() < 1 << 20 {
                    file.write_all(agent.sample.as_bytes()).unwrap();
                }
            });
            for _ in 0..3 {
                let (turns, skipped) = read_by_all_methods(agent, home.path());
                assert!(!turns.is_empty());
                assert_eq!(skipped.malformed, 0, "{}", agent.name);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_timestamp_in_the_future_is_accepted() {
    for agent in SAMPLE_AGENTS {
        let home = tempfile::tempdir().unwrap();
        let future_sample = agent.sample.replace("2026-01", "2199-01");
        agent.write_session(home.path(), future_sample.as_bytes());
        let reader = (agent.new_reader)(home.path());
        let head = reader
            .read_head(&agent.find_only_session(home.path()))
            .unwrap();
        assert!(
            head.updated_at.to_string().starts_with("2199-01"),
            "{}",
            agent.name
        );
        assert_eq!(head.kind, NativeSessionKind::Conversation);
    }
}

#[test]
fn an_id_that_is_a_path_is_rejected() {
    for agent in SAMPLE_AGENTS {
        for invalid_id in ["../../../etc/passwd", "-rf", "a\\u0000b", ""] {
            let home = tempfile::tempdir().unwrap();
            let bytes = agent.sample.replace(crate::agents::SAMPLE_ID, invalid_id);
            agent.write_session(home.path(), bytes.as_bytes());
            let reader = (agent.new_reader)(home.path());
            for location in reader.scan_sessions().locations {
                // If the name of the file is the id, the id inside of it does not matter.
                if let Ok(head) = reader.read_head(&location) {
                    assert_eq!(head.id.as_str(), crate::agents::SAMPLE_ID, "{}", agent.name);
                }
            }
        }
    }
}

/// Generates a session in which some bytes are changed, removed or duplicated.
fn mangled_bytes(sample: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let change = (0..sample.len(), 0usize..60, any::<u8>(), 0..4u8);
    prop::collection::vec(change, 1..12).prop_map(move |changes| {
        let mut bytes = sample.as_bytes().to_vec();
        for (at, length, byte, kind) in changes {
            let at = at.min(bytes.len());
            let end = (at + length).min(bytes.len());
            match kind {
                0 => bytes[at..end].fill(byte),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let duplicate = bytes[at..end].to_vec();
                    bytes.splice(at..at, duplicate);
                }
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_cause_no_panic_or_loop(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for agent in SAMPLE_AGENTS {
            write_and_read(agent, &bytes);
        }
    }

    #[test]
    fn damaged_samples_cause_no_panic_or_loop(
        (index, bytes) in (0..SAMPLE_AGENTS.len()).prop_flat_map(|index| (Just(index), mangled_bytes(SAMPLE_AGENTS[index].sample)))
    ) {
        write_and_read(&SAMPLE_AGENTS[index], &bytes);
    }

    /// Replaces values by values of other types, at any position.
    #[test]
    fn values_of_other_types_cause_no_panic(
        (index, from, to) in (0..SAMPLE_AGENTS.len(), 0..40usize, 0..6usize)
    ) {
        let agent = &SAMPLE_AGENTS[index];
        let replacements = ["null", "true", "-1.5e300", "\"text\"", "[]", "{\"a\":[{}]}"];
        let mut bytes = String::new();
        let document = [agent.sample];
        let lines: Vec<&str> = if agent.is_line_based { agent.sample.lines().collect() } else { document.to_vec() };
        for line in lines {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            let mut visited = 0;
            replace_nth_value(&mut value, from, &serde_json::from_str(replacements[to]).unwrap(), &mut visited);
            bytes.push_str(&value.to_string());
            bytes.push('\n');
        }
        write_and_read(agent, bytes.as_bytes());
    }
}

/// Replaces the `nth` value, counted from the outside in, by `replacement`.
fn replace_nth_value(
    value: &mut serde_json::Value,
    nth: usize,
    replacement: &serde_json::Value,
    visited: &mut usize,
) {
    let inner: Vec<&mut serde_json::Value> = match value {
        serde_json::Value::Object(fields) => fields.values_mut().collect(),
        serde_json::Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    for inner in inner {
        if *visited == nth {
            *inner = replacement.clone();
        }
        *visited += 1;
        replace_nth_value(inner, nth, replacement, visited);
    }
}
