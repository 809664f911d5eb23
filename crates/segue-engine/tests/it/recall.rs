//! Search in segue's sessions.

use segue_catalog::Index;
use segue_core::session::{Project, SessionRef};
use segue_engine::{Engine, Freshness, HitOrder, SearchReport, SearchRequest, RefContext, Target};

use crate::scripted::{Stage, same};

async fn search(engine: &Engine, words: &str) -> SearchReport {
    let request = SearchRequest {
        query: engine.parse_query(words).unwrap(),
        order: HitOrder::Newest,
        project: None,
        limit: 10,
        skip: 0,
        turns_per_session: 5,
        freshness: Freshness::Fresh,
    };
    engine.search(&request).await.unwrap()
}

/// Returns the matching turns of each session.
fn places(report: &SearchReport) -> Vec<(String, Vec<u32>)> {
    let place = |found: &segue_engine::SearchHit| {
        let turns = found.turns.iter().map(|turn| turn.n).collect();
        (found.conversation.id().to_string(), turns)
    };
    report.hits.iter().map(place).collect()
}

#[tokio::test]
async fn own_sessions_are_found_as_they_grow_are_reverted_and_deleted() {
    let stage = Stage::new();
    let home = tempfile::tempdir().unwrap();
    let engine = stage.beside_it().with_index(Index::new(home.path()));
    let report = stage.turn("the kettle boils", Target::New).await;
    let id = report.session.to_string();
    assert_eq!(
        places(&search(&engine, "kettle").await),
        [(id.clone(), vec![1])]
    );
    stage.turn("the kettle is empty", same(&report)).await;
    let found = search(&engine, "kettle").await;
    assert_eq!(places(&found), [(id.clone(), vec![2, 1])]);
    assert_eq!(found.hits[0].turns[0].snippet.text, "the kettle is empty");

    let reference = SessionRef::Text(id.clone());
    let standpoint = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let session = engine.find_session(&reference, &standpoint).await.unwrap();
    engine.revert_session(&session, 1).await.unwrap();
    assert_eq!(
        places(&search(&engine, "kettle").await),
        [(id.clone(), vec![1])]
    );

    let session = engine.find_session(&reference, &standpoint).await.unwrap();
    engine.delete_session(&session).await.unwrap();
    assert_eq!(places(&search(&engine, "kettle").await), []);
}
