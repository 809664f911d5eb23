//! Permissions and folder trust in Codex.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use segue_core::agent::{
    McpEndpoint, McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest,
};
use segue_core::session::{AgentEvent, FailureClass, OpenMode, StopReason};
use segue_testkit::model::{Reply, Script, ScriptedCall};
use serde_json::json;

use super::direct::{CodexHarness, CodexOpenOptions};
use super::panic_on_permission_request;

/// The user's Codex configuration allows everything without asking; segue overrides it.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_app_server_asks_before_it_acts() {
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
    let codex = CodexHarness::new("app-server", script);
    let mut connection = codex.open_new();
    let file_exists = |name: &str| codex.sandbox.project().join(name).exists();
    for (prompt, file, kind) in [("run", "made.txt", "execute"), ("write", "new.txt", "edit")] {
        let refused = codex.run_turn(
            connection.as_mut(),
            prompt,
            PermissionRequest::reject_answer,
        );
        assert_eq!(
            refused.permission_requests.len(),
            1,
            "{prompt}: {:?}",
            refused.events
        );
        assert_eq!(refused.permission_requests[0].call.kind, kind);
        assert_eq!(refused.text(), "done");
        assert!(!file_exists(file), "{prompt} was refused but executed");
        let allowed = codex.run_turn(connection.as_mut(), prompt, PermissionRequest::allow_answer);
        assert_eq!(
            allowed.permission_requests.len(),
            1,
            "{prompt}: {:?}",
            allowed.events
        );
        assert!(file_exists(file), "{prompt} was allowed but not executed");
    }
    let read = codex.run_turn(connection.as_mut(), "look", PermissionRequest::allow_answer);
    assert_eq!(read.permission_requests[0].call.kind, "read");
    let printed = read.events.iter().any(|event| {
        matches!(event, AgentEvent::Tool(call) if call.output.as_ref().is_some_and(|output| output.as_str().contains("A project")))
    });
    assert!(printed, "{:?}", read.events);
    // A cancelled request stops the turn, and the connection can still be used.
    let stopped = codex.run_turn(connection.as_mut(), "run", |_| PermissionAnswer::Cancelled);
    assert_eq!(stopped.end.unwrap().reason, StopReason::Cancelled);
    // A permission for the session is not requested again in the same process.
    let allow_for_session = |request: &PermissionRequest| {
        let option = request
            .options
            .iter()
            .find(|option| option.id.contains("Session"));
        PermissionAnswer::Selected(option.unwrap().id.clone())
    };
    codex.run_turn(connection.as_mut(), "run", allow_for_session);
    let repeated = codex.run_turn(connection.as_mut(), "run", panic_on_permission_request);
    assert_eq!(repeated.text(), "done");
    codex.close(connection);
    assert_eq!(codex.sandbox.processes(), Vec::<String>::new());
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_resumed_thread_asks_for_permission() {
    let script = Script::new().with_rule(
        "run",
        [
            Reply::from_call(ScriptedCall::shell("touch made.txt")),
            Reply::from_text("done"),
        ],
    );
    let codex = CodexHarness::new("app-server", script);
    // The thread is created by `codex exec`, which does not ask for permission.
    let outcome = codex.sandbox.run(
        segue_testkit::sandbox::SandboxCli::Codex,
        ["exec", "--json", "hello"],
    );
    let id = outcome.json_lines()[0]["thread_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let opened = codex.resume(&id);
    assert_eq!(opened.open_mode, OpenMode::Resumed);
    let mut connection = opened.connection;
    let refused = codex.run_turn(connection.as_mut(), "run", PermissionRequest::reject_answer);
    assert_eq!(refused.permission_requests.len(), 1, "{:?}", refused.events);
    assert!(!codex.sandbox.project().join("made.txt").exists());
    codex.close(connection);
}

/// Creates a repository that Codex is not configured to trust.
fn create_other_repository(codex: &CodexHarness) -> PathBuf {
    let repository = codex.sandbox.path().join("other");
    fs::create_dir(&repository).unwrap();
    let git = codex.sandbox.path().join("bin/git");
    let status = Command::new(git)
        .arg("init")
        .arg("--quiet")
        .arg(&repository)
        .status();
    assert!(status.unwrap().success());
    repository
}

/// Codex records a repository as trusted as soon as it may write to it; segue prevents that.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_folder_is_not_trusted_as_a_side_effect() {
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
        let codex = CodexHarness::with_settings(transport, Script::new(), |settings| {
            settings.mode = mode.map(str::to_owned);
        });
        if transport == "acp" {
            codex.replace_in_config("sandbox_mode = \"danger-full-access\"\n", "");
        }
        // Trust in a parent folder does not apply.
        let parent = codex.sandbox.path().canonicalize().unwrap();
        let trust_entry = format!("[projects.{parent:?}]\ntrust_level = \"trusted\"\n");
        codex.replace_in_config("[analytics]", &format!("{trust_entry}\n[analytics]"));
        let repository = create_other_repository(&codex);
        let nested = repository.join("deep/inside");
        fs::create_dir_all(&nested).unwrap();
        let before = codex.read_config();
        for cwd in [repository, nested] {
            let options = CodexOpenOptions {
                cwd,
                permissions,
                ..codex.default_options()
            };
            let mut connection = codex.open(options).unwrap().connection;
            let turn = codex.run_turn(connection.as_mut(), "hello", panic_on_permission_request);
            assert_eq!(turn.text(), "You said: hello", "{transport} {mode:?}");
            codex.close(connection);
        }
        assert_eq!(codex.read_config(), before, "{transport} {mode:?}");
    }
}

