//! Tests with Claude Code, from a shell and over ACP.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use segue_catalog::{ClaudeReader, Reader};
use segue_testkit::model::{ScriptedCall, Reply};
use segue_testkit::sandbox::{SandboxCli, DEFAULT_CLI_TIMEOUT, Sandbox};
use serde_json::{Value, json};

use crate::real::corpus::{MakeReader, keep};
use crate::real::session::{find, read, script};
use crate::story::story;

const VERSION: &str = "2.1.325";
/// Version of Claude Code inside the ACP adapter.
const ACP_VERSION: &str = "2.1.312";

const READER: MakeReader = |home| Box::new(ClaudeReader::new(home));

const LOOKED: &str = r#"1 finished
  user: look around
  thought: What is here?
  assistant: I look.
  call Bash {"command":"echo hi-from-here"}
  result of Bash ok: "hi-from-here"
  assistant: It says hi.
"#;

fn sandbox() -> Sandbox {
    Sandbox::new(
        script("What is here?")
            .with_rule(
                "two at once",
                [
                    Reply::from_call(ScriptedCall::shell("sleep 0.3; echo slow")).with_call(ScriptedCall::shell("exit 3")),
                    Reply::from_text("One was slow, one failed."),
                ],
            )
            .with_rule(
                "work slowly",
                [
                    Reply::from_call(ScriptedCall::shell("sleep 3; echo slow")),
                    Reply::from_text("I am done."),
                ],
            ),
    )
}

/// Runs a prompt, and returns the session's id.
fn prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let always = ["-p", "--output-format=json", "--allowedTools=Bash"];
    let ran = sandbox.run(SandboxCli::Claude, always.iter().chain(args));
    let told = ran.json_lines();
    let id = told.first().and_then(|told| told["session_id"].as_str());
    id.unwrap_or_else(|| panic!("{ran:#?}")).to_owned()
}

fn reader(sandbox: &Sandbox) -> ClaudeReader {
    ClaudeReader::new(sandbox.home().join(".claude"))
}

fn told(sandbox: &Sandbox, id: &str) -> String {
    let reader = reader(sandbox);
    story(&read(&reader, &find(&reader, id)))
}

