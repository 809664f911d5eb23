//! Agents that write while their sessions are indexed: partial lines, truncated files and replaced files.
//!
//! They write until 40 commands have run. `SEGUE_INDEX_LOOKS` changes that number, and `SEGUE_SEED` repeats a run.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use segue_testkit::TestHome;
use serde_json::Value;

use super::{NativeSessionFile, SessionFileAgent, assert_equals_rebuilt_index, index_contents};
use crate::new_test_home;
use crate::{CampaignRng, read_env_number};

const SESSION_COUNT: usize = 8;

/// Writes a text in chunks that may end anywhere, even within a character.
fn write_in_chunks(file: &mut File, text: &str, rng: &mut CampaignRng) {
    let mut remaining = text.as_bytes();
    while !remaining.is_empty() {
        let end = remaining
            .len()
            .min(usize::try_from(rng.next_below(400)).unwrap() + 1);
        let (chunk, tail) = remaining.split_at(end);
        file.write_all(chunk).unwrap();
        remaining = tail;
        std::thread::sleep(Duration::from_micros(rng.next_below(1500)));
    }
}

/// Writes turns of a session while commands are running. Every sixth turn it may rewrite the complete file, in place or
/// by a rename.
fn write_turns(
    mut session_file: NativeSessionFile,
    seed: u64,
    remaining_commands: &AtomicUsize,
) -> NativeSessionFile {
    let mut rng = CampaignRng(seed);
    while remaining_commands.load(Ordering::Relaxed) > 0 || session_file.turns < 8 {
        match (session_file.turns % 6, session_file.number % 4) {
            (5, 0) => {
                let mut file = File::create(&session_file.path).unwrap();
                write_in_chunks(&mut file, &session_file.full_text(), &mut rng);
            }
            (5, 1) => {
                let new_path = session_file.path.with_extension("new");
                fs::write(&new_path, session_file.full_text()).unwrap();
                fs::rename(new_path, &session_file.path).unwrap();
            }
            _ => {}
        }
        let text = session_file.next_turn_lines();
        let mut file = OpenOptions::new()
            .append(true)
            .open(&session_file.path)
            .unwrap();
        write_in_chunks(&mut file, &text, &mut rng);
        std::thread::sleep(Duration::from_millis(rng.next_below(150)));
    }
    session_file
}

/// Stops the writers when a reader ends, even if it panics.
struct StopWritersGuard<'a>(&'a AtomicUsize);

impl Drop for StopWritersGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Runs commands until none remains. Each must succeed, and a list must include sessions that are truncated at the
/// moment.
fn run_reader_commands(home: &TestHome, remaining_commands: &AtomicUsize) {
    let _guard = StopWritersGuard(remaining_commands);
    let take_next = || {
        let decrement = |count: usize| count.checked_sub(1);
        remaining_commands.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement)
    };
    while let Ok(number) = take_next() {
        let args: &[&str] = match number % 3 {
            0 => &["index", "refresh", "--json"],
            1 => &["session", "list", "--all", "--json", "--limit", "0"],
            _ => &["session", "search", "--json", "--limit", "0", "asked"],
        };
        let output = home.run_segue(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output}");
        assert_eq!(output.stderr, "", "{args:?}: {output}");
        if args[1] == "list" {
            let rows: Value = serde_json::from_str(&output.raw_stdout).unwrap();
            assert_eq!(rows.as_array().unwrap().len(), SESSION_COUNT, "{output}");
        }
    }
}

#[test]
fn sessions_written_during_refreshes_are_indexed_completely() {
    let home = new_test_home();
    let seed = read_env_number("SEGUE_SEED", 7);
    let command_count = usize::try_from(read_env_number("SEGUE_INDEX_LOOKS", 40)).unwrap();
    let sessions = (0..SESSION_COUNT).map(|number| {
        let agent = if number % 2 == 0 {
            SessionFileAgent::Claude
        } else {
            SessionFileAgent::Codex
        };
        let mut session_file = NativeSessionFile::new(&home, agent, number, &home.project());
        session_file.append_turn();
        session_file
    });
    let sessions: Vec<NativeSessionFile> = sessions.collect();
    let _ = super::refresh_index(&home);
    let remaining_commands = AtomicUsize::new(command_count);
    let written_sessions: Vec<NativeSessionFile> = std::thread::scope(|scope| {
        let remaining_commands = &remaining_commands;
        let writers = (seed..).zip(sessions);
        let writers: Vec<_> = writers
            .map(|(seed, session_file)| {
                scope.spawn(move || write_turns(session_file, seed, remaining_commands))
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| run_reader_commands(&home, remaining_commands));
        }
        let session_files = writers.into_iter().map(|writer| writer.join().unwrap());
        session_files.collect()
    });
    let turns: usize = written_sessions
        .iter()
        .map(|session_file| session_file.turns)
        .sum();
    crate::print_to_stderr(&format!(
        "{turns} turns written during {command_count} commands, seed {seed}\n"
    ));
    let contents = index_contents(&home);
    for key in ["prompts", "answers", "output"] {
        assert_eq!(contents[key].as_array().unwrap().len(), turns, "{key}");
    }
    let listed = contents["list"].as_array().unwrap();
    for session_file in &written_sessions {
        let is_same_session = |row: &&Value| row["native_session_id"] == session_file.id;
        let row = listed.iter().find(is_same_session).unwrap();
        assert_eq!(row["turns"], session_file.turns, "{row}");
    }
    assert_equals_rebuilt_index(&home);
}
