//! Guarantees of the sandbox.

use std::time::Duration;

use segue_testkit::model::{Script, Side};
use segue_testkit::sandbox::{Cli, Ran, Sandbox};

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn nothing_outlives_it_not_even_what_left_its_group() {
    let sandbox = Sandbox::new(Script::new());
    let mut command = sandbox.program("/bin/sh");
    // Processes that are still in the group when the shell ends are killed, so the shell first waits for `setsid`.
    let leave = r#"setsid sh -c 'touch "$TMPDIR/left"; exec sleep 300' &
        until test -e "$TMPDIR/left"; do sleep 0.05; done; echo started"#;
    command.args(["-c", leave]);

    let ran = Ran::of(command, Duration::from_secs(30));

    assert_eq!(ran.stdout, "started\n");
    assert_eq!(sandbox.processes().len(), 1, "{:?}", sandbox.processes());
    let sleeper = sandbox.processes().remove(0);
    let number = sleeper.split(':').next().unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{number}/cmdline"));
    drop(sandbox);
    let gone = || std::fs::read(&process).unwrap_or_default().is_empty();
    assert!((0..100).any(|_| gone() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn whoever_takes_too_long_is_killed() {
    let sandbox = Sandbox::new(Script::new());
    let mut command = sandbox.program("/bin/sh");
    command.args(["-c", "echo begun; sleep 300"]);

    let ran = Ran::of(command, Duration::from_millis(300));

    assert!(ran.timed_out);
    assert_eq!((ran.code, ran.stdout.as_str()), (None, "begun\n"));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn nothing_of_the_developers_is_in_it() {
    let sandbox = Sandbox::new(Script::new());
    let ran = Ran::of(sandbox.program("/usr/bin/env"), Duration::from_secs(30));
    let inside = sandbox.path().display().to_string();
    let home = std::env::var("HOME").unwrap();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines.contains(&format!("HOME={inside}/home").as_str()));
    assert!(lines.contains(&format!("PATH={inside}/bin").as_str()));
    // Exceptions: the library path of the test tools, and the compile cache in the directory of the CLIs.
    let allowed = ["LD_LIBRARY_PATH=", "NODE_COMPILE_CACHE="];
    let leaks =
        |line: &&&str| line.contains(&home) && !allowed.iter().any(|name| line.starts_with(name));
    assert_eq!(lines.iter().find(leaks), None);
    assert!(!lines.iter().any(|line| line.starts_with("SEGUE_CLIS=")));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_gemini_asks_on_the_side_is_answered() {
    let sandbox = Sandbox::new(Script::new().title("What it was about"));
    let hello = sandbox.run(Cli::Gemini, ["-m", "auto", "hello"]);
    assert_eq!(hello.stdout, "You said: hello\n", "{hello:#?}");
    let list = sandbox.run(Cli::Gemini, ["--list-sessions"]);
    assert!(list.stdout.contains("What it was about"), "{list:#?}");
    let sides: Vec<Side> = sandbox
        .model()
        .requests()
        .iter()
        .filter_map(|request| request.side)
        .collect();
    assert_eq!(sides, [Side::Object, Side::Title]);
    assert_eq!(sandbox.model().turns().len(), 1);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_sums_up_what_the_script_says() {
    let sandbox = Sandbox::new(Script::new().summary("It was about nothing."));
    for prompt in ["hello", "/compact", "and now"] {
        let ran = sandbox.run(Cli::Claude, ["-p", "--continue", prompt]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    let last = sandbox.model().turns().pop().unwrap();
    assert_eq!(last.prompts(), ["and now"]);
    assert!(last.contains("It was about nothing."), "{:#?}", last.seen());
}
