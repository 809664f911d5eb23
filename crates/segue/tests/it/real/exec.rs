//! `segue session resume --exec`: the agent's own program replaces segue.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use segue_testkit::model::Script;
use segue_testkit::sandbox::{CommandOutcome, SandboxCli};

use crate::real::harness::{AgentSetup, CliHarness};

const PROGRAM_TIMEOUT: Duration = Duration::from_mins(2);

/// A program and the arguments with which it resumes a session without a terminal.
struct NativeProgram {
    setup: AgentSetup,
    cli: SandboxCli,
    name: &'static str,
    /// Argument that segue must pass before the session id.
    resume_arg: &'static str,
    /// Arguments before `resume_arg`, needed without a terminal.
    args_before: &'static str,
    /// Arguments between the session id and the prompt, needed without a terminal.
    args_after: &'static str,
}

const CLAUDE_PROGRAM: NativeProgram = NativeProgram {
    setup: AgentSetup {
        provider: "claude",
        transport: "stream-json",
    },
    cli: SandboxCli::Claude,
    name: "claude",
    resume_arg: "--resume",
    args_before: "",
    args_after: "-p",
};
const CODEX_PROGRAM: NativeProgram = NativeProgram {
    setup: AgentSetup {
        provider: "codex",
        transport: "app-server",
    },
    cli: SandboxCli::Codex,
    name: "codex",
    resume_arg: "resume",
    args_before: "exec",
    args_after: "",
};
const GEMINI_PROGRAM: NativeProgram = NativeProgram {
    setup: AgentSetup {
        provider: "gemini",
        transport: "stream-json",
    },
    cli: SandboxCli::Gemini,
    name: "gemini",
    resume_arg: "--resume",
    args_before: "",
    args_after: "-p",
};
const OPENCODE_PROGRAM: NativeProgram = NativeProgram {
    setup: AgentSetup {
        provider: "acp:opencode",
        transport: "acp",
    },
    cli: SandboxCli::Opencode,
    name: "opencode",
    resume_arg: "--session",
    args_before: "run",
    args_after: "",
};

