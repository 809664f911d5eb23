//! Benchmark of the facts that the model of a real CLI receives after compactions, a handoff or a kill.

use segue_bench::segue_program;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use segue_bench::fact_sessions::PlantedSession;
use segue_bench::measurement::BenchmarkMode;
use segue_core::brief::BriefTurn;
use segue_core::id::SessionId;
use segue_testkit::model::{ModelRequest, Reply, Script, StubFailure, TranscriptEntry};
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};

use crate::planted_store::{self, PlantedSessionSize};
use crate::score::{FactScore, print_scores};
use crate::{COMPACTION_COUNTS, brief_facts::PLANTED_SIZES};

const TURN_TIMEOUT: Duration = Duration::from_mins(3);

/// Prompt after a turn was interrupted.
const PROMPT_AFTER_KILL: &str = "Please continue where you were interrupted.";

/// A provider with its transport and its program.
#[derive(Debug, Clone, Copy)]
struct BenchmarkAgent {
    provider: &'static str,
    transport: &'static str,
    cli: SandboxCli,
}

const BENCHMARK_AGENTS: [BenchmarkAgent; 3] = [
    BenchmarkAgent {
        provider: "claude",
        transport: "stream-json",
        cli: SandboxCli::Claude,
    },
    BenchmarkAgent {
        provider: "codex",
        transport: "app-server",
        cli: SandboxCli::Codex,
    },
    BenchmarkAgent {
        provider: "gemini",
        transport: "acp",
        cli: SandboxCli::Gemini,
    },
];

/// Events in a session before its last prompt.
#[derive(Debug, Clone, Copy)]
enum SessionScenario {
    /// The session is compacted this many times.
    Compacted(usize),
    /// The session is compacted ten times, has one more turn and is then handed off to another agent.
    HandedOff,
    /// The session is compacted ten times, segue is killed while the agent answers the last prompt, and the session is
    /// resumed.
    Killed,
}

/// A session that is inserted into the store of each sandbox.
struct PlantedCase {
    size: PlantedSessionSize,
    session: PlantedSession,
    turns: Vec<BriefTurn>,
}

impl PlantedCase {
    fn new(size: PlantedSessionSize) -> Self {
        let session = size.build_session();
        Self {
            size,
            turns: planted_store::to_brief_turns(&session),
            session,
        }
    }
}

pub(crate) fn measure(mode: BenchmarkMode) {
    let agents = &BENCHMARK_AGENTS[..mode.pick(BENCHMARK_AGENTS.len(), 1)];
    let sizes: Vec<PlantedSessionSize> = mode.pick(
        vec![PLANTED_SIZES[0], PLANTED_SIZES[5]],
        vec![PLANTED_SIZES[0]],
    );
    let sessions: Vec<PlantedCase> = sizes.into_iter().map(PlantedCase::new).collect();
    let mut rows = Vec::new();
    let mut is_within_budget = true;
    let compaction_scenarios = COMPACTION_COUNTS.map(SessionScenario::Compacted);
    let scenarios: Vec<SessionScenario> = compaction_scenarios
        .into_iter()
        .chain([SessionScenario::HandedOff, SessionScenario::Killed])
        .collect();
    for agent in agents {
        for scenario in &scenarios {
            let mut score = FactScore::default();
            for case in &sessions {
                let request = run_scenario(*agent, case, *scenario);
                let (text, tokens) = conversation_text(&request);
                is_within_budget &= tokens <= case.size.budget;
                score.score_text(&case.session, &text, tokens);
            }
            rows.push((row_name(*agent, *scenario), score));
        }
    }
    print_scores(
        "Facts in the request that the next model receives, no model asked before",
        &rows,
    );
    println!("\nall of them within the budget: {is_within_budget}");
}

fn row_name(agent: BenchmarkAgent, scenario: SessionScenario) -> String {
    match scenario {
        SessionScenario::Compacted(count) => format!("{}, {count} compaction(s)", agent.provider),
        SessionScenario::HandedOff => format!(
            "{}, handed over to {}",
            agent.provider,
            next_agent(agent).provider
        ),
        SessionScenario::Killed => format!("{}, killed in the last turn", agent.provider),
    }
}

/// Returns the agent that receives the session in a handoff from `agent`.
fn next_agent(agent: BenchmarkAgent) -> BenchmarkAgent {
    let index = BENCHMARK_AGENTS
        .iter()
        .position(|candidate| candidate.provider == agent.provider);
    BENCHMARK_AGENTS[(index.unwrap() + 1) % BENCHMARK_AGENTS.len()]
}

