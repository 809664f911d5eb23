//! Benchmark of the time to compact a session and to add a message to it.

use segue_bench::create_temp_dir;
use std::time::Instant;

use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
    quantile,
};
use segue_core::checkpoint::{Checkpoint, extract, merge, render_checkpoint};
use segue_core::session::{Message, Role};
use segue_engine::MessageAuthor;
use segue_store::LeaseRequest;

use crate::planted_store::{self, PlantedSessionSize};

pub(crate) fn measure(mode: BenchmarkMode) {
    measure_compaction(mode);
    measure_added_message(mode);
}

fn measure_compaction(mode: BenchmarkMode) {
    let size = PlantedSessionSize {
        turns: mode.pick(2_000, 50),
        budget: 100_000,
        seed: 5,
    };
    let turns = planted_store::to_brief_turns(&size.build_session());
    let count_tokens = &segue_tokens::count;
    let mut extraction_times = Vec::new();
    for _ in 0..mode.pick(21, 1) {
        let start = Instant::now();
        let delta = extract(&turns, "/p", count_tokens);
        let checkpoint = merge(
            &Checkpoint::default(),
            delta,
            size.budget * 2 / 5,
            count_tokens,
        );
        assert!(!render_checkpoint(&checkpoint).is_empty());
        extraction_times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let directory = create_temp_dir();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let full_times = runtime.block_on(async {
        let (engine, store) = planted_store::open_engine(directory.path(), size.budget);
        let session = planted_store::insert_session(
            (&engine, &*store),
            &turns,
            ("claude", directory.path()),
            0,
        )
        .await;
        let mut samples = Vec::new();
        for _ in 0..mode.pick(11, 1) {
            let start = Instant::now();
            let head = session.head.unwrap();
            assert!(
                engine
                    .briefs()
                    .plan_compaction(&session, head, &session.provider)
                    .await
                    .unwrap()
                    .is_some()
            );
            samples.push(start.elapsed().as_secs_f64() * 1e3);
        }
        samples
    });
    let format_row = |name: &str, times: &[f64], verdict_cell: String| {
        [
            name.to_owned(),
            turns.len().to_string(),
            planted_store::count_tokens(&turns).to_string(),
            format!("{:.1} ms", quantile(times, 0.5)),
            format!("{:.1} ms", quantile(times, 0.9)),
            verdict_cell,
        ]
    };
    let extraction_verdict =
        format_verdict("at most 100 ms", quantile(&extraction_times, 0.5) <= 100.0);
    print_table(
        "A compaction without a model",
        ["", "turns", "tokens", "median", "90 of 100 within", "aim"],
        &[
            format_row(
                "what is found and kept",
                &extraction_times,
                extraction_verdict,
            ),
            format_row(
                "with all that was said read from the store",
                &full_times,
                String::new(),
            ),
        ],
    );
}

fn measure_added_message(mode: BenchmarkMode) {
    let size = PlantedSessionSize {
        turns: mode.pick(1_255, 50),
        budget: 100_000,
        seed: 6,
    };
    let turns = planted_store::to_brief_turns(&size.build_session());
    let messages: usize = turns.iter().map(|turn| turn.messages.len()).sum();
    let directories = [create_temp_dir(), create_temp_dir()];
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let setups = directories.each_ref().map(|directory| {
        runtime.block_on(async {
            let (engine, store) = planted_store::open_engine(directory.path(), size.budget);
            let target = ("claude", directory.path());
            let session =
                planted_store::insert_session((&engine, &*store), &turns, target, 0).await;
            (engine, store, session)
        })
    });
    let [
        (_, append_store, append_session),
        (engine, _, engine_session),
    ] = &setups;
    let text = "The review said that the names are fine as they are.";
    let lease = runtime.block_on(append_store.acquire_lease(LeaseRequest {
        session: append_session.id.clone(),
        owner: segue_providers::identify_process(std::process::id()).unwrap(),
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    }));
    let lease = lease.unwrap().lease;
    let measure_append = || {
        let start = Instant::now();
        let message = Message::from_text(Role::User, text, append_session.created_at);
        runtime
            .block_on(append_store.add_message(&lease, &message))
            .unwrap();
        start.elapsed().as_secs_f64() * 1e3
    };
    let measure_add = || {
        let start = Instant::now();
        let future = engine
            .sessions()
            .add_message(&engine_session.id, MessageAuthor::User, text);
        runtime.block_on(future).unwrap();
        start.elapsed().as_secs_f64() * 1e3
    };
    let mut contestants = [
        Contestant::new("the store's append", measure_append),
        Contestant::new("segue adds a message", measure_add),
    ];
    measure_rounds(&mut contestants, mode.pick(200, 2));
    let [append_result, add_result] = &contestants;
    let extra =
        BenchmarkComparison::from_rounds(add_result, append_result, |add_time, append_time| {
            add_time - append_time
        });
    let format_row = |contestant: &Contestant<'_>, extra_cell: String, verdict_cell: String| {
        [
            contestant.name.clone(),
            messages.to_string(),
            format!("{:.2} ms", contestant.median()),
            extra_cell,
            verdict_cell,
        ]
    };
    print_table(
        "A message is added to a session",
        ["", "messages in it", "median", "more, in ms", "aim"],
        &[
            format_row(append_result, String::new(), String::new()),
            format_row(
                add_result,
                extra.format_cell(),
                format_verdict("at most 2 ms", extra.median <= 2.0),
            ),
        ],
    );
}
