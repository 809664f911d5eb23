//! Every CLI in headless mode, run as from a shell.

use std::time::Duration;

use segue_testkit::model::{Call, Failure, Reply, Script};
use segue_testkit::sandbox::{Cli, Ran, Sandbox};

/// Time limit of a failing run. With reduced retries no CLI needs a third of it.
const SOON: Duration = Duration::from_secs(45);

/// Returns the arguments for a single prompt, with tools allowed and events as JSON lines.
fn args(cli: Cli) -> &'static [&'static str] {
    match cli {
        Cli::Gemini => &["--yolo", "-o", "stream-json"],
        Cli::Claude => &[
            "-p",
            "--output-format=stream-json",
            "--verbose",
            "--allowedTools=Bash,Read,Write",
        ],
        Cli::Codex => &["exec", "--json"],
        Cli::Opencode => &["run", "--format=json"],
        Cli::ClaudeAcp | Cli::CodexAcp => panic!("{} has no headless mode", cli.name()),
    }
}

fn run(sandbox: &Sandbox, cli: Cli, prompt: &str) -> Ran {
    sandbox.run(cli, args(cli).iter().copied().chain([prompt]))
}

/// Returns all text of the answer, in any of the event formats.
fn said(ran: &Ran) -> String {
    let texts = ran.json_lines().into_iter().filter_map(|event| {
        let places = ["/content", "/item/text", "/part/text", "/result"];
        let mut found = places
            .iter()
            .filter_map(|place| event.pointer(place)?.as_str());
        found.next().map(str::to_owned)
    });
    texts.collect()
}

fn runs_a_turn(cli: Cli) {
    let sandbox = Sandbox::with(|project| {
        let file = project.join("new.txt");
        let steps = [
            Reply::say("I run something.")
                .think("What to run?")
                .call(Call::shell("echo hi-from-here")),
            Reply::calling(Call::write(&file, "one\ntwo\n")),
            Reply::calling(Call::read(&file)).call(Call::read(&file)),
            Reply::say("It said hi and went away."),
        ];
        Script::new().on("greet", steps)
    });

    let ran = run(&sandbox, cli, "greet");

    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(said(&ran).contains("It said hi and went away."), "{ran:#?}");
    let turns = sandbox.model().turns();
    assert_eq!(
        turns.len(),
        4,
        "two calls at once are one round: {turns:#?}"
    );
    assert_eq!(turns[0].prompts(), ["greet"]);
    assert_eq!(turns[3].prompts(), ["greet"]);
    assert!(turns[1].contains("I run something."));
    let results = turns[3].results();
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(results[0].contains("hi-from-here"), "{results:?}");
    assert!(results[3].contains("two"), "{results:?}");
    let written = std::fs::read_to_string(sandbox.project().join("new.txt"));
    assert_eq!(written.unwrap(), "one\ntwo\n");
    let escapes = sandbox.escapes();
    assert!(escapes.is_empty() || cli == Cli::Opencode, "{escapes:#?}");
}

fn fails_soon(cli: Cli, failure: Failure) {
    let sandbox = Sandbox::new(Script::new().on("fail", [Reply::fail(failure)]));
    let args = args(cli).iter().copied().chain(["fail"]);

    let ran = sandbox.run_within(SOON, cli, args);

    assert!(!ran.timed_out, "{ran:#?}");
    assert_ne!(ran.code, Some(0), "{ran:#?}");
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
    gemini_runs_a_turn: runs_a_turn(Cli::Gemini);
    claude_runs_a_turn: runs_a_turn(Cli::Claude);
    codex_runs_a_turn: runs_a_turn(Cli::Codex);
    opencode_runs_a_turn: runs_a_turn(Cli::Opencode);
    codex_fails_at_a_429: fails_soon(Cli::Codex, Failure::RateLimit { retry_after: 1 });
    codex_fails_at_a_500: fails_soon(Cli::Codex, Failure::Server);
    codex_fails_at_a_cut: fails_soon(Cli::Codex, Failure::Cut);
    codex_fails_at_a_stall: fails_soon(Cli::Codex, Failure::Stall);
}
