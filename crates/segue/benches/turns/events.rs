//! How many events a second come through the protocol's client.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use segue_acp::{Client, ClientEvent, SessionOptions};
use segue_testkit::benchmark::{BenchmarkComparison, Contestant, BenchmarkMode, print_table, measure_rounds, format_verdict};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub(crate) fn measure(extent: BenchmarkMode) {
    let rounds = extent.pick(21, 2);
    let kinds = [
        (
            "a word",
            extent.pick(100_000, 100),
            word as fn(usize) -> Value,
        ),
        ("a kilobyte of text", extent.pick(50_000, 100), kilobyte),
        ("a tool call or its result", extent.pick(50_000, 100), tool),
        (
            "a word, or a tool call after 20",
            extent.pick(100_000, 100),
            mixed,
        ),
    ];
    let rows = kinds.map(|(name, many, update)| row(name, many, update, rounds));
    print_table(
        "Events through the client, each a line of the agent",
        [
            "a line is",
            "bytes",
            "JSON values, a second",
            "client, a second",
            "ratio",
            "aim",
        ],
        &rows,
    );
}

fn row(name: &str, many: usize, update: fn(usize) -> Value, rounds: usize) -> [String; 6] {
    let lines: Vec<u8> = (0..many).flat_map(|n| line(&update(n))).collect();
    let bytes = lines.len() / many;
    let mut bare = Bare::start(lines.clone());
    let mut client = Driven::start(lines);
    let mut contestants = [
        Contestant::new("values", || rate(many, || bare.read())),
        Contestant::new("client", || rate(many, || client.read())),
    ];
    measure_rounds(&mut contestants, rounds);
    let [bare, client] = &contestants;
    let ratio = BenchmarkComparison::from_rounds(client, bare, |client, bare| client / bare);
    [
        name.to_owned(),
        bytes.to_string(),
        format!("{:.0}", bare.median()),
        format!("{:.0}", client.median()),
        ratio.format_cell(),
        format_verdict("at least 0.5", ratio.median >= 0.5),
    ]
}

/// How many a second, when `read` reads them all and says how many there were.
fn rate(many: usize, read: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    let found = read();
    let took = start.elapsed();
    assert_eq!(found, many);
    #[allow(clippy::cast_precision_loss, reason = "some ten thousands")]
    let many = many as f64;
    many / took.as_secs_f64()
}

/// Reads each line, and parses it.
struct Bare {
    input: UnixStream,
    output: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Bare {
    fn start(lines: Vec<u8>) -> Self {
        let input = agent(lines);
        Self {
            output: BufReader::with_capacity(64 * 1024, input.try_clone().unwrap()),
            input,
            line: Vec::new(),
        }
    }

    fn read(&mut self) -> usize {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt" });
        self.input
            .write_all(format!("{request}\n").as_bytes())
            .unwrap();
        let mut found = 0;
        loop {
            self.line.clear();
            self.output.read_until(b'\n', &mut self.line).unwrap();
            let message: Value = serde_json::from_slice(&self.line).unwrap();
            if message.get("id").is_some() {
                return found;
            }
            found += 1;
        }
    }
}

/// The client of the protocol that segue drives agents by.
struct Driven {
    runtime: Runtime,
    client: Client,
}

impl Driven {
    fn start(lines: Vec<u8>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let stream = agent(lines);
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let (output, input) = stream.into_split();
            let mut client = Client::connect(output, input, "0.0.0").await.unwrap();
            let terms = SessionOptions {
                cwd: Path::new("/"),
                mcp_servers: &[],
            };
            client.new_session(terms).await.unwrap();
            client
        });
        Self { runtime, client }
    }

    fn read(&mut self) -> usize {
        let Self { runtime, client } = self;
        runtime.block_on(async {
            client.send_prompt("go").unwrap();
            let mut found = 0;
            loop {
                match client.next_event().await {
                    ClientEvent::AgentEvent(_) => found += 1,
                    ClientEvent::PermissionRequested(..) => panic!("nobody asked"),
                    ClientEvent::TurnEnded(end) => {
                        end.unwrap();
                        return found;
                    }
                }
            }
        })
    }
}

/// An agent that answers each prompt with the same lines, at the other end of what is returned.
fn agent(lines: Vec<u8>) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::spawn(move || serve(theirs, &lines));
    ours
}

fn serve(mut stream: UnixStream, lines: &[u8]) {
    let requests = BufReader::new(stream.try_clone().unwrap());
    for request in requests.lines() {
        let Ok(request) = request else { return };
        let request: Value = serde_json::from_str(&request).unwrap();
        let result = match request["method"].as_str().unwrap() {
            "initialize" => json!({ "protocolVersion": 1, "agentCapabilities": {} }),
            "session/new" => json!({ "sessionId": "s1" }),
            _ => {
                stream.write_all(lines).unwrap();
                json!({ "stopReason": "end_turn" })
            }
        };
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
}

fn line(update: &Value) -> Vec<u8> {
    let params = json!({ "sessionId": "5f0c9a52-8a6e-4c0e-9c1b-2f5d8d1c7e11", "update": update });
    let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    format!("{message}\n").into_bytes()
}

fn text(words: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": words } })
}

fn word(n: usize) -> Value {
    text(&format!("word{} ", n % 100))
}

fn kilobyte(n: usize) -> Value {
    text(&format!("line {n} of a \"file\"\n").repeat(45))
}

/// As in a turn: some words, a call, its result.
fn mixed(n: usize) -> Value {
    match n % 22 {
        20 => tool(n / 22 * 2),
        21 => tool(n / 22 * 2 + 1),
        _ => word(n),
    }
}

fn tool(n: usize) -> Value {
    let id = format!("call-{}", n / 2);
    if n.is_multiple_of(2) {
        json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": "Read src/parser.rs", "kind": "read",
            "status": "in_progress", "rawInput": { "path": "src/parser.rs", "line": n },
            "locations": [{ "path": "/project/src/parser.rs", "line": 17 }]
        })
    } else {
        let output = "fn parse(input: &str) -> Result<Tree, Error> {\n".repeat(8);
        json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": output } }],
            "rawOutput": { "output": output }
        })
    }
}
