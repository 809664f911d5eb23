//! Benchmark of the time that segue adds to a turn, compared with a minimal client of the same agent.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
    quantile,
};
use segue_providers::{
    AgentHost, LeashCommand, ProviderSettings, SystemFns, codex_provider, rehearsal_agent,
};
use segue_testkit::model::Script;
use segue_testkit::sandbox::{Sandbox, SandboxCli};

use crate::bare_client::RehearsalClient;
use crate::engine_run::EngineDriver;
use segue_bench::{create_temp_dir, segue_program};

/// Answer of the rehearsal agent in every turn, streamed word by word.
const REHEARSAL_ANSWER: &str = "the parser fails because a bracket is missing in line seventeen of the grammar and \
                     nothing after it is read any more so that the last rule is never seen by anybody";

/// Number of turns before the first measured turn.
const WARM_UP_TURNS: usize = 3;

pub(crate) fn measure(mode: BenchmarkMode) {
    let mut rows = measure_rehearsal(mode.pick(200, 2));
    if std::env::var_os("SEGUE_CLIS").is_some() {
        rows.extend(measure_codex(mode.pick(100, 2)));
    } else {
        println!("SEGUE_CLIS is not set: Codex is not measured");
    }
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
        &rows,
    );
}

fn measure_rehearsal(turns: usize) -> Vec<[String; 6]> {
    let prompt = format!("rehearse: say {REHEARSAL_ANSWER}");
    let directory = create_temp_dir();
    let leash = LeashCommand {
        program: segue_program().into(),
        args: vec!["leash".into()],
    };
    let agent = rehearsal_agent(
        segue_program().into(),
        directory.path().join("rehearsal"),
        leash,
        "0.0.0",
    );
    let mut client = RehearsalClient::start();
    let mut driver = EngineDriver::start(Arc::new(agent), directory.path());
    compare_clients(
        "rehearsal",
        turns,
        || client.measure_turn(&prompt),
        || driver.measure_turn(&prompt, REHEARSAL_ANSWER),
    )
}

/// Measures the real Codex through its app-server, with a stub instead of the model.
fn measure_codex(turns: usize) -> Vec<[String; 6]> {
    let (prompt, answer) = (
        "why does the parser fail?",
        "You said: why does the parser fail?",
    );
    let sandbox = Sandbox::new(Script::new());
    let command = sandbox.cli_command(SandboxCli::Codex);
    let host = AgentHost {
        leash: leash_with_environment(&command),
        version: "0.0.0",
        agent_files_dir: sandbox.path().join("kept"),
        search_path: OsString::new(),
        system: SystemFns {
            now: Timestamp::now,
            random: || 7,
        },
    };
    let settings = ProviderSettings {
        program: Some(command.get_program().into()),
        transports: vec!["app-server".into()],
        home: sandbox.home().join(".codex"),
        ..ProviderSettings::default()
    };
    let mut app_server = sandbox.start_app_server();
    let thread = app_server.start_thread();
    let mut driver = EngineDriver::start(
        Arc::new(codex_provider(&settings, &host)),
        &sandbox.project(),
    );
    let measure_direct_turn = || {
        let start = Instant::now();
        let turn = app_server.run_turn(&thread, prompt);
        let elapsed = start.elapsed();
        assert_eq!(turn.messages(), [answer]);
        elapsed.as_secs_f64() * 1e3
    };
    compare_clients("codex", turns, measure_direct_turn, || {
        driver.measure_turn(prompt, answer)
    })
}

/// Returns a leash command that has only the environment of `command`.
fn leash_with_environment(command: &Command) -> LeashCommand {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let mut variable = name.to_owned();
        variable.push("=");
        variable.push(value?);
        Some(variable)
    });
    let args = std::iter::once(OsString::from("-i"))
        .chain(variables)
        .chain([segue_program().into(), "leash".into()]);
    LeashCommand {
        program: "/usr/bin/env".into(),
        args: args.collect(),
    }
}

fn compare_clients(
    agent: &str,
    turns: usize,
    mut measure_client: impl FnMut() -> f64,
    mut measure_segue: impl FnMut() -> f64,
) -> Vec<[String; 6]> {
    for _ in 0..WARM_UP_TURNS {
        measure_client();
        measure_segue();
    }
    let mut contestants = [
        Contestant::new(format!("{agent}, bare client"), measure_client),
        Contestant::new(format!("{agent}, segue"), measure_segue),
    ];
    measure_rounds(&mut contestants, turns);
    let [client, segue] = &contestants;
    let added = BenchmarkComparison::from_rounds(segue, client, |segue_time, client_time| {
        segue_time - client_time
    });
    let format_row = |contestant: &Contestant<'_>, added_cell: String, verdict_cell: String| {
        [
            contestant.name.clone(),
            contestant.values.len().to_string(),
            format!("{:.2} ms", contestant.median()),
            format!("{:.2} ms", quantile(&contestant.values, 0.9)),
            added_cell,
            verdict_cell,
        ]
    };
    let added_verdict = format_verdict("at most 2 ms", added.median <= 2.0);
    vec![
        format_row(client, String::new(), String::new()),
        format_row(segue, added.format_cell(), added_verdict),
    ]
}
