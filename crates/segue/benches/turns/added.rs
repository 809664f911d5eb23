//! What segue adds to a turn, over a bare client of the same agent.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use segue_agents::{AgentHost, LeashCommand, SystemFns, ProviderSettings, codex_provider, rehearsal_agent};
use segue_testkit::benchmark::{
    BenchmarkComparison, Contestant, BenchmarkMode, print_table, quantile, measure_rounds, format_verdict,
};
use segue_testkit::model::Script;
use segue_testkit::sandbox::{SandboxCli, Sandbox};

use crate::bare::Bare;
use crate::driven::Driven;
use crate::{SEGUE, home};

/// What the rehearsal agent says in every turn, word by word.
const WORDS: &str = "the parser fails because a bracket is missing in line seventeen of the grammar and \
                     nothing after it is read any more so that the last rule is never seen by anybody";

/// How many turns come before the first that counts.
const WARM_UP: usize = 3;

pub(crate) fn measure(extent: BenchmarkMode) {
    let mut rows = rehearse(extent.pick(200, 2));
    if std::env::var_os("SEGUE_CLIS").is_some() {
        rows.extend(ask_codex(extent.pick(100, 2)));
    } else {
        println!("SEGUE_CLIS is not set, so Codex is left out");
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

fn rehearse(turns: usize) -> Vec<[String; 6]> {
    let prompt = format!("rehearse: say {WORDS}");
    let place = home();
    let leash = LeashCommand {
        program: SEGUE.into(),
        args: vec!["leash".into()],
    };
    let agent = rehearsal_agent(SEGUE.into(), place.path().join("rehearsal"), leash, "0.0.0");
    let mut bare = Bare::start();
    let mut driven = Driven::start(Arc::new(agent), place.path());
    compare(
        "rehearsal",
        turns,
        || bare.turn(&prompt),
        || driven.turn(&prompt, WORDS),
    )
}

/// The real program with a stub in the place of the model, over its app-server.
fn ask_codex(turns: usize) -> Vec<[String; 6]> {
    let (prompt, answer) = (
        "why does the parser fail?",
        "You said: why does the parser fail?",
    );
    let sandbox = Sandbox::new(Script::new());
    let command = sandbox.cli_command(SandboxCli::Codex);
    let host = AgentHost {
        leash: clean_leash(&command),
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
    let mut bare = sandbox.start_app_server();
    let thread = bare.start_thread();
    let mut driven = Driven::start(Arc::new(codex_provider(&settings, &host)), &sandbox.project());
    let ask = || {
        let start = Instant::now();
        let turned = bare.run_turn(&thread, prompt);
        let took = start.elapsed();
        assert_eq!(turned.messages(), [answer]);
        took.as_secs_f64() * 1e3
    };
    compare("codex", turns, ask, || driven.turn(prompt, answer))
}

/// A leash with the environment of a command and nothing of ours.
fn clean_leash(command: &Command) -> LeashCommand {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let mut variable = name.to_owned();
        variable.push("=");
        variable.push(value?);
        Some(variable)
    });
    let args = std::iter::once(OsString::from("-i"))
        .chain(variables)
        .chain([SEGUE, "leash"].map(OsString::from));
    LeashCommand {
        program: "/usr/bin/env".into(),
        args: args.collect(),
    }
}

fn compare(
    agent: &str,
    turns: usize,
    mut bare: impl FnMut() -> f64,
    mut driven: impl FnMut() -> f64,
) -> Vec<[String; 6]> {
    for _ in 0..WARM_UP {
        bare();
        driven();
    }
    let mut contestants = [
        Contestant::new(format!("{agent}, bare client"), bare),
        Contestant::new(format!("{agent}, segue"), driven),
    ];
    measure_rounds(&mut contestants, turns);
    let [bare, driven] = &contestants;
    let added = BenchmarkComparison::from_rounds(driven, bare, |driven, bare| driven - bare);
    let row = |contestant: &Contestant<'_>, added: String, aim: String| {
        [
            contestant.name.clone(),
            contestant.values.len().to_string(),
            format!("{:.2} ms", contestant.median()),
            format!("{:.2} ms", quantile(&contestant.values, 0.9)),
            added,
            aim,
        ]
    };
    let aim = format_verdict("at most 2 ms", added.median <= 2.0);
    vec![
        row(bare, String::new(), String::new()),
        row(driven, added.format_cell(), aim),
    ]
}
