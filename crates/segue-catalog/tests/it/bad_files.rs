//! Tests of damaged files. No damage may end a read, or cause a panic or an endless loop.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use segue_catalog::{Catalog, NativeSessionKind, NativeTurn, SkippedContent, ReadStart, read_turns};

use crate::agents::{AGENTS, Agent, of_lines};

/// Reads a session by all methods.
fn read(agent: &Agent, home: &Path) -> (Vec<NativeTurn>, SkippedContent) {
    let reader = (agent.reader)(home);
    let found = agent.only(home);
    let _ = reader.read_head(&found);
    let _ = reader.read_recent_turns(&found, 3);
    let mut records = reader.open_records(&found, &ReadStart::Beginning).unwrap();
    let turns = read_turns(records.as_mut()).unwrap().into_turns();
    (turns, records.skipped())
}

fn read_bytes(agent: &Agent, bytes: &[u8]) -> (Vec<NativeTurn>, SkippedContent) {
    let home = tempfile::tempdir().unwrap();
    agent.put(home.path(), bytes);
    read(agent, home.path())
}

#[test]
fn a_file_cut_anywhere_tells_what_came_before() {
    for agent in of_lines() {
        let whole = read_bytes(agent, agent.sample.as_bytes()).0;
        let mut longest = 0;
        for length in (0..agent.sample.len()).step_by(97) {
            let (turns, skipped) = read_bytes(agent, &agent.sample.as_bytes()[..length]);
            assert!(turns.len() <= whole.len());
            assert_eq!(skipped.malformed, 0, "{} cut at {length}", agent.name);
            longest = longest.max(turns.len());
        }
        assert!(longest + 1 >= whole.len(), "{}", agent.name);
    }
}

#[test]
fn an_empty_file_says_nothing() {
    for agent in AGENTS {
        for nothing in [&b""[..], b"\n\n\n", b"   \n"] {
            let (turns, skipped) = read_bytes(agent, nothing);
            assert!(
                turns.is_empty() && skipped.is_empty(),
                "{}: {skipped:?}",
                agent.name
            );
        }
    }
}

#[test]
fn a_bad_line_is_counted_and_the_rest_is_read() {
    for agent in of_lines() {
        let whole = read_bytes(agent, agent.sample.as_bytes()).0;
        let garbage: &[&[u8]] = &[
            b"garbage",
            b"{\"type\":\"user\",\"uuid\":",
            b"[1,2,3]",
            b"null",
            b"\xff\xfe\x00",
        ];
        for bad in garbage {
            let mut bytes = Vec::new();
            for line in agent.sample.lines() {
                bytes.extend_from_slice(line.as_bytes());
                bytes.push(b'\n');
                bytes.extend_from_slice(bad);
                bytes.push(b'\n');
            }
            let (turns, skipped) = read_bytes(agent, &bytes);
            let same = turns.iter().map(|turn| &turn.messages);
            assert!(
                same.eq(whole.iter().map(|turn| &turn.messages)),
                "{}",
                agent.name
            );
            let lines = agent.sample.lines().count() as u64;
            assert_eq!(skipped.malformed, lines, "{} with {bad:?}", agent.name);
        }
    }
}

#[test]
fn broken_characters_are_replaced_and_counted() {
    for agent in of_lines() {
        let text = agent.sample.replacen("milk", "m\u{1}lk", 1).into_bytes();
        let broken: Vec<u8> = text
            .into_iter()
            .map(|b| if b == 1 { 0xff } else { b })
            .collect();
        let (turns, skipped) = read_bytes(agent, &broken);
        assert_eq!(skipped.repaired, 1, "{}: {skipped:?}", agent.name);
        assert!(format!("{turns:?}").contains('\u{fffd}'), "{}", agent.name);
    }
}

#[test]
fn a_line_of_200_megabytes_is_passed_by() {
    for agent in of_lines() {
        let whole = read_bytes(agent, agent.sample.as_bytes()).0;
        let home = tempfile::tempdir().unwrap();
        let path = agent.put(home.path(), agent.sample.as_bytes());
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        let block = vec![b'x'; 1 << 20];
        file.write_all(b"{\"type\":\"user\",\"uuid\":\"").unwrap();
        for _ in 0..200 {
            file.write_all(&block).unwrap();
        }
        file.write_all(b"\"}\n").unwrap();
        file.write_all(agent.sample.lines().last().unwrap().as_bytes())
            .unwrap();
        let (turns, skipped) = read(agent, home.path());
        assert_eq!(skipped.oversized, 1, "{}", agent.name);
        assert_eq!(turns.len(), whole.len(), "{}", agent.name);
    }
}

#[test]
fn a_directory_in_the_place_of_a_file_is_no_session() {
    for agent in AGENTS {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(agent.place)).unwrap();
        let there = (agent.reader)(home.path()).scan_sessions();
        assert!(
            there.locations.is_empty() && there.unreadable.is_empty(),
            "{}",
            agent.name
        );
    }
}

