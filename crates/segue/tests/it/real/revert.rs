//! Revert, undo and fork: the requests to the model, and the changes to native sessions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use segue_testkit::model::Script;
use segue_testkit::sandbox::SandboxCli;
use serde_json::Value;

use crate::real::harness::{AgentSetup, CliHarness};

const REMEMBERED_WORDS: [&str; 5] = ["quartz", "nickel", "walnut", "saffron", "magnet"];

/// A session with one turn for each word.
struct RevertFixture {
    harness: CliHarness,
    id: String,
    native_id: String,
}

impl RevertFixture {
    fn new(setup: AgentSetup) -> Self {
        let harness = CliHarness::new(setup, Script::new());
        let mut last = Value::Null;
        for word in REMEMBERED_WORDS {
            let prompt = format!("remember the word {word}");
            last = match last["session_id"].as_str() {
                None => harness.run_finished_turn(&[&prompt]),
                Some(id) => harness.run_finished_turn(&["--resume", id, &prompt]),
            };
        }
        let text_field = |name: &str| last[name].as_str().unwrap().to_owned();
        Self {
            id: text_field("session_id"),
            native_id: text_field("native_session_id"),
            harness,
        }
    }

    /// Runs a turn and checks that the request to the model contains exactly the first `word_count` words.
    fn run_turn_expecting_words(&self, id: &str, prompt: &str, word_count: usize) -> Value {
        let result = self.harness.run_finished_turn(&["--resume", id, prompt]);
        let request = self.harness.sandbox.model().turn_requests().pop().unwrap();
        assert!(request.contains(prompt), "{result:#}");
        for (index, word) in REMEMBERED_WORDS.iter().enumerate() {
            let is_expected = index < word_count;
            assert_eq!(
                request.contains(word),
                is_expected,
                "{word}: {result:#} {request:#?}"
            );
        }
        result
    }

