//! `segue config`, `segue trust`, and the effect of the configuration on other commands.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};

use crate::new_test_home;

/// Writes the configuration file of the user.
fn write_user_config(home: &TestHome, text: &str) -> PathBuf {
    let directory = home.path().join(".config/segue");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Writes the configuration file of the project.
fn write_project_config(home: &TestHome, text: &str) -> PathBuf {
    let file = home.project().join("segue.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Returns the configuration of a working agent: the rehearsal agent under another name.
fn rehearsal_agent_config(home: &TestHome, name: &str) -> String {
    let program = env!("CARGO_BIN_EXE_segue");
    let sessions = home.path().join(name);
    fs::create_dir_all(&sessions).unwrap();
    let sessions = sessions.to_str().unwrap();
    format!("[acp.{name}]\npath = {program:?}\nargs = [\"rehearsal-agent\", {sessions:?}]\n")
}

/// Runs segue with additional environment variables.
fn run_with_env(home: &TestHome, args: &[&str], env: &[(&str, &str)]) -> ProgramOutput {
    let output = home.segue_command(args).envs(env.iter().copied()).output();
    ProgramOutput::from_std(&output.unwrap(), home)
}

#[test]
fn effective_settings_are_shown_with_their_origin() {
    let home = new_test_home();
    write_user_config(
        &home,
        "permissions = \"allow-reads\"\n\n[claude]\nmodel = \"opus\"\nenv = { API_KEY = \"sk-1\", LANG = \"C\" }\n",
    );
    write_project_config(&home, "prefer = [\"codex\"]\n");
    let args = ["config", "show", "--origin", "--open-timeout", "5"];
    let output = run_with_env(&home, &args, &[("SEGUE_CODEX_MODEL", "o9")]);
    assert_snapshot!(output, @r#"
    prefer = ["codex"]  # [HOME]/project/segue.toml:1
    fallback = []  # default
    permissions = "allow-reads"  # [HOME]/.config/segue/config.toml:1
    budget = 100000  # default
    error_limit = 3  # default
    backoff_seconds = 10  # default
    context_limit = 350000  # default

    [timeouts]
    start = 5  # flag --open-timeout
    first = 600  # default
    silence = 900  # default
    turn = 0  # default

    [claude]
    model = "opus"  # [HOME]/.config/segue/config.toml:4

    [claude.env]
    API_KEY = "********"  # [HOME]/.config/segue/config.toml:5
    LANG = "C"  # [HOME]/.config/segue/config.toml:5

    [codex]
    model = "o9"  # environment SEGUE_CODEX_MODEL
    --- exit 0
    "#);
    // The output without comments is TOML with the same settings.
    let config_text = run_with_env(&home, &["config", "show"], &[]).raw_stdout;
    let copy = home.path().join("copy.toml");
    fs::write(&copy, &config_text).unwrap();
    let copy = copy.to_str().unwrap();
    let output = run_with_env(&home, &["config", "show"], &[("SEGUE_CONFIG", copy)]);
    assert_eq!(output.raw_stdout, config_text);
    let settings = home.run_segue_json(["config", "show", "--json"]);
    let settings = settings.as_array().unwrap();
    let find_setting = |key: &str| {
        settings
            .iter()
            .find(|setting| setting["key"] == key)
            .unwrap()
    };
    assert_eq!(find_setting("claude.env.API_KEY")["value"], "********");
    assert_eq!(find_setting("claude.model")["origin"]["line"], 4);
    assert_eq!(find_setting("timeouts.start")["origin"]["kind"], "default");
}

#[test]
fn config_path_lists_the_files_with_their_state() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["config", "path"]), @"
    OWNER    STATE   FILE
    user     absent  [HOME]/.config/segue/config.toml
    project  absent  [HOME]/project/segue.toml
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["config", "check"]), @"
    --- stderr
    no configuration file found; run `segue config path` to show where segue looks for one
    --- exit 0
    ");
    write_user_config(&home, "prefer = 1");
    write_project_config(&home, "permissions = \"allow-all\"");
    assert_snapshot!(home.run_segue(["config", "path"]), @"
    OWNER    STATE      FILE
    user     broken     [HOME]/.config/segue/config.toml
    project  untrusted  [HOME]/project/segue.toml
    --- exit 0
    ");
    let files = home.run_segue_json(["config", "path", "--json"]);
    assert_eq!(files[1]["state"], "untrusted");
}

#[test]
fn config_check_reports_every_problem() {
    let home = new_test_home();
    write_user_config(&home, "permissions = \"allowall\"\n[claude]\npaths = 1\n");
    write_project_config(&home, "prefer = [\"codex\"]\n");
    assert_snapshot!(run_with_env(&home, &["config", "check"], &[("SEGUE_CLAUDE_TRANSPORTS", "exec")]), @r#"
    [HOME]/project/segue.toml is valid
    --- stderr
    error: [HOME]/.config/segue/config.toml:1:15: permissions: "allowall" is not one of ask, allow-reads, allow-edits, allow-all, deny
    hint: did you mean "allow-all"?
    error: [HOME]/.config/segue/config.toml:3:1: unknown setting `paths` in [claude]
    hint: did you mean `path`?
    error: environment variable SEGUE_CLAUDE_TRANSPORTS: "exec" is not one of stream-json, acp
    --- exit 2
    "#);
    assert_snapshot!(home.run_segue(["config", "check", "segue.toml"]), @"
    [HOME]/project/segue.toml is valid
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["config", "check", "none.toml"]), @"
    --- stderr
    error: [HOME]/project/none.toml: cannot read the file: No such file or directory (os error 2)
    --- exit 2
    ");
    let output = home.run_segue(["config", "check", "--json"]);
    let problems: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!((output.code, &problems[1]["line"]), (Some(2), &3.into()));
}

#[test]
fn an_invalid_configuration_stops_chat_but_no_other_command() {
    let home = new_test_home();
    assert_eq!(home.run_segue(["chat", "hi"]).code, Some(0));
    write_user_config(&home, "permissions = \"allowall\"\n[claude]\npaths = 1\n");
    assert_snapshot!(home.run_segue(["chat", "hi"]), @r#"
    --- stderr
    error: [HOME]/.config/segue/config.toml:1:15: permissions: "allowall" is not one of ask, allow-reads, allow-edits, allow-all, deny
    hint: did you mean "allow-all"?
    hint: run `segue config check` to list 1 more problem
    --- exit 2
    "#);
    let output = home.run_segue(["chat", "--json", "hi"]);
    let result: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(
        (output.code, &result["error"]["class"]),
        (Some(2), &"usage".into())
    );
    let read_commands: [&[&str]; 5] = [
        &["session", "list"],
        &["session", "show", "latest"],
        &["doctor"],
        &["config", "show"],
        &["config", "path"],
    ];
    for args in read_commands {
        let output = home.run_segue(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output}");
        let is_reported = output
            .stderr
            .contains("config.toml:1:15: permissions: \"allowall\" is not one of");
        assert_eq!(
            is_reported,
            args != ["config", "path"],
            "{args:?}: {output}"
        );
        assert!(output.stderr.lines().count() <= 1, "{args:?}: {output}");
    }
    assert_eq!(
        crate::count_sessions(&home),
        1,
        "a session was created or removed"
    );
}

#[test]
fn a_requested_configuration_file_must_exist() {
    let home = new_test_home();
    let output = run_with_env(&home, &["chat", "hi"], &[("SEGUE_CONFIG", "none.toml")]);
    assert_snapshot!(output, @"
    --- stderr
    error: [HOME]/project/none.toml: cannot read the file: No such file or directory (os error 2)
    --- exit 2
    ");
    let output = run_with_env(&home, &["chat", "hi"], &[("SEGUE_CONFIG", "/dev/null")]);
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn a_configured_agent_is_driven_and_preferred() {
    let home = new_test_home();
    let agent = rehearsal_agent_config(&home, "mine");
    write_user_config(&home, &agent);
    let result = home.run_segue_json(["chat", "--json", "-p", "acp:mine", "hi"]);
    assert_eq!(
        (&result["provider"], &result["stop"]),
        (&"acp:mine".into(), &"finished".into())
    );
    write_user_config(&home, &format!("prefer = [\"rehearsal\"]\n{agent}"));
    let other_dir = home.path().join("other");
    fs::create_dir(&other_dir).unwrap();
    let run_chat = |home: &TestHome| {
        let mut command = home.segue_command(["chat", "--json", "hi"]);
        let output = command.current_dir(&other_dir).output().unwrap();
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        result["provider"].clone()
    };
    assert_eq!(run_chat(&home), "rehearsal");
    fs::remove_dir_all(home.segue_home()).unwrap();
    write_user_config(&home, &agent);
    assert_eq!(
        run_chat(&home),
        "acp:mine",
        "rehearsal was preferred to a configured agent"
    );
    home.assert_no_processes();
}

#[test]
fn a_missing_configured_program_is_named_in_the_error() {
    let home = new_test_home();
    write_user_config(
        &home,
        "[acp.lost]\npath = \"/nonexistent/agent\"\n[acp.unknown]\npath = \"no-such-agent\"\n",
    );
    for (provider, program) in [
        ("acp:lost", "/nonexistent/agent"),
        ("acp:unknown", "no-such-agent"),
    ] {
        let output = home.run_segue(["chat", "-p", provider, "hi"]);
        assert_eq!(output.code, Some(3), "{output}");
        assert!(
            output.stderr.contains(&format!("cannot start {program}")),
            "{output}"
        );
    }
}

#[test]
fn trust_in_a_project_ends_when_its_configuration_changes() {
    let home = new_test_home();
    let agent = rehearsal_agent_config(&home, "theirs");
    let file = write_project_config(&home, &agent);
    let untrusted = home.run_segue(["chat", "-p", "acp:theirs", "hi"]);
    assert_snapshot!(untrusted, @"
    --- stderr
    segue: ignored settings of segue.toml that need your trust (acp.theirs); run `segue trust` to review them
    error: unknown agent `acp:theirs`
    hint: available agents: rehearsal; configure another ACP agent as [acp.NAME]
    --- exit 2
    ");
    let unconfirmed = home.run_segue(["trust"]);
    assert_eq!(unconfirmed.code, Some(2), "{unconfirmed}");
    assert!(!home.segue_home().join("trusted.json").exists());
    assert_eq!(home.run_segue(["trust", "--yes"]).code, Some(0));
    let mode = fs::metadata(home.segue_home().join("trusted.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        home.run_segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(0)
    );
    let state =
        |home: &TestHome| home.run_segue_json(["trust", "--list", "--json"])[0]["state"].clone();
    assert_eq!(state(&home), "trusted");

    fs::write(&file, format!("{agent}\n# changed")).unwrap();
    assert_eq!(
        home.run_segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(2)
    );
    assert_eq!(state(&home), "changed");
    assert_eq!(home.run_segue(["trust", "--yes"]).code, Some(0));
    assert_eq!(
        home.run_segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(0)
    );

    assert_snapshot!(home.run_segue(["trust"]), @"
    [HOME]/project/segue.toml is already trusted.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["trust", "--revoke"]), @"
    [HOME]/project/segue.toml is no longer trusted.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["trust", "--revoke"]), @"
    [HOME]/project/segue.toml was not trusted.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["trust", "--list"]), @"
    --- stderr
    no trusted files
    --- exit 0
    ");
    assert_eq!(
        home.run_segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(2)
    );
}

#[test]
fn the_requests_of_a_project_are_shown_before_it_is_trusted() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["trust"]), @"
    --- stderr
    error: segue.toml not found in [HOME]/project
    --- exit 1
    ");
    write_project_config(&home, "prefer = [\"gemini\"]\npermissions = \"deny\"\n");
    assert_snapshot!(home.run_segue(["trust"]), @"
    No setting in [HOME]/project/segue.toml needs your trust.
    --- exit 0
    ");
    let text = "permissions = \"allow-all\"\n[claude]\npath = \"./evil\"\nenv = { TOKEN = \"t\" }\n[mcp.x]\ncommand = \"sh\\u001b[2K\\u202e\"\n";
    write_project_config(&home, text);
    assert_snapshot!(home.run_segue(["trust", "--yes"]), @r#"
    [HOME]/project/segue.toml is trusted until it changes. Revoke with: segue trust --revoke
    --- stderr
    [HOME]/project/segue.toml has settings that need your trust:
      permissions = "allow-all"  # what an agent may do without asking
      claude.path = "[HOME]/project/evil"  # a program to start
      claude.env.TOKEN = "********"  # the environment of a program
      mcp.x.command = "sh\U0000001B[2K\U0000202E"  # an MCP server for the agents
    --- exit 0
    "#);
    write_project_config(&home, "oops");
    assert_snapshot!(home.run_segue(["trust", "--yes"]), @"
    --- stderr
    error: [HOME]/project/segue.toml:1:5: key with no value, expected `=`, in `oops`
    --- exit 2
    ");
    let trusted = home.run_segue_json(["trust", "--list", "--json"]);
    assert_eq!(trusted.as_array().unwrap().len(), 1);
    assert_eq!(trusted[0]["state"], "changed");
}

#[test]
fn trust_asks_the_user_who_may_decline() {
    let home = new_test_home();
    write_project_config(&home, "permissions = \"allow-all\"");
    let run_trust = |answer: &str| {
        let line = format!("{} trust", env!("CARGO_BIN_EXE_segue"));
        let mut command = home.program_command("script");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("`script` is not installed");
        let mut keys = child.stdin.take().unwrap();
        keys.write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(keys);
        ProgramOutput::from_std(&output, &home)
    };
    let count_trusted = || {
        home.run_segue_json(["trust", "--list", "--json"])
            .as_array()
            .unwrap()
            .len()
    };
    let output = run_trust("\n");
    assert!(
        output
            .stdout
            .contains("Trust this file until it changes? [y/N]"),
        "{output}"
    );
    assert_eq!((output.code, count_trusted()), (Some(0), 0), "{output}");
    let output = run_trust("y\n");
    assert_eq!((output.code, count_trusted()), (Some(0), 1), "{output}");
}

#[test]
fn the_example_configuration_is_valid() {
    let home = new_test_home();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/segue.example.toml"
    );
    let output = home.run_segue(["config", "check", example]);
    assert_eq!(output.code, Some(0), "{output}");
    // The example is also valid with all commented-out settings enabled.
    let text = fs::read_to_string(example).unwrap();
    let enable_setting = |line: &str| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c == '[' || c.is_alphabetic()) => {
            setting.to_owned()
        }
        _ => line.to_owned(),
    };
    let enabled_lines: Vec<String> = text.lines().map(enable_setting).collect();
    fs::write(home.project().join("all.toml"), enabled_lines.join("\n")).unwrap();
    let output = home.run_segue(["config", "check", "all.toml"]);
    assert_eq!(output.code, Some(0), "{output}");
}
