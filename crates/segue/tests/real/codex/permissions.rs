//! What Codex may do, and who says so.

use std::fs;
use std::process::Command;

use segue_core::{
    AgentEvent, McpReach, McpServer, Opened, PermissionAnswer, PermissionPolicy, PermissionRequest,
    StopReason,
};
use segue_testkit::model::{Call, Reply, Script};
use serde_json::json;

use super::direct::{Direct, Wanted};
use super::nobody;

/// The user's configuration says that nobody is asked and that everything may be done; here it does not count.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn app_server_asks_before_it_acts() {
    let script = Script::new()
        .on(
            "run",
            [
                Reply::calling(Call::shell("touch made.txt")),
                Reply::say("done"),
            ],
        )
        .on(
            "write",
            [
                Reply::calling(Call::write("new.txt", "hello\n")),
                Reply::say("done"),
            ],
        )
        .on(
            "look",
            [
                Reply::calling(Call::shell("cat README.md")),
                Reply::say("done"),
            ],
        );
    let codex = Direct::new("app-server", script);
    let mut conversation = codex.begin();
    let there = |name: &str| codex.sandbox.project().join(name).exists();
    for (prompt, file, kind) in [("run", "made.txt", "execute"), ("write", "new.txt", "edit")] {
        let refused = codex.turn(conversation.as_mut(), prompt, PermissionRequest::reject);
        assert_eq!(refused.asked.len(), 1, "{prompt}: {:?}", refused.events);
        assert_eq!(refused.asked[0].call.kind, kind);
        assert_eq!(refused.text(), "done");
        assert!(!there(file), "{prompt} was refused and done");
        let allowed = codex.turn(conversation.as_mut(), prompt, PermissionRequest::allow_once);
        assert_eq!(allowed.asked.len(), 1, "{prompt}: {:?}", allowed.events);
        assert!(there(file), "{prompt} was allowed and not done");
    }
    let read = codex.turn(conversation.as_mut(), "look", PermissionRequest::allow_once);
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
        PermissionAnswer::Choose(option.unwrap().id.clone())
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
    let script = Script::new().on(
        "run",
        [
            Reply::calling(Call::shell("touch made.txt")),
            Reply::say("done"),
        ],
    );
    let codex = Direct::new("app-server", script);
    // Codex's own program made it, where nobody is asked.
    let ran = codex.sandbox.run(
        segue_testkit::sandbox::Cli::Codex,
        ["exec", "--json", "hello"],
    );
    let id = ran.json_lines()[0]["thread_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let opening = codex.resume(&id);
    assert_eq!(opening.opened, Opened::Resumed);
    let mut conversation = opening.conversation;
    let refused = codex.turn(conversation.as_mut(), "run", PermissionRequest::reject);
    assert_eq!(refused.asked.len(), 1, "{:?}", refused.events);
    assert!(!codex.sandbox.project().join("made.txt").exists());
    codex.close(conversation);
}

/// Codex notes down that the user trusts a repository as soon as it may write there.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_folder_is_not_trusted_on_the_side() {
    for transport in ["app-server", "exec"] {
        let codex = Direct::with(transport, Script::new(), |settings| {
            settings.mode = Some("workspace-write".to_owned());
        });
        let other = codex.sandbox.path().join("other");
        fs::create_dir(&other).unwrap();
        let git = codex.sandbox.path().join("bin/git");
        let made = Command::new(git)
            .arg("init")
            .arg("--quiet")
            .arg(&other)
            .status();
        assert!(made.unwrap().success());
        let before = codex.config();
        let wanted = Wanted {
            cwd: other,
            permissions: PermissionPolicy::AllowEdits,
            ..codex.wanted()
        };
        let mut conversation = codex.open(wanted).unwrap().conversation;
        let turned = codex.turn(conversation.as_mut(), "hello", nobody);
        assert_eq!(turned.text(), "You said: hello", "{transport}");
        codex.close(conversation);
        assert_eq!(codex.config(), before, "{transport}");
    }
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
        let script = Script::new().on(
            "run",
            [
                Reply::calling(Call::shell("touch made.txt")),
                Reply::say("done"),
            ],
        );
        let codex = Direct::new("exec", script);
        let wanted = Wanted {
            permissions,
            ..codex.wanted()
        };
        let mut conversation = codex.open(wanted).unwrap().conversation;
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
    "tools/call": { content: [{ type: "text", text: "pong " + process.env.WHO }] },
  };
  const result = results[method];
  const answer = result ? { result } : { error: { code: -32601, message: "no" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
});
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn only_our_own_tools_need_no_permission() {
    let ping = |server: &str| Call::tool(&format!("mcp__{server}__ping"), json!({}));
    let script = Script::new()
        .on("ours", [Reply::calling(ping("segue")), Reply::say("done")])
        .on(
            "theirs",
            [Reply::calling(ping("other")), Reply::say("done")],
        );
    for transport in ["app-server", "exec"] {
        let codex = Direct::new(transport, script.clone());
        let program = codex.sandbox.path().join("server.js");
        fs::write(&program, SERVER).unwrap();
        let server = |name: &str| McpServer {
            name: name.to_owned(),
            reach: McpReach::Program {
                command: codex
                    .sandbox
                    .path()
                    .join("bin/node")
                    .to_str()
                    .unwrap()
                    .to_owned(),
                args: vec![program.to_str().unwrap().to_owned()],
                env: vec![("WHO".to_owned(), name.to_owned())],
            },
        };
        let wanted = Wanted {
            // For a model that it knows Codex offers such tools only to those who search for them.
            model: Some("stub-model".to_owned()),
            mcp: vec![server("segue"), server("other")],
            ..codex.wanted()
        };
        let mut conversation = codex.open(wanted).unwrap().conversation;
        let output = |events: &[AgentEvent]| -> String {
            let outputs = events.iter().filter_map(|event| match event {
                AgentEvent::Tool(call) => call.output.as_ref().map(|json| json.as_str().to_owned()),
                _ => None,
            });
            outputs.collect()
        };
        let ours = codex.turn(conversation.as_mut(), "ours", nobody);
        assert!(
            output(&ours.events).contains("pong segue"),
            "{transport}: {:?}",
            ours.events
        );
        let refused = codex.turn(conversation.as_mut(), "theirs", PermissionRequest::reject);
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
                PermissionRequest::allow_once,
            );
            assert!(
                output(&allowed.events).contains("pong other"),
                "{:?}",
                allowed.events
            );
        }
        codex.close(conversation);
    }
}
