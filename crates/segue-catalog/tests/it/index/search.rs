//! Tests of the results of a search, and of their order.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use segue_catalog::index::{
    HitOrder, HitSource, IndexHits, IndexQuery, OwnSession, OwnSessionStamp, OwnTurn, SearchQuery,
    build_snippet,
};
use segue_catalog::{Catalog, ClaudeReader, Index};
use segue_core::id::SessionId;
use segue_core::session::{Message, Role, Title, TitleSource};
use serde_json::json;

use super::refresh;

fn timestamp(minute: u32) -> String {
    format!("2025-03-01T10:{minute:02}:00Z")
}

/// Writes a session of Claude Code in which each prompt has one answer.
fn write_session(home: &Path, n: u32, turns: &[(&str, &str)]) -> String {
    write_session_at(home, n, turns, |number| timestamp(n * 10 + number))
}

fn write_session_at(
    home: &Path,
    n: u32,
    turns: &[(&str, &str)],
    timestamp_of: impl Fn(u32) -> String,
) -> String {
    let id = format!("00000000-0000-4000-8000-{n:012}");
    let mut lines = Vec::new();
    let mut parent_uuid: Option<String> = None;
    let messages = turns
        .iter()
        .flat_map(|(prompt, answer)| [("user", prompt), ("assistant", answer)]);
    for (number, (role, text)) in messages.enumerate() {
        let uuid = format!("{n:08}-{number:04}-4000-8000-000000000000");
        let content = json!([{"type": "text", "text": text}]);
        let line = json!({
            "type": role, "uuid": uuid, "parentUuid": parent_uuid, "sessionId": id, "cwd": format!("/code/app{n}"),
            "timestamp": timestamp_of(u32::try_from(number).unwrap()), "version": "2.0.0",
            "message": {"role": role, "content": content, "id": format!("m{n}-{number}"), "model": "m"},
        });
        lines.push(line.to_string());
        parent_uuid = Some(uuid);
    }
    let project = home.join(format!("projects/-code-app{n}"));
    fs::create_dir_all(&project).unwrap();
    fs::write(
        project.join(format!("{id}.jsonl")),
        format!("{}\n", lines.join("\n")),
    )
    .unwrap();
    id
}

fn parse_query(text: &str) -> SearchQuery {
    SearchQuery::parse(text, &|text| text.parse().map_err(|_| "no time".into())).unwrap()
}

fn search(index: &Index, query: &SearchQuery, order: HitOrder) -> IndexHits {
    let index_query = IndexQuery {
        query,
        order,
        limit: 10,
        skip: 0,
        max_turns: 2,
        project: None,
        own_sessions: None,
    };
    index.search(&index_query).unwrap()
}

/// Returns the sessions that were found, by the end of their ids, and the turns in them.
fn search_results(index: &Index, text: &str) -> Vec<String> {
    let hits = search(index, &parse_query(text), HitOrder::Newest);
    let format_hit = |hit: &segue_catalog::index::IndexHit| {
        let id = match &hit.source {
            HitSource::Native(row) => row.session.head.id.to_string(),
            HitSource::Own(id, _) => id.clone(),
        };
        let turns: Vec<String> = hit
            .turns
            .iter()
            .map(|turn| turn.number.to_string())
            .collect();
        format!("{}:{}", &id[id.len() - 1..], turns.join(","))
    };
    hits.hits.iter().map(format_hit).collect()
}

fn create_three_sessions(home: &Path) -> Catalog {
    write_session(
        home,
        1,
        &[
            ("Fix the login form", "It calls fix_login() now"),
            ("and the logout", "done"),
        ],
    );
    write_session(
        home,
        2,
        &[
            ("login again, the form is broken", "The FORM fixes login"),
            ("login once more", "数据库连接失败 then"),
            ("bye", "login"),
        ],
    );
    write_session(home, 3, &[("Größe der Tabelle", "nothing")]);
    Catalog::new(vec![Arc::new(ClaudeReader::new(home))])
}

