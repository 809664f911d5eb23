//! Agents write while their sessions are read: by half lines, by truncating, by putting a new file in the place.
//!
//! They write until 40 commands have looked; `SEGUE_INDEX_LOOKS` makes it more, `SEGUE_SEED` repeats one.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use segue_testkit::World;
use serde_json::Value;

use super::{Agent, Dice, Kept, assert_as_if_built_anew, picture, setting};
use crate::world;

const SESSIONS: usize = 8;

/// Writes a text in pieces that end anywhere, also within a character.
fn in_pieces(file: &mut File, text: &str, dice: &mut Dice) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let end = rest
            .len()
            .min(usize::try_from(dice.below(400)).unwrap() + 1);
        let (piece, after) = rest.split_at(end);
        file.write_all(piece).unwrap();
        rest = after;
        std::thread::sleep(Duration::from_micros(dice.below(1500)));
    }
}

/// Writes turns of a session as long as somebody looks; every now and then all of it anew, in place or beside it.
fn write(mut kept: Kept, seed: u64, to_come: &AtomicUsize) -> Kept {
    let mut dice = Dice(seed);
    while to_come.load(Ordering::Relaxed) > 0 || kept.turns < 8 {
        match (kept.turns % 6, kept.number % 4) {
            (5, 0) => {
                let mut file = File::create(&kept.path).unwrap();
                in_pieces(&mut file, &kept.whole(), &mut dice);
            }
            (5, 1) => {
                let beside = kept.path.with_extension("new");
                fs::write(&beside, kept.whole()).unwrap();
                fs::rename(beside, &kept.path).unwrap();
            }
            _ => {}
        }
        let text = kept.next();
        let mut file = OpenOptions::new().append(true).open(&kept.path).unwrap();
        in_pieces(&mut file, &text, &mut dice);
        std::thread::sleep(Duration::from_millis(dice.below(150)));
    }
    kept
}

/// Whoever stops looking, also because something was wrong, lets the writers stop.
struct Looking<'a>(&'a AtomicUsize);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Looks again and again. Nothing fails, and what is cut off for a moment is still the session it was.
fn look(world: &World, to_come: &AtomicUsize) {
    let _looking = Looking(to_come);
    let next = || {
        let take = |left: usize| left.checked_sub(1);
        to_come.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
    };
    while let Ok(left) = next() {
        let args: &[&str] = match left % 3 {
            0 => &["index", "refresh", "--json"],
            1 => &["session", "list", "--all", "--json", "--limit", "0"],
            _ => &["session", "search", "--json", "--limit", "0", "asked"],
        };
        let output = world.segue(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output}");
        assert_eq!(output.stderr, "", "{args:?}: {output}");
        if args[1] == "list" {
            let told: Value = serde_json::from_str(&output.raw_stdout).unwrap();
            assert_eq!(told.as_array().unwrap().len(), SESSIONS, "{output}");
        }
    }
}

#[test]
fn what_is_being_written_is_read_again_until_it_is_all_there() {
    let world = world();
    let seed = setting("SEGUE_SEED", 7);
    let looks = usize::try_from(setting("SEGUE_INDEX_LOOKS", 40)).unwrap();
    let sessions = (0..SESSIONS).map(|number| {
        let agent = if number % 2 == 0 {
            Agent::Claude
        } else {
            Agent::Codex
        };
        let mut kept = Kept::new(&world, agent, number, &world.project());
        kept.add();
        kept
    });
    let sessions: Vec<Kept> = sessions.collect();
    let _ = super::refresh(&world);
    let to_come = AtomicUsize::new(looks);
    let written: Vec<Kept> = std::thread::scope(|scope| {
        let to_come = &to_come;
        let writers = (seed..).zip(sessions);
        let writers: Vec<_> = writers
            .map(|(seed, kept)| scope.spawn(move || write(kept, seed, to_come)))
            .collect();
        for _ in 0..2 {
            scope.spawn(|| look(&world, to_come));
        }
        let written = writers.into_iter().map(|writer| writer.join().unwrap());
        written.collect()
    });
    let turns: usize = written.iter().map(|kept| kept.turns).sum();
    crate::say(&format!(
        "{turns} turns written while {looks} commands looked, seed {seed}\n"
    ));
    let all = picture(&world);
    for part in ["prompts", "answers", "output"] {
        assert_eq!(all[part].as_array().unwrap().len(), turns, "{part}");
    }
    let listed = all["list"].as_array().unwrap();
    for kept in &written {
        let is_it = |row: &&Value| row["native_session_id"] == kept.id;
        let row = listed.iter().find(is_it).unwrap();
        assert_eq!(row["turns"], kept.turns, "{row}");
    }
    assert_as_if_built_anew(&world);
}
