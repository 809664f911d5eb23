//! `segue repl` with real CLIs: one Claude Code process for all turns and a switch to a native session, and exclusive
//! access to a Codex session.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use segue_testkit::model::Script;
use segue_testkit::sandbox::CommandOutcome;

use crate::real::harness::{AgentSetup, CliHarness};

const CLAUDE_SETUP: AgentSetup = AgentSetup {
    provider: "claude",
    transport: "stream-json",
};

/// Time limit for one `segue repl` process.
const REPL_TIMEOUT: Duration = Duration::from_mins(3);

/// Runs `segue repl` with these lines on standard input.
fn run_repl(harness: &CliHarness, args: &[&str], lines: &[&str]) -> CommandOutcome {
    let input_path = harness.sandbox.path().join("typed");
    fs::write(&input_path, lines.join("\n")).unwrap();
    let mut command = harness.segue_command(&["repl", "-p", CLAUDE_SETUP.provider]);
    command.args(args).stdin(File::open(input_path).unwrap());
    CommandOutcome::run(command, REPL_TIMEOUT)
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_single_process_serves_all_turns_and_other_sessions_are_resumed() {
    let harness = CliHarness::new(CLAUDE_SETUP, Script::new());
    harness.start_native_session("the word is teal");
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
    let outcome = run_repl(&harness, &[], &lines);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let (own, adopted) = outcome.stdout.split_once("# ").unwrap();
    let opened: Vec<&str> = own
        .lines()
        .filter_map(|line| line.strip_prefix("opened    "))
        .collect();
    assert_eq!(
        opened,
        ["fresh: a new session", "live: the agent is still running"],
        "{outcome:#?}"
    );
    assert!(own.contains("You said: what is my name?"), "{outcome:#?}");
    assert!(adopted.contains("the word is teal"), "{outcome:#?}");
    assert!(
        adopted.contains("You said: what is the word?"),
        "{outcome:#?}"
    );
    assert!(adopted.contains("opened    resumed: "), "{outcome:#?}");
    assert!(adopted.contains("turns     2\n"), "{outcome:#?}");
    let turns = harness.sandbox.model().turn_requests();
    let (last, earlier) = turns.split_last().unwrap();
    assert!(last.contains("teal") && !last.contains("Ada"), "{last:#?}");
    let last = earlier.last().unwrap();
    assert!(last.contains("Ada") && !last.contains("teal"), "{last:#?}");
    harness.assert_no_leftovers();
    // A later run of the REPL.
    let outcome = run_repl(&harness, &["--continue"], &["and still?", "/session"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("turns     3\n"), "{outcome:#?}");
    assert!(
        harness
            .sandbox
            .model()
            .turn_requests()
            .pop()
            .unwrap()
            .contains("teal")
    );
    harness.assert_no_leftovers();
}

/// Codex locks a session while one of its processes has it open.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_waiting_codex_repl_blocks_other_processes() {
    let setup = AgentSetup {
        provider: "codex",
        transport: "app-server",
    };
    let harness = CliHarness::new(setup, Script::new());
    let mut command = harness.segue_command(&["repl", "-p", "codex"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut repl = command.spawn().unwrap();
    let mut stdin = repl.stdin.take().unwrap();
    let mut lines = BufReader::new(repl.stdout.take().unwrap()).lines();
    // The output of `/session` follows the end of the turn before it.
    stdin.write_all(b"the word is teal\n/session\n").unwrap();
    let id = lines.find_map(|line| Some(line.unwrap().strip_prefix("id ")?.trim().to_owned()));
    let id = id.unwrap();
    let refused = harness.run_segue(&["chat", "--resume", &id, "what is the word?"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(
        refused
            .stderr
            .contains(&format!("is open in process {} on", repl.id())),
        "{refused:#?}"
    );
    stdin.write_all(b"/quit\n").unwrap();
    assert_eq!(repl.wait().unwrap().code(), Some(0));
    harness.assert_no_processes();
    let next = harness.run_finished_turn(&["--resume", &id, "what is the word?"]);
    assert_eq!(
        (&next["turn"], &next["leg"], &next["opened"]),
        (&2.into(), &1.into(), &"resumed".into()),
        "{next:#}"
    );
    let model = harness.sandbox.model();
    assert!(
        model
            .turn_requests()
            .pop()
            .unwrap()
            .contains("the word is teal")
    );
    harness.assert_no_leftovers();
}
