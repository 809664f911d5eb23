//! What the model of a real CLI receives: after compactions, after a handoff, after a kill.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use segue_core::brief::BriefTurn;
use segue_core::id::SessionId;
use segue_testkit::benchmark::Extent;
use segue_testkit::fact_sessions::Planted;
use segue_testkit::model::{Failure, ModelRequest, Reply, Script, Seen};
use segue_testkit::sandbox::{Cli, Ran, Sandbox};

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
    cli: Cli,
}

const WAYS: [Way; 3] = [
    Way {
        provider: "claude",
        transport: "stream-json",
        cli: Cli::Claude,
    },
    Way {
        provider: "codex",
        transport: "app-server",
        cli: Cli::Codex,
    },
    Way {
        provider: "gemini",
        transport: "acp",
        cli: Cli::Gemini,
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
    session: Planted,
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

pub(crate) fn measure(extent: Extent) {
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
    let mut script = Script::new().on(AFTERWARDS, [Reply::say("I do.")]);
    if matches!(fate, Fate::Killed) {
        script = script.on(ask, [Reply::say("I begin").failing(Failure::Stall)]);
    }
    let sandbox = Sandbox::new(script.on("", [Reply::say("Done.")]));
    let times = match fate {
        Fate::Compacted(times) => times,
        Fate::HandedOver | Fate::Killed => 10,
    };
    let id = put(&sandbox, way, long, times);
    let id = id.as_str();
    let resumed = ["chat", "-p", way.provider, "--json", "--resume", id];
    let run = |args: &[&str]| {
        let ran = Ran::of(segue(&sandbox, size, args), LIMIT);
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
                sandbox.model().wait_for_turns(1, LIMIT),
                "{way:?} asks nobody"
            );
            // As by SIGKILL from anybody.
            child.kill().unwrap();
            child.wait().unwrap();
            run(&[&resumed[..], &[AFTERWARDS]].concat());
        }
    }
    sandbox.model().turns().pop().unwrap()
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
    let mut command = sandbox.program(SEGUE);
    for way in WAYS {
        let named = |name: &str| format!("SEGUE_{}_{name}", way.provider.to_uppercase());
        command.env(named("PATH"), sandbox.command(way.cli).get_program());
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
    let pieces = request.seen().into_iter().filter_map(|piece| match piece {
        Seen::User(text) | Seen::Assistant(text) | Seen::Thought(text) | Seen::Result(text) => {
            Some(text)
        }
        Seen::Call { input, .. } => Some(input.to_string()),
        Seen::System(_) | Seen::Injected(_) => None,
    });
    let text = pieces.collect::<Vec<String>>().join("\n");
    let tokens = segue_tokens::count(&text);
    (text, tokens)
}
