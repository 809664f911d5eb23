//! Search in segue's sessions.

use segue_catalog::Index;
use segue_core::session::{Project, SessionRef};
use segue_engine::{Engine, Freshness, HitOrder, RefContext, SearchReport, SearchRequest, Target};

use crate::scripted::{EngineHarness, session_target};

async fn search(engine: &Engine, text: &str) -> SearchReport {
    let request = SearchRequest {
        query: engine.library().parse_query(text).unwrap(),
        order: HitOrder::Newest,
        project: None,
        limit: 10,
        skip: 0,
        turns_per_session: 5,
        freshness: Freshness::Fresh,
    };
    engine.library().search(&request).await.unwrap()
}

/// Returns the matching turns of each session.
fn matched_turns(report: &SearchReport) -> Vec<(String, Vec<u32>)> {
    let session_and_turns = |hit: &segue_engine::SearchHit| {
        let turns = hit.turns.iter().map(|turn| turn.n).collect();
        (hit.conversation.id().to_string(), turns)
    };
    report.hits.iter().map(session_and_turns).collect()
}

#[tokio::test]
async fn search_results_follow_new_turns_reverts_and_deletions() {
    let harness = EngineHarness::new();
    let home = tempfile::tempdir().unwrap();
    let engine = harness
        .second_engine_builder()
        .with_index(Index::new(home.path()))
        .build();
    let report = harness.run_turn("the kettle boils", Target::New).await;
    let id = report.session.to_string();
    assert_eq!(
        matched_turns(&search(&engine, "kettle").await),
        [(id.clone(), vec![1])]
    );
    harness
        .run_turn("the kettle is empty", session_target(&report))
        .await;
    let results = search(&engine, "kettle").await;
    assert_eq!(matched_turns(&results), [(id.clone(), vec![2, 1])]);
    assert_eq!(results.hits[0].turns[0].snippet.text, "the kettle is empty");

    let reference = SessionRef::Text(id.clone());
    let ref_context = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let session = engine
        .resolver()
        .find_session(&reference, &ref_context)
        .await
        .unwrap();
    engine.sessions().revert_session(&session, 1).await.unwrap();
    assert_eq!(
        matched_turns(&search(&engine, "kettle").await),
        [(id.clone(), vec![1])]
    );

    let session = engine
        .resolver()
        .find_session(&reference, &ref_context)
        .await
        .unwrap();
    engine.sessions().delete_session(&session).await.unwrap();
    assert_eq!(matched_turns(&search(&engine, "kettle").await), []);
}
