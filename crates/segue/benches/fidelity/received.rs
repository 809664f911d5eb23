//! What the model of a real CLI receives: after compactions, after a handoff, after a kill.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use segue_core::brief::BriefTurn;
use segue_core::id::SessionId;
use segue_testkit::benchmark::BenchmarkMode;
use segue_testkit::fact_sessions::PlantedSession;
use segue_testkit::model::{StubFailure, ModelRequest, Reply, Script, TranscriptEntry};
use segue_testkit::sandbox::{SandboxCli, CommandOutcome, Sandbox};

use crate::long::{self, Size};
use crate::score::{Score, print};
use crate::{CHAINS, SEGUE, told::SIZES};

/// How long one turn may take.
const LIMIT: Duration = Duration::from_mins(3);

/// What is said after a turn was cut off.
const AFTERWARDS: &str = "Please go on where you were cut off.";

/// A provider, how it is talked to, and its program.
#[derive(Debug, Clone, Copy)]
struct Way {
    provider: &'static str,
    transport: &'static str,
    cli: SandboxCli,
}

const WAYS: [Way; 3] = [
    Way {
        provider: "claude",
        transport: "stream-json",
        cli: SandboxCli::Claude,
    },
    Way {
        provider: "codex",
        transport: "app-server",
        cli: SandboxCli::Codex,
    },
    Way {
        provider: "gemini",
        transport: "acp",
        cli: SandboxCli::Gemini,
    },
];

/// What happens to a session before its last prompt.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is compacted so many times.
    Compacted(usize),
    /// It is compacted ten times, goes on for a turn, and then another agent goes on with it.
    HandedOver,
    /// It is compacted ten times, and segue is killed while the agent answers the last prompt; then it goes on.
    Killed,
}

/// A session that is put into the store of each sandbox.
struct Long {
    size: Size,
    session: PlantedSession,
    turns: Vec<BriefTurn>,
}

impl Long {
    fn new(size: Size) -> Self {
        let session = size.planted();
        Self {
            size,
            turns: long::told(&session),
            session,
        }
    }
}

pub(crate) fn measure(extent: BenchmarkMode) {
    let ways = &WAYS[..extent.pick(WAYS.len(), 1)];
    let sizes: Vec<Size> = extent.pick(vec![SIZES[0], SIZES[5]], vec![SIZES[0]]);
    let sessions: Vec<Long> = sizes.into_iter().map(Long::new).collect();
    let mut rows = Vec::new();
    let mut within = true;
    let compacted = CHAINS.map(Fate::Compacted);
    let fates: Vec<Fate> = compacted
        .into_iter()
        .chain([Fate::HandedOver, Fate::Killed])
        .collect();
    for way in ways {
        for fate in &fates {
            let mut score = Score::default();
            for long in &sessions {
                let request = received(*way, long, *fate);
                let (text, tokens) = said(&request);
                within &= tokens <= long.size.budget;
                score.add(&long.session, &text, tokens);
            }
            rows.push((named(*way, *fate), score));
        }
    }
    print(
        "Facts in the request that the next model receives, no model asked before",
        &rows,
    );
    println!("\nall of them within the budget: {within}");
}

fn named(way: Way, fate: Fate) -> String {
    match fate {
        Fate::Compacted(times) => format!("{}, {times} compaction(s)", way.provider),
        Fate::HandedOver => format!("{}, handed over to {}", way.provider, next(way).provider),
        Fate::Killed => format!("{}, killed in the last turn", way.provider),
    }
}

/// Who goes on with a session of another.
fn next(way: Way) -> Way {
    let at = WAYS.iter().position(|known| known.provider == way.provider);
    WAYS[(at.unwrap() + 1) % WAYS.len()]
}

/// The last request that a model is asked, once all that should happen has happened.
fn received(way: Way, long: &Long, fate: Fate) -> ModelRequest {
    let (ask, size) = (long.session.last_request.as_str(), long.size);
    let mut script = Script::new().with_rule(AFTERWARDS, [Reply::from_text("I do.")]);
    if matches!(fate, Fate::Killed) {
        script = script.with_rule(ask, [Reply::from_text("I begin").with_failure(StubFailure::Stall)]);
    }
    let sandbox = Sandbox::new(script.with_rule("", [Reply::from_text("Done.")]));
    let times = match fate {
        Fate::Compacted(times) => times,
        Fate::HandedOver | Fate::Killed => 10,
    };
    let id = put(&sandbox, way, long, times);
    let id = id.as_str();
    let resumed = ["chat", "-p", way.provider, "--json", "--resume", id];
    let run = |args: &[&str]| {
        let ran = CommandOutcome::run(segue(&sandbox, size, args), LIMIT);
        assert_eq!(ran.code, Some(0), "{way:?} {fate:?}: {ran:#?}");
    };
    match fate {
        Fate::Compacted(_) => run(&[&resumed[..], &[ask]].concat()),
        Fate::HandedOver => {
            run(&[&resumed[..], &["Carry on."]].concat());
            let to = next(way).provider;
            run(&[
                "session", "handoff", id, "-p", to, "--json", "--prompt", ask,
            ]);
        }
        Fate::Killed => {
            let mut command = segue(&sandbox, size, &[&resumed[..], &[ask]].concat());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            assert!(
                sandbox.model().wait_for_turn_requests(1, LIMIT),
                "{way:?} asks nobody"
            );
            // As by SIGKILL from anybody.
            child.kill().unwrap();
            child.wait().unwrap();
            run(&[&resumed[..], &[AFTERWARDS]].concat());
        }
    }
    sandbox.model().turn_requests().pop().unwrap()
}

/// Puts a session into the store of a sandbox.
fn put(sandbox: &Sandbox, way: Way, long: &Long, times: usize) -> SessionId {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let home = sandbox.home().join("segue");
    fs::create_dir_all(&home).unwrap();
    runtime.block_on(async {
        let (engine, store) = long::engine(&home, long.size.budget);
        let place = (way.provider, sandbox.project());
        let place = (place.0, place.1.as_path());
        long::put((&engine, &store), &long.turns, place, times)
            .await
            .id
    })
}

fn segue(sandbox: &Sandbox, size: Size, args: &[&str]) -> Command {
    let config = sandbox.home().join("segue.toml");
    fs::write(&config, format!("budget = {}\n", size.budget)).unwrap();
    let mut command = sandbox.program_command(SEGUE);
    for way in WAYS {
        let named = |name: &str| format!("SEGUE_{}_{name}", way.provider.to_uppercase());
        command.env(named("PATH"), sandbox.cli_command(way.cli).get_program());
        command.env(named("TRANSPORTS"), way.transport);
    }
    command
        .env("SEGUE_HOME", sandbox.home().join("segue"))
        .env("SEGUE_CONFIG", config)
        .args(args);
    command
}

/// What a request says of the conversation, without what the CLI tells its model by itself; and how long that is.
fn said(request: &ModelRequest) -> (String, u64) {
    let pieces = request.transcript().into_iter().filter_map(|piece| match piece {
        TranscriptEntry::User(text) | TranscriptEntry::Assistant(text) | TranscriptEntry::Thought(text) | TranscriptEntry::Result(text) => {
            Some(text)
        }
        TranscriptEntry::Call { input, .. } => Some(input.to_string()),
        TranscriptEntry::System(_) | TranscriptEntry::Injected(_) => None,
    });
    let text = pieces.collect::<Vec<String>>().join("\n");
    let tokens = segue_tokens::count(&text);
    (text, tokens)
}
