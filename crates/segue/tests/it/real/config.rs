//! Agents that segue knows only from the configuration.

use std::fs;
use std::time::Duration;

use segue_testkit::model::Script;
use segue_testkit::sandbox::{SandboxCli, CommandOutcome, Sandbox};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(2);

/// Runs segue on this machine.
fn segue(sandbox: &Sandbox, args: &[&str]) -> CommandOutcome {
    let mut command = sandbox.program_command(env!("CARGO_BIN_EXE_segue"));
    command
        .env("SEGUE_HOME", sandbox.home().join("segue"))
        .args(args);
    CommandOutcome::run(command, LIMIT)
}

fn chat(sandbox: &Sandbox, args: &[&str]) -> Value {
    let mut all = vec!["chat", "--json"];
    all.extend(args);
    let ran = segue(sandbox, &all);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_agent_is_driven_once_its_project_is_trusted() {
    let cli = SandboxCli::CodexAcp;
    let sandbox = Sandbox::new(Script::new());
    let name = cli.name();
    let program = sandbox.cli_command(cli).get_program().to_owned();
    let program = program.to_str().unwrap();
    let args = cli.acp_args();
    let text = format!("[acp.{name}]\npath = {program:?}\nargs = {args:?}\n");
    fs::write(sandbox.project().join("segue.toml"), text).unwrap();
    let provider = format!("acp:{name}");

    let refused = chat(&sandbox, &["-p", &provider, "one"]);
    assert_eq!(refused["error"]["class"], "usage", "{refused:#}");
    assert!(
        sandbox.model().turn_requests().is_empty(),
        "an untrusted project started something"
    );

    let ran = segue(&sandbox, &["trust", "--yes"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let first = chat(&sandbox, &["-p", &provider, "one"]);
    assert_eq!(first["stop"], "finished", "{first:#}");
    assert_eq!(first["provider"], provider, "{first:#}");
    let second = chat(&sandbox, &["--continue", "two"]);
    assert_eq!(second["stop"], "finished", "{second:#}");
    let turns = sandbox.model().turn_requests();
    assert_eq!(
        turns.last().unwrap().prompts(),
        ["one", "two"],
        "{second:#}"
    );
}