#[test]
fn a_filtered_search_finds_matches_ranked_below_many_others() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_session_at(home.path(), 1, &vec![("kettle", "kettle"); 2500], |_| {
        timestamp(1)
    });
    let long_answer = format!("a kettle {}", "among many other words ".repeat(50));
    write_session(home.path(), 2, &[("hello", &long_answer)]);
    let catalog = Catalog::new(vec![Arc::new(ClaudeReader::new(home.path()))]);
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    for filter in ["project:app2", "after:2025-03-01T10:15:00Z"] {
        let hits = search(
            &index,
            &parse_query(&format!("kettle {filter}")),
            HitOrder::Best,
        );
        assert_eq!(hits.hits.len(), 1, "{filter}");
    }
}

#[test]
fn words_phrases_prefixes_and_filters_select_turns() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let catalog = create_three_sessions(home.path());
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    let cases: &[(&str, &[&str])] = &[
        // The newest session comes first, and in it the newest turns.
        ("login", &["2:3,2", "1:1"]),
        ("LOGIN", &["2:3,2", "1:1"]),
        ("\"login form\"", &["1:1"]),
        ("\"form login\"", &[]),
        ("form login", &["2:1", "1:1"]),
        ("fix_login", &["1:1"]),
        ("log", &[]),
        ("log*", &["2:3,2", "1:2,1"]),
        ("login -form", &["2:3,2"]),
        ("role:user login", &["2:2,1", "1:1"]),
        ("role:assistant login", &["2:3,1", "1:1"]),
        ("role:tool login", &[]),
        ("provider:claude login", &["2:3,2", "1:1"]),
        ("provider:codex login", &[]),
        ("project:APP1 login", &["1:1"]),
        ("after:2025-03-01T10:23:00Z login", &["2:3,2"]),
        ("before:2025-03-01T10:20:00Z login", &["1:1"]),
        // An older turn matches, although a newer one contains the word as well.
        ("before:2025-03-01T10:22:00Z login", &["2:1", "1:1"]),
        ("grosse", &[]),
        ("größe", &["3:1"]),
        ("grö*", &["3:1"]),
        // Letters without diacritics.
        ("große tabelle", &["3:1"]),
        // Scripts without spaces.
        ("连接", &["2:2"]),
        ("接连", &[]),
        ("provider:claude", &["3:", "2:", "1:"]),
        ("tag:none login", &["2:3,2", "1:1"]),
        ("nowhere", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(search_results(&index, text), *expected, "{text}");
    }
}

#[test]
fn the_best_hit_comes_first_and_has_a_snippet() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let catalog = create_three_sessions(home.path());
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    let query = parse_query("login");
    let hits = search(&index, &query, HitOrder::Best);
    let scores: Vec<f64> = hits.hits.iter().map(|hit| hit.score.unwrap()).collect();
    assert_eq!(scores.len(), 2);
    assert!(scores[0] >= scores[1], "{scores:?}");
    let HitSource::Native(row) = &hits.hits[0].source else {
        panic!("none of segue's own is here");
    };
    let texts = catalog
        .read_turn_text(&row.session, hits.hits[0].turns[0].after.as_ref())
        .unwrap();
    let excerpt = build_snippet(&texts, &query.words);
    assert!(
        excerpt.text.contains("login") && !excerpt.highlights.is_empty(),
        "{excerpt:?}"
    );
}

#[test]
fn every_hit_has_a_readable_snippet() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let catalog = create_three_sessions(home.path());
    let index = Index::new(index_dir.path());
    refresh(&index, &catalog);
    let query = parse_query("log*");
    for hit in search(&index, &query, HitOrder::Newest).hits {
        let HitSource::Native(row) = &hit.source else {
            continue;
        };
        for turn in &hit.turns {
            let texts = catalog
                .read_turn_text(&row.session, turn.after.as_ref())
                .unwrap();
            let excerpt = build_snippet(&texts, &query.words);
            assert!(
                excerpt.text.to_lowercase().contains("log"),
                "{turn:?}: {excerpt:?}"
            );
        }
    }
}

fn own_session_time() -> Timestamp {
    timestamp(1).parse().unwrap()
}

fn own_turn(id: &str, text: &str) -> OwnTurn {
    OwnTurn {
        id: id.to_owned(),
        at: own_session_time(),
        messages: vec![Message::from_text(Role::User, text, own_session_time())],
    }
}