/// segue cannot prevent the adapter from recording trust if the configuration allows writing.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_adapter_is_refused_if_it_would_trust_a_folder() {
    for sandbox_mode in ["danger-full-access", "workspace-write"] {
        let codex = CodexHarness::new("acp", Script::new());
        codex.replace_in_config("danger-full-access", sandbox_mode);
        let repository = create_other_repository(&codex);
        let build_options = || CodexOpenOptions {
            cwd: repository.clone(),
            ..codex.default_options()
        };
        let before = codex.read_config();
        let error = codex.open(build_options()).err().unwrap();
        assert_eq!(error.class(), FailureClass::UntrustedFolder, "{error:?}");
        assert!(error.to_string().contains(sandbox_mode), "{error}");
        assert_eq!(codex.read_config(), before);
        let canonical = repository.canonicalize().unwrap();
        let trust_entry = format!("[projects.{canonical:?}]\ntrust_level = \"untrusted\"\n");
        codex.replace_in_config("[analytics]", &format!("{trust_entry}\n[analytics]"));
        let before = codex.read_config();
        let mut connection = codex.open(build_options()).unwrap().connection;
        let turn = codex.run_turn(connection.as_mut(), "hello", panic_on_permission_request);
        assert_eq!(turn.text(), "You said: hello");
        codex.close(connection);
        assert_eq!(codex.read_config(), before);
    }
}

/// Returns a call of a command outside the sandbox, for which the adapter asks for permission.
fn escalated_command(command: &str) -> ScriptedCall {
    let input = json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "why not"});
    ScriptedCall::tool("exec_command", input)
}

/// The adapter may describe any command as a read or a search.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_adapters_description_of_a_command_is_not_trusted() {
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
            [
                Reply::from_call(escalated_command(command)),
                Reply::from_text("done"),
            ],
        )
    });
    let codex = CodexHarness::new("acp", script);
    let mut connection = codex.open_new();
    for (prompt, command, kind) in cases {
        let turn = codex.run_turn(connection.as_mut(), prompt, PermissionRequest::allow_answer);
        assert_eq!(
            turn.permission_requests.len(),
            1,
            "{command}: {:?}",
            turn.events
        );
        let request = &turn.permission_requests[0];
        assert_eq!(request.call.name, command, "{request:?}");
        assert_eq!(request.call.kind, kind, "{command}");
        let answer = PermissionPolicy::AllowReads.answer(request);
        assert_eq!(answer.is_some(), kind == "read", "{command}");
        let last = turn.events.iter().rev().find_map(|event| match event {
            AgentEvent::Tool(call) => Some(call.kind.as_str()),
            _ => None,
        });
        assert_eq!(last, Some(kind), "{command}: {:?}", turn.events);
        if kind != "read" {
            let has_read_kind = turn.events.iter().any(|event| {
                matches!(event, AgentEvent::Tool(call) if ["read", "search"].contains(&call.kind.as_str()))
            });
            assert!(!has_read_kind, "{command}: {:?}", turn.events);
        }
    }
    codex.close(connection);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_policy_determines_the_permissions_of_exec() {
    let cases = [
        (PermissionPolicy::Ask, false),
        (PermissionPolicy::Deny, false),
        (PermissionPolicy::AllowEdits, true),
        (PermissionPolicy::AllowAll, true),
    ];
    for (permissions, is_allowed) in cases {
        let script = Script::new().with_rule(
            "run",
            [
                Reply::from_call(ScriptedCall::shell("touch made.txt")),
                Reply::from_text("done"),
            ],
        );
        let codex = CodexHarness::new("exec", script);
        let options = CodexOpenOptions {
            permissions,
            ..codex.default_options()
        };
        let mut connection = codex.open(options).unwrap().connection;
        assert_eq!(connection.native_id(), None);
        let turn = codex.run_turn(connection.as_mut(), "run", panic_on_permission_request);
        assert_eq!(turn.text(), "done");
        assert!(connection.native_id().is_some());
        codex.close(connection);
        let is_created = codex.sandbox.project().join("made.txt").exists();
        assert_eq!(is_created, is_allowed, "{permissions:?}");
    }
}

