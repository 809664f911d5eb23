//! Guarantees of the sandbox.

use std::time::Duration;

use segue_testkit::model::{Script, SideRequestKind};
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn no_process_outlives_the_sandbox_even_in_another_group() {
    let sandbox = Sandbox::new(Script::new());
    let mut command = sandbox.program_command("/bin/sh");
    // Processes that are still in the group when the shell ends are killed, so the shell first waits for `setsid`.
    let shell_script = r#"setsid sh -c 'touch "$TMPDIR/left"; exec sleep 300' &
        until test -e "$TMPDIR/left"; do sleep 0.05; done; echo started"#;
    command.args(["-c", shell_script]);

    let outcome = CommandOutcome::run(command, Duration::from_secs(30));

    assert_eq!(outcome.stdout, "started\n");
    assert_eq!(sandbox.processes().len(), 1, "{:?}", sandbox.processes());
    let sleeper = sandbox.processes().remove(0);
    let pid = sleeper.split(':').next().unwrap();
    let command_line = std::path::PathBuf::from(format!("/proc/{pid}/cmdline"));
    drop(sandbox);
    let has_ended = || std::fs::read(&command_line).unwrap_or_default().is_empty();
    assert!((0..100).any(|_| has_ended() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_command_that_exceeds_its_limit_is_killed() {
    let sandbox = Sandbox::new(Script::new());
    let mut command = sandbox.program_command("/bin/sh");
    command.args(["-c", "echo begun; sleep 300"]);

    let outcome = CommandOutcome::run(command, Duration::from_millis(300));

    assert!(outcome.timed_out);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (None, "begun\n"));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_sandbox_contains_no_settings_of_the_developer() {
    let sandbox = Sandbox::new(Script::new());
    let outcome = CommandOutcome::run(
        sandbox.program_command("/usr/bin/env"),
        Duration::from_secs(30),
    );
    let sandbox_path = sandbox.path().display().to_string();
    let home = std::env::var("HOME").unwrap();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines.contains(&format!("HOME={sandbox_path}/home").as_str()));
    assert!(lines.contains(&format!("PATH={sandbox_path}/bin").as_str()));
    // Exceptions: the library path of the test tools, and the compile cache in the directory of the CLIs.
    let allowed = ["LD_LIBRARY_PATH=", "NODE_COMPILE_CACHE="];
    let leaks =
        |line: &&&str| line.contains(&home) && !allowed.iter().any(|name| line.starts_with(name));
    assert_eq!(lines.iter().find(leaks), None);
    assert!(!lines.iter().any(|line| line.starts_with("SEGUE_CLIS=")));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn side_requests_of_gemini_are_answered() {
    let sandbox = Sandbox::new(Script::new().with_title("What it was about"));
    let hello = sandbox.run(SandboxCli::Gemini, ["-m", "auto", "hello"]);
    assert_eq!(hello.stdout, "You said: hello\n", "{hello:#?}");
    let list = sandbox.run(SandboxCli::Gemini, ["--list-sessions"]);
    assert!(list.stdout.contains("What it was about"), "{list:#?}");
    let side_requests: Vec<SideRequestKind> = sandbox
        .model()
        .requests()
        .iter()
        .filter_map(|request| request.side_request)
        .collect();
    assert_eq!(
        side_requests,
        [SideRequestKind::Object, SideRequestKind::Title]
    );
    assert_eq!(sandbox.model().turn_requests().len(), 1);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_compacts_with_the_summary_of_the_script() {
    let sandbox = Sandbox::new(Script::new().with_summary("It was about nothing."));
    for prompt in ["hello", "/compact", "and now"] {
        let outcome = sandbox.run(SandboxCli::Claude, ["-p", "--continue", prompt]);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    }
    let last = sandbox.model().turn_requests().pop().unwrap();
    assert_eq!(last.prompts(), ["and now"]);
    assert!(
        last.contains("It was about nothing."),
        "{:#?}",
        last.transcript()
    );
}
