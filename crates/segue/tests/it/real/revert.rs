//! Revert, undo and fork: what the model sees then, and what becomes of the agent's own sessions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segue_testkit::model::Script;
use segue_testkit::sandbox::SandboxCli;
use serde_json::Value;

use crate::real::stage::{Stage, Way};

const WORDS: [&str; 5] = ["quartz", "nickel", "walnut", "saffron", "magnet"];

/// A session with a turn for each of the words.
struct Told {
    stage: Stage,
    id: String,
    native: String,
}

impl Told {
    fn new(way: Way) -> Self {
        let stage = Stage::new(way, Script::new());
        let mut last = Value::Null;
        for word in WORDS {
            let prompt = format!("remember the word {word}");
            last = match last["session_id"].as_str() {
                None => stage.says(&[&prompt]),
                Some(id) => stage.says(&["--resume", id, &prompt]),
            };
        }
        let text = |name: &str| last[name].as_str().unwrap().to_owned();
        Self {
            id: text("session_id"),
            native: text("native_session_id"),
            stage,
        }
    }

    /// A turn in a session; it must be in front of the model with so many of the words and no more.
    fn knows(&self, id: &str, prompt: &str, words: usize) -> Value {
        let result = self.stage.says(&["--resume", id, prompt]);
        let seen = self.stage.sandbox.model().turn_requests().pop().unwrap();
        assert!(seen.contains(prompt), "{result:#}");
        for (index, word) in WORDS.iter().enumerate() {
            let known = index < words;
            assert_eq!(seen.contains(word), known, "{word}: {result:#} {seen:#?}");
        }
        result
    }