/// An MCP server with one tool, `ping`.
const PING_SERVER_SCRIPT: &str = r#"
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
#[expect(clippy::too_many_lines, reason = "one scenario with many checks")]
fn only_segue_tools_need_no_permission() {
    let ping_call = |server: &str| ScriptedCall::tool(&format!("mcp__{server}__ping"), json!({}));
    let script = Script::new()
        .with_rule(
            "ours",
            [
                Reply::from_call(ping_call("segue")),
                Reply::from_text("done"),
            ],
        )
        .with_rule(
            "theirs",
            [
                Reply::from_call(ping_call("other")),
                Reply::from_text("done"),
            ],
        );
    for transport in ["app-server", "exec"] {
        let codex = CodexHarness::new(transport, script.clone());
        let script_path = codex.sandbox.path().join("server.js");
        fs::write(&script_path, PING_SERVER_SCRIPT).unwrap();
        let build_server = |name: &str| McpServer {
            name: name.to_owned(),
            endpoint: McpEndpoint::Program {
                command: codex
                    .sandbox
                    .path()
                    .join("bin/node")
                    .to_str()
                    .unwrap()
                    .to_owned(),
                args: vec![script_path.to_str().unwrap().to_owned()],
                // Codex itself needs `HOME` and `STUB_KEY`, so the server's values must not replace them.
                env: ["WHO", "HOME", "STUB_KEY"]
                    .map(|variable| (variable.to_owned(), name.to_owned()))
                    .to_vec(),
            },
        };
        let options = CodexOpenOptions {
            // Codex offers MCP tools without a search only to models that it does not know.
            model: Some("stub-model".to_owned()),
            mcp: vec![build_server("segue"), build_server("other")],
            ..codex.default_options()
        };
        let mut connection = codex.open(options).unwrap().connection;
        let tool_output = |events: &[AgentEvent]| -> String {
            let outputs = events.iter().filter_map(|event| match event {
                AgentEvent::Tool(call) => call.output.as_ref().map(|json| json.as_str().to_owned()),
                _ => None,
            });
            outputs.collect()
        };
        let own_tool_turn =
            codex.run_turn(connection.as_mut(), "ours", panic_on_permission_request);
        assert!(
            tool_output(&own_tool_turn.events).contains("pong segue segue"),
            "{transport}: {:?}",
            own_tool_turn.events
        );
        let refused = codex.run_turn(
            connection.as_mut(),
            "theirs",
            PermissionRequest::reject_answer,
        );
        assert!(
            !tool_output(&refused.events).contains("pong"),
            "{transport}: {:?}",
            refused.events
        );
        if transport == "app-server" {
            assert_eq!(refused.permission_requests[0].call.name, "other.ping");
            let allowed = codex.run_turn(
                connection.as_mut(),
                "theirs",
                PermissionRequest::allow_answer,
            );
            assert!(
                tool_output(&allowed.events).contains("pong other other"),
                "{:?}",
                allowed.events
            );
        }
        codex.close(connection);
    }
}
