//! Crash test: segue is killed repeatedly, at every step of a turn.
//!
//! The events of each run state what is on disk. After each kill the store must open, contain everything that was
//! acknowledged and no incomplete data, and the next run must resume the same session. The default is 64 kills;
//! `SEGUE_KILLS` changes that number, and `SEGUE_SEED` repeats a run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use segue_testkit::{ChatProcess, TestHome};
use serde_json::Value;

use crate::{CampaignRng, new_test_home, read_env_number};

/// Number of turns in a session before the test starts a new one.
const MAX_TURNS_PER_SESSION: usize = 20;

/// A step of a turn, and a predicate for the event that shows that it was reached.
type KillStep = (&'static str, fn(&Value) -> bool);

/// The steps of a turn at which segue is killed.
const KILL_STEPS: [KillStep; 8] = [
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
    ("tool call completed", |event| {
        event["event"] == "tool" && event["status"] == "completed"
    }),
    ("turn ended", |event| event["event"] == "ended"),
];

/// Events of a run before it was killed.
#[derive(Default)]
struct ObservedRun {
    turn: Option<u64>,
    session_id: Option<String>,
    open_mode: Option<String>,
    last_saved_message: Option<u64>,
    message_texts: BTreeMap<u64, String>,
    has_ended: bool,
}

impl ObservedRun {
    fn record_event(&mut self, event: &Value) {
        match event["event"].as_str().unwrap() {
            "began" => {
                self.turn = event["turn"].as_u64();
                self.session_id = event["session_id"].as_str().map(str::to_owned);
            }
            "opened" => self.open_mode = event["opened"].as_str().map(str::to_owned),
            "text" | "thought" => {
                let message = event["message"].as_u64().unwrap();
                self.message_texts
                    .entry(message)
                    .or_default()
                    .push_str(event["text"].as_str().unwrap());
            }
            "saved" => {
                self.last_saved_message = self.last_saved_message.max(event["message"].as_u64());
            }
            "ended" => self.has_ended = true,
            _ => {}
        }
    }
}

/// A session whose runs are killed, and its state so far.
struct KilledSession {
    id: Option<String>,
    /// The turns that have ended; they must not change.
    ended_turns: Vec<Value>,
}

/// Runs a turn and kills it shortly after a step was reached.
fn run_and_kill(
    home: &TestHome,
    session: &KilledSession,
    step: usize,
    rng: &mut CampaignRng,
    prompt: &str,
) -> ObservedRun {
    let mut args = vec![];
    if let Some(id) = &session.id {
        args.extend(["--resume".to_owned(), id.clone()]);
    }
    args.push(prompt.to_owned());
    let mut events: ChatProcess = home.start_chat(args);
    let mut observed = ObservedRun::default();
    let is_reached = KILL_STEPS[step].1;
    if step == 0 {
        std::thread::sleep(Duration::from_micros(rng.next_below(40_000)));
    } else {
        while let Some(event) = events.next_event() {
            observed.record_event(&event);
            if is_reached(&event) {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(rng.next_below(6_000)));
    }
    for event in events.kill() {
        observed.record_event(&event);
    }
    observed
}

/// Checks that the store contains everything that the events acknowledged.
fn assert_store_contains(
    home: &TestHome,
    session: &mut KilledSession,
    observed: &ObservedRun,
    prompt: &str,
) {
    session.id = observed.session_id.clone().or(session.id.take());
    let Some(id) = &session.id else { return };
    let transcript = home.run_segue_json(["session", "show", "--json", id]);
    let turns = transcript["turns"].as_array().unwrap();
    let before = session.ended_turns.len();
    assert_eq!(
        &turns[..before],
        session.ended_turns,
        "a turn that had ended was changed"
    );
    assert!(
        turns.len() <= before + 1,
        "one prompt created more than one turn"
    );
    for (turn, n) in turns.iter().zip(1u64..) {
        assert_eq!(turn["n"], n, "the turn numbers have a gap");
    }
    if let Some(n) = observed.turn {
        assert_eq!(turns.len() as u64, n, "an acknowledged prompt is missing");
    }
    let Some(turn) = turns.get(before) else {
        return;
    };
    let messages = turn["messages"].as_array().unwrap();
    assert_eq!(
        messages[0]["parts"][0]["text"], prompt,
        "the stored prompt differs"
    );
    if let Some(saved) = observed.last_saved_message {
        assert!(
            messages.len() as u64 > saved,
            "the acknowledged message {saved} is missing: {messages:?}"
        );
        for (number, text) in observed
            .message_texts
            .iter()
            .filter(|(number, _)| **number <= saved)
        {
            let message = &messages[usize::try_from(*number).unwrap()];
            assert_eq!(message["complete"], true);
            assert_eq!(
                message["parts"][0]["text"],
                text.as_str(),
                "message {number} is incomplete"
            );
        }
    }
    if observed.has_ended {
        assert_eq!(turn["state"], "finished");
    } else {
        let state = turn["state"].as_str().unwrap();
        assert!(["finished", "interrupted"].contains(&state), "{state}");
    }
}

/// Resumes the session, which closes the interrupted turn, and saves the turns for later checks.
fn resume_session(home: &TestHome, session: &mut KilledSession) {
    let Some(id) = &session.id else { return };
    let turn = home.run_segue_json(["chat", "--json", "--resume", id, "go on"]);
    assert_eq!(turn["stop"], "finished", "{turn}");
    assert_ne!(
        turn["opened"], "fresh",
        "the agent was started without the earlier turns: {turn}"
    );
    let transcript = home.run_segue_json(["session", "show", "--json", id]);
    session
        .ended_turns
        .clone_from(transcript["turns"].as_array().unwrap());
    for turn in &session.ended_turns {
        assert_ne!(
            turn["state"], "running",
            "the interrupted turn is still running"
        );
        assert_calls_are_answered(turn);
    }
}

/// Checks that no session exists without its first prompt.
fn assert_no_session_is_empty(home: &TestHome) {
    let all = home.run_segue_json(["session", "list", "--all", "--limit", "0", "--json"]);
    for session in all.as_array().unwrap() {
        assert!(
            session["turns"].as_u64() >= Some(1),
            "the session has no turn: {session}"
        );
    }
}

fn assert_calls_are_answered(turn: &Value) {
    let parts = turn["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["parts"].as_array().unwrap());
    let mut open_calls: Vec<&Value> = Vec::new();
    for part in parts {
        if part["type"] == "function_call" {
            open_calls.push(&part["id"]);
        } else if part["type"] == "function_response" {
            open_calls.retain(|id| **id != part["call_id"]);
        }
    }
    assert!(
        open_calls.is_empty(),
        "calls without an answer: {open_calls:?} in {turn}"
    );
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let home = new_test_home();
    let kills = usize::try_from(read_env_number("SEGUE_KILLS", 64)).unwrap();
    let seed = read_env_number("SEGUE_SEED", 7);
    let mut rng = CampaignRng(seed);
    let mut kills_per_step = [0; KILL_STEPS.len()];
    let mut progress_counts = [0; 3];
    let mut session = KilledSession {
        id: None,
        ended_turns: Vec::new(),
    };
    for n in 0..kills {
        if session.ended_turns.len() >= MAX_TURNS_PER_SESSION {
            session = KilledSession {
                id: None,
                ended_turns: Vec::new(),
            };
        }
        let step = n % KILL_STEPS.len();
        let prompt = format!(
            "rehearse: slow 1ms; think a thought; say kill {n} one two three; tool; say four five; ask"
        );
        let observed = run_and_kill(&home, &session, step, &mut rng, &prompt);
        kills_per_step[step] += 1;
        progress_counts[usize::from(observed.turn.is_some()) + usize::from(observed.has_ended)] +=
            1;
        assert_store_contains(&home, &mut session, &observed, &prompt);
        assert_no_session_is_empty(&home);
        resume_session(&home, &mut session);
    }
    let mut report = format!("{kills} kills, seed {seed}:\n");
    for ((name, _), count) in KILL_STEPS.iter().zip(kills_per_step) {
        writeln!(report, "  {count:>4}  {name}").unwrap();
    }
    let [unwritten, cut, ended] = progress_counts;
    let before = "before the prompt was acknowledged";
    writeln!(
        report,
        "  killed {before}: {unwritten}, during the turn: {cut}, after its end: {ended}"
    )
    .unwrap();
    crate::print_to_stderr(&report);
    home.assert_no_processes();
}

#[test]
fn a_store_survives_a_kill_during_its_creation() {
    let mut rng = CampaignRng(read_env_number("SEGUE_SEED", 7));
    for _ in 0..read_env_number("SEGUE_KILLS", 64) / 4 {
        let home = new_test_home();
        let events = home.start_chat(["first words"]);
        std::thread::sleep(Duration::from_micros(rng.next_below(25_000)));
        let _ = events.kill();
        assert_no_session_is_empty(&home);
        let turn = home.run_segue_json(["chat", "--json", "--continue", "go on"]);
        assert_eq!(turn["stop"], "finished", "{turn}");
    }
}

#[test]
fn text_streamed_over_a_second_ago_survives_a_kill() {
    let home = new_test_home();
    let words = (0..60)
        .map(|n| format!("w{n}"))
        .collect::<Vec<_>>()
        .join(" ");
    let mut events = home.start_chat([format!("rehearse: slow 60ms; say {words}")]);
    let start = Instant::now();
    let mut received: Vec<(Instant, String)> = Vec::new();
    while start.elapsed() < Duration::from_millis(2500) {
        let event = events.next_event().unwrap();
        if event["event"] == "text" {
            received.push((Instant::now(), event["text"].as_str().unwrap().to_owned()));
        }
    }
    let killed_at = Instant::now();
    let _ = events.kill();
    let expected: String = received
        .into_iter()
        .filter(|(at, _)| killed_at - *at > Duration::from_secs(1))
        .map(|(_, text)| text)
        .collect();
    assert!(expected.len() > 20, "{expected}");
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let message = &transcript["turns"][0]["messages"][1];
    assert_eq!(
        (&transcript["turns"][0]["state"], &message["complete"]),
        (&"interrupted".into(), &false.into())
    );
    let stored = message["parts"][0]["text"].as_str().unwrap();
    assert!(
        stored.starts_with(&expected),
        "stored {stored:?}, expected {expected:?}"
    );
    // The turn is shown as interrupted, even after the session was resumed.
    let _ = home.run_segue_json(["chat", "--json", "--continue", "go on"]);
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    assert_eq!(transcript["turns"][0]["state"], "interrupted");
    assert_eq!(
        transcript["turns"][0]["messages"][1]["parts"][0]["text"],
        stored
    );
    home.assert_no_processes();
}

#[test]
fn a_lease_takeover_ends_the_former_agent() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: grandchild; say started; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let _ = events.kill();
    // Resume at once, while the leash still waits for the grandchild to exit.
    let turn = home.run_segue_json(["chat", "--json", "--continue", "go on"]);
    assert_eq!(turn["opened"], "resumed");
    home.assert_no_processes();
}

#[test]
fn a_prompt_is_never_sent_twice() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: say once; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let _ = events.kill();
    let output = home.run_segue(["chat", "--continue", "and now?"]);
    assert!(
        output.stderr.contains(
            "turn 1 was interrupted: its prompt may have reached the agent, so segue does not send it again"
        ),
        "{output}"
    );
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let native = transcript["session"]["native_session_id"].as_str().unwrap();
    let native_text =
        std::fs::read_to_string(home.segue_home().join(format!("rehearsal/{native}.jsonl")))
            .unwrap();
    let prompts = native_text
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"user\""));
    assert_eq!(
        prompts.filter(|line| line.contains("say once")).count(),
        1,
        "{native_text}"
    );
}
