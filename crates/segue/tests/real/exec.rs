//! `segue session resume --exec`: the agents' own programs, started in segue's place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use segue_testkit::model::Script;
use segue_testkit::sandbox::{Cli, Ran};

use crate::stage::{Stage, Way};

const LIMIT: Duration = Duration::from_mins(2);

/// What there is to know of a program in order to go on with a session in it without a terminal.
struct Program {
    way: Way,
    cli: Cli,
    /// What it is called.
    name: &'static str,
    /// What segue must tell it before the id.
    told: &'static str,
    /// What comes before that without a terminal.
    before: &'static str,
    /// What comes after it and before the prompt without a terminal.
    after: &'static str,
}

const CLAUDE: Program = Program {
    way: Way {
        provider: "claude",
        transport: "stream-json",
    },
    cli: Cli::Claude,
    name: "claude",
    told: "--resume",
    before: "",
    after: "-p",
};
const CODEX: Program = Program {
    way: Way {
        provider: "codex",
        transport: "app-server",
    },
    cli: Cli::Codex,
    name: "codex",
    told: "resume",
    before: "exec",
    after: "",
};
const GEMINI: Program = Program {
    way: Way {
        provider: "gemini",
        transport: "stream-json",
    },
    cli: Cli::Gemini,
    name: "gemini",
    told: "--resume",
    before: "",
    after: "-p",
};
const OPENCODE: Program = Program {
    way: Way {
        provider: "acp:opencode",
        transport: "acp",
    },
    cli: Cli::Opencode,
    name: "opencode",
    told: "--session",
    before: "run",
    after: "",
};

/// Puts a program in the place of the real one that notes how it was started and hands a prompt to the real one.
fn put_wrapper(stage: &Stage, program: &Program) -> PathBuf {
    let directory = stage.sandbox.path().join("wrapped");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(program.name);
    let real = stage.sandbox.command(program.cli).get_program().to_owned();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$(pwd)\" \"$PWD\" \"$EXTRA\" \"$@\" > {}\nexec {:?} {} \"$@\" {} \"what was it?\" </dev/null\n",
        directory.join("started").display(),
        real,
        program.before,
        program.after
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// segue with that program configured, in another directory than the session's.
fn command(stage: &Stage, program: &Program, wrapper: &Path, args: &[&str]) -> Command {
    let mut command = stage.command(args);
    let table = match program.name {
        "opencode" => "acp.opencode",
        name => name,
    };
    let config = stage.sandbox.home().join("exec.toml");
    let text = format!("[{table}]\npath = {wrapper:?}\nenv = {{ EXTRA = \"more\" }}\n");
    fs::write(&config, text).unwrap();
    command
        .env_remove(format!("SEGUE_{}_PATH", program.name.to_uppercase()))
        .env("SEGUE_CONFIG", config)
        .current_dir(stage.sandbox.home());
    command
}

/// The arguments, the directory and the environment are right, and the real program goes on with the session by them.
fn goes_on_in_its_own_program(program: &Program) {
    let stage = Stage::new(program.way, Script::new());
    let first = stage.says(&["the password is swordfish"]);
    let (session, native) = (&first["session_id"], &first["native_session_id"]);
    let (session, native) = (session.as_str().unwrap(), native.as_str().unwrap());
    let wrapper = put_wrapper(&stage, program);

    let asked = ["session", "resume", "--exec", session];
    let ran = Ran::of(command(&stage, program, &wrapper, &asked), LIMIT);
    let started = fs::read_to_string(stage.sandbox.path().join("wrapped/started"))
        .unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    let project = stage.sandbox.project().display().to_string();
    let expected = [&project, &project, "more", program.told, native];
    assert_eq!(started.lines().collect::<Vec<_>>(), expected);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let said = format!(
        "segue: starting {} {} {native} in {project}",
        program.name, program.told
    );
    assert!(ran.stderr.lines().any(|line| line == said), "{ran:#?}");

    let seen = stage.sandbox.model().turns().pop().unwrap();
    for told in ["the password is swordfish", "what was it?"] {
        assert!(seen.contains(told), "{told} in {:#?}", seen.prompts());
    }
    // What was said there is part of the session here.
    let back = stage.says(&["--resume", session, "and now?"]);
    assert_eq!(back["native_session_id"], native, "{back:#}");
    let seen = stage.sandbox.model().turns().pop().unwrap();
    assert!(seen.contains("what was it?"), "{:#?}", seen.prompts());
    stage.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_goes_on_in_its_own_program() {
    goes_on_in_its_own_program(&CLAUDE);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_goes_on_in_its_own_program() {
    goes_on_in_its_own_program(&CODEX);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_goes_on_in_its_own_program() {
    goes_on_in_its_own_program(&GEMINI);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn opencode_goes_on_in_its_own_program() {
    goes_on_in_its_own_program(&OPENCODE);
}

/// What Codex has archived it refuses to go on with; segue says so before, and what to do.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_is_asked_to_bring_an_archived_session_back() {
    let stage = Stage::new(CODEX.way, Script::new());
    let first = stage.says(&["the password is swordfish"]);
    let session = first["session_id"].as_str().unwrap();
    let native = first["native_session_id"].as_str().unwrap();
    let put_away = stage.sandbox.run(Cli::Codex, ["archive", native]);
    assert_eq!(put_away.code, Some(0), "{put_away:#?}");

    let wrapper = put_wrapper(&stage, &CODEX);
    let exec = || {
        let asked = ["session", "resume", "--exec", session];
        Ran::of(command(&stage, &CODEX, &wrapper, &asked), LIMIT)
    };
    let refused = exec();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let hint = format!("hint: bring it back first: codex unarchive {native}");
    assert!(refused.stderr.contains(&hint), "{refused:#?}");

    let brought_back = stage.sandbox.run(Cli::Codex, ["unarchive", native]);
    assert_eq!(brought_back.code, Some(0), "{brought_back:#?}");
    let ran = exec();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let seen = stage.sandbox.model().turns().pop().unwrap();
    assert!(seen.contains("swordfish"), "{:#?}", seen.prompts());
}
