//! What is told to the next native session, beside what the rules of others keep of the same sessions.

use segue_core::session::SessionStatus;
use segue_engine::Conversation;
use segue_testkit::benchmark::{BenchmarkMode, format_verdict};
use segue_testkit::fact_sessions::FactKind;

use crate::long::{self, Size};
use crate::score::{Score, print};
use crate::{CHAINS, home, rules};

/// The sessions: each ten times its budget or more, from few turns to many, and at last many turns with a small budget.
pub(crate) const SIZES: [Size; 7] = [
    Size {
        turns: 200,
        budget: 20_000,
        seed: 4,
    },
    Size {
        turns: 200,
        budget: 20_000,
        seed: 31,
    },
    Size {
        turns: 600,
        budget: 20_000,
        seed: 2,
    },
    Size {
        turns: 600,
        budget: 50_000,
        seed: 32,
    },
    Size {
        turns: 2000,
        budget: 50_000,
        seed: 33,
    },
    Size {
        turns: 2000,
        budget: 100_000,
        seed: 5,
    },
    Size {
        turns: 2000,
        budget: 20_000,
        seed: 41,
    },
];

pub(crate) fn measure(extent: BenchmarkMode) {
    let sizes = &SIZES[..extent.pick(SIZES.len(), 1)];
    let mut ours = CHAINS.map(|times| (format!("segue, {times} compaction(s)"), Score::default()));
    let mut theirs: Vec<(String, Score)> = Vec::new();
    let mut within = true;
    for size in sizes {
        let session = size.planted();
        let turns = long::told(&session);
        let tokens = long::tokens(&turns);
        assert!(tokens >= size.budget * 10, "{size:?}: only {tokens}");
        let mut same = 0;
        for (times, (_, score)) in CHAINS.into_iter().zip(&mut ours) {
            let (text, told) = composed(*size, &session.last_request, &turns, times);
            within &= told <= size.budget;
            score.add(&session, &text, told);
            same = told;
        }
        let rules = rules::all(&turns, size.budget, same);
        theirs.resize_with(rules.len(), Default::default);
        for ((name, kept), (row, score)) in rules.into_iter().zip(&mut theirs) {
            let text = format!("{kept}\n{}", session.last_request);
            name.clone_into(row);
            score.add(&session, &text, segue_tokens::count(&text));
        }
    }
    let last = ours[CHAINS.len() - 1].1.clone();
    let rows: Vec<(String, Score)> = ours.into_iter().chain(theirs.iter().cloned()).collect();
    print(
        "Facts in what a new native session is told, no model asked",
        &rows,
    );
    let kinds = [
        FactKind::Directive,
        FactKind::File,
        FactKind::LastRequest,
        FactKind::Pending,
    ];
    println!();
    for (aim, reached) in [
        ("within the budget", within),
        (
            "95 % of directives, files, last requests and pending items after 10 compactions",
            kinds.iter().all(|kind| last.has(*kind, 95)),
        ),
        (
            "80 % over all kinds after 10 compactions",
            last.has_overall(80),
        ),
        (
            "ahead of every other rule",
            theirs.iter().all(|(_, other)| last.is_ahead_of(other)),
        ),
    ] {
        println!("{}", format_verdict(aim, reached));
    }
}

/// What is told after so many compactions, and how many tokens that are.
fn composed(
    size: Size,
    prompt: &str,
    turns: &[segue_core::brief::BriefTurn],
    times: usize,
) -> (String, u64) {
    let place = home();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let (engine, store) = long::engine(place.path(), size.budget);
        let session = long::put((&engine, &store), turns, ("claude", place.path()), times).await;
        let session = Conversation::Session(Box::new(session), SessionStatus::Idle);
        let preview = engine.preview_brief(&session, None, prompt).await.unwrap();
        let text = preview.brief.prepend_to(prompt);
        let tokens = segue_tokens::count(&text);
        (text, tokens)
    })
}
