//! The agent's end of a connection, controlled by the test.

use std::path::Path;

use segue_acp::{AcpError, Client, ClientEvent, SessionOptions};
use segue_core::session::{AgentEvent, StopReason};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};

/// Returns the options for a session in the root directory without MCP servers.
pub(crate) fn root_dir_options() -> SessionOptions<'static> {
    SessionOptions {
        cwd: Path::new("/"),
        mcp_servers: &[],
    }
}

/// The agent's end of the connection.
pub(crate) struct Peer {
    pub(crate) lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) output: WriteHalf<DuplexStream>,
}

impl Peer {
    /// Returns the next message from the client.
    pub(crate) async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        self.output
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Receives a request of this method and answers it.
    pub(crate) async fn answer_request(&mut self, method: &str, result: Value) {
        let request = self.receive().await;
        assert_eq!(request["method"], method);
        self.send_line(
            &json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string(),
        )
        .await;
    }

    pub(crate) async fn reject_request(&mut self, method: &str, error: Value) {
        let request = self.receive().await;
        assert_eq!(request["method"], method);
        self.send_line(
            &json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string(),
        )
        .await;
    }

    pub(crate) async fn send_update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.send_line(
            &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string(),
        )
        .await;
    }

    pub(crate) async fn answer_initialize(&mut self, capabilities: Value) {
        let response = json!({
            "protocolVersion": 1, "agentCapabilities": capabilities,
            "agentInfo": { "name": "peer", "version": "7.7" }
        });
        let request = self.receive().await;
        assert_eq!(request["method"], "initialize");
        // Agents report compactions only to a client that has this capability.
        let session = &request["params"]["clientCapabilities"]["session"];
        assert_eq!(session["compaction"], json!({}), "{request}");
        self.send_line(
            &json!({ "jsonrpc": "2.0", "id": request["id"], "result": response }).to_string(),
        )
        .await;
    }
}

pub(crate) fn text_update(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

/// Creates a connection: the client's reading and writing halves, and the peer.
pub(crate) fn connect_streams() -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>, Peer) {
    let (client_stream, peer_stream) = tokio::io::duplex(64 * 1024);
    let (client_input, client_output) = split(client_stream);
    let (input, output) = split(peer_stream);
    let lines = BufReader::new(input).lines();
    (client_input, client_output, Peer { lines, output })
}

/// Connects a client to a peer with these capabilities.
pub(crate) async fn connect_client(capabilities: Value) -> (Client, Peer) {
    let (input, output, mut peer) = connect_streams();
    let (client, ()) = tokio::join!(
        Client::connect(input, output, "0.0.0"),
        peer.answer_initialize(capabilities)
    );
    (client.unwrap(), peer)
}

/// Returns a client in the session `s1`, after a prompt that the peer has received, and the id of that prompt.
pub(crate) async fn start_prompt() -> (Client, Peer, Value) {
    let (mut client, mut peer) = connect_client(json!({})).await;
    let answer = peer.answer_request("session/new", json!({ "sessionId": "s1" }));
    let (id, ()) = tokio::join!(client.new_session(root_dir_options()), answer);
    assert_eq!(id.unwrap().as_str(), "s1");
    client.send_prompt("go").unwrap();
    let request = peer.receive().await;
    assert_eq!(request["params"]["prompt"][0]["text"], "go");
    (client, peer, request["id"].clone())
}

/// Returns the events up to the end of the turn, and its result.
pub(crate) async fn collect_turn(
    client: &mut Client,
) -> (Vec<AgentEvent>, Result<StopReason, AcpError>) {
    let mut events = Vec::new();
    loop {
        match client.next_event().await {
            ClientEvent::AgentEvent(event) => events.push(event),
            ClientEvent::PermissionRequested(..) => panic!("unexpected permission request"),
            ClientEvent::TurnEnded(end) => return (events, end.map(|end| end.reason)),
        }
    }
}

pub(crate) fn end_turn_response(id: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "end_turn" } }).to_string()
}
