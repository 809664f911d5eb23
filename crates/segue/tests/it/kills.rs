//! The crash campaign: segue is killed without warning, over and over, at every step of a turn.
//!
//! Each run tells by its events what is on the disk. After each kill the store must open, hold all that was
//! told, hold nothing by half, and the next run must go on in the same session. 64 kills by default;
//! `SEGUE_KILLS` makes it a longer campaign, `SEGUE_SEED` repeats one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use segue_testkit::{Events, World};
use serde_json::Value;

use crate::world;

/// How many turns one session gets before the campaign moves to a new one.
const TURNS_A_SESSION: usize = 20;

/// A step of a turn, and how to tell that it was reached.
type Step = (&'static str, fn(&Value) -> bool);

/// The steps of a turn, each with the event that shows that it was reached.
const STEPS: [Step; 8] = [
    ("before the prompt is written", |_| true),
    ("prompt written", |event| event["event"] == "began"),
    ("agent opened", |event| event["event"] == "opened"),
    ("first words", |event| event["event"] == "text"),
    ("message saved", |event| {
        event["event"] == "saved" && event["message"] == 2
    }),
    ("tool call announced", |event| {
        event["event"] == "tool" && event["status"] == "in_progress"
    }),
    ("tool call concluded", |event| {
        event["event"] == "tool" && event["status"] == "completed"
    }),
    ("turn ended", |event| event["event"] == "ended"),
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// A small source of chance that can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What one run told before it was killed.
#[derive(Default)]
struct Told {
    turn: Option<u64>,
    session: Option<String>,
    opened: Option<String>,
    saved: Option<u64>,
    words: BTreeMap<u64, String>,
    ended: bool,
}

impl Told {
    fn hear(&mut self, event: &Value) {
        match event["event"].as_str().unwrap() {
            "began" => {
                self.turn = event["turn"].as_u64();
                self.session = event["session_id"].as_str().map(str::to_owned);
            }
            "opened" => self.opened = event["opened"].as_str().map(str::to_owned),
            "text" | "thought" => {
                let message = event["message"].as_u64().unwrap();
                self.words
                    .entry(message)
                    .or_default()
                    .push_str(event["text"].as_str().unwrap());
            }
            "saved" => self.saved = self.saved.max(event["message"].as_u64()),
            "ended" => self.ended = true,
            _ => {}
        }
    }
}

/// One session under attack, and what is known of it.
struct Victim {
    id: Option<String>,
    /// Its turns as they were when they had ended; they may never change again.
    turns: Vec<Value>,
}

/// Runs a turn and kills it a moment after a step was reached.
fn attack(world: &World, victim: &Victim, step: usize, dice: &mut Dice, prompt: &str) -> Told {
    let mut args = vec![];
    if let Some(id) = &victim.id {
        args.extend(["--resume".to_owned(), id.clone()]);
    }
    args.push(prompt.to_owned());
    let mut events: Events = world.events(args);
    let mut told = Told::default();
    let reached = STEPS[step].1;
    if step == 0 {
        std::thread::sleep(Duration::from_micros(dice.below(40_000)));
    } else {
        while let Some(event) = events.next_event() {
            told.hear(&event);
            if reached(&event) {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(dice.below(6_000)));
    }
    for event in events.kill() {
        told.hear(&event);
    }
    told
}

/// Compares the store with what was told; returns the turns.
fn check(world: &World, victim: &mut Victim, told: &Told, prompt: &str) {
    victim.id = told.session.clone().or(victim.id.take());
    let Some(id) = &victim.id else { return };
    let shown = world.json(["session", "show", "--json", id]);
    let turns = shown["turns"].as_array().unwrap();
    let before = victim.turns.len();
    assert_eq!(
        &turns[..before],
        victim.turns,
        "turns that had ended are as they were"
    );
    assert!(
        turns.len() <= before + 1,
        "one prompt makes one turn at most"
    );
    for (turn, n) in turns.iter().zip(1u64..) {
        assert_eq!(turn["n"], n, "turns are numbered without a gap");
    }
    if let Some(n) = told.turn {
        assert_eq!(
            turns.len() as u64,
            n,
            "a prompt that was told to be on the disk is there"
        );
    }
    let Some(turn) = turns.get(before) else {
        return;
    };
    let messages = turn["messages"].as_array().unwrap();
    assert_eq!(
        messages[0]["parts"][0]["text"], prompt,
        "the prompt is there to the byte"
    );
    if let Some(saved) = told.saved {
        assert!(
            messages.len() as u64 > saved,
            "message {saved} was told to be on the disk: {messages:?}"
        );
        for (number, words) in told.words.iter().filter(|(number, _)| **number <= saved) {
            let message = &messages[usize::try_from(*number).unwrap()];
            assert_eq!(message["complete"], true);
            assert_eq!(
                message["parts"][0]["text"],
                words.as_str(),
                "message {number} is whole"
            );
        }
    }
    if told.ended {
        assert_eq!(turn["state"], "finished");
    } else {
        let state = turn["state"].as_str().unwrap();
        assert!(["finished", "interrupted"].contains(&state), "{state}");
    }
}

/// Goes on in the session, which closes the turn that was cut off, and remembers how its turns look now.
fn go_on(world: &World, victim: &mut Victim) {
    let Some(id) = &victim.id else { return };
    let turn = world.json(["chat", "--json", "--resume", id, "go on"]);
    assert_eq!(turn["stop"], "finished", "{turn}");
    assert_ne!(
        turn["opened"], "fresh",
        "an agent that goes on is never blank: {turn}"
    );
    let shown = world.json(["session", "show", "--json", id]);
    victim.turns.clone_from(shown["turns"].as_array().unwrap());
    for turn in &victim.turns {
        assert_ne!(turn["state"], "running", "what was cut off is closed");
        assert_calls_are_answered(turn);
    }
}

/// A session comes with its first prompt, or not at all.
fn assert_no_session_is_empty(world: &World) {
    let all = world.json(["session", "list", "--all", "--limit", "0", "--json"]);
    for session in all.as_array().unwrap() {
        assert!(
            session["turns"].as_u64() >= Some(1),
            "half there: {session}"
        );
    }
}

fn assert_calls_are_answered(turn: &Value) {
    let parts = turn["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["parts"].as_array().unwrap());
    let mut open: Vec<&Value> = Vec::new();
    for part in parts {
        if part["type"] == "function_call" {
            open.push(&part["id"]);
        } else if part["type"] == "function_response" {
            open.retain(|id| **id != part["call_id"]);
        }
    }
    assert!(
        open.is_empty(),
        "calls without an answer: {open:?} in {turn}"
    );
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let world = world();
    let kills = usize::try_from(setting("SEGUE_KILLS", 64)).unwrap();
    let seed = setting("SEGUE_SEED", 7);
    let mut dice = Dice(seed);
    let mut counts = [0; STEPS.len()];
    let mut told_states = [0; 3];
    let mut victim = Victim {
        id: None,
        turns: Vec::new(),
    };
    for n in 0..kills {
        if victim.turns.len() >= TURNS_A_SESSION {
            victim = Victim {
                id: None,
                turns: Vec::new(),
            };
        }
        let step = n % STEPS.len();
        let prompt = format!(
            "rehearse: slow 1ms; think a thought; say kill {n} one two three; tool; say four five; ask"
        );
        let told = attack(&world, &victim, step, &mut dice, &prompt);
        counts[step] += 1;
        told_states[usize::from(told.turn.is_some()) + usize::from(told.ended)] += 1;
        check(&world, &mut victim, &told, &prompt);
        assert_no_session_is_empty(&world);
        go_on(&world, &mut victim);
    }
    let mut report = format!("{kills} kills, seed {seed}:\n");
    for ((name, _), count) in STEPS.iter().zip(counts) {
        writeln!(report, "  {count:>4}  {name}").unwrap();
    }
    let [unwritten, cut, ended] = told_states;
    let before = "before the prompt was told to be on the disk";
    writeln!(
        report,
        "  killed {before}: {unwritten}, in mid-turn: {cut}, after its end: {ended}"
    )
    .unwrap();
    crate::say(&report);
    world.assert_nothing_runs();
}

#[test]
fn a_store_survives_a_kill_while_it_is_made() {
    let mut dice = Dice(setting("SEGUE_SEED", 7));
    for _ in 0..setting("SEGUE_KILLS", 64) / 4 {
        let world = world();
        let events = world.events(["first words"]);
        std::thread::sleep(Duration::from_micros(dice.below(25_000)));
        let _ = events.kill();
        assert_no_session_is_empty(&world);
        let turn = world.json(["chat", "--json", "--continue", "go on"]);
        assert_eq!(turn["stop"], "finished", "{turn}");
    }
}

#[test]
fn words_that_were_streamed_a_second_ago_survive_a_kill() {
    let world = world();
    let words = (0..60)
        .map(|n| format!("w{n}"))
        .collect::<Vec<_>>()
        .join(" ");
    let mut events = world.events([format!("rehearse: slow 60ms; say {words}")]);
    let start = Instant::now();
    let mut heard: Vec<(Instant, String)> = Vec::new();
    while start.elapsed() < Duration::from_millis(2500) {
        let event = events.next_event().unwrap();
        if event["event"] == "text" {
            heard.push((Instant::now(), event["text"].as_str().unwrap().to_owned()));
        }
    }
    let killed = Instant::now();
    let _ = events.kill();
    let due: String = heard
        .into_iter()
        .filter(|(at, _)| killed - *at > Duration::from_secs(1))
        .map(|(_, words)| words)
        .collect();
    assert!(due.len() > 20, "{due}");
    let shown = world.json(["session", "show", "--json", "latest"]);
    let message = &shown["turns"][0]["messages"][1];
    assert_eq!(
        (&shown["turns"][0]["state"], &message["complete"]),
        (&"interrupted".into(), &false.into())
    );
    let kept = message["parts"][0]["text"].as_str().unwrap();
    assert!(kept.starts_with(&due), "kept {kept:?}, due {due:?}");
    // It is shown as cut off, also after the session was opened again.
    let _ = world.json(["chat", "--json", "--continue", "go on"]);
    let shown = world.json(["session", "show", "--json", "latest"]);
    assert_eq!(shown["turns"][0]["state"], "interrupted");
    assert_eq!(shown["turns"][0]["messages"][1]["parts"][0]["text"], kept);
    world.assert_nothing_runs();
}

#[test]
fn a_session_taken_over_leaves_nothing_of_its_former_agent() {
    let world = world();
    let mut events = world.events(["rehearse: grandchild; say started; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let _ = events.kill();
    // At once, while the leash is still waiting for the grandchild to end by itself.
    let turn = world.json(["chat", "--json", "--continue", "go on"]);
    assert_eq!(turn["opened"], "resumed");
    world.assert_nothing_runs();
}

#[test]
fn a_prompt_is_never_sent_twice() {
    let world = world();
    let mut events = world.events(["rehearse: say once; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let _ = events.kill();
    let output = world.segue(["chat", "--continue", "and now?"]);
    assert!(
        output.stderr.contains(
            "turn 1 was interrupted: its prompt may have reached the agent and is not sent again"
        ),
        "{output}"
    );
    let shown = world.json(["session", "show", "--json", "latest"]);
    let native = shown["session"]["native_session_id"].as_str().unwrap();
    let heard =
        std::fs::read_to_string(world.home().join(format!("rehearsal/{native}.jsonl"))).unwrap();
    let prompts = heard
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"user\""));
    assert_eq!(
        prompts.filter(|line| line.contains("say once")).count(),
        1,
        "{heard}"
    );
}