/// Runs a scenario and returns the last request to the model.
fn run_scenario(
    agent: BenchmarkAgent,
    case: &PlantedCase,
    scenario: SessionScenario,
) -> ModelRequest {
    let (prompt, size) = (case.session.last_request.as_str(), case.size);
    let mut script = Script::new().with_rule(PROMPT_AFTER_KILL, [Reply::from_text("I continue.")]);
    if matches!(scenario, SessionScenario::Killed) {
        script = script.with_rule(
            prompt,
            [Reply::from_text("I begin").with_failure(StubFailure::Stall)],
        );
    }
    let sandbox = Sandbox::new(script.with_rule("", [Reply::from_text("Done.")]));
    let compactions = match scenario {
        SessionScenario::Compacted(count) => count,
        SessionScenario::HandedOff | SessionScenario::Killed => 10,
    };
    let id = insert_session(&sandbox, agent, case, compactions);
    let id = id.as_str();
    let resume_args = ["chat", "-p", agent.provider, "--json", "--resume", id];
    let run_segue = |args: &[&str]| {
        let outcome = CommandOutcome::run(segue_command(&sandbox, size, args), TURN_TIMEOUT);
        assert_eq!(
            outcome.code,
            Some(0),
            "{agent:?} {scenario:?}: {outcome:#?}"
        );
    };
    match scenario {
        SessionScenario::Compacted(_) => run_segue(&[&resume_args[..], &[prompt]].concat()),
        SessionScenario::HandedOff => {
            run_segue(&[&resume_args[..], &["Carry on."]].concat());
            let next_provider = next_agent(agent).provider;
            run_segue(&[
                "session",
                "handoff",
                id,
                "-p",
                next_provider,
                "--json",
                "--prompt",
                prompt,
            ]);
        }
        SessionScenario::Killed => {
            let mut command =
                segue_command(&sandbox, size, &[&resume_args[..], &[prompt]].concat());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            assert!(
                sandbox.model().wait_for_turn_requests(1, TURN_TIMEOUT),
                "{agent:?} sent no request to the model"
            );
            child.kill().unwrap();
            child.wait().unwrap();
            run_segue(&[&resume_args[..], &[PROMPT_AFTER_KILL]].concat());
        }
    }
    sandbox.model().turn_requests().pop().unwrap()
}

/// Inserts a session into the store of a sandbox.
fn insert_session(
    sandbox: &Sandbox,
    agent: BenchmarkAgent,
    case: &PlantedCase,
    compactions: usize,
) -> SessionId {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let home = sandbox.home().join("segue");
    fs::create_dir_all(&home).unwrap();
    runtime.block_on(async {
        let (engine, store) = planted_store::open_engine(&home, case.size.budget);
        let owned_target = (agent.provider, sandbox.project());
        let target = (owned_target.0, owned_target.1.as_path());
        planted_store::insert_session((&engine, &*store), &case.turns, target, compactions)
            .await
            .id
    })
}

fn segue_command(sandbox: &Sandbox, size: PlantedSessionSize, args: &[&str]) -> Command {
    let config = sandbox.home().join("segue.toml");
    fs::write(&config, format!("budget = {}\n", size.budget)).unwrap();
    let mut command = sandbox.program_command(segue_program());
    for agent in BENCHMARK_AGENTS {
        let variable_name = |name: &str| format!("SEGUE_{}_{name}", agent.provider.to_uppercase());
        command.env(
            variable_name("PATH"),
            sandbox.cli_command(agent.cli).get_program(),
        );
        command.env(variable_name("TRANSPORTS"), agent.transport);
    }
    command
        .env("SEGUE_HOME", sandbox.home().join("segue"))
        .env("SEGUE_CONFIG", config)
        .args(args);
    command
}

/// Returns the conversation in a request, without the system prompt and the text that the CLI adds, and its number of
/// tokens.
fn conversation_text(request: &ModelRequest) -> (String, u64) {
    let texts = request
        .transcript()
        .into_iter()
        .filter_map(|entry| match entry {
            TranscriptEntry::User(text)
            | TranscriptEntry::Assistant(text)
            | TranscriptEntry::Thought(text)
            | TranscriptEntry::Result(text) => Some(text),
            TranscriptEntry::Call { input, .. } => Some(input.to_string()),
            TranscriptEntry::System(_) | TranscriptEntry::Injected(_) => None,
        });
    let text = texts.collect::<Vec<String>>().join("\n");
    let tokens = segue_tokens::count(&text);
    (text, tokens)
}
