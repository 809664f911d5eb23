//! What is special to Gemini CLI: its sessions outlive it, its prompts are no commands, its failures have names.

mod direct;
mod survival;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use segue_testkit::model::{ScriptedCall, StubFailure, Reply, Script};
use segue_testkit::sandbox::{SandboxCli, CommandOutcome, Sandbox};
use serde_json::{Value, json};

use crate::real::stage::{Stage, Way};

const ACP: Way = Way {
    provider: "gemini",
    transport: "acp",
};
const LINES: Way = Way {
    provider: "gemini",
    transport: "stream-json",
};
const WHOLE: Way = Way {
    provider: "gemini",
    transport: "json",
};

/// Switches on what every user has: the clean-up that deletes sessions.
pub(crate) fn with_retention(sandbox: Sandbox) -> Sandbox {
    let path = sandbox.home().join(".gemini/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let general = settings["general"].as_object_mut().unwrap();
    general.remove("sessionRetention").unwrap();
    fs::write(&path, settings.to_string()).unwrap();
    sandbox
}

/// The session files of the project, by name.
fn files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let chats = sandbox.home().join(".gemini/tmp/project/chats");
    let entries = fs::read_dir(chats).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

/// The files of one session.
fn files_of(sandbox: &Sandbox, id: &str) -> Vec<PathBuf> {
    let mut paths = files(sandbox);
    let end = format!("-{}.jsonl", &id[..8]);
    paths.retain(|path| path.to_str().unwrap().ends_with(&end));
    paths
}

/// What the user said in the last request to the model.
fn last_prompts(sandbox: &Sandbox) -> Vec<String> {
    sandbox.model().turn_requests().last().unwrap().prompts()
}

/// A turn of a program that stands in for Gemini CLI.
fn chat_through(stage: &Stage, script: &str, prompt: &str) -> Value {
    let program = stage.sandbox.path().join("gemini-in-disguise");
    let gemini = stage.sandbox.cli_command(SandboxCli::Gemini);
    let gemini = gemini.get_program().to_str().unwrap();
    fs::write(&program, script.replace("GEMINI", gemini)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = stage.command(&["chat", "-p", "gemini", "--json", prompt]);
    command.env("SEGUE_GEMINI_PATH", program);
    let ran = CommandOutcome::run(command, Duration::from_mins(2));
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn any_prompt_reaches_the_model() {
    let script = Script::new().with_rule("", [Reply::from_text("Well.")]);
    let long = format!("long {}", "x y ".repeat(250_000));
    let all = [
        "first words",
        "/clear up this mess",
        "?what",
        "-p",
        "--version",
        "  in between  ",
        "\nfirst a line",
        &long,
    ];
    // The two ways differ in what Gemini CLI prints, and hand over a prompt by the same code.
    let few = ["first words", "/clear up this mess", "-p"];
    for (way, prompts) in [(LINES, &all[..]), (WHOLE, &few)] {
        let stage = Stage::new(way, script.clone());
        for (n, prompt) in prompts.iter().enumerate() {
            let more: &[&str] = if n == 0 { &[] } else { &["--continue"] };
            let file = stage.sandbox.path().join("prompt");
            fs::write(&file, prompt).unwrap();
            // What begins with a dash, or is too long for an argument, comes by segue's own input.
            let mut args = vec!["chat", "-p", "gemini", "--json"];
            args.extend(more);
            let mut command = stage.command(&args);
            command.stdin(fs::File::open(&file).unwrap());
            let ran = CommandOutcome::run(command, Duration::from_mins(2));
            let result: Value = serde_json::from_str(&ran.stdout)
                .unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
            assert_eq!(
                result["stop"], "finished",
                "{way:?} {prompt:.20}: {result:#}"
            );
        }
        let seen: Vec<String> = last_prompts(&stage.sandbox)
            .iter()
            .map(|prompt| prompt.trim_matches(['\u{200b}', ' ']).to_owned())
            .collect();
        let sent: Vec<&str> = prompts
            .iter()
            .map(|prompt| prompt.trim_matches(' '))
            .collect();
        assert_eq!(seen, sent, "{way:?}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_folder_that_is_not_trusted_is_not_trusted_by_us() {
    for way in [LINES, WHOLE] {
        let stage = Stage::new(way, Script::new());
        let mut command = stage.command(&["chat", "-p", "gemini", "--json", "hello"]);
        command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
        let ran = CommandOutcome::run(command, Duration::from_mins(2));
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["error"]["class"], "untrusted_folder", "{result:#}");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains("trusted directory"), "{message}");
        assert!(stage.sandbox.model().turn_requests().is_empty());
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_have_names() {
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
        ("server", StubFailure::ServerError, "agent_error", "internal error"),
        ("huge", StubFailure::PromptTooLong, "context_too_long", "token count"),
        ("cut", StubFailure::Cut, "agent_error", "terminated"),
    ];
    let script = cases
        .iter()
        .fold(Script::new(), |script, (prompt, failure, _, _)| {
            script.with_rule(prompt, [Reply::from_text("some words").with_failure(*failure)])
        });
    for way in [LINES, WHOLE] {
        let stage = Stage::new(way, script.clone());
        for (prompt, _, class, words) in cases {
            let result = stage.chat(&["--new", prompt]);
            assert_eq!(result["stop"], "failed", "{way:?} {prompt}: {result:#}");
            assert!(result["error"]["hint"].is_string(), "{way:?} {prompt}");
            assert_eq!(
                result["error"]["class"], class,
                "{way:?} {prompt}: {result:#}"
            );
            let message = result["error"]["message"].as_str().unwrap();
            assert!(message.contains(words), "{way:?} {prompt}: {message}");
        }
        let settings = stage.sandbox.home().join(".gemini/settings.json");
        fs::remove_file(settings).unwrap();
        let result = stage.chat(&["nobody is logged in"]);
        assert_eq!(
            result["error"]["class"], "not_logged_in",
            "{way:?}: {result:#}"
        );
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn noise_is_passed_over_and_half_an_answer_is_none() {
    let script = Script::new().with_rule("", [Reply::from_text("A plain answer.")]);
    let noisy = "#!/bin/sh\nprintf '\\033[31mLoaded { cached }\\033[0m\\r\\n'\nGEMINI \"$@\"\nprintf '\\nbye {\\n'\n";
    let cut = "#!/bin/sh\nGEMINI \"$@\" | head -c 120\n";
    let empty = "#!/bin/sh\ncat >/dev/null\n";
    for way in [LINES, WHOLE] {
        let stage = Stage::new(way, script.clone());
        let result = chat_through(&stage, noisy, "hello");
        assert_eq!(result["stop"], "finished", "{way:?}: {result:#}");
        assert_eq!(result["text"], "A plain answer.", "{way:?}");
        for broken in [cut, empty] {
            let result = chat_through(&stage, broken, "hello");
            assert_eq!(result["stop"], "failed", "{way:?}: {result:#}");
            assert_eq!(
                result["error"]["class"], "not_understood",
                "{way:?}: {result:#}"
            );
        }
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn tools_run_as_the_policy_says_and_figures_are_of_the_turn() {
    let stage = |way| {
        let steps = [
            Reply::from_text("I touch.").with_call(ScriptedCall::shell("touch made")),
            Reply::from_text("Touched."),
        ];
        Stage::new(way, Script::new().with_rule("touch", steps))
    };
    for way in [LINES, WHOLE] {
        let stage = stage(way);
        // By default segue refuses, because there is no user to ask.
        let refused = match way {
            LINES => stage.says(&["touch it"]),
            _ => stage.says(&["--permissions", "deny", "touch it"]),
        };
        assert_eq!(stage.project_files(), ["README.md"], "{refused:#}");
        let result = stage.says(&["--permissions", "allow-all", "touch it"]);
        assert_eq!(stage.project_files(), ["README.md", "made"], "{result:#}");
        // Two requests of 101 and 20 and 5 each; the last one alone fills the context.
        let usage = json!({
            "input_tokens": 202, "output_tokens": 50, "cached_tokens": 22, "total_tokens": 252,
            "context_tokens": 101, "context_window": null,
        });
        assert_eq!(result["usage"], usage, "{way:?}");
        let again = stage.says(&["--continue", "hello"]);
        assert_eq!(again["usage"]["input_tokens"], 101, "{way:?}: {again:#}");
    }
}
