//! `segue session resume --exec`: the agents' own programs, started in segue's place.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use segue_testkit::model::Script;
use segue_testkit::sandbox::{SandboxCli, CommandOutcome};

use crate::real::stage::{Stage, Way};

const LIMIT: Duration = Duration::from_mins(2);

/// What there is to know of a program in order to go on with a session in it without a terminal.
struct Program {
    way: Way,
    cli: SandboxCli,
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
    cli: SandboxCli::Claude,
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
    cli: SandboxCli::Codex,
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
    cli: SandboxCli::Gemini,
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
    cli: SandboxCli::Opencode,
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
    let real = stage.sandbox.cli_command(program.cli).get_program().to_owned();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$(pwd)\" \"$PWD\" \"$EXTRA\" \"$@\" > {}\nexec '{}' {} \"$@\" {} \"what was it?\" </dev/null\n",
        directory.join("started").display(),
        Path::new(&real).display(),
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
    let text = format!(
        "[{table}]\npath = '{}'\nenv = {{ EXTRA = \"more\" }}\n",
        wrapper.display()
    );
    fs::write(&config, text).unwrap();
    command
        .env_remove(format!("SEGUE_{}_PATH", program.name.to_uppercase()))
        .env("SEGUE_CONFIG", config)
        .current_dir(stage.sandbox.home());
    command
}

/// Has Gemini CLI itself go on with a session in segue's place, with the prompt `what was it?`.
pub(crate) fn in_gemini(stage: &Stage, id: &str) -> CommandOutcome {
    let wrapper = put_wrapper(stage, &GEMINI);
    let asked = ["session", "resume", "--exec", id];
    CommandOutcome::run(command(stage, &GEMINI, &wrapper, &asked), LIMIT)
}

/// Starts the real program with the right arguments, directory and environment: it goes on with the session, and on a
/// terminal it shows the conversation.
fn goes_on_in_its_own_program(program: &Program) {
    let stage = Stage::new(program.way, Script::new());
    skip_the_welcome(&stage);
    if program.name == "codex" {
        // It asks users of a model that it knows whether they want a newer one.
        stage.use_a_model_that_sees_all_tools();
    }
    let first = stage.says(&["the password is swordfish"]);
    let (session, native) = (&first["session_id"], &first["native_session_id"]);
    let (session, native) = (session.as_str().unwrap(), native.as_str().unwrap());
    let wrapper = put_wrapper(&stage, program);

    let asked = ["session", "resume", "--exec", session];
    let ran = CommandOutcome::run(command(&stage, program, &wrapper, &asked), LIMIT);
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

    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    for told in ["the password is swordfish", "what was it?"] {
        assert!(seen.contains(told), "{told} in {:#?}", seen.prompts());
    }
    // What was said there is part of the session here.
    let back = stage.says(&["--resume", session, "and now?"]);
    assert_eq!(back["native_session_id"], native, "{back:#}");
    assert_eq!(back["turn"], 3, "the one made there was taken in: {back:#}");
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(seen.contains("what was it?"), "{:#?}", seen.prompts());
    stage.assert_nothing_left();

    let segue = stage.command(&["session", "resume", "--exec", session]);
    // The answer, not only the prompt, which may also be the title in a list of sessions.
    let answer = "Yousaid:thepasswordisswordfish";
    let screen = screen_until(&stage, &segue, answer);
    assert!(screen.contains(answer), "{screen}");
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
    let put_away = stage.sandbox.run(SandboxCli::Codex, ["archive", native]);
    assert_eq!(put_away.code, Some(0), "{put_away:#?}");

    let wrapper = put_wrapper(&stage, &CODEX);
    let exec = || {
        let asked = ["session", "resume", "--exec", session];
        CommandOutcome::run(command(&stage, &CODEX, &wrapper, &asked), LIMIT)
    };
    let refused = exec();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let hint = format!("hint: bring it back first: codex unarchive {native}");
    assert!(refused.stderr.contains(&hint), "{refused:#?}");

    let brought_back = stage.sandbox.run(SandboxCli::Codex, ["unarchive", native]);
    assert_eq!(brought_back.code, Some(0), "{brought_back:#?}");
    let ran = exec();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(seen.contains("swordfish"), "{:#?}", seen.prompts());
}

/// Answers the questions that Claude Code asks a new user.
fn skip_the_welcome(stage: &Stage) {
    let project = stage.sandbox.project().display().to_string();
    let known = serde_json::json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["sk-ant-dummy"], "rejected": []},
        "projects": {project: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
    });
    fs::write(stage.sandbox.home().join(".claude.json"), known.to_string()).unwrap();
}

/// Runs a command on a terminal until a text is on its screen, or for a minute; what it wrote, without blanks and
/// what steers the terminal.
fn screen_until(stage: &Stage, command: &Command, text: &str) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    let stty = tool("stty");
    let line = format!("{} cols 120 rows 40; {}", stty.display(), words.join(" "));
    let mut script = stage.sandbox.program_command(tool("script"));
    script.args(["-q", "-e", "-c", &line, "/dev/null"]);
    for (name, value) in command.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (sender, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + Duration::from_mins(1);
    let mut bytes = Vec::new();
    while let Ok(piece) = pieces.recv_timeout(end.saturating_duration_since(Instant::now())) {
        bytes.extend(piece);
        if shown(&bytes).contains(text) {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    shown(&bytes)
}

/// Where a program of the developer's machine is.
fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    places.find(|place| place.is_file()).unwrap()
}

/// The letters and digits among what was written to a terminal.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.next_if_eq(&'[').is_some() {
            while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        } else if !c.is_whitespace() && !c.is_control() {
            shown.push(c);
        }
    }
    shown
}
