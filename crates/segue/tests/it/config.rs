//! `segue config`, `segue trust`, and what a configuration does to the other commands.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use insta::assert_snapshot;
use segue_testkit::{Output, World};

use crate::world;

/// Writes the user's file.
fn user(world: &World, text: &str) -> PathBuf {
    let directory = world.path().join(".config/segue");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Writes the project's file.
fn project(world: &World, text: &str) -> PathBuf {
    let file = world.project().join("segue.toml");
    fs::write(&file, text).unwrap();
    file
}

/// A configured agent that works: segue's own rehearsal agent by another name.
fn own_agent(world: &World, name: &str) -> String {
    let program = env!("CARGO_BIN_EXE_segue");
    let sessions = world.path().join(name);
    fs::create_dir_all(&sessions).unwrap();
    let sessions = sessions.to_str().unwrap();
    format!("[acp.{name}]\npath = {program:?}\nargs = [\"rehearsal-agent\", {sessions:?}]\n")
}

/// Runs segue with some more environment.
fn segue_with(world: &World, args: &[&str], env: &[(&str, &str)]) -> Output {
    let output = world.command(args).envs(env.iter().copied()).output();
    Output::from(&output.unwrap(), world)
}

#[test]
fn what_is_in_force_is_shown_with_its_origin() {
    let world = world();
    user(
        &world,
        "permissions = \"allow-reads\"\n\n[claude]\nmodel = \"opus\"\nenv = { API_KEY = \"sk-1\", LANG = \"C\" }\n",
    );
    project(&world, "prefer = [\"codex\"]\n");
    let args = ["config", "show", "--origin", "--open-timeout", "5"];
    let output = segue_with(&world, &args, &[("SEGUE_CODEX_MODEL", "o9")]);
    assert_snapshot!(output, @r#"
    prefer = ["codex"]  # [WORLD]/project/segue.toml:1
    fallback = []  # default
    permissions = "allow-reads"  # [WORLD]/.config/segue/config.toml:1
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
    model = "opus"  # [WORLD]/.config/segue/config.toml:4

    [claude.env]
    API_KEY = "********"  # [WORLD]/.config/segue/config.toml:5
    LANG = "C"  # [WORLD]/.config/segue/config.toml:5

    [codex]
    model = "o9"  # environment SEGUE_CODEX_MODEL
    --- exit 0
    "#);
    // Without the remarks too it is TOML that says the same.
    let shown = segue_with(&world, &["config", "show"], &[]).raw_stdout;
    let again = world.path().join("again.toml");
    fs::write(&again, &shown).unwrap();
    let again = again.to_str().unwrap();
    let output = segue_with(&world, &["config", "show"], &[("SEGUE_CONFIG", again)]);
    assert_eq!(output.raw_stdout, shown);
    let settings = world.json(["config", "show", "--json"]);
    let settings = settings.as_array().unwrap();
    let find = |key: &str| {
        settings
            .iter()
            .find(|setting| setting["key"] == key)
            .unwrap()
    };
    assert_eq!(find("claude.env.API_KEY")["value"], "********");
    assert_eq!(find("claude.model")["origin"]["line"], 4);
    assert_eq!(find("timeouts.start")["origin"]["kind"], "default");
}

#[test]
fn the_files_are_named_with_what_became_of_them() {
    let world = world();
    assert_snapshot!(world.segue(["config", "path"]), @"
    WHOSE    STATE   FILE
    user     absent  [WORLD]/.config/segue/config.toml
    project  absent  [WORLD]/project/segue.toml
    --- exit 0
    ");
    assert_snapshot!(world.segue(["config", "check"]), @"
    --- stderr
    there is no configuration file; `segue config path` tells where one would be
    --- exit 0
    ");
    user(&world, "prefer = 1");
    project(&world, "permissions = \"allow-all\"");
    assert_snapshot!(world.segue(["config", "path"]), @"
    WHOSE    STATE      FILE
    user     broken     [WORLD]/.config/segue/config.toml
    project  untrusted  [WORLD]/project/segue.toml
    --- exit 0
    ");
    let files = world.json(["config", "path", "--json"]);
    assert_eq!(files[1]["state"], "untrusted");
}

#[test]
fn everything_that_is_wrong_is_said() {
    let world = world();
    user(&world, "permissions = \"allowall\"\n[claude]\npaths = 1\n");
    project(&world, "prefer = [\"codex\"]\n");
    assert_snapshot!(segue_with(&world, &["config", "check"], &[("SEGUE_CLAUDE_TRANSPORTS", "exec")]), @r#"
    [WORLD]/project/segue.toml is good
    --- stderr
    error: [WORLD]/.config/segue/config.toml:1:15: permissions: "allowall" is not one of ask, allow-reads, allow-edits, allow-all, deny
    hint: did you mean "allow-all"?
    error: [WORLD]/.config/segue/config.toml:3:1: there is no setting paths in [claude]
    hint: did you mean `path`?
    error: environment variable SEGUE_CLAUDE_TRANSPORTS: "exec" is not one of stream-json, acp
    --- exit 2
    "#);
    assert_snapshot!(world.segue(["config", "check", "segue.toml"]), @"
    [WORLD]/project/segue.toml is good
    --- exit 0
    ");
    assert_snapshot!(world.segue(["config", "check", "none.toml"]), @"
    --- stderr
    error: [WORLD]/project/none.toml: cannot read it: No such file or directory (os error 2)
    --- exit 2
    ");
    let output = world.segue(["config", "check", "--json"]);
    let problems: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!((output.code, &problems[1]["line"]), (Some(2), &3.into()));
}

#[test]
fn a_broken_file_stops_chat_and_nothing_else() {
    let world = world();
    assert_eq!(world.segue(["chat", "hi"]).code, Some(0));
    user(&world, "permissions = \"allowall\"\n[claude]\npaths = 1\n");
    assert_snapshot!(world.segue(["chat", "hi"]), @r#"
    --- stderr
    error: [WORLD]/.config/segue/config.toml:1:15: permissions: "allowall" is not one of ask, allow-reads, allow-edits, allow-all, deny
    hint: did you mean "allow-all"?
    hint: 1 more: `segue config check` lists them all
    --- exit 2
    "#);
    let output = world.segue(["chat", "--json", "hi"]);
    let result: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(
        (output.code, &result["error"]["class"]),
        (Some(2), &"usage".into())
    );
    let readers: [&[&str]; 5] = [
        &["session", "list"],
        &["session", "show", "latest"],
        &["doctor"],
        &["config", "show"],
        &["config", "path"],
    ];
    for args in readers {
        let output = world.segue(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output}");
        let told = output
            .stderr
            .contains("config.toml:1:15: permissions: \"allowall\" is not one of");
        assert_eq!(told, args != ["config", "path"], "{args:?}: {output}");
        assert!(output.stderr.lines().count() <= 1, "{args:?}: {output}");
    }
    assert_eq!(
        crate::count_sessions(&world),
        1,
        "bad input changes nothing"
    );
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let world = world();
    let output = segue_with(&world, &["chat", "hi"], &[("SEGUE_CONFIG", "none.toml")]);
    assert_snapshot!(output, @"
    --- stderr
    error: [WORLD]/project/none.toml: cannot read it: No such file or directory (os error 2)
    --- exit 2
    ");
    let output = segue_with(&world, &["chat", "hi"], &[("SEGUE_CONFIG", "/dev/null")]);
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn a_configured_agent_is_driven_and_preferred() {
    let world = world();
    let agent = own_agent(&world, "mine");
    user(&world, &agent);
    let result = world.json(["chat", "--json", "-p", "acp:mine", "hi"]);
    assert_eq!(
        (&result["provider"], &result["stop"]),
        (&"acp:mine".into(), &"finished".into())
    );
    user(&world, &format!("prefer = [\"rehearsal\"]\n{agent}"));
    let other = world.path().join("other");
    fs::create_dir(&other).unwrap();
    let chat = |world: &World| {
        let mut command = world.command(["chat", "--json", "hi"]);
        let output = command.current_dir(&other).output().unwrap();
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        result["provider"].clone()
    };
    assert_eq!(chat(&world), "rehearsal");
    fs::remove_dir_all(world.home()).unwrap();
    user(&world, &agent);
    assert_eq!(chat(&world), "acp:mine", "rehearsal is the last resort");
    world.assert_nothing_runs();
}

#[test]
fn a_configured_program_that_is_missing_is_named_when_it_is_needed() {
    let world = world();
    user(
        &world,
        "[acp.lost]\npath = \"/nowhere/agent\"\n[acp.unknown]\npath = \"no-such-agent\"\n",
    );
    for (provider, program) in [
        ("acp:lost", "/nowhere/agent"),
        ("acp:unknown", "no-such-agent"),
    ] {
        let output = world.segue(["chat", "-p", provider, "hi"]);
        assert_eq!(output.code, Some(3), "{output}");
        assert!(
            output.stderr.contains(&format!("cannot start {program}")),
            "{output}"
        );
    }
}

#[test]
fn a_project_is_trusted_as_it_is_and_no_further() {
    let world = world();
    let agent = own_agent(&world, "theirs");
    let file = project(&world, &agent);
    let untrusted = world.segue(["chat", "-p", "acp:theirs", "hi"]);
    assert_snapshot!(untrusted, @"
    --- stderr
    segue: segue.toml asks for things that need your trust (acp.theirs); `segue trust` shows them
    error: provider acp:theirs can't be driven by this segue
    hint: it drives: rehearsal; any other that speaks ACP needs [acp.NAME] in the configuration
    --- exit 2
    ");
    let unasked = world.segue(["trust"]);
    assert_eq!(unasked.code, Some(2), "{unasked}");
    assert!(!world.home().join("trusted.json").exists());
    assert_eq!(world.segue(["trust", "--yes"]).code, Some(0));
    let mode = fs::metadata(world.home().join("trusted.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        world.segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(0)
    );
    let state = |world: &World| world.json(["trust", "--list", "--json"])[0]["state"].clone();
    assert_eq!(state(&world), "trusted");

    fs::write(&file, format!("{agent}\n# changed")).unwrap();
    assert_eq!(
        world.segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(2)
    );
    assert_eq!(state(&world), "changed");
    assert_eq!(world.segue(["trust", "--yes"]).code, Some(0));
    assert_eq!(
        world.segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(0)
    );

    assert_snapshot!(world.segue(["trust"]), @"
    [WORLD]/project/segue.toml is trusted already.
    --- exit 0
    ");
    assert_snapshot!(world.segue(["trust", "--revoke"]), @"
    [WORLD]/project/segue.toml is no longer trusted.
    --- exit 0
    ");
    assert_snapshot!(world.segue(["trust", "--revoke"]), @"
    [WORLD]/project/segue.toml was not trusted.
    --- exit 0
    ");
    assert_snapshot!(world.segue(["trust", "--list"]), @"
    --- stderr
    no project is trusted
    --- exit 0
    ");
    assert_eq!(
        world.segue(["chat", "-p", "acp:theirs", "hi"]).code,
        Some(2)
    );
}

#[test]
fn what_a_project_asks_for_is_shown_before_it_is_trusted() {
    let world = world();
    assert_snapshot!(world.segue(["trust"]), @"
    --- stderr
    error: there is no segue.toml in [WORLD]/project
    --- exit 1
    ");
    project(&world, "prefer = [\"gemini\"]\npermissions = \"deny\"\n");
    assert_snapshot!(world.segue(["trust"]), @"
    Nothing in [WORLD]/project/segue.toml needs your trust.
    --- exit 0
    ");
    let text = "permissions = \"allow-all\"\n[claude]\npath = \"./evil\"\nenv = { TOKEN = \"t\" }\n[mcp.x]\ncommand = \"sh\\u001b[2K\\u202e\"\n";
    project(&world, text);
    assert_snapshot!(world.segue(["trust", "--yes"]), @r#"
    [WORLD]/project/segue.toml is trusted as it is now. Take it back with: segue trust --revoke
    --- stderr
    [WORLD]/project/segue.toml asks for:
      permissions = "allow-all"  # what an agent may do without asking
      claude.path = "[WORLD]/project/evil"  # a program to start
      claude.env.TOKEN = "********"  # the environment of a program
      mcp.x.command = "sh\U0000001B[2K\U0000202E"  # an MCP server that agents are handed
    --- exit 0
    "#);
    project(&world, "oops");
    assert_snapshot!(world.segue(["trust", "--yes"]), @"
    --- stderr
    error: [WORLD]/project/segue.toml:1:5: key with no value, expected `=`, in `oops`
    --- exit 2
    ");
    let trusted = world.json(["trust", "--list", "--json"]);
    assert_eq!(trusted.as_array().unwrap().len(), 1);
    assert_eq!(trusted[0]["state"], "changed");
}

#[test]
fn a_person_is_asked_and_may_say_no() {
    let world = world();
    project(&world, "permissions = \"allow-all\"");
    let answer = |answer: &str| {
        let line = format!("{} trust", env!("CARGO_BIN_EXE_segue"));
        let mut command = world.program("script");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("script is part of every Linux");
        let mut keys = child.stdin.take().unwrap();
        keys.write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(keys);
        Output::from(&output, &world)
    };
    let trusted = || {
        world
            .json(["trust", "--list", "--json"])
            .as_array()
            .unwrap()
            .len()
    };
    let output = answer("\n");
    assert!(
        output.stdout.contains("Trust it, until it changes? [y/N]"),
        "{output}"
    );
    assert_eq!((output.code, trusted()), (Some(0), 0), "{output}");
    let output = answer("y\n");
    assert_eq!((output.code, trusted()), (Some(0), 1), "{output}");
}

#[test]
fn the_example_is_good() {
    let world = world();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/segue.example.toml"
    );
    let output = world.segue(["config", "check", example]);
    assert_eq!(output.code, Some(0), "{output}");
    // And with every setting that is switched off switched on.
    let text = fs::read_to_string(example).unwrap();
    let on = |line: &str| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c == '[' || c.is_alphabetic()) => {
            setting.to_owned()
        }
        _ => line.to_owned(),
    };
    let all: Vec<String> = text.lines().map(on).collect();
    fs::write(world.project().join("all.toml"), all.join("\n")).unwrap();
    let output = world.segue(["config", "check", "all.toml"]);
    assert_eq!(output.code, Some(0), "{output}");
}
