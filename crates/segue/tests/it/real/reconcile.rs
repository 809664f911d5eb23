//! Reconciliation with native sessions: turns made in the agent's own program, answers that only the agent stored, and
//! lost sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use segue_testkit::model::{ModelRequest, Reply, Script, ScriptedCall};
use segue_testkit::sandbox::SandboxCli;
use serde_json::Value;

use crate::real::harness::{AgentSetup, CliHarness};

/// Checks the case that segue is killed after the agent stored its answer and before segue received it.
fn assert_interrupted_answer_is_recovered(setup: AgentSetup) {
    let slow = Reply::from_text("the answer is forty-two").with_delay(Duration::from_secs(3));
    let tool_call = Reply::from_call(ScriptedCall::shell("echo a look around"));
    let harness = CliHarness::new(setup, Script::new().with_rule("slowly", [tool_call, slow]));
    let first = harness.run_finished_turn(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    let request_count = harness.sandbox.model().turn_requests().len();

    let mut turn = harness.start_turn(&["--permissions", "allow-all", "--resume", id, "slowly"]);
    let opened = turn.wait_for_event("opened");
    let wait_for_requests = |count| {
        let model = harness.sandbox.model();
        assert!(model.wait_for_turn_requests(count, Duration::from_mins(1)));
    };
    wait_for_requests(request_count + 2);
    turn.send_signal(Signal::STOP);
    let native = opened["native_session_id"].as_str().unwrap();
    wait_for_answer(&harness, native, "the answer is forty-two");
    turn.send_signal(Signal::KILL);
    turn.wait_for_exit();
    harness.assert_no_processes();

    let last = harness.run_finished_turn(&["--resume", id, "and now?"]);
    let decisions = last["decisions"].to_string();
    let expected = format!(
        "its answer was taken from the native session of {}",
        setup.provider
    );
    assert!(decisions.contains(&expected), "{setup:?}: {last:#}");
    let turns = load_turns(&harness, id);
    assert_eq!(turns.len(), 3, "{setup:?}: {turns:#?}");
    assert_eq!(turns[1]["state"], "finished", "{setup:?}: {turns:#?}");
    assert_eq!(turns[1]["outside"], false, "{setup:?}");
    let text = turns[1]["messages"].to_string();
    assert_eq!(text.matches("the answer is forty-two").count(), 1, "{text}");
    for part_type in ["function_call", "function_response"] {
        let count = text.matches(&format!("\"type\":\"{part_type}\"")).count();
        assert_eq!(count, 1, "{setup:?}: {:#}", turns[1]["messages"]);
    }
    assert!(turns[1]["usage"]["output_tokens"].is_u64(), "{turns:#?}");

    let requests = harness.sandbox.model().turn_requests();
    // One request with the prompt and one with the tool result.
    let prompts = requests.iter().map(ModelRequest::prompts);
    let slow_requests =
        prompts.filter(|prompts| prompts.last().is_some_and(|last| last.ends_with("slowly")));
    assert_eq!(
        slow_requests.count(),
        2,
        "{setup:?}: the prompt was sent again"
    );
    let last_request = requests.last().unwrap();
    assert!(
        last_request.contains("the answer is forty-two"),
        "{setup:?}: {last_request:#?}"
    );
    harness.assert_no_leftovers();
}

/// Checks that turns made in the agent's own program are imported and marked as such, and that the next request
/// contains them.
fn assert_cli_turns_are_reconciled(setup: AgentSetup) {
    let harness = CliHarness::new(setup, Script::new());
    let first = harness.run_finished_turn(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    let native = first["native_session_id"].as_str().unwrap();
    // Gemini CLI leaves a second file when it resumes a session in a later minute.
    harness.age_gemini_sessions();
    run_cli_turn(&harness, native, "my name is Ada");
    run_cli_turn(&harness, native, "I live in Graz");

    // `session show` includes them.
    let turns = load_turns(&harness, id);
    assert_eq!(
        outside_flags(&turns),
        [false, true, true],
        "{setup:?}: {turns:#?}"
    );
    let text = turns[2]["messages"].to_string();
    assert!(
        text.contains("You said: I live in Graz"),
        "{setup:?}: {text}"
    );
    assert!(turns[1]["usage"]["total_tokens"].is_u64(), "{turns:#?}");

    let last = harness.run_finished_turn(&["--resume", id, "what do you know of me?"]);
    assert_eq!(last["turn"], 4, "{setup:?}: {last:#}");
    assert_eq!(last["native_session_id"], native, "{setup:?}: {last:#}");
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    for text in ["teal", "my name is Ada", "I live in Graz"] {
        assert!(
            request.contains(text),
            "{setup:?}: {text} in {:#?}",
            request.prompts()
        );
    }
    // No turn is imported twice, and later turns are imported too.
    assert_eq!(
        outside_flags(&load_turns(&harness, id)),
        [false, true, true, false]
    );
    run_cli_turn(&harness, native, "good bye");
    let end = harness.run_finished_turn(&["--resume", id, "the end"]);
    assert!(
        end["decisions"]
            .to_string()
            .contains("added 1 turn made in"),
        "{setup:?}: {end:#}"
    );
    let turns = load_turns(&harness, id);
    let expected = [false, true, true, false, true, false];
    assert_eq!(outside_flags(&turns), expected, "{setup:?}: {turns:#?}");
    harness.assert_no_leftovers();
}

/// Checks that a truncated or deleted native session is detected before a resume.
fn assert_lost_native_session_is_detected(setup: AgentSetup) {
    let harness = CliHarness::new(setup, Script::new());
    let first = harness.run_finished_turn(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    harness.age_gemini_sessions();
    let second = harness.run_finished_turn(&["--resume", id, "my name is Ada"]);
    let native = second["native_session_id"].as_str().unwrap();
    let _ = fs::remove_dir_all(harness.segue_home().join("kept"));
    truncate_after(&harness, native, "my name is Ada");

    let assert_briefed_with_reason = |turn: &Value, expected: &str| {
        assert!(turn["decisions"].to_string().contains(expected), "{turn:#}");
        assert_eq!(turn["opened"], "briefed", "{setup:?}: {turn:#}");
        let request = harness.sandbox.model().turn_requests().pop().unwrap();
        for text in ["teal", "my name is Ada"] {
            assert!(request.contains(text), "{setup:?}: {text} in {request:#?}");
        }
    };
    let third = harness.run_finished_turn(&["--resume", id, "what do you know of me?"]);
    assert_briefed_with_reason(&third, "no longer has all turns of its native session");
    harness.delete_native_session(third["native_session_id"].as_str().unwrap());
    let fourth = harness.run_finished_turn(&["--resume", id, "still?"]);
    assert_briefed_with_reason(
        &fourth,
        match setup.provider {
            // segue may be able to restore the session, so it tries to resume it first.
            "gemini" => "started a new native session with a brief of this session",
            _ => "no longer has its native session",
        },
    );
    harness.assert_no_leftovers();
}

/// Runs a turn of a native session in the agent's own program.
fn run_cli_turn(harness: &CliHarness, native: &str, prompt: &str) {
    let (cli, args): (_, &[&str]) = match harness.setup.provider {
        "claude" => (SandboxCli::Claude, &["--resume", native, "-p", prompt]),
        "codex" => (SandboxCli::Codex, &["exec", "resume", native, prompt]),
        _ => (SandboxCli::Gemini, &["--resume", native, "-p", prompt]),
    };
    let outcome = harness.sandbox.run(cli, args.iter().copied());
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
}

/// Returns the turns of a session as `session show --json` prints them.
fn load_turns(harness: &CliHarness, id: &str) -> Vec<Value> {
    let outcome = harness.run_segue(&["session", "show", "--json", id]);
    let transcript: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
    transcript["turns"].as_array().unwrap().clone()
}

fn outside_flags(turns: &[Value]) -> Vec<bool> {
    turns
        .iter()
        .map(|turn| turn["outside"].as_bool().unwrap())
        .collect()
}

/// Waits until the file of a native session contains the complete answer.
fn wait_for_answer(harness: &CliHarness, native: &str, text: &str) {
    for _ in 0..600 {
        let end_marker = match harness.setup.provider {
            "codex" => "task_complete",
            _ => "",
        };
        let has_answer = |path: &PathBuf| {
            let content = fs::read_to_string(path).unwrap_or_default();
            content
                .split_once(text)
                .is_some_and(|(_, tail)| tail.contains(end_marker))
        };
        if native_files(harness, native).iter().any(has_answer) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?} never wrote {text:?}", harness.setup);
}

/// Truncates the file of a native session after `text`.
fn truncate_after(harness: &CliHarness, native: &str, text: &str) {
    let mut truncated_count = 0;
    for path in native_files(harness, native) {
        let content = fs::read_to_string(&path).unwrap();
        if let Some(position) = content.find(text) {
            fs::write(&path, &content[..position + text.len()]).unwrap();
            truncated_count += 1;
        }
    }
    assert!(
        truncated_count > 0,
        "no file of {:?} contains {text:?}",
        harness.setup
    );
}

/// Returns the files of a native session.
fn native_files(harness: &CliHarness, native: &str) -> Vec<PathBuf> {
    let home = harness.sandbox.home();
    let (directory, name_part) = match harness.setup.provider {
        "claude" => (".claude/projects", native),
        "codex" => (".codex/sessions", native),
        _ => (".gemini/tmp", &native[..8]),
    };
    let mut files = Vec::new();
    collect_matching_files(&home.join(directory), name_part, &mut files);
    files
}

fn collect_matching_files(directory: &Path, name_part: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_matching_files(&path, name_part, files);
        } else if path.to_string_lossy().contains(name_part) {
            files.push(path);
        }
    }
}

/// Generates a module for each agent with one test per check.
macro_rules! scenes {
    ($($name:ident: $provider:literal $transport:literal,)+) => {
        $(mod $name {
            use super::AgentSetup;

            const AGENT_SETUP: AgentSetup = AgentSetup { provider: $provider, transport: $transport };

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn an_interrupted_answer_is_recovered_from_the_native_session() {
                super::assert_interrupted_answer_is_recovered(AGENT_SETUP);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn turns_made_in_the_cli_are_reconciled() {
                super::assert_cli_turns_are_reconciled(AGENT_SETUP);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn a_truncated_or_missing_native_session_is_detected() {
                super::assert_lost_native_session_is_detected(AGENT_SETUP);
            }
        })+
    };
}

scenes! {
    claude: "claude" "stream-json",
    codex: "codex" "app-server",
    gemini: "gemini" "acp",
}
