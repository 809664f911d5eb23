//! Behaviour that is specific to Gemini CLI: retention of sessions, prompts that look like commands, and failures.

mod direct;
mod survival;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use segue_testkit::model::{Reply, Script, ScriptedCall, StubFailure};
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};
use serde_json::{Value, json};

use crate::real::harness::{AgentSetup, CliHarness};

const ACP_SETUP: AgentSetup = AgentSetup {
    provider: "gemini",
    transport: "acp",
};
const STREAM_JSON_SETUP: AgentSetup = AgentSetup {
    provider: "gemini",
    transport: "stream-json",
};
const JSON_SETUP: AgentSetup = AgentSetup {
    provider: "gemini",
    transport: "json",
};

/// Enables the automatic deletion of sessions, which is the default for users.
pub(crate) fn enable_retention(sandbox: Sandbox) -> Sandbox {
    let path = sandbox.home().join(".gemini/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let general = settings["general"].as_object_mut().unwrap();
    general.remove("sessionRetention").unwrap();
    fs::write(&path, settings.to_string()).unwrap();
    sandbox
}

/// Returns the session files of the project, sorted by name.
fn session_files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let chats = sandbox.home().join(".gemini/tmp/project/chats");
    let entries = fs::read_dir(chats).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

/// Returns the files of one session.
fn files_of_session(sandbox: &Sandbox, id: &str) -> Vec<PathBuf> {
    let mut paths = session_files(sandbox);
    let suffix = format!("-{}.jsonl", &id[..8]);
    paths.retain(|path| path.to_str().unwrap().ends_with(&suffix));
    paths
}

/// Returns the user prompts in the last request to the model.
fn last_prompts(sandbox: &Sandbox) -> Vec<String> {
    sandbox.model().turn_requests().last().unwrap().prompts()
}

/// Runs a turn with a script as the configured Gemini CLI; `GEMINI` in the script is the path of the real one.
fn run_chat_through_script(harness: &CliHarness, script: &str, prompt: &str) -> Value {
    let program = harness.sandbox.path().join("gemini-wrapper");
    let gemini = harness.sandbox.cli_command(SandboxCli::Gemini);
    let gemini = gemini.get_program().to_str().unwrap();
    fs::write(&program, script.replace("GEMINI", gemini)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = harness.segue_command(&["chat", "-p", "gemini", "--json", prompt]);
    command.env("SEGUE_GEMINI_PATH", program);
    let outcome = CommandOutcome::run(command, Duration::from_mins(2));
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:#?}"))
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn any_prompt_reaches_the_model() {
    let script = Script::new().with_rule("", [Reply::from_text("Well.")]);
    let long_prompt = format!("long {}", "x y ".repeat(250_000));
    let all_prompts = [
        "first words",
        "/clear up this mess",
        "?what",
        "-p",
        "--version",
        "  in between  ",
        "\nfirst a line",
        &long_prompt,
    ];
    // The two transports send prompts with the same code, so a few prompts are enough for the second one.
    let few_prompts = ["first words", "/clear up this mess", "-p"];
    for (setup, prompts) in [
        (STREAM_JSON_SETUP, &all_prompts[..]),
        (JSON_SETUP, &few_prompts),
    ] {
        let harness = CliHarness::new(setup, script.clone());
        for (index, prompt) in prompts.iter().enumerate() {
            let extra_args: &[&str] = if index == 0 { &[] } else { &["--continue"] };
            let file = harness.sandbox.path().join("prompt");
            fs::write(&file, prompt).unwrap();
            // A prompt that begins with a dash or is too long for an argument is passed on standard input.
            let mut args = vec!["chat", "-p", "gemini", "--json"];
            args.extend(extra_args);
            let mut command = harness.segue_command(&args);
            command.stdin(fs::File::open(&file).unwrap());
            let outcome = CommandOutcome::run(command, Duration::from_mins(2));
            let result: Value = serde_json::from_str(&outcome.stdout)
                .unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
            assert_eq!(
                result["stop"], "finished",
                "{setup:?} {prompt:.20}: {result:#}"
            );
        }
        let received: Vec<String> = last_prompts(&harness.sandbox)
            .iter()
            .map(|prompt| prompt.trim_matches(['\u{200b}', ' ']).to_owned())
            .collect();
        let sent: Vec<&str> = prompts
            .iter()
            .map(|prompt| prompt.trim_matches(' '))
            .collect();
        assert_eq!(received, sent, "{setup:?}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_untrusted_folder_stays_untrusted() {
    for setup in [STREAM_JSON_SETUP, JSON_SETUP] {
        let harness = CliHarness::new(setup, Script::new());
        let mut command = harness.segue_command(&["chat", "-p", "gemini", "--json", "hello"]);
        command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
        let outcome = CommandOutcome::run(command, Duration::from_mins(2));
        let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(result["error"]["class"], "untrusted_folder", "{result:#}");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains("trusted directory"), "{message}");
        assert!(harness.sandbox.model().turn_requests().is_empty());
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_are_classified() {
    let cases = [
        (
            "bad",
            StubFailure::BadRequest,
            "agent_error",
            "the request is bad",
        ),
        (
            "auth",
            StubFailure::Unauthorized,
            "not_logged_in",
            "credentials",
        ),
        (
            "rate",
            StubFailure::RateLimit { retry_after: 1 },
            "rate_limited",
            "exhausted",
        ),
        (
            "server",
            StubFailure::ServerError,
            "agent_error",
            "internal error",
        ),
        (
            "huge",
            StubFailure::PromptTooLong,
            "context_too_long",
            "token count",
        ),
        ("cut", StubFailure::Cut, "agent_error", "terminated"),
    ];
    let script = cases
        .iter()
        .fold(Script::new(), |script, (prompt, failure, _, _)| {
            script.with_rule(
                prompt,
                [Reply::from_text("some words").with_failure(*failure)],
            )
        });
    for setup in [STREAM_JSON_SETUP, JSON_SETUP] {
        let harness = CliHarness::new(setup, script.clone());
        for (prompt, _, class, expected) in cases {
            let result = harness.run_chat(&["--new", prompt]);
            assert_eq!(result["stop"], "failed", "{setup:?} {prompt}: {result:#}");
            assert!(result["error"]["hint"].is_string(), "{setup:?} {prompt}");
            assert_eq!(
                result["error"]["class"], class,
                "{setup:?} {prompt}: {result:#}"
            );
            let message = result["error"]["message"].as_str().unwrap();
            assert!(message.contains(expected), "{setup:?} {prompt}: {message}");
        }
        let settings = harness.sandbox.home().join(".gemini/settings.json");
        fs::remove_file(settings).unwrap();
        let result = harness.run_chat(&["nobody is logged in"]);
        assert_eq!(
            result["error"]["class"], "not_logged_in",
            "{setup:?}: {result:#}"
        );
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn noise_is_skipped_and_a_partial_answer_is_an_error() {
    let script = Script::new().with_rule("", [Reply::from_text("A plain answer.")]);
    let noisy = "#!/bin/sh\nprintf '\\033[31mLoaded { cached }\\033[0m\\r\\n'\nGEMINI \"$@\"\nprintf '\\nbye {\\n'\n";
    let cut = "#!/bin/sh\nGEMINI \"$@\" | head -c 120\n";
    let empty = "#!/bin/sh\ncat >/dev/null\n";
    for setup in [STREAM_JSON_SETUP, JSON_SETUP] {
        let harness = CliHarness::new(setup, script.clone());
        let result = run_chat_through_script(&harness, noisy, "hello");
        assert_eq!(result["stop"], "finished", "{setup:?}: {result:#}");
        assert_eq!(result["text"], "A plain answer.", "{setup:?}");
        for broken in [cut, empty] {
            let result = run_chat_through_script(&harness, broken, "hello");
            assert_eq!(result["stop"], "failed", "{setup:?}: {result:#}");
            assert_eq!(
                result["error"]["class"], "not_understood",
                "{setup:?}: {result:#}"
            );
        }
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn tools_follow_the_policy_and_usage_is_reported_per_turn() {
    let build_harness = |setup| {
        let replies = [
            Reply::from_text("I touch.").with_call(ScriptedCall::shell("touch made")),
            Reply::from_text("Touched."),
        ];
        CliHarness::new(setup, Script::new().with_rule("touch", replies))
    };
    for setup in [STREAM_JSON_SETUP, JSON_SETUP] {
        let harness = build_harness(setup);
        // By default segue refuses, because there is no user to ask.
        let refused = match setup {
            STREAM_JSON_SETUP => harness.run_finished_turn(&["touch it"]),
            _ => harness.run_finished_turn(&["--permissions", "deny", "touch it"]),
        };
        assert_eq!(harness.project_files(), ["README.md"], "{refused:#}");
        let result = harness.run_finished_turn(&["--permissions", "allow-all", "touch it"]);
        assert_eq!(harness.project_files(), ["README.md", "made"], "{result:#}");
        // Two requests, each with 101 input, 20 output and 5 thought tokens. Only the last one counts for the context.
        let usage = json!({
            "input_tokens": 202, "output_tokens": 50, "cached_tokens": 22, "total_tokens": 252,
            "context_tokens": 101, "context_window": null,
        });
        assert_eq!(result["usage"], usage, "{setup:?}");
        let second = harness.run_finished_turn(&["--continue", "hello"]);
        assert_eq!(
            second["usage"]["input_tokens"], 101,
            "{setup:?}: {second:#}"
        );
    }
}
