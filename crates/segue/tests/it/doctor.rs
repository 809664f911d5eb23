//! `segue doctor`

use insta::assert_snapshot;

use crate::world;

#[test]
fn a_healthy_machine_is_reported_as_such() {
    let world = world();
    let output = world
        .command(["doctor"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert_snapshot!(segue_testkit::Output::from(&output, &world), @"
    segue 0.1.0

    store    [WORLD]/home/segue.db (healthy, 0 sessions)

    rehearsal 0.1.0  built in; works offline
      by       acp
      can      list (protocol), load (protocol), resume (protocol), continue_last (protocol), cancel (protocol), usage (protocol), mcp (protocol)

    claude  not found on PATH

    codex  not found on PATH

    gemini  not found on PATH
    --- exit 0
    ");
    let output = world
        .command(["doctor", "--json"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["store"]["healthy"], true);
    let rehearsal = provider(&report, "rehearsal");
    assert_eq!(rehearsal["transports"], serde_json::json!(["acp"]));
    assert_eq!(rehearsal["capabilities"]["resume"], "protocol");
    assert!(rehearsal["capabilities"]["delete"].is_null());
    world.assert_nothing_runs();
}

#[test]
fn an_agent_on_the_machine_is_found_with_its_version() {
    use std::os::unix::fs::PermissionsExt;
    let world = world();
    let bin = world.path().join("agents");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("codex"), "#!/bin/sh\necho 'codex-cli 9.9.9'\n").unwrap();
    std::fs::set_permissions(bin.join("codex"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let output = world
        .command(["doctor", "--json"])
        .env("PATH", &path)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let codex = provider(&report, "codex");
    assert_eq!(codex["version"], "9.9.9", "{codex:#}");
    assert_eq!(codex["path"], bin.join("codex").to_str().unwrap());
    // It is only a name: asked for a turn it goes away at once, and that is what is told.
    let output = world
        .command(["chat", "--json", "hi"])
        .env("PATH", &path)
        .output()
        .unwrap();
    let turn: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(turn["provider"], "codex", "{turn:#}");
    assert_eq!(turn["error"]["class"], "crashed", "{turn:#}");
    assert_eq!(output.status.code(), Some(3));
}

/// What the report says of one agent.
fn provider<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let providers = report["providers"].as_array().unwrap();
    let found = providers.iter().find(|provider| provider["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

#[test]
fn a_home_whose_name_is_not_text_is_reported_all_the_same() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let world = world();
    let home = world.path().join(OsStr::from_bytes(b"odd-\xff"));
    let output = world
        .command(["doctor", "--json"])
        .env("SEGUE_HOME", &home)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["store"]["healthy"], true, "{report}");
}
