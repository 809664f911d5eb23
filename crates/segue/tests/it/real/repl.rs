//! A conversation, prompt by prompt: with Claude Code one process for all turns, and over to a session of its own; with
//! Codex alone in its session.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use segue_testkit::model::Script;
use segue_testkit::sandbox::CommandOutcome;

use crate::real::stage::{Stage, Way};

const WAY: Way = Way {
    provider: "claude",
    transport: "stream-json",
};

/// How long the whole conversation may take.
const LIMIT: Duration = Duration::from_mins(3);

/// What `segue repl` says to these lines.
fn repl(stage: &Stage, args: &[&str], lines: &[&str]) -> CommandOutcome {
    let typed = stage.sandbox.path().join("typed");
    fs::write(&typed, lines.join("\n")).unwrap();
    let mut command = stage.command(&["repl", "-p", WAY.provider]);
    command.args(args).stdin(File::open(typed).unwrap());
    CommandOutcome::run(command, LIMIT)
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn one_process_serves_all_turns_and_other_sessions_are_resumed() {
    let stage = Stage::new(WAY, Script::new());
    stage.begin_elsewhere("the word is teal");
    let lines = [
        "my name is Ada",
        "/session",
        "what is my name?",
        "/session",
        "/sessions",
        "/resume 2",
        "/history 1",
        "what is the word?",
        "/session",
        "/usage",
    ];
    let ran = repl(&stage, &[], &lines);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let (own, adopted) = ran.stdout.split_once("# ").unwrap();
    let opened: Vec<&str> = own
        .lines()
        .filter_map(|line| line.strip_prefix("opened    "))
        .collect();
    assert_eq!(
        opened,
        ["fresh: a new session", "live: the agent is still running"],
        "{ran:#?}"
    );
    assert!(own.contains("You said: what is my name?"), "{ran:#?}");
    assert!(adopted.contains("the word is teal"), "{ran:#?}");
    assert!(adopted.contains("You said: what is the word?"), "{ran:#?}");
    assert!(adopted.contains("opened    resumed: "), "{ran:#?}");
    assert!(adopted.contains("turns     2\n"), "{ran:#?}");
    let turns = stage.sandbox.model().turn_requests();
    let (last, before) = turns.split_last().unwrap();
    assert!(last.contains("teal") && !last.contains("Ada"), "{last:#?}");
    let last = before.last().unwrap();
    assert!(last.contains("Ada") && !last.contains("teal"), "{last:#?}");
    stage.assert_nothing_left();
    // The next day.
    let ran = repl(&stage, &["--continue"], &["and still?", "/session"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.stdout.contains("turns     3\n"), "{ran:#?}");
    assert!(
        stage
            .sandbox
            .model()
            .turn_requests()
            .pop()
            .unwrap()
            .contains("teal")
    );
    stage.assert_nothing_left();
}

/// Codex lets nobody else into a session as long as one of its programs has it.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_with_codex_that_waits_keeps_others_out() {
    let way = Way {
        provider: "codex",
        transport: "app-server",
    };
    let stage = Stage::new(way, Script::new());
    let mut command = stage.command(&["repl", "-p", "codex"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut repl = command.spawn().unwrap();
    let mut stdin = repl.stdin.take().unwrap();
    let mut lines = BufReader::new(repl.stdout.take().unwrap()).lines();
    // What a command shows is shown when the turn before it is over.
    stdin.write_all(b"the word is teal\n/session\n").unwrap();
    let id = lines.find_map(|line| Some(line.unwrap().strip_prefix("id ")?.trim().to_owned()));
    let id = id.unwrap();
    let refused = stage.run(&["chat", "--resume", &id, "what is the word?"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(
        refused
            .stderr
            .contains(&format!("is open in process {} on", repl.id())),
        "{refused:#?}"
    );
    stdin.write_all(b"/quit\n").unwrap();
    assert_eq!(repl.wait().unwrap().code(), Some(0));
    stage.assert_nothing_runs();
    let next = stage.says(&["--resume", &id, "what is the word?"]);
    assert_eq!(
        (&next["turn"], &next["leg"], &next["opened"]),
        (&2.into(), &1.into(), &"resumed".into()),
        "{next:#}"
    );
    let model = stage.sandbox.model();
    assert!(model.turn_requests().pop().unwrap().contains("the word is teal"));
    stage.assert_nothing_left();
}