/// Writes a script that records its arguments, directory and environment and then runs the real program with a prompt.
fn write_wrapper(harness: &CliHarness, program: &NativeProgram) -> PathBuf {
    let directory = harness.sandbox.path().join("wrapped");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(program.name);
    let real_program = harness
        .sandbox
        .cli_command(program.cli)
        .get_program()
        .to_owned();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$(pwd)\" \"$PWD\" \"$EXTRA\" \"$@\" > {}\nexec '{}' {} \"$@\" {} \"what was it?\" </dev/null\n",
        directory.join("started").display(),
        Path::new(&real_program).display(),
        program.args_before,
        program.args_after
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns a segue command with the wrapper configured, in a directory other than that of the session.
fn wrapped_command(
    harness: &CliHarness,
    program: &NativeProgram,
    wrapper: &Path,
    args: &[&str],
) -> Command {
    let mut command = harness.segue_command(args);
    let config_table = match program.name {
        "opencode" => "acp.opencode",
        name => name,
    };
    let config = harness.sandbox.home().join("exec.toml");
    let text = format!(
        "[{config_table}]\npath = '{}'\nenv = {{ EXTRA = \"more\" }}\n",
        wrapper.display()
    );
    fs::write(&config, text).unwrap();
    command
        .env_remove(format!("SEGUE_{}_PATH", program.name.to_uppercase()))
        .env("SEGUE_CONFIG", config)
        .current_dir(harness.sandbox.home());
    command
}

/// Resumes a session in Gemini CLI with `segue session resume --exec` and the prompt `what was it?`.
pub(crate) fn resume_in_gemini_cli(harness: &CliHarness, id: &str) -> CommandOutcome {
    let wrapper = write_wrapper(harness, &GEMINI_PROGRAM);
    let args = ["session", "resume", "--exec", id];
    CommandOutcome::run(
        wrapped_command(harness, &GEMINI_PROGRAM, &wrapper, &args),
        PROGRAM_TIMEOUT,
    )
}

/// Checks that the program is started with the right arguments, directory and environment, that it resumes the session,
/// and that it shows the conversation on a terminal.
fn assert_session_resumes_in_its_own_program(program: &NativeProgram) {
    let harness = CliHarness::new(program.setup, Script::new());
    write_claude_onboarding_state(&harness);
    if program.name == "codex" {
        // For a model that Codex knows, it would ask the user whether to switch to a newer one.
        harness.use_model_with_all_tools();
    }
    let first = harness.run_finished_turn(&["the password is swordfish"]);
    let (session, native) = (&first["session_id"], &first["native_session_id"]);
    let (session, native) = (session.as_str().unwrap(), native.as_str().unwrap());
    let wrapper = write_wrapper(&harness, program);

    let args = ["session", "resume", "--exec", session];
    let outcome = CommandOutcome::run(
        wrapped_command(&harness, program, &wrapper, &args),
        PROGRAM_TIMEOUT,
    );
    let started = fs::read_to_string(harness.sandbox.path().join("wrapped/started"))
        .unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
    let project = harness.sandbox.project().display().to_string();
    let expected = [&project, &project, "more", program.resume_arg, native];
    assert_eq!(started.lines().collect::<Vec<_>>(), expected);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let expected_line = format!(
        "segue: starting {} {} {native} in {project}",
        program.name, program.resume_arg
    );
    assert!(
        outcome.stderr.lines().any(|line| line == expected_line),
        "{outcome:#?}"
    );

    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    for text in ["the password is swordfish", "what was it?"] {
        assert!(request.contains(text), "{text} in {:#?}", request.prompts());
    }
    // The turn that was made in the program is now part of the session.
    let resumed = harness.run_finished_turn(&["--resume", session, "and now?"]);
    assert_eq!(resumed["native_session_id"], native, "{resumed:#}");
    assert_eq!(
        resumed["turn"], 3,
        "the turn created in the program is missing: {resumed:#}"
    );
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    assert!(request.contains("what was it?"), "{:#?}", request.prompts());
    harness.assert_no_leftovers();

    let resume_command = harness.segue_command(&["session", "resume", "--exec", session]);
    // Wait for the answer, because the prompt may also be a title in a list of sessions.
    let answer = "Yousaid:thepasswordisswordfish";
    let screen = run_until_screen_contains(&harness, &resume_command, answer);
    assert!(screen.contains(answer), "{screen}");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_resumes_a_session_in_its_own_program() {
    assert_session_resumes_in_its_own_program(&CLAUDE_PROGRAM);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_resumes_a_session_in_its_own_program() {
    assert_session_resumes_in_its_own_program(&CODEX_PROGRAM);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_resumes_a_session_in_its_own_program() {
    assert_session_resumes_in_its_own_program(&GEMINI_PROGRAM);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn opencode_resumes_a_session_in_its_own_program() {
    assert_session_resumes_in_its_own_program(&OPENCODE_PROGRAM);
}

/// Codex refuses to resume an archived session, so segue reports that first, with a hint.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_archived_codex_session_must_be_unarchived_before_a_resume() {
    let harness = CliHarness::new(CODEX_PROGRAM.setup, Script::new());
    let first = harness.run_finished_turn(&["the password is swordfish"]);
    let session = first["session_id"].as_str().unwrap();
    let native = first["native_session_id"].as_str().unwrap();
    let archived = harness.sandbox.run(SandboxCli::Codex, ["archive", native]);
    assert_eq!(archived.code, Some(0), "{archived:#?}");

    let wrapper = write_wrapper(&harness, &CODEX_PROGRAM);
    let run_resume = || {
        let args = ["session", "resume", "--exec", session];
        CommandOutcome::run(
            wrapped_command(&harness, &CODEX_PROGRAM, &wrapper, &args),
            PROGRAM_TIMEOUT,
        )
    };
    let refused = run_resume();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    let hint = format!("hint: run `codex unarchive {native}` first");
    assert!(refused.stderr.contains(&hint), "{refused:#?}");

    let unarchived = harness
        .sandbox
        .run(SandboxCli::Codex, ["unarchive", native]);
    assert_eq!(unarchived.code, Some(0), "{unarchived:#?}");
    let outcome = run_resume();
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    assert!(request.contains("swordfish"), "{:#?}", request.prompts());
}

/// Writes the state that makes Claude Code skip its questions to a new user.
fn write_claude_onboarding_state(harness: &CliHarness) {
    let project = harness.sandbox.project().display().to_string();
    let claude_state = serde_json::json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["sk-ant-dummy"], "rejected": []},
        "projects": {project: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
    });
    fs::write(
        harness.sandbox.home().join(".claude.json"),
        claude_state.to_string(),
    )
    .unwrap();
}

/// Runs a command on a terminal until `text` is on the screen, or for a minute. Returns its output without whitespace
/// and escape sequences.
fn run_until_screen_contains(harness: &CliHarness, command: &Command, text: &str) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    let stty = find_tool("stty");
    let line = format!("{} cols 120 rows 40; {}", stty.display(), words.join(" "));
    let mut script = harness.sandbox.program_command(find_tool("script"));
    script.args(["-q", "-e", "-c", &line, "/dev/null"]);
    for (name, value) in command.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (sender, chunks) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut bytes = Vec::new();
    while let Ok(chunk) = chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        bytes.extend(chunk);
        if visible_text(&bytes).contains(text) {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    visible_text(&bytes)
}

/// Finds a program in the `PATH` of the developer.
fn find_tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file()).unwrap()
}

/// Returns terminal output without escape sequences and whitespace.
fn visible_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut visible = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        } else if !c.is_whitespace() && !c.is_control() {
            visible.push(c);
        }
    }
    visible
}
