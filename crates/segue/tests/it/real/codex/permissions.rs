//! What Codex may do, and who says so.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use segue_core::agent::{
    McpEndpoint, McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest,
};
use segue_core::session::{AgentEvent, FailureClass, OpenMode, StopReason};
use segue_testkit::model::{ScriptedCall, Reply, Script};
use serde_json::json;

use super::direct::{Direct, Wanted};
use super::nobody;

/// The user's configuration says that nobody is asked and that everything may be done; here it does not count.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn app_server_asks_before_it_acts() {
    let script = Script::new()
        .with_rule(
            "run",
            [
                Reply::from_call(ScriptedCall::shell("touch made.txt")),
                Reply::from_text("done"),
            ],
        )
        .with_rule(
            "write",
            [
                Reply::from_call(ScriptedCall::write("new.txt", "hello\n")),
                Reply::from_text("done"),
            ],
        )
        .with_rule(
            "look",
            [
                Reply::from_call(ScriptedCall::shell("cat README.md")),
                Reply::from_text("done"),
            ],
        );
    let codex = Direct::new("app-server", script);
    let mut conversation = codex.begin();
    let there = |name: &str| codex.sandbox.project().join(name).exists();
    for (prompt, file, kind) in [("run", "made.txt", "execute"), ("write", "new.txt", "edit")] {
        let refused = codex.turn(conversation.as_mut(), prompt, PermissionRequest::reject_answer);
        assert_eq!(refused.asked.len(), 1, "{prompt}: {:?}", refused.events);
        assert_eq!(refused.asked[0].call.kind, kind);
        assert_eq!(refused.text(), "done");
        assert!(!there(file), "{prompt} was refused and done");
        let allowed = codex.turn(conversation.as_mut(), prompt, PermissionRequest::allow_answer);
        assert_eq!(allowed.asked.len(), 1, "{prompt}: {:?}", allowed.events);
        assert!(there(file), "{prompt} was allowed and not done");
    }
    let read = codex.turn(conversation.as_mut(), "look", PermissionRequest::allow_answer);
    assert_eq!(read.asked[0].call.kind, "read");
    let printed = read.events.iter().any(|event| {
        matches!(event, AgentEvent::Tool(call) if call.output.as_ref().is_some_and(|output| output.as_str().contains("A project")))
    });
    assert!(printed, "{:?}", read.events);
    // Not answering is stopping, and the conversation goes on after that.
    let stopped = codex.turn(conversation.as_mut(), "run", |_| {
        PermissionAnswer::Cancelled
    });
    assert_eq!(stopped.end.unwrap().reason, StopReason::Cancelled);
    // What is allowed for good is not asked for again, in the same process.
    let always = |request: &PermissionRequest| {
        let option = request
            .options
            .iter()
            .find(|option| option.id.contains("Session"));
        PermissionAnswer::Selected(option.unwrap().id.clone())
    };
    codex.turn(conversation.as_mut(), "run", always);
    let again = codex.turn(conversation.as_mut(), "run", nobody);
    assert_eq!(again.text(), "done");
    codex.close(conversation);
    assert_eq!(codex.sandbox.processes(), Vec::<String>::new());
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_thread_that_is_resumed_asks_too() {
    let script = Script::new().with_rule(
        "run",
        [
            Reply::from_call(ScriptedCall::shell("touch made.txt")),
            Reply::from_text("done"),
        ],
    );
    let codex = Direct::new("app-server", script);
    // Codex's own program made it, where nobody is asked.
    let ran = codex.sandbox.run(
        segue_testkit::sandbox::SandboxCli::Codex,
        ["exec", "--json", "hello"],
    );
    let id = ran.json_lines()[0]["thread_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let opening = codex.resume(&id);
    assert_eq!(opening.open_mode, OpenMode::Resumed);
    let mut conversation = opening.connection;
    let refused = codex.turn(conversation.as_mut(), "run", PermissionRequest::reject_answer);
    assert_eq!(refused.asked.len(), 1, "{:?}", refused.events);
    assert!(!codex.sandbox.project().join("made.txt").exists());
    codex.close(conversation);
}

/// Another repository than the one that Codex is told to trust.
fn other_repository(codex: &Direct) -> PathBuf {
    let other = codex.sandbox.path().join("other");
    fs::create_dir(&other).unwrap();
    let git = codex.sandbox.path().join("bin/git");
    let made = Command::new(git)
        .arg("init")
        .arg("--quiet")
        .arg(&other)
        .status();
    assert!(made.unwrap().success());
    other
}

/// Codex notes down that the user trusts a repository as soon as it may write there.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_folder_is_not_trusted_on_the_side() {
    use PermissionPolicy::{AllowAll, AllowEdits, Ask};
    let cases = [
        ("app-server", Some("workspace-write"), AllowEdits),
        ("app-server", None, AllowAll),
        ("exec", Some("workspace-write"), AllowEdits),
        ("exec", None, AllowAll),
        ("acp", Some("workspace-write"), AllowEdits),
        ("acp", None, AllowAll),
        ("acp", None, Ask),
    ];
    for (transport, mode, permissions) in cases {
        let codex = Direct::with(transport, Script::new(), |settings| {
            settings.mode = mode.map(str::to_owned);
        });
        if transport == "acp" {
            codex.configure("sandbox_mode = \"danger-full-access\"\n", "");
        }
        // A folder above it does not count.
        let above = codex.sandbox.path().canonicalize().unwrap();
        let decided = format!("[projects.{above:?}]\ntrust_level = \"trusted\"\n");
        codex.configure("[analytics]", &format!("{decided}\n[analytics]"));
        let other = other_repository(&codex);
        let inside = other.join("deep/inside");
        fs::create_dir_all(&inside).unwrap();
        let before = codex.config();
        for cwd in [other, inside] {
            let wanted = Wanted {
                cwd,
                permissions,
                ..codex.wanted()
            };
            let mut conversation = codex.open(wanted).unwrap().connection;
            let turned = codex.turn(conversation.as_mut(), "hello", nobody);
            assert_eq!(turned.text(), "You said: hello", "{transport} {mode:?}");
            codex.close(conversation);
        }
        assert_eq!(codex.config(), before, "{transport} {mode:?}");
    }
}

