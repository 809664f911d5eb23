//! Benchmark of a brief of 100,000 tokens, composed from a session of 10,000 messages.
//!
//! `cargo bench -p segue-bench --bench brief`; docs/benchmarks.md explains the table.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

use segue_bench::create_temp_dir;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use segue_bench::measurement::{BenchmarkMode, format_verdict, print_table, quantile};
use segue_catalog::Catalog;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::json::Json;
use segue_core::session::{Message, Part, Project, Role, SessionStatus, Title, TurnState, Usage};
use segue_engine::{Conversation, Engine, Environment};
use segue_sqlite::SqliteStore;
use segue_store::{AdoptedSession, AdoptedTurn, NewSession, Store};
use tokio::runtime::Builder;

fn main() {
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let message_count = extent.pick(10_000, 200);
    let rounds = extent.pick(31, 1);
    black_box(segue_tokens::count("load it"));
    let mut rows = Vec::new();
    // Short messages fill the budget with many turns, long ones with few.
    for (name, word_count) in [
        ("short messages", 20),
        ("usual messages", 150),
        ("long messages", 2_000),
    ] {
        let row = runtime.block_on(measure_brief(name, message_count, word_count, rounds));
        rows.push(row);
    }
    print_table(
        "a brief, warm",
        [
            "session",
            "messages",
            "tokens of the brief",
            "median",
            "95 of 100 within",
            "aim",
        ],
        &rows,
    );
}

async fn measure_brief(
    name: &str,
    message_count: usize,
    word_count: usize,
    rounds: usize,
) -> [String; 6] {
    let directory = create_temp_dir();
    let (engine, conversation) =
        create_engine_with_session(directory.path(), message_count, word_count).await;
    let mut times = Vec::new();
    let mut tokens = 0;
    // The first round is not measured, because it fills in token counts and reads from disk.
    for round in 0..=rounds {
        let start = Instant::now();
        let preview = engine
            .briefs()
            .preview_brief(&conversation, None, "go on")
            .await
            .unwrap();
        if round > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        tokens = preview.plan.brief.total_tokens();
    }
    let median = quantile(&times, 0.5);
    [
        name.to_owned(),
        message_count.to_string(),
        tokens.to_string(),
        format!("{median:.1} ms"),
        format!("{:.1} ms", quantile(&times, 0.95)),
        format_verdict("at most 20 ms", median <= 20.0),
    ]
}

async fn create_engine_with_session(
    directory: &Path,
    message_count: usize,
    word_count: usize,
) -> (Engine, Conversation) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory).unwrap());
    let this_process = segue_providers::identify_process(std::process::id()).unwrap();
    let at = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(480_000);
    let id = SessionId::from_timestamp(at, 1);
    let new_session = NewSession {
        id: id.clone(),
        project: Project {
            key: "/p".into(),
            cwd: "/p".into(),
        },
        title: Title::from_prompt("bench"),
        purpose: None,
        provider: ProviderId::parse("claude").unwrap(),
        at,
        conflict_filter: None,
    };
    let adopted = AdoptedSession {
        native_id: NativeId::parse("n1").unwrap(),
        turns: (0..message_count / 4)
            .map(|n| turn(n, word_count, at))
            .collect(),
    };
    let lease = store
        .adopt_native_session(new_session, this_process.clone(), adopted)
        .await
        .unwrap();
    store.release_lease(&lease).await.unwrap();
    let session = store.session(&id).await.unwrap().unwrap();
    let environment = Environment {
        now: || Timestamp::UNIX_EPOCH,
        random: || 7,
        process: this_process,
    };
    let engine = Engine::builder(store, Vec::new(), Catalog::default(), environment).build();
    let conversation = Conversation::Session(Box::new(session), SessionStatus::Idle);
    (engine, conversation)
}

/// Creates a turn with a question, a tool call, the result of the call, and an answer.
fn turn(n: usize, word_count: usize, at: Timestamp) -> AdoptedTurn {
    let id = format!("call-{n}");
    let call = Part::FunctionCall {
        id: id.clone(),
        name: "shell".into(),
        args: Json::from(serde_json::json!({ "command": format!("make test-{n}") })),
    };
    let result = Part::FunctionResponse {
        call_id: id,
        name: "shell".into(),
        response: Json::from(serde_json::json!({ "output": generate_text(n, word_count * 2) })),
        is_error: false,
    };
    let mut messages = vec![
        Message::from_text(Role::User, generate_text(n, word_count / 2), at),
        Message::new(Role::Assistant, vec![call], at),
        Message::new(Role::Tool, vec![result], at),
        Message::from_text(Role::Assistant, generate_text(n, word_count), at),
    ];
    for message in &mut messages {
        message.tokens = Some(segue_tokens::count(&segue_core::brief::message_text(
            message,
        )));
    }
    AdoptedTurn {
        mark: None,
        state: TurnState::Finished,
        messages,
        usage: Usage::default(),
        started_at: at,
        ended_at: at,
    }
}

fn generate_text(n: usize, word_count: usize) -> String {
    const SAMPLE_WORDS: [&str; 11] = [
        "session",
        "the",
        "of",
        "agent",
        "let value = 7;",
        "what",
        "was",
        "said",
        "before",
        "and",
        "on\n",
    ];
    let mut text = format!("{n}");
    for index in 0..word_count {
        let _ = write!(
            text,
            " {}",
            SAMPLE_WORDS[(n * 7 + index * 3 + index / 11) % 11]
        );
    }
    text
}
