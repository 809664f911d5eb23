//! Benchmark of the events per second that the ACP client delivers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use segue_acp::{Client, ClientEvent, SessionOptions};
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub(crate) fn measure(mode: BenchmarkMode) {
    let rounds = mode.pick(21, 2);
    let kinds = [
        (
            "a word",
            mode.pick(100_000, 100),
            word_update as fn(usize) -> Value,
        ),
        (
            "a kilobyte of text",
            mode.pick(50_000, 100),
            kilobyte_update,
        ),
        (
            "a tool call or its result",
            mode.pick(50_000, 100),
            tool_update,
        ),
        (
            "a word, or a tool call after 20",
            mode.pick(100_000, 100),
            mixed_update,
        ),
    ];
    let rows =
        kinds.map(|(name, line_count, update)| measure_row(name, line_count, update, rounds));
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

fn measure_row(
    name: &str,
    line_count: usize,
    update: fn(usize) -> Value,
    rounds: usize,
) -> [String; 6] {
    let lines: Vec<u8> = (0..line_count)
        .flat_map(|n| encode_line(&update(n)))
        .collect();
    let bytes = lines.len() / line_count;
    let mut parser = LineParser::start(lines.clone());
    let mut client = ClientDriver::start(lines);
    let mut contestants = [
        Contestant::new("values", || {
            measure_rate(line_count, || parser.count_messages())
        }),
        Contestant::new("client", || {
            measure_rate(line_count, || client.count_events())
        }),
    ];
    measure_rounds(&mut contestants, rounds);
    let [parser_result, client_result] = &contestants;
    let ratio = BenchmarkComparison::from_rounds(
        client_result,
        parser_result,
        |client_rate, parser_rate| client_rate / parser_rate,
    );
    [
        name.to_owned(),
        bytes.to_string(),
        format!("{:.0}", parser_result.median()),
        format!("{:.0}", client_result.median()),
        ratio.format_cell(),
        format_verdict("at least 0.5", ratio.median >= 0.5),
    ]
}

/// Returns the lines per second. `read` reads all of them and returns their number.
fn measure_rate(line_count: usize, read: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    let count = read();
    let elapsed = start.elapsed();
    assert_eq!(count, line_count);
    #[allow(
        clippy::cast_precision_loss,
        reason = "the line count is far below 2^52"
    )]
    let lines = line_count as f64;
    lines / elapsed.as_secs_f64()
}

/// Reads each line and parses it as JSON.
struct LineParser {
    input: UnixStream,
    output: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl LineParser {
    fn start(lines: Vec<u8>) -> Self {
        let input = start_agent(lines);
        Self {
            output: BufReader::with_capacity(64 * 1024, input.try_clone().unwrap()),
            input,
            line: Vec::new(),
        }
    }

    fn count_messages(&mut self) -> usize {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt" });
        self.input
            .write_all(format!("{request}\n").as_bytes())
            .unwrap();
        let mut count = 0;
        loop {
            self.line.clear();
            self.output.read_until(b'\n', &mut self.line).unwrap();
            let message: Value = serde_json::from_slice(&self.line).unwrap();
            if message.get("id").is_some() {
                return count;
            }
            count += 1;
        }
    }
}

/// The ACP client with which segue drives agents.
struct ClientDriver {
    runtime: Runtime,
    client: Client,
}

impl ClientDriver {
    fn start(lines: Vec<u8>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let stream = start_agent(lines);
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let (output, input) = stream.into_split();
            let mut client = Client::connect(output, input, "0.0.0").await.unwrap();
            let options = SessionOptions {
                cwd: Path::new("/"),
                mcp_servers: &[],
            };
            client.new_session(options).await.unwrap();
            client
        });
        Self { runtime, client }
    }

    fn count_events(&mut self) -> usize {
        let Self { runtime, client } = self;
        runtime.block_on(async {
            client.send_prompt("go").unwrap();
            let mut count = 0;
            loop {
                match client.next_event().await {
                    ClientEvent::AgentEvent(_) => count += 1,
                    ClientEvent::PermissionRequested(..) => {
                        panic!("the agent requests no permission")
                    }
                    ClientEvent::TurnEnded(end) => {
                        end.unwrap();
                        return count;
                    }
                }
            }
        })
    }
}

/// Starts an agent that answers each prompt with the same lines. Returns the client's end of the connection.
fn start_agent(lines: Vec<u8>) -> UnixStream {
    let (client_end, agent_end) = UnixStream::pair().unwrap();
    thread::spawn(move || serve_prompts(agent_end, &lines));
    client_end
}

fn serve_prompts(mut stream: UnixStream, lines: &[u8]) {
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

fn encode_line(update: &Value) -> Vec<u8> {
    let params = json!({ "sessionId": "5f0c9a52-8a6e-4c0e-9c1b-2f5d8d1c7e11", "update": update });
    let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    format!("{message}\n").into_bytes()
}

fn text_chunk(content: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": content } })
}

fn word_update(n: usize) -> Value {
    text_chunk(&format!("word{} ", n % 100))
}

fn kilobyte_update(n: usize) -> Value {
    text_chunk(&format!("line {n} of a \"file\"\n").repeat(45))
}

/// Returns the updates of a typical turn: words, a tool call, its result.
fn mixed_update(n: usize) -> Value {
    match n % 22 {
        20 => tool_update(n / 22 * 2),
        21 => tool_update(n / 22 * 2 + 1),
        _ => word_update(n),
    }
}

fn tool_update(n: usize) -> Value {
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
