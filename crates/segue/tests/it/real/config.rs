//! Agents that are defined only in the configuration.

use std::fs;
use std::time::Duration;

use segue_testkit::model::Script;
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};
use serde_json::Value;

const CHAT_TIMEOUT: Duration = Duration::from_mins(2);

/// Runs segue in this sandbox.
fn run_segue(sandbox: &Sandbox, args: &[&str]) -> CommandOutcome {
    let mut command = sandbox.program_command(env!("CARGO_BIN_EXE_segue"));
    command
        .env("SEGUE_HOME", sandbox.home().join("segue"))
        .args(args);
    CommandOutcome::run(command, CHAT_TIMEOUT)
}

fn run_chat(sandbox: &Sandbox, args: &[&str]) -> Value {
    let mut chat_args = vec!["chat", "--json"];
    chat_args.extend(args);
    let outcome = run_segue(sandbox, &chat_args);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:#?}"))
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_agent_runs_only_after_its_project_is_trusted() {
    let cli = SandboxCli::CodexAcp;
    let sandbox = Sandbox::new(Script::new());
    let name = cli.name();
    let program = sandbox.cli_command(cli).get_program().to_owned();
    let program = program.to_str().unwrap();
    let args = cli.acp_args();
    let text = format!("[acp.{name}]\npath = {program:?}\nargs = {args:?}\n");
    fs::write(sandbox.project().join("segue.toml"), text).unwrap();
    let provider = format!("acp:{name}");

    let refused = run_chat(&sandbox, &["-p", &provider, "one"]);
    assert_eq!(refused["error"]["class"], "usage", "{refused:#}");
    assert!(
        sandbox.model().turn_requests().is_empty(),
        "the agent of an untrusted project was started"
    );

    let outcome = run_segue(&sandbox, &["trust", "--yes"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let first = run_chat(&sandbox, &["-p", &provider, "one"]);
    assert_eq!(first["stop"], "finished", "{first:#}");
    assert_eq!(first["provider"], provider, "{first:#}");
    let second = run_chat(&sandbox, &["--continue", "two"]);
    assert_eq!(second["stop"], "finished", "{second:#}");
    let turns = sandbox.model().turn_requests();
    assert_eq!(
        turns.last().unwrap().prompts(),
        ["one", "two"],
        "{second:#}"
    );
}
