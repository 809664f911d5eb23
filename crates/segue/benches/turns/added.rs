//! What segue adds to a turn, over a bare client of the same agent.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use segue_agents::{Leash, mark_of, rehearsal};
use segue_catalog::Catalog;
use segue_core::{Opened, Project, SessionId, TurnState};
use segue_engine::{ChatRequest, Engine, Stop, Target, World};
use segue_sqlite::SqliteStore;
use segue_testkit::figures::{
    Compared, Contestant, Extent, print_table, quantile, take_turns, verdict,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::{SEGUE, home};

/// What is said in every turn; the agent streams it word by word.
const WORDS: &str = "the parser fails because a bracket is missing in line seventeen of the grammar and \
                     nothing after it is read any more so that the last rule is never seen by anybody";

/// How many turns come before the first that counts.
const WARM_UP: usize = 3;

pub(crate) fn measure(extent: Extent) {
    let turns = extent.pick(200, 2);
    let prompt = format!("rehearse: say {WORDS}");
    let mut bare = Bare::start();
    let mut driven = Driven::start();
    for _ in 0..WARM_UP {
        bare.turn(&prompt);
        driven.turn(&prompt);
    }
    let mut contestants = [
        Contestant::new("rehearsal, bare client", || bare.turn(&prompt)),
        Contestant::new("rehearsal, segue", || driven.turn(&prompt)),
    ];
    take_turns(&mut contestants, turns);
    let [bare, driven] = &contestants;
    let added = Compared::by_round(driven, bare, |driven, bare| driven - bare);
    let row = |contestant: &Contestant<'_>, added: String, aim: String| {
        [
            contestant.name.clone(),
            contestant.figures.len().to_string(),
            format!("{:.2} ms", contestant.median()),
            format!("{:.2} ms", quantile(&contestant.figures, 0.9)),
            added,
            aim,
        ]
    };
    let aim = verdict("at most 2 ms", added.median <= 2.0);
    print_table(
        "One more turn of a conversation that is open",
        [
            "",
            "turns",
            "median",
            "90 of 100 within",
            "added, in ms",
            "aim",
        ],
        &[
            row(bare, String::new(), String::new()),
            row(driven, added.cell(), aim),
        ],
    );
}

/// The least that a client of the agent can do: a line out, lines in until the answer.
struct Bare {
    agent: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    session: String,
    asked: u64,
    _directory: TempDir,
}

impl Bare {
    fn start() -> Self {
        let directory = home();
        let mut agent = Command::new(SEGUE)
            .arg("rehearsal-agent")
            .arg(directory.path().join("rehearsal"))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut bare = Self {
            input: agent.stdin.take(),
            output: BufReader::new(agent.stdout.take().unwrap()),
            agent,
            session: String::new(),
            asked: 0,
            _directory: directory,
        };
        bare.ask("initialize", &json!({ "protocolVersion": 1 }));
        let made = bare.ask("session/new", &json!({ "cwd": "/", "mcpServers": [] }));
        made["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut bare.session);
        bare
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let line = format!("{request}\n");
        self.input
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        let mut line = Vec::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_until(b'\n', &mut line).unwrap(), 0);
            let mut message: Value = serde_json::from_slice(&line).unwrap();
            if message["id"] == self.asked {
                return message["result"].take();
            }
        }
    }

    /// Has one turn, and returns the milliseconds it took.
    fn turn(&mut self, prompt: &str) -> f64 {
        let start = Instant::now();
        let params =
            json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": prompt }] });
        let result = self.ask("session/prompt", &params);
        let took = start.elapsed();
        assert_eq!(result["stopReason"], "end_turn");
        took.as_secs_f64() * 1e3
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of its input is the end of the agent.
        self.input = None;
        self.agent.wait().unwrap();
    }
}

/// The engine on a store on the disk, with an agent that stays open.
struct Driven {
    runtime: Runtime,
    engine: Engine,
    session: Option<SessionId>,
    stop: watch::Sender<Stop>,
    directory: TempDir,
}

impl Driven {
    fn start() -> Self {
        let directory = home();
        let leash = Leash {
            program: SEGUE.into(),
            args: vec!["leash".into()],
        };
        let agent = rehearsal(
            SEGUE.into(),
            directory.path().join("rehearsal"),
            leash,
            "0.0.0",
        );
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        Self {
            engine: Engine::new(store, vec![Arc::new(agent)], Catalog::default(), world()),
            // As the program has it.
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            session: None,
            stop: watch::channel(Stop::No).0,
            directory,
        }
    }

    /// Has one turn, and returns the milliseconds it took.
    fn turn(&mut self, prompt: &str) -> f64 {
        let start = Instant::now();
        let request = request(
            prompt,
            self.session.as_ref(),
            self.directory.path(),
            &self.stop,
        );
        let report = self.runtime.block_on(async {
            let (sender, mut events) = mpsc::channel(64);
            let listening = async { while events.recv().await.is_some() {} };
            tokio::join!(self.engine.chat(request, sender), listening).0
        });
        let took = start.elapsed();
        let report = report.unwrap();
        assert_eq!(report.state, TurnState::Finished);
        let opened = if self.session.is_some() {
            Opened::Live
        } else {
            Opened::Fresh
        };
        assert_eq!(report.opened.unwrap().0, opened);
        assert_eq!(report.text.as_deref(), Some(WORDS));
        self.session = Some(report.session);
        took.as_secs_f64() * 1e3
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.close());
    }
}

fn request(
    prompt: &str,
    session: Option<&SessionId>,
    directory: &Path,
    stop: &watch::Sender<Stop>,
) -> ChatRequest {
    let place = directory.to_str().unwrap().to_owned();
    ChatRequest {
        prompt: prompt.to_owned(),
        target: session.map_or(Target::New, |session| Target::Session(session.clone())),
        project: Project {
            key: place.clone(),
            cwd: place,
        },
        provider: None,
        model: None,
        feature: None,
        strict: false,
        permissions: None,
        open_timeout: None,
        turn_timeout: None,
        text_up_to: usize::MAX,
        keep_open: true,
        stop: stop.subscribe(),
    }
}

fn world() -> World {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    World {
        now: Timestamp::now,
        random: || NEXT.fetch_add(1, Ordering::Relaxed),
        me: mark_of(std::process::id()).unwrap(),
    }
}
