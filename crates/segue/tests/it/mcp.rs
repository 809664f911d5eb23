//! `segue mcp`, tested through a pipe with literal messages.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use insta::assert_snapshot;
use segue_testkit::TestHome;
use serde_json::{Value, json};

use crate::mcp_tools::{NATIVE_ID, title_and_source, write_claude_session};
use crate::new_test_home;

/// Returns the metadata that a client of the newest protocol sends with every request instead of a handshake.
fn inline_metadata() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    })
}

/// A running server and a minimal client.
pub(crate) struct McpTestServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    request_count: u64,
}

impl McpTestServer {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let mut command = home.segue_command(["mcp"]);
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            request_count: 0,
        }
    }

    /// Starts a server and completes the handshake.
    pub(crate) fn start_initialized(home: &TestHome, args: &[&str]) -> Self {
        let mut server = Self::start(home, args);
        server.initialize("2025-11-25");
        server
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Reads the next message. Panics if the line is not a message.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).unwrap() > 0,
            "the server ended"
        );
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// Sends a request and returns its response.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.request_count += 1;
        let id = self.request_count;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string());
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn initialize(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}
        });
        let answer = self.request("initialize", &params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer["result"].clone()
    }

    /// Calls a tool and returns its text, or its error.
    pub(crate) fn call_tool(&mut self, tool: &str, arguments: &Value) -> Result<String, String> {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        if result["isError"] == true {
            Err(text)
        } else {
            Ok(text)
        }
    }

    /// Closes the input of the server and returns the exit code.
    pub(crate) fn shut_down(self) -> Option<i32> {
        let Self {
            mut child,
            input,
            mut output,
            ..
        } = self;
        drop(input);
        let code = child.wait().unwrap().code();
        let mut remaining_output = String::new();
        assert_eq!(
            output.read_line(&mut remaining_output).unwrap(),
            0,
            "{remaining_output:?}"
        );
        code
    }
}

/// Sends a prompt to the rehearsal agent and returns the session id.
pub(crate) fn run_chat(home: &TestHome, args: &[&str]) -> String {
    let mut all = vec!["chat", "--json"];
    all.extend(args);
    let turn = home.run_segue_json(all);
    turn["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn every_protocol_version_is_negotiated() {
    let home = new_test_home();
    for (requested, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        // A version without a handshake, or an unknown one, gives the newest version with a handshake.
        ("2026-07-28", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ] {
        let mut server = McpTestServer::start(&home, &[]);
        let result = server.initialize(requested);
        assert_eq!(result["protocolVersion"], agreed, "{requested}");
        assert_eq!(result["serverInfo"]["name"], "segue");
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        let tools = server.request("tools/list", &json!({}))["result"]["tools"].clone();
        assert_eq!(tools.as_array().unwrap().len(), 3, "{tools}");
        assert_eq!(server.shut_down(), Some(0));
    }
}

#[test]
fn a_client_may_discover_the_server_before_the_handshake() {
    let home = new_test_home();
    let meta = json!({"_meta": inline_metadata()});
    // The client uses the newest version, which has no handshake.
    let mut server = McpTestServer::start(&home, &[]);
    let discovery = server.request("server/discover", &meta)["result"].clone();
    let versions = discovery["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovery}");
    let tools = server.request("tools/list", &meta)["result"].clone();
    assert_eq!(tools["resultType"], "complete", "{tools}");
    let call =
        json!({"name": "session_search", "arguments": {"query": "x"}, "_meta": inline_metadata()});
    let answer = server.request("tools/call", &call);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(server.shut_down(), Some(0));
    // The client sends a handshake after the discovery.
    let mut server = McpTestServer::start(&home, &[]);
    server.request("server/discover", &meta);
    assert_eq!(
        server.initialize("2025-06-18")["protocolVersion"],
        "2025-06-18"
    );
    assert_eq!(server.shut_down(), Some(0));
    // The client sends no metadata.
    let mut server = McpTestServer::start(&home, &[]);
    assert!(server.request("server/discover", &json!({}))["error"].is_object());
    assert_eq!(
        server.initialize("2025-11-25")["protocolVersion"],
        "2025-11-25"
    );
    assert_eq!(server.shut_down(), Some(0));
}

#[test]
fn the_tool_list_has_schemas_and_annotations() {
    let home = new_test_home();
    let mut server = McpTestServer::start_initialized(&home, &[]);
    let tools = server.request("tools/list", &json!({}))["result"]["tools"].clone();
    let summaries: Vec<Value> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            json!([
                tool["name"],
                properties.keys().collect::<Vec<_>>(),
                tool["annotations"]["readOnlyHint"],
                tool["annotations"]["destructiveHint"],
                tool["_meta"],
            ])
        })
        .collect();
    let mut lines: Vec<String> = summaries.iter().map(Value::to_string).collect();
    lines.sort();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].contains("session_describe") && lines[0].contains("false,false"));
    for line in &lines[1..] {
        assert!(line.contains("true,false"), "{line}");
    }
    assert!(lines.iter().all(|line| line.contains("alwaysLoad")));
}

#[test]
fn an_unknown_request_is_an_error_and_the_server_continues() {
    let home = new_test_home();
    let mut server = McpTestServer::start_initialized(&home, &[]);
    let code = |answer: Value| answer["error"]["code"].clone();
    assert_eq!(
        code(server.request("resources/nonsense", &json!({}))),
        -32601
    );
    let nameless = json!({"arguments": {}});
    assert_eq!(code(server.request("tools/call", &nameless)), -32602);
    let unknown = server.request("tools/call", &json!({"name": "session_delete"}));
    assert_eq!(code(unknown.clone()), -32602);
    let message = unknown["error"]["message"].as_str().unwrap();
    assert!(message.contains("session_describe"), "{message}");
    assert!(server.request("ping", &json!({}))["result"].is_object());
    assert_eq!(server.shut_down(), Some(0));
}