#[test]
fn a_file_in_the_place_of_a_directory_is_passed_by() {
    for agent in AGENTS {
        let depth = Path::new(agent.place).ancestors().count();
        for above in Path::new(agent.place).ancestors().skip(1).take(depth - 2) {
            let home = tempfile::tempdir().unwrap();
            let file = home.path().join(above);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            File::create(&file).unwrap();
            let there = (agent.reader)(home.path()).scan_sessions();
            assert!(
                there.locations.is_empty(),
                "{}: {}",
                agent.name,
                above.display()
            );
        }
    }
}

#[test]
fn no_home_at_all_is_no_sessions() {
    for agent in AGENTS {
        let there = (agent.reader)(Path::new("/nowhere/at/all")).scan_sessions();
        assert!(
            there.locations.is_empty() && there.unreadable.is_empty(),
            "{}",
            agent.name
        );
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_read_to_where_it_was() {
    for agent in AGENTS {
        let home = tempfile::tempdir().unwrap();
        let path = agent.put(home.path(), agent.sample.as_bytes());
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
                let (turns, skipped) = read(agent, home.path());
                assert!(!turns.is_empty());
                assert_eq!(skipped.malformed, 0, "{}", agent.name);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_clock_in_the_future_changes_nothing_else() {
    for agent in AGENTS {
        let home = tempfile::tempdir().unwrap();
        let future = agent.sample.replace("2026-01", "2199-01");
        agent.put(home.path(), future.as_bytes());
        let reader = (agent.reader)(home.path());
        let head = reader.read_head(&agent.only(home.path())).unwrap();
        assert!(
            head.updated_at.to_string().starts_with("2199-01"),
            "{}",
            agent.name
        );
        assert_eq!(head.kind, NativeSessionKind::Conversation);
    }
}

#[test]
fn an_id_that_is_a_path_is_no_id() {
    for agent in AGENTS {
        for evil in ["../../../etc/passwd", "-rf", "a\\u0000b", ""] {
            let home = tempfile::tempdir().unwrap();
            let bytes = agent.sample.replace(crate::agents::ID, evil);
            agent.put(home.path(), bytes.as_bytes());
            let catalog = Catalog::new(vec![(agent.reader)(home.path()).into()]);
            for session in catalog.list_sessions(None, None).sessions {
                // If the name of the file is the id, the id inside of it does not matter.
                assert_eq!(
                    session.head.id.as_str(),
                    crate::agents::ID,
                    "{}",
                    agent.name
                );
            }
        }
    }
}

/// Generates a session in which some bytes are changed, removed or duplicated.
fn mangled(sample: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let change = (0..sample.len(), 0usize..60, any::<u8>(), 0..4u8);
    prop::collection::vec(change, 1..12).prop_map(move |changes| {
        let mut bytes = sample.as_bytes().to_vec();
        for (at, length, byte, how) in changes {
            let at = at.min(bytes.len());
            let end = (at + length).min(bytes.len());
            match how {
                0 => bytes[at..end].fill(byte),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let doubled = bytes[at..end].to_vec();
                    bytes.splice(at..at, doubled);
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
    fn no_bytes_make_a_reader_panic_or_loop(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for agent in AGENTS {
            read_bytes(agent, &bytes);
        }
    }

    #[test]
    fn no_damage_makes_a_reader_panic_or_loop(
        (index, bytes) in (0..AGENTS.len()).prop_flat_map(|index| (Just(index), mangled(AGENTS[index].sample)))
    ) {
        read_bytes(&AGENTS[index], &bytes);
    }

    /// Replaces values by values of other types, at any position.
    #[test]
    fn no_other_type_makes_a_reader_panic(
        (index, from, to) in (0..AGENTS.len(), 0..40usize, 0..6usize)
    ) {
        let agent = &AGENTS[index];
        let others = ["null", "true", "-1.5e300", "\"text\"", "[]", "{\"a\":[{}]}"];
        let mut bytes = String::new();
        let whole = [agent.sample];
        let lines: Vec<&str> = if agent.lines { agent.sample.lines().collect() } else { whole.to_vec() };
        for line in lines {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            let mut seen = 0;
            swap(&mut value, from, &serde_json::from_str(others[to]).unwrap(), &mut seen);
            bytes.push_str(&value.to_string());
            bytes.push('\n');
        }
        read_bytes(agent, bytes.as_bytes());
    }
}

/// Replaces the `nth` value, counted from the outside in, by `other`.
fn swap(value: &mut serde_json::Value, nth: usize, other: &serde_json::Value, seen: &mut usize) {
    let inner: Vec<&mut serde_json::Value> = match value {
        serde_json::Value::Object(fields) => fields.values_mut().collect(),
        serde_json::Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    for inner in inner {
        if *seen == nth {
            *inner = other.clone();
        }
        *seen += 1;
        swap(inner, nth, other, seen);
    }
}
