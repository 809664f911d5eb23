//! Store calls of the most frequent operations. A change of these numbers is a change of the cost of an operation.
//!
//! The numbers of commits assume that writes which overlap share a commit. On a disk, the writer may need one more.

use std::fs;
use std::sync::Arc;

use segue_catalog::{Catalog, ClaudeReader, Index};
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::OpenMode;
use segue_engine::{ChatRequest, Freshness, HitOrder, SearchRequest, Target, TurnReport};

use crate::counting_store::CountingStore;
use crate::scripted::{EngineHarness, current_process, end_turn, send_text, session_target};

/// Creates a harness whose engine uses the returned store.
fn counting_harness(catalog: Catalog, index: Option<Index>) -> (EngineHarness, Arc<CountingStore>) {
    // Loads the vocabulary, because messages are counted on reading if it is not loaded when they are written.
    assert_eq!(segue_tokens::count("hello world"), 2);
    let mut harness = EngineHarness::new();
    let store = Arc::new(CountingStore::new(harness.store.clone()));
    let builder = harness.engine_with_store(store.clone(), catalog);
    harness.engine = match index {
        Some(index) => builder.with_index(index).build(),
        None => builder.build(),
    };
    (harness, store)
}

/// Runs a turn in the session of a feature.
async fn run_feature_turn(harness: &EngineHarness, prompt: &str, keep_agent: bool) -> TurnReport {
    let feature = Scope::Feature(FeatureId::parse("payments").unwrap());
    let request = ChatRequest {
        keep_agent,
        ..harness.request(prompt, Target::Scope(Purpose::for_scope(feature)))
    };
    harness.script([send_text("done"), end_turn()]);
    harness.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn a_feature_turn_that_resumes_its_agent_makes_these_store_calls() {
    let (harness, store) = counting_harness(Catalog::default(), None);
    run_feature_turn(&harness, "the goal", false).await;
    store.take_counts();
    let report = run_feature_turn(&harness, "the next step", false).await;
    assert_eq!(report.opened.unwrap().0, OpenMode::Resumed);
    insta::assert_snapshot!(store.take_counts(), @r"
    reads 3
        lease_holder 1
        list_sessions 1
        session_snapshot 1
    synced writes 3 in 3 commits
        begin_attempt 1
        settle_turn 1
        start_turn 1
    lease writes 2
        acquire_lease 1
        release_lease 1
    ");
}

#[tokio::test]
async fn a_feature_turn_with_a_running_agent_makes_these_store_calls() {
    let (harness, store) = counting_harness(Catalog::default(), None);
    *harness.agent.process.lock().unwrap() = Some(current_process());
    run_feature_turn(&harness, "the goal", true).await;
    store.take_counts();
    let report = run_feature_turn(&harness, "the next step", true).await;
    assert_eq!(report.opened.unwrap().0, OpenMode::Live);
    insta::assert_snapshot!(store.take_counts(), @r"
    reads 2
        list_sessions 1
        session_snapshot 1
    synced writes 2 in 2 commits
        settle_turn 1
        start_turn 1
    lease writes 0
    ");
}

#[tokio::test]
async fn a_search_in_a_session_and_a_native_session_makes_these_store_calls() {
    let claude_home = tempfile::tempdir().unwrap();
    let project_dir = claude_home.path().join("projects/-src-app");
    fs::create_dir_all(&project_dir).unwrap();
    let id = "8ee09528-574d-41c2-84a5-755955b72658";
    let record = serde_json::json!({
        "type": "user", "uuid": "00000000-0000-4000-8000-000000000001", "sessionId": id, "cwd": "/src/app",
        "timestamp": "2026-11-15T12:00:00.000Z", "message": { "role": "user", "content": "fill the kettle" },
    });
    fs::write(
        project_dir.join(format!("{id}.jsonl")),
        format!("{record}\n"),
    )
    .unwrap();
    let reader = ClaudeReader::new(claude_home.path().to_owned());
    let index = Index::new(claude_home.path());
    let (harness, store) = counting_harness(Catalog::new(vec![Arc::new(reader)]), Some(index));
    harness.run_turn("the kettle boils", Target::New).await;
    store.take_counts();

    let request = SearchRequest {
        query: harness.engine.library().parse_query("kettle").unwrap(),
        order: HitOrder::Newest,
        project: None,
        limit: 10,
        skip: 0,
        turns_per_session: 5,
        freshness: Freshness::Fresh,
    };
    let first = harness.engine.library().search(&request).await.unwrap();
    assert_eq!(first.hits.len(), 2);
    insta::assert_snapshot!(store.take_counts(), @r"
    reads 7
        attached_natives 1
        messages 2
        session 2
        session_stamps 1
        turns 1
    synced writes 0 in 0 commits
    lease writes 0
    ");
    // The second search finds an index that is up to date.
    let second = harness.engine.library().search(&request).await.unwrap();
    assert_eq!(second.hits.len(), 2);
    insta::assert_snapshot!(store.take_counts(), @r"
    reads 4
        attached_natives 1
        messages 1
        session 1
        session_stamps 1
    synced writes 0 in 0 commits
    lease writes 0
    ");
}

#[tokio::test]
async fn a_compaction_on_request_makes_these_store_calls() {
    let (harness, store) = counting_harness(Catalog::default(), None);
    let first = harness.run_turn("always use tabs", Target::New).await;
    harness
        .run_turn("fix the parser", session_target(&first))
        .await;
    let session = harness.load_session(&first).await;
    store.take_counts();
    let outcome = harness.engine.compactor().compact(&session).await.unwrap();
    assert!(outcome.created.is_some());
    insta::assert_snapshot!(store.take_counts(), @r"
    reads 6
        checkpoint_at 1
        checkpoints 1
        context_measurements 1
        lease_holder 1
        session_snapshot 1
        turns_after 1
    synced writes 1 in 1 commits
        commit_compaction 1
    lease writes 2
        acquire_lease 1
        release_lease 1
    ");
}
