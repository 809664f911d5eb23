//! Agents write while their sessions are read: by half lines, by truncating, by putting a new file in the place.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use segue_testkit::World;
use serde_json::Value;

use super::{Agent, Dice, Kept, assert_as_if_built_anew, picture, setting};
use crate::world;

const SESSIONS: usize = 8;
const TURNS: usize = 12;

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

/// Writes all turns of a session; in the middle it is written anew, in place or beside it.
fn write(mut kept: Kept, seed: u64) -> Kept {
    let mut dice = Dice(seed);
    let open = |path: &std::path::Path| OpenOptions::new().append(true).open(path).unwrap();
    for turn in 1..TURNS {
        if turn == TURNS / 2 && kept.number.is_multiple_of(4) {
            let mut file = File::create(&kept.path).unwrap();
            in_pieces(&mut file, &kept.whole(), &mut dice);
        }
        if turn == TURNS / 2 && kept.number % 4 == 1 {
            let beside = kept.path.with_extension("new");
            fs::write(&beside, kept.whole()).unwrap();
            fs::rename(beside, &kept.path).unwrap();
        }
        let text = kept.next();
        in_pieces(&mut open(&kept.path), &text, &mut dice);
    }
    kept
}

/// Looks until everything is written; how often.
fn look(world: &World, quiet: &AtomicBool) -> usize {
    let mut looked = 0;
    while !quiet.load(Ordering::Relaxed) || looked < 10 {
        let args: &[&str] = match looked % 3 {
            0 => &["index", "refresh", "--json"],
            1 => &["session", "list", "--all", "--json", "--limit", "0"],
            _ => &["session", "search", "--json", "--limit", "0", "asked"],
        };
        let output = world.segue(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output}");
        assert_eq!(output.stderr, "", "{args:?}: {output}");
        if args[1] == "list" {
            // What is cut off for a moment is still the session it was.
            let told: Value = serde_json::from_str(&output.raw_stdout).unwrap();
            assert_eq!(told.as_array().unwrap().len(), SESSIONS, "{output}");
        }
        looked += 1;
    }
    looked
}

#[test]
fn what_is_being_written_is_read_again_until_it_is_all_there() {
    let world = world();
    let seed = setting("SEGUE_SEED", 7);
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
    let quiet = AtomicBool::new(false);
    let looked = std::thread::scope(|scope| {
        let lookers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| look(&world, &quiet)))
            .collect();
        let writers = (seed..).zip(sessions);
        let writers: Vec<_> = writers
            .map(|(seed, kept)| scope.spawn(move || write(kept, seed)))
            .collect();
        for writer in writers {
            assert_eq!(writer.join().unwrap().turns, TURNS);
        }
        quiet.store(true, Ordering::Relaxed);
        let looked = lookers.into_iter().map(|looker| looker.join().unwrap());
        looked.sum::<usize>()
    });
    crate::say(&format!("looked {looked} times while it was written\n"));
    let all = picture(&world);
    for part in ["prompts", "answers", "output"] {
        assert_eq!(
            all[part].as_array().unwrap().len(),
            SESSIONS * TURNS,
            "{part}"
        );
    }
    for session in all["list"].as_array().unwrap() {
        assert_eq!(session["turns"], TURNS, "{session}");
    }
    assert_as_if_built_anew(&world);
}