#[test]
fn garbage_input_does_not_end_the_server() {
    let home = new_test_home();
    let id = run_chat(&home, &["hello"]);
    let mut server = McpTestServer::start(&home, &["--session", &id]);
    let garbage = [
        "no json",
        "",
        "{\"jsonrpc\":\"2.0\"",
        "\u{7}\u{1b}[2J",
        // Valid messages that do not match a request.
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
    ];
    for line in garbage {
        server.send(line);
    }
    server.input.write_all(b"\xff\xfe\n").unwrap();
    server.initialize("2025-11-25");
    for line in garbage {
        server.send(line);
    }
    let reply = server.call_tool("session_describe", &json!({"description": "Still there"}));
    assert_eq!(reply.unwrap(), "The session title is now \"Still there\".");
    // JSON that is not a message may get an error without an id; the next request is answered.
    server.send("[]");
    server.send(r#"{"jsonrpc":"2.0","id":"next","method":"ping"}"#);
    let mut answer = server.receive();
    if answer["error"]["code"] == -32600 {
        answer = server.receive();
    }
    assert_eq!(answer["id"], "next", "{answer}");
    assert_eq!(server.shut_down(), Some(0));
}

#[test]
fn an_unknown_session_is_refused_at_startup() {
    let home = new_test_home();
    write_claude_session(&home, "project");
    assert_snapshot!(home.run_segue(["mcp", "--session", "20200101_000000_aaaa"]), @r#"
    --- stderr
    error: no session matches "[SESSION]"
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
    assert_snapshot!(home.run_segue(["mcp", "--session", NATIVE_ID]), @r#"
    --- stderr
    error: claude:0b5e4c3a-1111-4222-8333-444455556666 is a native session of claude that segue has not adopted
    hint: run `segue session adopt claude:0b5e4c3a-1111-4222-8333-444455556666` to adopt it, or `segue session show claude:0b5e4c3a-1111-4222-8333-444455556666` to read it
    --- exit 1
    "#);
    assert_eq!(home.run_segue(["mcp", "--session", "../x"]).code, Some(2));
    let id = run_chat(&home, &["one"]);
    run_chat(&home, &["two"]);
    assert_eq!(home.run_segue(["mcp", "--session", &id[..8]]).code, Some(2));
}

/// The store is opened by the first tool call, and a failed call does not end the server.
#[test]
fn the_store_is_opened_on_the_first_tool_call() {
    let home = new_test_home();
    fs::write(home.segue_home(), "a file where the directory should be").unwrap();
    let mut server = McpTestServer::start_initialized(&home, &[]);
    assert!(server.request("tools/list", &json!({}))["result"].is_object());
    let failed = server.call_tool("session_search", &json!({"query": "x"}));
    assert!(failed.is_err(), "{failed:?}");
    fs::remove_file(home.segue_home()).unwrap();
    let found = server.call_tool("session_search", &json!({"query": "x"}));
    assert_eq!(found.unwrap(), "No matches.\n");
    assert_eq!(server.shut_down(), Some(0));
}

#[test]
fn the_server_ends_with_its_input() {
    let home = new_test_home();
    // The input ends before the handshake, in the middle of a line, or after the handshake.
    assert_eq!(home.run_segue(["mcp"]).code, Some(0));
    assert_eq!(
        home.run_segue_with_input(["mcp"], b"{\"jsonrpc\"").code,
        Some(0)
    );
    assert_eq!(
        McpTestServer::start_initialized(&home, &[]).shut_down(),
        Some(0)
    );
    home.assert_no_processes();
}

/// The responses follow even though the input has ended.
#[test]
fn requests_before_the_end_of_input_are_answered() {
    let home = new_test_home();
    let id = run_chat(&home, &["hello"]);
    let call = |id: u32, tool: &str| {
        let params = json!({"name": tool, "arguments": {}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let handshake = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let input = format!("{handshake}\n{}\n", call(2, "session_history"));
    let output = home.run_segue_with_input(["mcp", "--session", &id], input.as_bytes());
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout.lines().count(), 2, "{output}");
    assert!(output.stdout.contains("hello"), "{output}");
}

#[test]
fn a_hundred_calls_in_a_row_are_answered() {
    let home = new_test_home();
    let id = run_chat(&home, &["hello"]);
    let mut server = McpTestServer::start_initialized(&home, &["--session", &id]);
    for n in 0..100 {
        let answer = match n % 3 {
            0 => server.call_tool(
                "session_describe",
                &json!({"description": format!("Title {n}")}),
            ),
            1 => server.call_tool("session_history", &json!({})),
            _ => server.call_tool("session_search", &json!({"query": "hello"})),
        };
        assert!(answer.is_ok(), "{n}: {answer:?}");
    }
    assert_eq!(title_and_source(&home, &id).0, "Title 99");
    // The same with concurrent requests.
    for n in 1000..1050 {
        let params = json!({"name": "session_history", "arguments": {}});
        let request = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params});
        server.send(&request.to_string());
    }
    let mut answered: Vec<u64> = (0..50)
        .map(|_| server.receive()["id"].as_u64().unwrap())
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (1000..1050).collect::<Vec<_>>());
    assert_eq!(server.shut_down(), Some(0));
    home.assert_no_processes();
}
