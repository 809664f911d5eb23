//! The agent's end of a connection, controlled by the test.

use std::path::Path;

use segue_acp::{AcpError, Client, Step, Terms};
use segue_core::session::{AgentEvent, StopReason};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};

/// Returns the options for a session in the root directory without MCP servers.
pub(crate) fn here() -> Terms<'static> {
    Terms {
        cwd: Path::new("/"),
        mcp: &[],
    }
}

/// The agent's end of the connection.
pub(crate) struct Peer {
    pub(crate) lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) output: WriteHalf<DuplexStream>,
}

impl Peer {
    /// Returns the next message from the client.
    pub(crate) async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    pub(crate) async fn print(&mut self, line: &str) {
        self.output
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Receives a request of this method and answers it.
    pub(crate) async fn answer(&mut self, method: &str, result: Value) {
        let request = self.hear().await;
        assert_eq!(request["method"], method);
        self.print(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string())
            .await;
    }

    pub(crate) async fn refuse(&mut self, method: &str, error: Value) {
        let request = self.hear().await;
        assert_eq!(request["method"], method);
        self.print(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string())
            .await;
    }

    pub(crate) async fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.print(
            &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string(),
        )
        .await;
    }

    pub(crate) async fn greet(&mut self, capabilities: Value) {
        let welcome = json!({
            "protocolVersion": 1, "agentCapabilities": capabilities,
            "agentInfo": { "name": "peer", "version": "7.7" }
        });
        let hello = self.hear().await;
        assert_eq!(hello["method"], "initialize");
        // Agents report compactions only to a client that has this capability.
        let session = &hello["params"]["clientCapabilities"]["session"];
        assert_eq!(session["compaction"], json!({}), "{hello}");
        self.print(&json!({ "jsonrpc": "2.0", "id": hello["id"], "result": welcome }).to_string())
            .await;
    }
}

pub(crate) fn text(words: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": words } })
}

/// Creates a connection: the client's reading and writing halves, and the peer.
pub(crate) fn ends() -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>, Peer) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (our_input, our_output) = split(ours);
    let (input, output) = split(theirs);
    let lines = BufReader::new(input).lines();
    (our_input, our_output, Peer { lines, output })
}

/// Connects a client to a peer with these capabilities.
pub(crate) async fn connected(capabilities: Value) -> (Client, Peer) {
    let (input, output, mut peer) = ends();
    let (client, ()) = tokio::join!(
        Client::connect(input, output, "0.0.0"),
        peer.greet(capabilities)
    );
    (client.unwrap(), peer)
}

/// Returns a client in the session `s1`, after a prompt that the peer has received, and the id of that prompt.
pub(crate) async fn prompted() -> (Client, Peer, Value) {
    let (mut client, mut peer) = connected(json!({})).await;
    let made = peer.answer("session/new", json!({ "sessionId": "s1" }));
    let (id, ()) = tokio::join!(client.new_session(here()), made);
    assert_eq!(id.unwrap().as_str(), "s1");
    client.prompt("go").unwrap();
    let request = peer.hear().await;
    assert_eq!(request["params"]["prompt"][0]["text"], "go");
    (client, peer, request["id"].clone())
}

/// Returns the events up to the end of the turn, and its result.
pub(crate) async fn to_the_end(
    client: &mut Client,
) -> (Vec<AgentEvent>, Result<StopReason, AcpError>) {
    let mut events = Vec::new();
    loop {
        match client.next().await {
            Step::Event(event) => events.push(event),
            Step::Ask(..) => panic!("nobody asked"),
            Step::Done(end) => return (events, end.map(|end| end.reason)),
        }
    }
}

pub(crate) fn ends_turn(id: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "end_turn" } }).to_string()
}
