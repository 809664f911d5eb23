//! `segue doctor`

use insta::assert_snapshot;

use crate::new_test_home;

#[test]
fn a_healthy_machine_is_reported_as_healthy() {
    let home = new_test_home();
    let output = home
        .segue_command(["doctor"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_snapshot!(segue_testkit::ProgramOutput::from_std(&output, &home), @"
    segue 0.1.0

    store    [HOME]/home/segue.db (healthy, 0 sessions)

    rehearsal 0.1.0  built-in, works offline
      transports    acp
      capabilities  list (protocol), load (protocol), resume (protocol), continue_last (protocol), cancel (protocol), usage (protocol), mcp (protocol)

    claude  not found on PATH

    codex  not found on PATH

    gemini  not found on PATH
    --- exit 0
    ");
    let output = home
        .segue_command(["doctor", "--json"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["store"]["healthy"], true);
    let rehearsal = find_provider(&report, "rehearsal");
    assert_eq!(rehearsal["transports"], serde_json::json!(["acp"]));
    assert_eq!(rehearsal["capabilities"]["resume"], "protocol");
    assert!(rehearsal["capabilities"]["delete"].is_null());
    home.assert_no_processes();
}

#[test]
fn an_installed_agent_is_found_with_its_version() {
    use std::os::unix::fs::PermissionsExt;
    let home = new_test_home();
    let bin = home.path().join("agents");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("codex"), "#!/bin/sh\necho 'codex-cli 9.9.9'\n").unwrap();
    std::fs::set_permissions(bin.join("codex"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let output = home
        .segue_command(["doctor", "--json"])
        .env("PATH", &path)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let codex = find_provider(&report, "codex");
    assert_eq!(codex["version"], "9.9.9", "{codex:#}");
    assert_eq!(codex["path"], bin.join("codex").to_str().unwrap());
    // The program is a stub that exits at once, which a turn reports as a crash.
    let output = home
        .segue_command(["chat", "--json", "hi"])
        .env("PATH", &path)
        .output()
        .unwrap();
    let turn: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(turn["provider"], "codex", "{turn:#}");
    assert_eq!(turn["error"]["class"], "crashed", "{turn:#}");
    assert_eq!(output.status.code(), Some(3));
}

/// Returns the entry of one agent in the report.
fn find_provider<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let providers = report["providers"].as_array().unwrap();
    let found = providers.iter().find(|provider| provider["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

#[test]
fn a_home_whose_path_is_not_utf8_is_reported() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let home = new_test_home();
    let segue_home = home.path().join(OsStr::from_bytes(b"odd-\xff"));
    let output = home
        .segue_command(["doctor", "--json"])
        .env("SEGUE_HOME", &segue_home)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["store"]["healthy"], true, "{report}");
}
