//! How long it takes to compact a session, and to add a message to it.

use std::time::Instant;

use segue_core::checkpoint::{Checkpoint, extract, merge, render_checkpoint};
use segue_core::session::{Message, Role};
use segue_engine::MessageAuthor;
use segue_store::{LeaseRequest, Store};
use segue_testkit::benchmark::{
    BenchmarkComparison, Contestant, BenchmarkMode, print_table, quantile, measure_rounds, format_verdict,
};

use crate::home;
use crate::long::{self, Size};

pub(crate) fn measure(extent: BenchmarkMode) {
    compaction(extent);
    added(extent);
}

fn compaction(extent: BenchmarkMode) {
    let size = Size {
        turns: extent.pick(2_000, 50),
        budget: 100_000,
        seed: 5,
    };
    let turns = long::told(&size.planted());
    let count = &segue_tokens::count;
    let mut alone = Vec::new();
    for _ in 0..extent.pick(21, 1) {
        let begun = Instant::now();
        let found = extract(&turns, "/p", count);
        let checkpoint = merge(&Checkpoint::default(), found, size.budget * 2 / 5, count);
        assert!(!render_checkpoint(&checkpoint).is_empty());
        alone.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let place = home();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let whole = runtime.block_on(async {
        let (engine, store) = long::engine(place.path(), size.budget);
        let session = long::put((&engine, &store), &turns, ("claude", place.path()), 0).await;
        let mut whole = Vec::new();
        for _ in 0..extent.pick(11, 1) {
            let begun = Instant::now();
            let head = session.head.unwrap();
            assert!(engine.plan_compaction(&session, head).await.unwrap().is_some());
            whole.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        whole
    });
    let row = |name: &str, times: &[f64], aim: String| {
        [
            name.to_owned(),
            turns.len().to_string(),
            long::tokens(&turns).to_string(),
            format!("{:.1} ms", quantile(times, 0.5)),
            format!("{:.1} ms", quantile(times, 0.9)),
            aim,
        ]
    };
    let aim = format_verdict("at most 100 ms", quantile(&alone, 0.5) <= 100.0);
    print_table(
        "A compaction without a model",
        ["", "turns", "tokens", "median", "90 of 100 within", "aim"],
        &[
            row("what is found and kept", &alone, aim),
            row(
                "with all that was said read from the store",
                &whole,
                String::new(),
            ),
        ],
    );
}

fn added(extent: BenchmarkMode) {
    let size = Size {
        turns: extent.pick(1_255, 50),
        budget: 100_000,
        seed: 6,
    };
    let turns = long::told(&size.planted());
    let messages: usize = turns.iter().map(|turn| turn.messages.len()).sum();
    let places = [home(), home()];
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let stages = places.each_ref().map(|place| {
        runtime.block_on(async {
            let (engine, store) = long::engine(place.path(), size.budget);
            let whom = ("claude", place.path());
            let session = long::put((&engine, &store), &turns, whom, 0).await;
            (engine, store, session)
        })
    });
    let [(_, bare, one), (engine, _, other)] = &stages;
    let text = "The review said that the names are fine as they are.";
    let lease = runtime.block_on(bare.acquire_lease(LeaseRequest {
        session: one.id.clone(),
        owner: segue_agents::identify_process(std::process::id()).unwrap(),
        at: one.created_at,
        expires_after: jiff::SignedDuration::from_secs(30),
        dead_epoch: None,
    }));
    let lease = lease.unwrap().lease;
    let append = || {
        let begun = Instant::now();
        let message = Message::from_text(Role::User, text, one.created_at);
        runtime
            .block_on(bare.add_message(&lease, &message))
            .unwrap();
        begun.elapsed().as_secs_f64() * 1e3
    };
    let add = || {
        let begun = Instant::now();
        let adding = engine.add_message(&other.id, MessageAuthor::User, text);
        runtime.block_on(adding).unwrap();
        begun.elapsed().as_secs_f64() * 1e3
    };
    let mut contestants = [
        Contestant::new("the store's append", append),
        Contestant::new("segue adds a message", add),
    ];
    measure_rounds(&mut contestants, extent.pick(200, 2));
    let [bare, whole] = &contestants;
    let more = BenchmarkComparison::from_rounds(whole, bare, |whole, bare| whole - bare);
    let row = |contestant: &Contestant<'_>, more: String, aim: String| {
        [
            contestant.name.clone(),
            messages.to_string(),
            format!("{:.2} ms", contestant.median()),
            more,
            aim,
        ]
    };
    print_table(
        "A message is added to a session",
        ["", "messages in it", "median", "more, in ms", "aim"],
        &[
            row(bare, String::new(), String::new()),
            row(
                whole,
                more.format_cell(),
                format_verdict("at most 2 ms", more.median <= 2.0),
            ),
        ],
    );
}