    fn segue(&self, args: &[&str]) -> Value {
        let ran = self.stage.run(&[&["session"], args, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// Whether what the model saw last was told it by segue.
    fn was_told(&self) -> bool {
        let seen = self.stage.sandbox.model().turn_requests().pop().unwrap();
        seen.contains("[End of the record")
    }

    /// The files of a native session, with what is in them.
    fn files(&self, native: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let part = match self.stage.way.provider {
            "gemini" => &native[..8],
            _ => native,
        };
        collect(&self.stage.sandbox.home(), part, &mut files);
        files.sort();
        assert!(!files.is_empty(), "{native} is nowhere");
        files
    }

    /// A turn in a native session, made in the agent's own program.
    fn by_hand(&self, prompt: &str) {
        let (cli, args) = match self.stage.way.provider {
            "claude" => (SandboxCli::Claude, ["-p", "--resume", &self.native, prompt]),
            _ => (SandboxCli::Codex, ["exec", "resume", &self.native, prompt]),
        };
        let ran = self.stage.sandbox.run(cli, args);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
}

fn collect(directory: &Path, part: &str, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let named = path.file_name().unwrap().to_string_lossy().contains(part);
        if path.is_dir() && !path.ends_with("segue") {
            collect(&path, part, files);
        } else if named && path.extension().is_some_and(|end| end == "jsonl") {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
}

/// The agent goes back by itself: nothing has to be told, and its session stays as it was for an undo.
fn goes_back_by_its_own_means(way: Way) {
    let told = Told::new(way);
    let before = told.files(&told.native);
    let reverted = told.segue(&["revert", &told.id, "--to", "2"]);
    assert_eq!(reverted["turns"], 2, "{reverted:#}");
    let back = told.knows(&told.id, "what do you know?", 2);
    let why = format!("{} rewound its own session to turn 2", way.provider);
    assert_branched(&told, &back, &why);
    let more = told.knows(&told.id, "and what now?", 2);
    assert_eq!(more["native_session_id"], back["native_session_id"]);
    assert_usage(&back, &more);
    assert_eq!(told.files(&told.native), before, "{way:?}");

    // The one that knows everything goes on.
    let undone = told.segue(&["undo", &told.id]);
    assert_eq!(undone["turns"], 5, "{undone:#}");
    assert_eq!(undone["native_session_id"], told.native.as_str());
    let again = told.knows(&told.id, "and again?", 5);
    assert_eq!(again["native_session_id"], told.native.as_str());
    assert_eq!(again["opened"], "resumed", "{again:#}");
    let seen = told.stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(!told.was_told() && !seen.contains("and what now?"));

    // A fork branches from it in the same way, and leaves it alone.
    let before = told.files(&told.native);
    let fork = told.segue(&["fork", &told.id, "--at", "3"]);
    let fork = fork["id"].as_str().unwrap();
    let branched = told.knows(fork, "what does the fork know?", 3);
    let why = format!(
        "{} branched off from its own session after turn 3",
        way.provider
    );
    assert_branched(&told, &branched, &why);
    assert_eq!(told.files(&told.native), before, "{way:?}");

    with_a_turn_by_hand(&told);
    told.knows(fork, "still three?", 3);
    told.stage.assert_nothing_left();

    // Each can be deleted, whatever the agent keeps of one for the other.
    for (id, other) in [(told.id.as_str(), Some(fork)), (fork, None)] {
        let ran = told.stage.run(&["session", "delete", "--yes", id]);
        assert_eq!(ran.code, Some(0), "{way:?}: {ran:#?}");
        if let Some(other) = other {
            told.knows(other, "still there?", 3);
        }
    }
}

/// Somebody goes on with the old native session after a revert: that is a branch of its own, and in nobody's way.
fn with_a_turn_by_hand(told: &Told) {
    told.segue(&["revert", &told.id, "--to", "2"]);
    told.by_hand("the secret is hazel");
    let before = told.files(&told.native);
    let back = told.knows(&told.id, "once more: what do you know?", 2);
    let why = format!(
        "{} rewound its own session to turn 2",
        back["provider"].as_str().unwrap()
    );
    assert_branched(told, &back, &why);
    let seen = told.stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(!seen.contains("hazel"), "{seen:#?}");
    assert_eq!(told.files(&told.native), before);
    let undone = told.segue(&["undo", &told.id]);
    assert_eq!(undone["turns"], 6, "{undone:#}");
    let again = told.knows(&told.id, "and once more?", 5);
    assert_eq!(again["opened"], "resumed", "{again:#}");
    assert!(!told.was_told());
}

/// It was opened by the agent's own means, in a native session of its own, and for this reason.
fn assert_branched(told: &Told, result: &Value, why: &str) {
    assert_eq!(result["opened"], "resumed", "{result:#}");
    assert_eq!(result["opened_why"], why);
    let decisions = result["decisions"].as_array().unwrap();
    assert_eq!(decisions.last().unwrap(), why, "{result:#}");
    assert_ne!(result["native_session_id"], told.native.as_str());
    assert!(!told.was_told());
}

/// What a turn after a rewind is said to use is what it used, not what all turns before it did.
fn assert_usage(first: &Value, second: &Value) {
    let tokens = |turn: &Value| turn["usage"]["output_tokens"].as_u64();
    assert!(tokens(first).is_some(), "{first:#}");
    assert_eq!(tokens(first), tokens(second), "{first:#} {second:#}");
}

/// An agent without such means is told what was said, and no more.
fn goes_back_by_a_brief(way: Way) {
    let told = Told::new(way);
    told.segue(&["revert", &told.id, "--to", "2"]);
    let before = told.files(&told.native);
    let back = told.knows(&told.id, "what do you know?", 2);
    assert_eq!(back["opened"], "briefed", "{back:#}");
    assert_ne!(back["native_session_id"], told.native.as_str());
    assert_eq!(told.files(&told.native), before, "{way:?}");
    told.segue(&["undo", &told.id]);
    let again = told.knows(&told.id, "and again?", 5);
    assert_eq!(again["native_session_id"], told.native.as_str());
    assert_eq!(again["opened"], "resumed", "{again:#}");
    let fork = told.segue(&["fork", &told.id, "--at", "2"]);
    told.knows(fork["id"].as_str().unwrap(), "what does the fork know?", 2);
    told.knows(&told.id, "still five?", 5);
    told.stage.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_code_rewinds_a_copy_of_its_session() {
    goes_back_by_its_own_means(Way {
        provider: "claude",
        transport: "stream-json",
    });
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_rewinds_a_copy_of_its_thread() {
    goes_back_by_its_own_means(Way {
        provider: "codex",
        transport: "app-server",
    });
}

/// Codex as it was when it did not know how to leave turns out: the thread that has too many is put away.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_thread_of_codex_that_knows_too_much_is_archived() {
    let told = Told::new(Way {
        provider: "codex",
        transport: "app-server",
    });
    told.segue(&["revert", &told.id, "--to", "2"]);
    let codex = told.stage.sandbox.cli_command(SandboxCli::Codex);
    let codex = codex.get_program().to_str().unwrap();
    let older = told.stage.sandbox.path().join("older-codex");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n\
         *app-server*) sed -u 's/\"lastTurnId\"/\"notKnownYet\"/' | \"{codex}\" \"$@\" ;;\n\
         *) exec \"{codex}\" \"$@\" ;;\nesac\n"
    );
    fs::write(&older, script).unwrap();
    fs::set_permissions(&older, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["chat", "-p", "codex", "--json", "--resume", &told.id, "so?"];
    let mut command = told.stage.command(&args);
    command.env("SEGUE_CODEX_PATH", older);
    let back = told.stage.finish(command);
    assert_eq!(back["opened"], "briefed", "{back:#}");
    let why = back["opened_why"].as_str().unwrap();
    assert!(
        why.contains("not 2; that thread (") && why.contains(") is archived"),
        "{why}"
    );
    let seen = told.stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        seen.contains("nickel") && !seen.contains("walnut"),
        "{seen:#?}"
    );
    let mut archived = Vec::new();
    let archive = told.stage.sandbox.home().join(".codex/archived_sessions");
    collect(&archive, "rollout-", &mut archived);
    assert_eq!(archived.len(), 1);
    assert!(!archived[0].0.to_str().unwrap().contains(&told.native));
    told.stage.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_cli_is_told_what_is_left() {
    goes_back_by_a_brief(Way {
        provider: "gemini",
        transport: "stream-json",
    });
}