fn records(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let path = find(&reader(sandbox), id).path;
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_and_again_after_a_resume_and_a_fork() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look around"]);
    assert_eq!(told(&sandbox, &id), LOOKED);
    let head = reader(&sandbox)
        .read_head(&find(&reader(&sandbox), &id))
        .unwrap();
    assert_eq!(head.cwd.as_deref(), sandbox.project().to_str());
    assert_eq!(head.first_prompt.as_deref(), Some("look around"));
    assert_eq!(head.agent_version.as_deref(), Some(VERSION));

    assert_eq!(prompt(&sandbox, &["--resume", &id, "and then?"]), id);
    let resumed = "2 finished\n  user: and then?\n  assistant: You said: and then?\n";
    assert_eq!(told(&sandbox, &id), [LOOKED, resumed].concat());

    let fork = prompt(
        &sandbox,
        &["--resume", &id, "--fork-session", "another way"],
    );
    assert_ne!(fork, id);
    let forked = "3 finished\n  user: another way\n  assistant: You said: another way\n";
    assert_eq!(told(&sandbox, &fork), [LOOKED, resumed, forked].concat());
    assert_eq!(told(&sandbox, &id), [LOOKED, resumed].concat());
    keep(&sandbox, VERSION, "resumed-and-forked", ".claude", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_was_rewound_no_longer_counts_and_what_was_compacted_still_does() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look around"]);
    let answer = records(&sandbox, &id)
        .into_iter()
        .rfind(|record| record["type"] == "assistant")
        .unwrap();
    prompt(&sandbox, &["--resume", &id, "not this"]);
    let at = answer["uuid"].as_str().unwrap();
    prompt(
        &sandbox,
        &["--resume", &id, "--resume-session-at", at, "but this"],
    );
    let rewound = "2 finished\n  user: but this\n  assistant: You said: but this\n";
    assert_eq!(told(&sandbox, &id), [LOOKED, rewound].concat());

    prompt(&sandbox, &["--resume", &id, "/compact"]);
    prompt(&sandbox, &["--resume", &id, "go on"]);
    let rewound = rewound.replacen("finished", "finished, compacted", 1);
    let compacted = "3 finished\n  user: /compact\n  system: Compacted (ctrl+o to see full summary)\n\
                     4 finished\n  user: go on\n  assistant: You said: go on\n";
    assert_eq!(told(&sandbox, &id), [LOOKED, &rewound, compacted].concat());
    keep(
        &sandbox,
        VERSION,
        "rewound-and-compacted",
        ".claude",
        READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn parallel_calls_and_failures_are_read_back() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["two at once"]);
    prompt(&sandbox, &["--resume", &id, "break"]);
    let turns = read(&reader(&sandbox), &find(&reader(&sandbox), &id));
    let story = story(&turns);
    let calls = [
        r#"call Bash {"command":"sleep 0.3; echo slow"}"#,
        r#"call Bash {"command":"exit 3"}"#,
        "result of Bash ok: \"slow\"",
        "result of Bash failed: \"Exit code 3\"",
        "assistant: One was slow, one failed.",
    ];
    for call in calls {
        assert!(story.contains(call), "{call} in\n{story}");
    }
    assert!(story.contains("2 failed\n  user: break\n"), "{story}");
    let usage = turns[0].usage;
    // Two requests, each of 101 tokens, 7 written to a cache and 11 read from it.
    assert_eq!(usage.input_tokens, Some(2 * (101 + 7 + 11)));
    assert_eq!(usage.output_tokens, Some(2 * 20));
    assert_eq!(usage.context_tokens, Some(101 + 7 + 11 + 20));
    keep(&sandbox, VERSION, "parallel-and-failed", ".claude", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn over_acp_the_same_is_read_back_and_what_was_cancelled_is_marked() {
    let sandbox = sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::ClaudeAcp);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let first_words = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", first_words);
    acp.prompt(&id, "go on");
    let story = told(&sandbox, &id);
    let (looked, rest) = story.split_at(LOOKED.len());
    assert_eq!(looked, LOOKED);
    assert!(rest.starts_with("2 cancelled\n  user: hang\n"), "{rest}");
    assert!(rest.ends_with("3 finished\n  user: go on\n  assistant: You said: go on\n"));
    drop(acp);

    let mut acp = sandbox.start_acp(SandboxCli::ClaudeAcp);
    acp.load_session(&id).unwrap();
    acp.prompt(&id, "once more");
    let loaded = "4 finished\n  user: once more\n  assistant: You said: once more\n";
    assert_eq!(told(&sandbox, &id), [&story, loaded].concat());
    let fork = acp.fork_session(&id).unwrap();
    acp.prompt(&fork, "elsewhere");
    let forked = "5 finished\n  user: elsewhere\n  assistant: You said: elsewhere\n";
    assert_eq!(told(&sandbox, &fork), [&story, loaded, forked].concat());
    drop(acp);
    keep(&sandbox, ACP_VERSION, "acp", ".claude", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_was_said_while_it_worked_and_commands_to_the_program_are_read_back() {
    let sandbox = sandbox();
    let mut command = sandbox.cli_command(SandboxCli::Claude);
    command.args([
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--allowedTools=Bash",
    ]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut claude = piped.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = claude.stdin.take().unwrap();
    let mut ask = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        let line = json!({"type": "user", "message": {"role": "user", "content": content}});
        writeln!(stdin, "{line}").unwrap();
    };
    ask("work slowly");
    assert!(sandbox.model().wait_for_turn_requests(1, DEFAULT_CLI_TIMEOUT));
    thread::sleep(Duration::from_secs(1));
    ask("and hurry");
    let lines = BufReader::new(claude.stdout.take().unwrap()).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut results = events.filter(|event| event["type"] == "result");
    let id = results.next().unwrap()["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    ask("/cost");
    results.next().unwrap();
    drop(stdin);
    claude.wait().unwrap();
    let story = told(&sandbox, &id);
    let worked = "1 finished\n  user: work slowly\n  call Bash {\"command\":\"sleep 3; echo slow\"}\n  \
                  result of Bash ok: \"slow\"\n  user: and hurry\n";
    assert!(story.starts_with(worked), "{story}");
    // `/cost` is an alias of `/usage`.
    let used = "2 finished\n  user: /usage\n  system: Total cost:";
    assert!(story.contains(used), "{story}");
}
