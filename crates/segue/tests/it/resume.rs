//! `segue session resume`: here, and in the agent's own program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use insta::assert_snapshot;
use segue_testkit::{Output, World};
use serde_json::json;

use crate::native::{self, ID};
use crate::world;

/// Puts a program on the path that tells how it was started; returns where it is.
pub(crate) fn put_program(world: &World, name: &str) -> PathBuf {
    let path = world.path().join("bin").join(name);
    let script = "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\"\nprintf 'cwd %s\\n' \"$(pwd)\" \"$PWD\"\n\
                  printf 'extra %s\\n' \"$EXTRA\"\nexit 7\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Puts a program of the developer's machine on the path.
fn put_tool(world: &World, name: &str) {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    let place = places.find(|place| place.is_file()).unwrap();
    symlink(place, world.path().join("bin").join(name)).unwrap();
}

pub(crate) fn configure(world: &World, text: &str) {
    let path = world.path().join(".config/segue/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs segue in a directory of the world.
fn in_directory(world: &World, directory: &str, args: &[&str]) -> Output {
    let mut command = world.command(args);
    let output = command.current_dir(world.path().join(directory)).output();
    Output::from(&output.unwrap(), world)
}

#[test]
fn a_prompt_is_one_turn_in_the_session() {
    let world = world();
    let first = world.json(["chat", "--json", "one"]);
    let id = first["session_id"].as_str().unwrap();
    let second = world.json(["session", "resume", "--json", &id[16..], "two"]);
    assert_eq!(second["session_id"], id);
    assert_eq!(second["turn"], 2);
    let piped = world.segue_with_input(["session", "resume", id, "--json"], b"three");
    let piped: serde_json::Value = serde_json::from_str(&piped.raw_stdout).unwrap();
    assert_eq!(piped["turn"], 3);
    assert_snapshot!(world.segue(["session", "resume"]), @"
    --- stderr
    error: which session?
    hint: `segue session list` shows them; `latest` is the newest one of this project
    --- exit 2
    ");
    assert_eq!(
        world.segue(["session", "resume", "nothing", "hi"]).code,
        Some(1)
    );
    let info = world.json(["session", "info", "--json", id]);
    assert_eq!(info["session"]["turns"], 3);
}

#[test]
fn the_agents_own_program_takes_our_place() {
    let world = world();
    native::put(&world, ID, "project");
    fs::create_dir(world.path().join("elsewhere")).unwrap();
    put_program(&world, "claude");
    let output = in_directory(
        &world,
        "elsewhere",
        &["session", "resume", "--exec", "0b5e"],
    );
    assert_snapshot!(output, @"
    [WORLD]/bin/claude
    --resume
    0b5e4c3a-1111-4222-8333-444455556666
    cwd [WORLD]/project
    cwd [WORLD]/project
    extra 
    --- stderr
    segue: starting claude --resume 0b5e4c3a-1111-4222-8333-444455556666 in [WORLD]/project
    --- exit 7
    ");
    let _ = world.segue(["session", "adopt", ID]);
    let adopted = in_directory(
        &world,
        "elsewhere",
        &["session", "resume", "--exec", "latest"],
    );
    assert_eq!(
        adopted.code,
        Some(1),
        "latest is of another project: {adopted}"
    );
    let adopted = world.segue(["session", "resume", "--exec", "latest"]);
    assert_eq!(adopted.stdout, output.stdout, "{adopted}");
    assert_eq!(adopted.code, Some(7));
    world.assert_nothing_runs();
}

#[test]
fn the_program_is_the_configured_one() {
    let world = world();
    native::put(&world, ID, "project");
    let program = put_program(&world, "my claude");
    configure(
        &world,
        &format!(
            "[claude]\npath = {program:?}\nargs = [\"--add-dir\", \"/x y\"]\nenv = {{ EXTRA = \"it's\" }}\n"
        ),
    );
    let output = world.segue(["session", "resume", "--exec", ID]);
    assert_snapshot!(output, @"
    [WORLD]/bin/my claude
    --add-dir
    /x y
    --resume
    0b5e4c3a-1111-4222-8333-444455556666
    cwd [WORLD]/project
    cwd [WORLD]/project
    extra it's
    --- stderr
    segue: starting 'my claude' --add-dir '/x y' --resume 0b5e4c3a-1111-4222-8333-444455556666 in [WORLD]/project
    --- exit 7
    ");
    let printed = world.segue(["session", "resume", "--print", ID]);
    assert_snapshot!(printed, @r"
    cd [WORLD]/project && env 'EXTRA=it'\''s' '[WORLD]/bin/my claude' --add-dir '/x y' --resume 0b5e4c3a-1111-4222-8333-444455556666
    --- exit 0
    ");
    put_tool(&world, "env");
    let shell = world
        .program("sh")
        .args(["-c", &printed.raw_stdout])
        .output();
    let shell = Output::from(&shell.unwrap(), &world);
    assert_eq!((shell.stdout, shell.code), (output.stdout, Some(7)));
    let told = world.json(["session", "resume", "--print", "--json", ID]);
    assert_eq!(told["provider"], "claude");
    assert_eq!(told["native_session_id"], ID);
    assert_eq!(told["args"], json!(["--add-dir", "/x y", "--resume", ID]));
    assert_eq!(told["env"], json!({"EXTRA": "it's"}));
}

#[test]
fn what_cannot_go_on_there_is_said_with_what_to_do() {
    let world = world();
    native::put(&world, ID, "gone");
    assert_snapshot!(world.segue(["session", "resume", "--exec", ID]), @"
    --- stderr
    error: claude:0b5e4c3a-1111-4222-8333-444455556666 can't go on in the agent's own program: its directory [WORLD]/gone is not there
    hint: make it again, or branch off into the directory you are in with `segue session fork claude:0b5e4c3a-1111-4222-8333-444455556666`
    --- exit 1
    ");
    fs::create_dir(world.path().join("gone")).unwrap();
    assert_snapshot!(world.segue(["session", "resume", "--exec", ID]), @"
    --- stderr
    error: claude was not found on this machine
    hint: put `claude` on PATH, or set its `path` in the configuration
    --- exit 1
    ");
    put_program(&world, "claude");
    assert_snapshot!(world.segue(["session", "resume", "--exec", ID, "-p", "codex"]), @r#"
    --- stderr
    error: it is claude that has this session, not codex
    hint: `segue session resume claude:0b5e4c3a-1111-4222-8333-444455556666 -p codex "…"` hands it over to codex
    --- exit 2
    "#);
    let usual = world
        .command(["session", "resume", "--print", ID])
        .env("SEGUE_PROVIDER", "codex")
        .output();
    assert!(
        usual.unwrap().status.success(),
        "what is usual elsewhere is not asked for here"
    );
    for args in [
        ["--exec", "hi"],
        ["--exec", "--json"],
        ["--print", "--strict"],
        ["--exec", "-mopus"],
    ] {
        let output = world.segue([&["session", "resume", ID], &args[..]].concat());
        assert_eq!(output.code, Some(2), "{args:?}: {output}");
    }
    let fork = world.json(["session", "fork", "--json", ID]);
    let fork = fork["id"].as_str().unwrap();
    assert_snapshot!(world.segue(["session", "resume", "--exec", fork]), @r#"
    --- stderr
    error: [SESSION] can't go on in the agent's own program: no agent has a session of its own for it yet
    hint: `segue session resume [SESSION] "…"` makes one with the next prompt
    --- exit 1
    "#);
    let _ = world.segue(["session", "revert", ID, "--to", "1"]);
    assert_snapshot!(world.segue(["session", "resume", "--exec", ID]), @r#"
    --- stderr
    error: [SESSION] can't go on in the agent's own program: its last turn is not in claude's own session
    hint: `segue session resume [SESSION] "…"` goes on here, and tells claude what it lacks; then it can
    --- exit 1
    "#);
    let _ = world.segue(["session", "undo", ID]);
    assert_eq!(
        world.segue(["session", "resume", "--exec", ID]).code,
        Some(7)
    );
    // What was cut behind our back is noticed before the terminal is handed over.
    let file = native::put(&world, ID, "gone");
    let text = fs::read_to_string(&file).unwrap();
    let first_lines: Vec<&str> = text.lines().take(3).collect();
    fs::write(&file, first_lines.join("\n") + "\n").unwrap();
    let cut = world.segue(["session", "resume", "--exec", ID]);
    assert_eq!(cut.code, Some(1), "{cut}");
    assert!(
        cut.stderr
            .contains("its last turn is not in claude's own session"),
        "{cut}"
    );
    fs::remove_dir_all(world.path().join(".claude")).unwrap();
    assert_snapshot!(world.segue(["session", "resume", "--exec", ID]), @r#"
    --- stderr
    error: [SESSION] can't go on in the agent's own program: claude does not have it any more
    hint: `segue session resume [SESSION] "…"` goes on here: a new native session is told what was said
    --- exit 1
    "#);
}

#[test]
fn a_session_that_somebody_is_at_work_in_stays_here() {
    let world = world();
    let mut turn = world.events(["rehearse: say begun; hang"]);
    let began = turn.next_event().unwrap();
    let id = began["session_id"].as_str().unwrap().to_owned();
    let output = world.segue(["session", "resume", "--exec", &id]);
    assert_eq!(output.code, Some(1));
    assert!(
        output
            .stderr
            .contains("is at work in it\nhint: end it, or wait"),
        "{output}"
    );
    let _ = turn.kill();
    world.assert_nothing_runs();
    let output = world.segue(["session", "resume", "--exec", &id]);
    assert!(
        output
            .stderr
            .contains("rehearsal has no program that can go on with it")
            || output.stderr.contains("no agent has a session of its own"),
        "{output}"
    );
}

#[test]
fn an_archived_session_of_codex_is_brought_back_first() {
    const THREAD: &str = "019b0a00-1111-7222-8333-444455556666";
    let world = world();
    let sample = include_str!("../../../segue-catalog/tests/it/samples/codex.jsonl");
    let directory = world.path().join(".codex/archived_sessions");
    fs::create_dir_all(&directory).unwrap();
    let id = sample
        .split("\"id\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let text = sample
        .replace(id, THREAD)
        .replace("\"/w\"", &format!("{:?}", world.project()));
    fs::write(
        directory.join(format!("rollout-2026-01-02T03-04-05-{THREAD}.jsonl")),
        text,
    )
    .unwrap();
    put_program(&world, "codex");
    assert_snapshot!(world.segue(["session", "resume", "--exec", THREAD]), @"
    --- stderr
    error: codex:019b0a00-1111-7222-8333-444455556666 can't go on in the agent's own program: codex has archived it
    hint: bring it back first: codex unarchive 019b0a00-1111-7222-8333-444455556666
    --- exit 1
    ");
}

#[test]
fn a_list_is_sorted_as_asked() {
    let world = world();
    let beta = world.json(["chat", "--json", "beta"]);
    let _ = world.json(["chat", "--json", "Alpha"]);
    let id = beta["session_id"].as_str().unwrap();
    let _ = world.json([
        "session",
        "resume",
        "--json",
        id,
        "and a longer prompt for more tokens",
    ]);
    native::put(&world, ID, "project");
    let titles = |args: &[&str]| {
        let all = [&["session", "list", "--json"], args].concat();
        let listed = world.json(all);
        let titles = listed.as_array().unwrap().iter();
        titles
            .map(|entry| entry["title"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let cases: [(&[&str], [&str; 3]); 9] = [
        (&[], ["beta", "Alpha", "Shopping"]),
        (
            &["--sort", "updated", "--reverse"],
            ["Shopping", "Alpha", "beta"],
        ),
        (&["--sort", "created"], ["Alpha", "beta", "Shopping"]),
        (&["--sort", "turns"], ["Shopping", "beta", "Alpha"]),
        (&["--sort", "tokens"], ["Shopping", "beta", "Alpha"]),
        (&["--sort", "title"], ["Alpha", "beta", "Shopping"]),
        (
            &["--sort", "title", "--reverse"],
            ["Shopping", "beta", "Alpha"],
        ),
        (&["--sort", "provider"], ["Shopping", "beta", "Alpha"]),
        (
            &["--sort", "provider", "--reverse"],
            ["beta", "Alpha", "Shopping"],
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(titles(args), expected, "{args:?}");
    }
    assert_eq!(titles(&["--sort", "title", "-n", "1"]), ["Alpha"]);
    let first = world.segue(["session", "list", "--sort", "title", "-n", "1"]);
    assert!(first.stderr.contains("there are more"), "{first}");
    assert_eq!(
        world.segue(["session", "list", "--sort", "size"]).code,
        Some(2)
    );
}

#[test]
fn a_day_is_one_of_where_the_person_is() {
    let world = world();
    // It was last touched at 03:05 in UTC.
    native::put(&world, ID, "project");
    let cases = [
        ("UTC0", "2026-01-02T03:00", 1),
        ("UTC0", "2026-01-02T04:00", 0),
        ("JST-9", "2026-01-02T12:00", 1),
        ("JST-9", "2026-01-02T13:00", 0),
        ("UTC0", "2026-01-02", 1),
        ("UTC0", "yesterday", 0),
    ];
    for (zone, since, expected) in cases {
        let mut command = world.command(["session", "list", "--json", "--since", since]);
        let output = command.env("TZ", zone).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let count = listed.as_array().unwrap().len();
        assert_eq!(count, expected, "{since} in {zone}");
    }
}

#[test]
fn a_narrow_list_has_short_lines() {
    let world = world();
    let said = world.json([
        "chat",
        "--json",
        "a prompt that is longer than a narrow terminal is wide",
    ]);
    let id = said["session_id"].as_str().unwrap();
    native::put(&world, ID, "project");
    let _ = world.segue(["session", "tag", id, "urgent"]);
    for (columns, all) in [("40", false), ("40", true), ("60", true), ("80", true)] {
        let mut command = world.command(["session", "list"]);
        command.env("COLUMNS", columns).args(all.then_some("--all"));
        let output = Output::from(&command.output().unwrap(), &world).raw_stdout;
        let widest = output.lines().map(|line| line.chars().count()).max();
        assert!(widest <= columns.parse().ok(), "{columns}: {output}");
        assert!(
            output.contains(&id[16..]) && output.contains("a prompt"),
            "{output}"
        );
        assert!(output.contains("0b5e4c3a"), "{output}");
        // Who and when says more than where.
        assert!(
            columns != "80" || (output.contains("rehearsal") && output.contains("just now")),
            "{output}"
        );
    }
}

#[test]
fn a_list_works_where_the_directory_was_removed() {
    let world = world();
    let lost = world.path().join("lost");
    fs::create_dir(&lost).unwrap();
    let mut chat = world.command(["chat", "--json", "here"]);
    assert!(chat.current_dir(&lost).output().unwrap().status.success());
    put_tool(&world, "rmdir");
    let script = format!(
        "rmdir \"$PWD\" && {0} session list && {0} session show latest && {0} chat again",
        env!("CARGO_BIN_EXE_segue")
    );
    let mut shell = world.program("sh");
    shell
        .args(["-c", &script])
        .env("PWD", &lost)
        .current_dir(&lost);
    let output = Output::from(&shell.output().unwrap(), &world);
    assert!(output.stdout.contains("just now  here\n"), "{output}");
    assert!(output.stdout.contains("── turn 1"), "{output}");
    assert!(
        output
            .stderr
            .contains("error: cannot tell the working directory"),
        "whoever starts an agent needs one: {output}"
    );
}