/// With a configuration that lets it write, the adapter can't be kept from that, whatever its mode.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_adapter_does_not_work_where_a_folder_would_be_trusted_on_the_side() {
    for sandbox in ["danger-full-access", "workspace-write"] {
        let codex = Direct::new("acp", Script::new());
        codex.configure("danger-full-access", sandbox);
        let other = other_repository(&codex);
        let wanted = || Wanted {
            cwd: other.clone(),
            ..codex.wanted()
        };
        let before = codex.config();
        let error = codex.open(wanted()).err().unwrap();
        assert_eq!(error.class(), FailureClass::UntrustedFolder, "{error:?}");
        assert!(error.to_string().contains(sandbox), "{error}");
        assert_eq!(codex.config(), before);
        let real = other.canonicalize().unwrap();
        let decided = format!("[projects.{real:?}]\ntrust_level = \"untrusted\"\n");
        codex.configure("[analytics]", &format!("{decided}\n[analytics]"));
        let before = codex.config();
        let mut conversation = codex.open(wanted()).unwrap().connection;
        let turned = codex.turn(conversation.as_mut(), "hello", nobody);
        assert_eq!(turned.text(), "You said: hello");
        codex.close(conversation);
        assert_eq!(codex.config(), before);
    }
}

/// A command that the model wants to run outside of the sandbox, which is what the adapter asks for.
fn outside(command: &str) -> ScriptedCall {
    let input = json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "why not"});
    ScriptedCall::tool("exec_command", input)
}