fn own_session(valid_turns: u32, turns: Vec<OwnTurn>) -> OwnSession {
    OwnSession {
        id: SessionId::parse("20250301_100100_k3f9").unwrap(),
        title: Title::new("Payment overhaul", TitleSource::User).unwrap(),
        provider: "codex".to_owned(),
        project: "/code/pay".to_owned(),
        cwd: "/code/pay".to_owned(),
        created_at: own_session_time(),
        updated_at: own_session_time(),
        head: Some(8),
        valid_turns,
        new_turns: turns,
    }
}

#[test]
fn a_comparison_finds_own_sessions_that_changed_or_are_gone() {
    let index_dir = tempfile::tempdir().unwrap();
    let index = Index::new(index_dir.path());
    let session = own_session(0, vec![own_turn("8", "charge")]);
    let timeout = std::time::Duration::from_secs(1);
    let unindexed = OwnSessionStamp {
        id: "new".to_owned(),
        updated_at: 1,
        head: None,
        title: None,
    };
    let compare = |stamps: &[OwnSessionStamp]| {
        let changes = index.compare_own_sessions(stamps).unwrap();
        (changes.changed, changes.removed)
    };
    let new_ids = vec!["new".to_owned()];
    assert_eq!(
        compare(std::slice::from_ref(&unindexed)),
        (new_ids.clone(), vec![])
    );

    assert!(index.index_own_sessions(&[session], timeout).unwrap());
    let stamps = index.own_session_stamps().unwrap();
    let indexed = stamps[0].clone();
    let indexed_id = vec![indexed.id.clone()];
    assert_eq!(compare(&stamps), (vec![], vec![]));
    assert_eq!(compare(&[]), (vec![], indexed_id.clone()));
    let other_states = [
        OwnSessionStamp {
            updated_at: indexed.updated_at + 1,
            ..indexed.clone()
        },
        OwnSessionStamp {
            head: None,
            ..indexed.clone()
        },
        OwnSessionStamp {
            title: Some("other title".to_owned()),
            ..indexed.clone()
        },
    ];
    for state in other_states {
        assert_eq!(compare(&[state]), (indexed_id.clone(), vec![]));
    }
    assert_eq!(compare(&[indexed, unindexed]), (new_ids, vec![]));
}

#[test]
fn own_sessions_are_found_by_words_and_titles_until_they_are_removed() {
    let index_dir = tempfile::tempdir().unwrap();
    let index = Index::new(index_dir.path());
    let now = own_session_time();
    let id = own_session(0, vec![]).id;
    let timeout = std::time::Duration::from_secs(1);
    assert_eq!(index.own_session_stamps().unwrap(), []);
    let first = own_session(
        0,
        vec![own_turn("7", "refund twice"), own_turn("8", "charge")],
    );
    assert!(index.index_own_sessions(&[first], timeout).unwrap());
    let stamps = index.own_session_stamps().unwrap();
    assert_eq!(
        (stamps.len(), stamps[0].updated_at, stamps[0].head),
        (1, now.as_millisecond(), Some(8))
    );
    assert_eq!(search_results(&index, "refund"), ["9:1"]);
    assert_eq!(search_results(&index, "overhaul"), ["9:"]);
    assert_eq!(search_results(&index, "provider:codex charge"), ["9:2"]);
    assert_eq!(
        search_results(&index, "provider:claude charge"),
        Vec::<String>::new()
    );
    assert_eq!(index.own_turn_ids(&id).unwrap(), ["7", "8"]);

    // The second turn was reverted, and another turn replaced it.
    let reverted = own_session(1, vec![own_turn("9", "cancel")]);
    assert!(index.index_own_sessions(&[reverted], timeout).unwrap());
    assert_eq!(search_results(&index, "charge"), Vec::<String>::new());
    assert_eq!(search_results(&index, "cancel"), ["9:2"]);

    let query = parse_query("cancel");
    let no_sessions = HashSet::new();
    let index_query = IndexQuery {
        query: &query,
        order: HitOrder::Newest,
        limit: 10,
        skip: 0,
        max_turns: 1,
        project: None,
        own_sessions: Some(&no_sessions),
    };
    assert_eq!(index.search(&index_query).unwrap().hits, []);
    assert!(index.remove_own_session(&id, timeout).unwrap());
    assert_eq!(search_results(&index, "refund"), Vec::<String>::new());
    assert_eq!(search_results(&index, "overhaul"), Vec::<String>::new());
}
