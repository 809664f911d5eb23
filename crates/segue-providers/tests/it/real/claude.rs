//! Tests with Claude Code, from a shell and over ACP.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use segue_providers::{ClaudeReader, Reader};
use segue_testkit::model::{Reply, ScriptedCall};
use segue_testkit::sandbox::{DEFAULT_CLI_TIMEOUT, Sandbox, SandboxCli};
use serde_json::{Value, json};

use crate::conversation_text::format_turns;
use crate::real::corpus::{ReaderFactory, save_fixture};
use crate::real::session::{cli_script, find_session, read_turns};

const VERSION: &str = "2.1.325";
/// Version of Claude Code inside the ACP adapter.
const ACP_VERSION: &str = "2.1.312";

const NEW_READER: ReaderFactory = |home| Box::new(ClaudeReader::new(home));

const LOOK_AROUND_TURN: &str = r#"1 finished
  user: look around
  thought: What is here?
  assistant: I look.
  call Bash {"command":"echo hi-from-here"}
  result of Bash ok: "hi-from-here"
  assistant: It says hi.
"#;

fn create_sandbox() -> Sandbox {
    Sandbox::new(
        cli_script("What is here?")
            .with_rule(
                "two at once",
                [
                    Reply::from_call(ScriptedCall::shell("sleep 0.3; echo slow"))
                        .with_call(ScriptedCall::shell("exit 3")),
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
fn run_prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let common_args = ["-p", "--output-format=json", "--allowedTools=Bash"];
    let run = sandbox.run(SandboxCli::Claude, common_args.iter().chain(args));
    let events = run.json_lines();
    let id = events
        .first()
        .and_then(|event| event["session_id"].as_str());
    id.unwrap_or_else(|| panic!("{run:#?}")).to_owned()
}

fn open_reader(sandbox: &Sandbox) -> ClaudeReader {
    ClaudeReader::new(sandbox.home().join(".claude"))
}

fn read_session_text(sandbox: &Sandbox, id: &str) -> String {
    let reader = open_reader(sandbox);
    format_turns(&read_turns(&reader, &find_session(&reader, id)))
}

fn read_records(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let path = find_session(&open_reader(sandbox), id).path;
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_after_a_resume_and_a_fork() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["look around"]);
    assert_eq!(read_session_text(&sandbox, &id), LOOK_AROUND_TURN);
    let head = open_reader(&sandbox)
        .read_head(&find_session(&open_reader(&sandbox), &id))
        .unwrap();
    assert_eq!(head.cwd.as_deref(), sandbox.project().to_str());
    assert_eq!(head.first_prompt.as_deref(), Some("look around"));
    assert_eq!(head.agent_version.as_deref(), Some(VERSION));

    assert_eq!(run_prompt(&sandbox, &["--resume", &id, "and then?"]), id);
    let resumed = "2 finished\n  user: and then?\n  assistant: You said: and then?\n";
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, resumed].concat()
    );

    let fork = run_prompt(
        &sandbox,
        &["--resume", &id, "--fork-session", "another way"],
    );
    assert_ne!(fork, id);
    let forked = "3 finished\n  user: another way\n  assistant: You said: another way\n";
    assert_eq!(
        read_session_text(&sandbox, &fork),
        [LOOK_AROUND_TURN, resumed, forked].concat()
    );
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, resumed].concat()
    );
    save_fixture(
        &sandbox,
        VERSION,
        "resumed-and-forked",
        ".claude",
        NEW_READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn rewound_turns_are_dropped_and_compacted_turns_stay() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["look around"]);
    let answer = read_records(&sandbox, &id)
        .into_iter()
        .rfind(|record| record["type"] == "assistant")
        .unwrap();
    run_prompt(&sandbox, &["--resume", &id, "not this"]);
    let answer_uuid = answer["uuid"].as_str().unwrap();
    run_prompt(
        &sandbox,
        &[
            "--resume",
            &id,
            "--resume-session-at",
            answer_uuid,
            "but this",
        ],
    );
    let rewound = "2 finished\n  user: but this\n  assistant: You said: but this\n";
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, rewound].concat()
    );

    run_prompt(&sandbox, &["--resume", &id, "/compact"]);
    run_prompt(&sandbox, &["--resume", &id, "go on"]);
    let rewound = rewound.replacen("finished", "finished, compacted", 1);
    let compacted = "3 finished\n  user: /compact\n  system: Compacted (ctrl+o to see full summary)\n\
                     4 finished\n  user: go on\n  assistant: You said: go on\n";
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, &rewound, compacted].concat()
    );
    save_fixture(
        &sandbox,
        VERSION,
        "rewound-and-compacted",
        ".claude",
        NEW_READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn parallel_calls_and_failures_are_read_back() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["two at once"]);
    run_prompt(&sandbox, &["--resume", &id, "break"]);
    let turns = read_turns(
        &open_reader(&sandbox),
        &find_session(&open_reader(&sandbox), &id),
    );
    let session_text = format_turns(&turns);
    let calls = [
        r#"call Bash {"command":"sleep 0.3; echo slow"}"#,
        r#"call Bash {"command":"exit 3"}"#,
        "result of Bash ok: \"slow\"",
        "result of Bash failed: \"Exit code 3\"",
        "assistant: One was slow, one failed.",
    ];
    for call in calls {
        assert!(session_text.contains(call), "{call} in\n{session_text}");
    }
    assert!(
        session_text.contains("2 failed\n  user: break\n"),
        "{session_text}"
    );
    let usage = turns[0].usage;
    // Two requests, each of 101 tokens, 7 written to a cache and 11 read from it.
    assert_eq!(usage.input_tokens, Some(2 * (101 + 7 + 11)));
    assert_eq!(usage.output_tokens, Some(2 * 20));
    assert_eq!(usage.context_tokens, Some(101 + 7 + 11 + 20));
    save_fixture(
        &sandbox,
        VERSION,
        "parallel-and-failed",
        ".claude",
        NEW_READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_acp_session_is_read_back_with_its_cancelled_turn() {
    let sandbox = create_sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::ClaudeAcp);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let is_first_text = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", is_first_text);
    acp.prompt(&id, "go on");
    let session_text = read_session_text(&sandbox, &id);
    let (first_turn, later_turns) = session_text.split_at(LOOK_AROUND_TURN.len());
    assert_eq!(first_turn, LOOK_AROUND_TURN);
    assert!(
        later_turns.starts_with("2 cancelled\n  user: hang\n"),
        "{later_turns}"
    );
    assert!(later_turns.ends_with("3 finished\n  user: go on\n  assistant: You said: go on\n"));
    drop(acp);

    let mut acp = sandbox.start_acp(SandboxCli::ClaudeAcp);
    acp.load_session(&id).unwrap();
    acp.prompt(&id, "once more");
    let loaded = "4 finished\n  user: once more\n  assistant: You said: once more\n";
    assert_eq!(
        read_session_text(&sandbox, &id),
        [&session_text, loaded].concat()
    );
    let fork = acp.fork_session(&id).unwrap();
    acp.prompt(&fork, "elsewhere");
    let forked = "5 finished\n  user: elsewhere\n  assistant: You said: elsewhere\n";
    assert_eq!(
        read_session_text(&sandbox, &fork),
        [&session_text, loaded, forked].concat()
    );
    drop(acp);
    save_fixture(&sandbox, ACP_VERSION, "acp", ".claude", NEW_READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn prompts_during_a_turn_and_slash_commands_are_read_back() {
    let sandbox = create_sandbox();
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
    let mut send_prompt = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        let line = json!({"type": "user", "message": {"role": "user", "content": content}});
        writeln!(stdin, "{line}").unwrap();
    };
    send_prompt("work slowly");
    assert!(
        sandbox
            .model()
            .wait_for_turn_requests(1, DEFAULT_CLI_TIMEOUT)
    );
    thread::sleep(Duration::from_secs(1));
    send_prompt("and hurry");
    let lines = BufReader::new(claude.stdout.take().unwrap()).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut results = events.filter(|event| event["type"] == "result");
    let id = results.next().unwrap()["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    send_prompt("/cost");
    results.next().unwrap();
    drop(stdin);
    claude.wait().unwrap();
    let session_text = read_session_text(&sandbox, &id);
    let slow_turn = "1 finished\n  user: work slowly\n  call Bash {\"command\":\"sleep 3; echo slow\"}\n  \
                  result of Bash ok: \"slow\"\n  user: and hurry\n";
    assert!(session_text.starts_with(slow_turn), "{session_text}");
    // `/cost` is an alias of `/usage`.
    let usage_turn = "2 finished\n  user: /usage\n  system: Total cost:";
    assert!(session_text.contains(usage_turn), "{session_text}");
}
