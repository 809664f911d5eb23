//! A conversation with Claude Code, prompt by prompt: one process for all turns, and over to a session of its own.

use std::fs::{self, File};
use std::time::Duration;

use segue_testkit::model::Script;
use segue_testkit::sandbox::Ran;

use crate::stage::{Stage, Way};

const WAY: Way = Way {
    provider: "claude",
    transport: "stream-json",
};

/// How long the whole conversation may take.
const LIMIT: Duration = Duration::from_mins(3);

/// What `segue repl` says to these lines.
fn repl(stage: &Stage, args: &[&str], lines: &[&str]) -> Ran {
    let typed = stage.sandbox.path().join("typed");
    fs::write(&typed, lines.join("\n")).unwrap();
    let mut command = stage.command(&["repl", "-p", WAY.provider]);
    command.args(args).stdin(File::open(typed).unwrap());
    Ran::of(command, LIMIT)
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
    let turns = stage.sandbox.model().turns();
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
            .turns()
            .pop()
            .unwrap()
            .contains("teal")
    );
    stage.assert_nothing_left();
}
