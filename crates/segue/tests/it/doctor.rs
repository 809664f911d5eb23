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

    AGENT      VERSION  CAN                                              NOTE
    claude     -        -                                                not found on PATH
    codex      -        -                                                not found on PATH
    gemini     -        -                                                not found on PATH
    rehearsal  0.1.0    list load resume continue_last cancel usage mcp  built in; works offline
    --- exit 0
    ");
    let output = world
        .command(["doctor", "--json"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["store"]["healthy"], true);
    let rehearsal = &report["providers"][3];
    assert_eq!(rehearsal["name"], "rehearsal");
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
    assert_eq!(report["providers"][1]["version"], "codex-cli 9.9.9");
    let output = world
        .command(["chat", "hi"])
        .env("PATH", &path)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("this version can't drive codex yet"),
        "{stderr}"
    );
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