    fn run_session_command(&self, args: &[&str]) -> Value {
        let outcome = self
            .harness
            .run_segue(&[&["session"], args, &["--json"]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// Returns `true` if the last request to the model contains a brief.
    fn is_last_request_briefed(&self) -> bool {
        let request = self.harness.sandbox.model().turn_requests().pop().unwrap();
        request.contains("[End of the conversation so far")
    }

    /// Returns the files of a native session with their contents.
    fn native_files(&self, native_id: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let name_part = match self.harness.setup.provider {
            "gemini" => &native_id[..8],
            _ => native_id,
        };
        collect_session_files(&self.harness.sandbox.home(), name_part, &mut files);
        files.sort();
        assert!(!files.is_empty(), "{native_id} has no files");
        files
    }

    /// Runs a turn of the native session in the agent's own program.
    fn run_cli_turn(&self, prompt: &str) {
        let (cli, args) = match self.harness.setup.provider {
            "claude" => (
                SandboxCli::Claude,
                ["-p", "--resume", &self.native_id, prompt],
            ),
            _ => (
                SandboxCli::Codex,
                ["exec", "resume", &self.native_id, prompt],
            ),
        };
        let outcome = self.harness.sandbox.run(cli, args);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    }
}

fn collect_session_files(directory: &Path, name_part: &str, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let is_match = path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .contains(name_part);
        if path.is_dir() && !path.ends_with("segue") {
            collect_session_files(&path, name_part, files);
        } else if is_match
            && path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
        {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
}

/// Checks that the agent rewinds a copy of its session without a brief, and that the original stays unchanged for an
/// undo.
fn assert_agent_rewinds_its_session(setup: AgentSetup) {
    let fixture = RevertFixture::new(setup);
    let before = fixture.native_files(&fixture.native_id);
    let reverted = fixture.run_session_command(&["revert", &fixture.id, "--to", "2"]);
    assert_eq!(reverted["turns"], 2, "{reverted:#}");
    let rewound = fixture.run_turn_expecting_words(&fixture.id, "what do you know?", 2);
    let reason = format!("{} rewound its native session to turn 2", setup.provider);
    assert_branched(&fixture, &rewound, &reason);
    let next = fixture.run_turn_expecting_words(&fixture.id, "and what now?", 2);
    assert_eq!(next["native_session_id"], rewound["native_session_id"]);
    assert_same_usage(&rewound, &next);
    assert_eq!(
        fixture.native_files(&fixture.native_id),
        before,
        "{setup:?}"
    );

    // After the undo, the original native session is resumed.
    let undone = fixture.run_session_command(&["undo", &fixture.id]);
    assert_eq!(undone["turns"], 5, "{undone:#}");
    assert_eq!(undone["native_session_id"], fixture.native_id.as_str());
    let resumed = fixture.run_turn_expecting_words(&fixture.id, "and again?", 5);
    assert_eq!(resumed["native_session_id"], fixture.native_id.as_str());
    assert_eq!(resumed["opened"], "resumed", "{resumed:#}");
    let request = fixture
        .harness
        .sandbox
        .model()
        .turn_requests()
        .pop()
        .unwrap();
    assert!(!fixture.is_last_request_briefed() && !request.contains("and what now?"));

    // A fork also branches from the native session and does not change it.
    let before = fixture.native_files(&fixture.native_id);
    let fork = fixture.run_session_command(&["fork", &fixture.id, "--at", "3"]);
    let fork = fork["id"].as_str().unwrap();
    let branched = fixture.run_turn_expecting_words(fork, "what does the fork know?", 3);
    let reason = format!(
        "{} branched off from its native session after turn 3",
        setup.provider
    );
    assert_branched(&fixture, &branched, &reason);
    assert_eq!(
        fixture.native_files(&fixture.native_id),
        before,
        "{setup:?}"
    );

    assert_cli_turn_is_a_separate_branch(&fixture);
    fixture.run_turn_expecting_words(fork, "still three?", 3);
    fixture.harness.assert_no_leftovers();

    // Each session can be deleted without affecting the other, even if the agent shares data between them.
    for (id, survivor) in [(fixture.id.as_str(), Some(fork)), (fork, None)] {
        let outcome = fixture
            .harness
            .run_segue(&["session", "delete", "--yes", id]);
        assert_eq!(outcome.code, Some(0), "{setup:?}: {outcome:#?}");
        if let Some(survivor) = survivor {
            fixture.run_turn_expecting_words(survivor, "still there?", 3);
        }
    }
}

/// Checks that a turn made in the old native session after a revert is a separate branch and does not affect the
/// session.
fn assert_cli_turn_is_a_separate_branch(fixture: &RevertFixture) {
    fixture.run_session_command(&["revert", &fixture.id, "--to", "2"]);
    fixture.run_cli_turn("the secret is hazel");
    let before = fixture.native_files(&fixture.native_id);
    let rewound = fixture.run_turn_expecting_words(&fixture.id, "once more: what do you know?", 2);
    let reason = format!(
        "{} rewound its native session to turn 2",
        rewound["provider"].as_str().unwrap()
    );
    assert_branched(fixture, &rewound, &reason);
    let request = fixture
        .harness
        .sandbox
        .model()
        .turn_requests()
        .pop()
        .unwrap();
    assert!(!request.contains("hazel"), "{request:#?}");
    assert_eq!(fixture.native_files(&fixture.native_id), before);
    let undone = fixture.run_session_command(&["undo", &fixture.id]);
    assert_eq!(undone["turns"], 6, "{undone:#}");
    let resumed = fixture.run_turn_expecting_words(&fixture.id, "and once more?", 5);
    assert_eq!(resumed["opened"], "resumed", "{resumed:#}");
    assert!(!fixture.is_last_request_briefed());
}

/// Checks that the agent itself branched into a new native session, without a brief, for this reason.
fn assert_branched(fixture: &RevertFixture, result: &Value, reason: &str) {
    assert_eq!(result["opened"], "resumed", "{result:#}");
    assert_eq!(result["opened_why"], reason);
    let decisions = result["decisions"].as_array().unwrap();
    assert_eq!(decisions.last().unwrap(), reason, "{result:#}");
    assert_ne!(result["native_session_id"], fixture.native_id.as_str());
    assert!(!fixture.is_last_request_briefed());
}

/// Checks that the usage after a rewind is that of one turn, not the total of the session.
fn assert_same_usage(first: &Value, second: &Value) {
    let tokens = |turn: &Value| turn["usage"]["output_tokens"].as_u64();
    assert!(tokens(first).is_some(), "{first:#}");
    assert_eq!(tokens(first), tokens(second), "{first:#} {second:#}");
}

/// Checks that an agent that cannot rewind receives a brief of the remaining turns.
fn assert_revert_is_briefed(setup: AgentSetup) {
    let fixture = RevertFixture::new(setup);
    fixture.run_session_command(&["revert", &fixture.id, "--to", "2"]);
    let before = fixture.native_files(&fixture.native_id);
    let briefed = fixture.run_turn_expecting_words(&fixture.id, "what do you know?", 2);
    assert_eq!(briefed["opened"], "briefed", "{briefed:#}");
    assert_ne!(briefed["native_session_id"], fixture.native_id.as_str());
    assert_eq!(
        fixture.native_files(&fixture.native_id),
        before,
        "{setup:?}"
    );
    fixture.run_session_command(&["undo", &fixture.id]);
    let resumed = fixture.run_turn_expecting_words(&fixture.id, "and again?", 5);
    assert_eq!(resumed["native_session_id"], fixture.native_id.as_str());
    assert_eq!(resumed["opened"], "resumed", "{resumed:#}");
    let fork = fixture.run_session_command(&["fork", &fixture.id, "--at", "2"]);
    fixture.run_turn_expecting_words(fork["id"].as_str().unwrap(), "what does the fork know?", 2);
    fixture.run_turn_expecting_words(&fixture.id, "still five?", 5);
    fixture.harness.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_code_rewinds_a_copy_of_its_session() {
    assert_agent_rewinds_its_session(AgentSetup {
        provider: "claude",
        transport: "stream-json",
    });
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_rewinds_a_copy_of_its_thread() {
    assert_agent_rewinds_its_session(AgentSetup {
        provider: "codex",
        transport: "app-server",
    });
}

/// An older Codex ignores `lastTurnId` and forks the complete thread; segue archives that thread.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_codex_thread_with_too_many_turns_is_archived() {
    let fixture = RevertFixture::new(AgentSetup {
        provider: "codex",
        transport: "app-server",
    });
    fixture.run_session_command(&["revert", &fixture.id, "--to", "2"]);
    let codex = fixture.harness.sandbox.cli_command(SandboxCli::Codex);
    let codex = codex.get_program().to_str().unwrap();
    let older = fixture.harness.sandbox.path().join("older-codex");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n\
         *app-server*) sed -u 's/\"lastTurnId\"/\"notKnownYet\"/' | \"{codex}\" \"$@\" ;;\n\
         *) exec \"{codex}\" \"$@\" ;;\nesac\n"
    );
    fs::write(&older, script).unwrap();
    fs::set_permissions(&older, fs::Permissions::from_mode(0o755)).unwrap();
    let args = [
        "chat",
        "-p",
        "codex",
        "--json",
        "--resume",
        &fixture.id,
        "so?",
    ];
    let mut command = fixture.harness.segue_command(&args);
    command.env("SEGUE_CODEX_PATH", older);
    let result = fixture.harness.run_chat_command(command);
    assert_eq!(result["opened"], "briefed", "{result:#}");
    let reason = result["opened_why"].as_str().unwrap();
    assert!(
        reason.contains("instead of 2; archived the new thread "),
        "{reason}"
    );
    let request = fixture
        .harness
        .sandbox
        .model()
        .turn_requests()
        .pop()
        .unwrap();
    assert!(
        request.contains("nickel") && !request.contains("walnut"),
        "{request:#?}"
    );
    let mut archived = Vec::new();
    let archive = fixture
        .harness
        .sandbox
        .home()
        .join(".codex/archived_sessions");
    collect_session_files(&archive, "rollout-", &mut archived);
    assert_eq!(archived.len(), 1);
    assert!(!archived[0].0.to_str().unwrap().contains(&fixture.native_id));
    fixture.harness.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_is_briefed_with_the_remaining_turns() {
    assert_revert_is_briefed(AgentSetup {
        provider: "gemini",
        transport: "stream-json",
    });
}
