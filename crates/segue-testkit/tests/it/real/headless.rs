//! Every CLI in headless mode, run as from a shell.

use std::time::Duration;

use segue_testkit::model::{Reply, Script, ScriptedCall, StubFailure};
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};

/// Time limit of a failing run. With reduced retries no CLI needs a third of it.
const FAILED_RUN_TIMEOUT: Duration = Duration::from_secs(45);

/// Returns the arguments for a single prompt, with tools allowed and events as JSON lines.
fn headless_args(cli: SandboxCli) -> &'static [&'static str] {
    match cli {
        SandboxCli::Gemini => &["--yolo", "-o", "stream-json"],
        SandboxCli::Claude => &[
            "-p",
            "--output-format=stream-json",
            "--verbose",
            "--allowedTools=Bash,Read,Write",
        ],
        SandboxCli::Codex => &["exec", "--json"],
        SandboxCli::Opencode => &["run", "--format=json"],
        SandboxCli::ClaudeAcp | SandboxCli::CodexAcp => {
            panic!("{} has no headless mode", cli.name())
        }
    }
}

fn run_headless(sandbox: &Sandbox, cli: SandboxCli, prompt: &str) -> CommandOutcome {
    sandbox.run(cli, headless_args(cli).iter().copied().chain([prompt]))
}

/// Returns all text of the answer, in any of the event formats.
fn answer_text(outcome: &CommandOutcome) -> String {
    let texts = outcome.json_lines().into_iter().filter_map(|event| {
        let pointers = ["/content", "/item/text", "/part/text", "/result"];
        let mut matches = pointers
            .iter()
            .filter_map(|pointer| event.pointer(pointer)?.as_str());
        matches.next().map(str::to_owned)
    });
    texts.collect()
}

fn assert_cli_runs_a_turn(cli: SandboxCli) {
    let sandbox = Sandbox::with_script_fn(|project| {
        let file = project.join("new.txt");
        let steps = [
            Reply::from_text("I run something.")
                .with_thoughts("What to run?")
                .with_call(ScriptedCall::shell("echo hi-from-here")),
            Reply::from_call(ScriptedCall::write(&file, "one\ntwo\n")),
            Reply::from_call(ScriptedCall::read(&file)).with_call(ScriptedCall::read(&file)),
            Reply::from_text("It said hi and went away."),
        ];
        Script::new().with_rule("greet", steps)
    });

    let outcome = run_headless(&sandbox, cli, "greet");

    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(
        answer_text(&outcome).contains("It said hi and went away."),
        "{outcome:#?}"
    );
    let turns = sandbox.model().turn_requests();
    assert_eq!(
        turns.len(),
        4,
        "two calls at once are one round: {turns:#?}"
    );
    assert_eq!(turns[0].prompts(), ["greet"]);
    assert_eq!(turns[3].prompts(), ["greet"]);
    assert!(turns[1].contains("I run something."));
    let results = turns[3].tool_results();
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(results[0].contains("hi-from-here"), "{results:?}");
    assert!(results[3].contains("two"), "{results:?}");
    let content = std::fs::read_to_string(sandbox.project().join("new.txt"));
    assert_eq!(content.unwrap(), "one\ntwo\n");
    let external_requests = sandbox.external_requests();
    assert!(
        external_requests.is_empty() || cli == SandboxCli::Opencode,
        "{external_requests:#?}"
    );
}

fn assert_cli_fails_in_time(cli: SandboxCli, failure: StubFailure) {
    let sandbox = Sandbox::new(Script::new().with_rule("fail", [Reply::from_failure(failure)]));
    let args = headless_args(cli).iter().copied().chain(["fail"]);

    let outcome = sandbox.run_within(FAILED_RUN_TIMEOUT, cli, args);

    assert!(!outcome.timed_out, "{outcome:#?}");
    assert_ne!(outcome.code, Some(0), "{outcome:#?}");
}

macro_rules! real {
    ($($name:ident: $body:expr;)*) => {$(
        #[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            $body;
        }
    )*};
}

// The tests of segue itself cover the failures of the other CLIs.
real! {
    gemini_runs_a_turn: assert_cli_runs_a_turn(SandboxCli::Gemini);
    claude_runs_a_turn: assert_cli_runs_a_turn(SandboxCli::Claude);
    codex_runs_a_turn: assert_cli_runs_a_turn(SandboxCli::Codex);
    opencode_runs_a_turn: assert_cli_runs_a_turn(SandboxCli::Opencode);
    codex_fails_at_a_429: assert_cli_fails_in_time(SandboxCli::Codex, StubFailure::RateLimit { retry_after: 1 });
    codex_fails_at_a_500: assert_cli_fails_in_time(SandboxCli::Codex, StubFailure::ServerError);
    codex_fails_at_a_cut: assert_cli_fails_in_time(SandboxCli::Codex, StubFailure::Cut);
    codex_fails_at_a_stall: assert_cli_fails_in_time(SandboxCli::Codex, StubFailure::Stall);
}