/// What the adapter calls a read or a search may be anything.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_adapter_is_not_believed_what_a_command_does() {
    let cases = [
        ("look", "cat README.md", "read"),
        ("search", "find . -name x -delete", "execute"),
        ("copy", "cat README.md | tee made.txt", "execute"),
        ("list", "ls | xargs touch", "execute"),
        ("make", "touch made.txt", "execute"),
    ];
    let script = cases.iter().fold(Script::new(), |script, case| {
        let (prompt, command, _) = case;
        script.with_rule(
            prompt,
            [Reply::from_call(outside(command)), Reply::from_text("done")],
        )
    });
    let codex = Direct::new("acp", script);
    let mut conversation = codex.begin();
    for (prompt, command, kind) in cases {
        let turned = codex.turn(conversation.as_mut(), prompt, PermissionRequest::allow_answer);
        assert_eq!(turned.asked.len(), 1, "{command}: {:?}", turned.events);
        let asked = &turned.asked[0];
        assert_eq!(asked.call.name, command, "{asked:?}");
        assert_eq!(asked.call.kind, kind, "{command}");
        let reads = PermissionPolicy::AllowReads.answer(asked);
        assert_eq!(reads.is_some(), kind == "read", "{command}");
        let last = turned.events.iter().rev().find_map(|event| match event {
            AgentEvent::Tool(call) => Some(call.kind.as_str()),
            _ => None,
        });
        assert_eq!(last, Some(kind), "{command}: {:?}", turned.events);
        if kind != "read" {
            let believed = turned.events.iter().any(|event| {
                matches!(event, AgentEvent::Tool(call) if ["read", "search"].contains(&call.kind.as_str()))
            });
            assert!(!believed, "{command}: {:?}", turned.events);
        }
    }
    codex.close(conversation);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_exec_may_do_follows_from_the_policy() {
    let cases = [
        (PermissionPolicy::Ask, false),
        (PermissionPolicy::Deny, false),
        (PermissionPolicy::AllowEdits, true),
        (PermissionPolicy::AllowAll, true),
    ];
    for (permissions, done) in cases {
        let script = Script::new().with_rule(
            "run",
            [
                Reply::from_call(ScriptedCall::shell("touch made.txt")),
                Reply::from_text("done"),
            ],
        );
        let codex = Direct::new("exec", script);
        let wanted = Wanted {
            permissions,
            ..codex.wanted()
        };
        let mut conversation = codex.open(wanted).unwrap().connection;
        assert_eq!(conversation.native_id(), None);
        let turned = codex.turn(conversation.as_mut(), "run", nobody);
        assert_eq!(turned.text(), "done");
        assert!(conversation.native_id().is_some());
        codex.close(conversation);
        let there = codex.sandbox.project().join("made.txt").exists();
        assert_eq!(there, done, "{permissions:?}");
    }
}

/// A server with one tool, `ping`.
const SERVER: &str = r#"
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    "initialize": { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } },
    "tools/list": { tools: [{ name: "ping", description: "pings", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: ["pong", process.env.WHO, process.env.HOME].join(" ") }] },
  };
  const result = results[method];
  const answer = result ? { result } : { error: { code: -32601, message: "no" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
});
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn only_our_own_tools_need_no_permission() {
    let ping = |server: &str| ScriptedCall::tool(&format!("mcp__{server}__ping"), json!({}));
    let script = Script::new()
        .with_rule("ours", [Reply::from_call(ping("segue")), Reply::from_text("done")])
        .with_rule(
            "theirs",
            [Reply::from_call(ping("other")), Reply::from_text("done")],
        );
    for transport in ["app-server", "exec"] {
        let codex = Direct::new(transport, script.clone());
        let program = codex.sandbox.path().join("server.js");
        fs::write(&program, SERVER).unwrap();
        let server = |name: &str| McpServer {
            name: name.to_owned(),
            endpoint: McpEndpoint::Program {
                command: codex
                    .sandbox
                    .path()
                    .join("bin/node")
                    .to_str()
                    .unwrap()
                    .to_owned(),
                args: vec![program.to_str().unwrap().to_owned()],
                // Codex itself needs its own home, and its own key for the model.
                env: ["WHO", "HOME", "STUB_KEY"]
                    .map(|variable| (variable.to_owned(), name.to_owned()))
                    .to_vec(),
            },
        };
        let wanted = Wanted {
            // For a model that it knows Codex offers such tools only to those who search for them.
            model: Some("stub-model".to_owned()),
            mcp: vec![server("segue"), server("other")],
            ..codex.wanted()
        };
        let mut conversation = codex.open(wanted).unwrap().connection;
        let output = |events: &[AgentEvent]| -> String {
            let outputs = events.iter().filter_map(|event| match event {
                AgentEvent::Tool(call) => call.output.as_ref().map(|json| json.as_str().to_owned()),
                _ => None,
            });
            outputs.collect()
        };
        let ours = codex.turn(conversation.as_mut(), "ours", nobody);
        assert!(
            output(&ours.events).contains("pong segue segue"),
            "{transport}: {:?}",
            ours.events
        );
        let refused = codex.turn(conversation.as_mut(), "theirs", PermissionRequest::reject_answer);
        assert!(
            !output(&refused.events).contains("pong"),
            "{transport}: {:?}",
            refused.events
        );
        if transport == "app-server" {
            assert_eq!(refused.asked[0].call.name, "other.ping");
            let allowed = codex.turn(
                conversation.as_mut(),
                "theirs",
                PermissionRequest::allow_answer,
            );
            assert!(
                output(&allowed.events).contains("pong other other"),
                "{:?}",
                allowed.events
            );
        }
        codex.close(conversation);
    }
}
