//! Benchmark of the facts in the brief for a new native session, compared with the compaction rules of other tools.

use segue_bench::create_temp_dir;
use segue_bench::fact_sessions::FactKind;
use segue_bench::measurement::{BenchmarkMode, format_verdict};
use segue_core::session::SessionStatus;
use segue_engine::Conversation;

use crate::planted_store::{self, PlantedSessionSize};
use crate::score::{FactScore, print_scores};
use crate::{COMPACTION_COUNTS, rules};

/// Sizes of the sessions. Each session is at least ten times its budget, and the number of turns increases. The last
/// one combines many turns with a small budget.
pub(crate) const PLANTED_SIZES: [PlantedSessionSize; 7] = [
    PlantedSessionSize {
        turns: 200,
        budget: 20_000,
        seed: 4,
    },
    PlantedSessionSize {
        turns: 200,
        budget: 20_000,
        seed: 31,
    },
    PlantedSessionSize {
        turns: 600,
        budget: 20_000,
        seed: 2,
    },
    PlantedSessionSize {
        turns: 600,
        budget: 50_000,
        seed: 32,
    },
    PlantedSessionSize {
        turns: 2000,
        budget: 50_000,
        seed: 33,
    },
    PlantedSessionSize {
        turns: 2000,
        budget: 100_000,
        seed: 5,
    },
    PlantedSessionSize {
        turns: 2000,
        budget: 20_000,
        seed: 41,
    },
];

pub(crate) fn measure(mode: BenchmarkMode) {
    let sizes = &PLANTED_SIZES[..mode.pick(PLANTED_SIZES.len(), 1)];
    let mut segue_scores = COMPACTION_COUNTS.map(|times| {
        (
            format!("segue, {times} compaction(s)"),
            FactScore::default(),
        )
    });
    let mut rule_scores: Vec<(String, FactScore)> = Vec::new();
    let mut is_within_budget = true;
    for size in sizes {
        let session = size.build_session();
        let turns = planted_store::to_brief_turns(&session);
        let session_tokens = planted_store::count_tokens(&turns);
        assert!(
            session_tokens >= size.budget * 10,
            "{size:?}: only {session_tokens}"
        );
        let mut brief_tokens = 0;
        for (times, (_, score)) in COMPACTION_COUNTS.into_iter().zip(&mut segue_scores) {
            let (text, text_tokens) =
                compose_brief_text(*size, &session.last_request, &turns, times);
            is_within_budget &= text_tokens <= size.budget;
            score.score_text(&session, &text, text_tokens);
            brief_tokens = text_tokens;
        }
        let rules = rules::apply_rules(&turns, size.budget, brief_tokens);
        rule_scores.resize_with(rules.len(), Default::default);
        for ((name, retained), (row_name, score)) in rules.into_iter().zip(&mut rule_scores) {
            let text = format!("{retained}\n{}", session.last_request);
            name.clone_into(row_name);
            score.score_text(&session, &text, segue_tokens::count(&text));
        }
    }
    let last_score = segue_scores[COMPACTION_COUNTS.len() - 1].1.clone();
    let rows: Vec<(String, FactScore)> = segue_scores
        .into_iter()
        .chain(rule_scores.iter().cloned())
        .collect();
    print_scores(
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
    for (target, is_reached) in [
        ("within the budget", is_within_budget),
        (
            "95 % of directives, files, last requests and pending items after 10 compactions",
            kinds
                .iter()
                .all(|kind| last_score.has_percent_of_kind(*kind, 95)),
        ),
        (
            "80 % over all kinds after 10 compactions",
            last_score.has_percent_overall(80),
        ),
        (
            "ahead of every other rule",
            rule_scores
                .iter()
                .all(|(_, rule_score)| last_score.is_better_than(rule_score)),
        ),
    ] {
        println!("{}", format_verdict(target, is_reached));
    }
}

/// Composes the brief and the prompt after `compactions` compactions. Returns the text and its number of tokens.
fn compose_brief_text(
    size: PlantedSessionSize,
    prompt: &str,
    turns: &[segue_core::brief::BriefTurn],
    compactions: usize,
) -> (String, u64) {
    let directory = create_temp_dir();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let (engine, store) = planted_store::open_engine(directory.path(), size.budget);
        let session = planted_store::insert_session(
            (&engine, &*store),
            turns,
            ("claude", directory.path()),
            compactions,
        )
        .await;
        let session = Conversation::Session(Box::new(session), SessionStatus::Idle);
        let preview = engine
            .briefs()
            .preview_brief(&session, None, prompt)
            .await
            .unwrap();
        let text = preview.plan.brief.prepend_to(prompt);
        let tokens = segue_tokens::count(&text);
        (text, tokens)
    })
}
