//! Properties of a store in a file: formats, access by several processes, group commit.

use std::fs;
use std::sync::Arc;

use jiff::Timestamp;
use segue_core::hint::Hint;
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{Decision, DecisionKind, Project, Title};
use segue_sqlite::{FILE_NAME, SqliteStore};
use segue_store::{
    ChangeFeed, ChangeKind, CheckpointStore, DecisionLog, FeedCursor, HistoryStore, LegStore,
    NewSession, PageRequest, SessionFilter, SessionQueries, SessionStore, StoreError,
};

fn new_session(n: u32) -> NewSession {
    NewSession {
        id: SessionId::from_timestamp(Timestamp::UNIX_EPOCH, n),
        project: Project {
            key: "k".into(),
            cwd: "/".into(),
        },
        title: Title::from_prompt("t"),
        purpose: None,
        provider: ProviderId::rehearsal(),
        at: Timestamp::UNIX_EPOCH,
        conflict_filter: None,
    }
}

async fn count_sessions(store: &SqliteStore) -> usize {
    let page = store
        .list_sessions(&SessionFilter::default(), PageRequest::first(10_000))
        .await
        .unwrap();
    page.sessions.len()
}

#[tokio::test]
async fn written_sessions_are_visible_to_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    store.create_session(new_session(1)).await.unwrap();
    let second_store = SqliteStore::open(directory.path()).unwrap();
    assert_eq!(count_sessions(&second_store).await, 1);
    second_store.create_session(new_session(2)).await.unwrap();
    assert_eq!(
        count_sessions(&store).await,
        2,
        "a reader sees what others commit"
    );
    let health = store.check_health().await.unwrap();
    assert_eq!(
        (health.format, health.sessions, health.problems),
        (15, 2, vec![])
    );
}

#[tokio::test]
async fn a_store_of_the_first_format_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    {
        #[expect(clippy::disallowed_methods, reason = "an older segue made it")]
        let old = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
        old.execute_batch(include_str!("../../src/schema/0001_sessions.sql"))
            .unwrap();
        old.execute_batch(
            "INSERT INTO projects (key) VALUES ('k');
             INSERT INTO sessions (id, project_id, cwd, title, title_from, feature, provider, created_at, updated_at)
             VALUES ('20251207_143022_k3f9', 1, '/', 't', 'prompt', '支払い', 'rehearsal', 0, 0);",
        )
        .unwrap();
        old.pragma_update(None, "application_id", 0x5345_4755)
            .unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
    }
    let store = SqliteStore::open(directory.path()).unwrap();
    store.create_session(new_session(1)).await.unwrap();
    let health = store.check_health().await.unwrap();
    assert_eq!((health.format, health.sessions), (15, 2));
    // The migration makes a session of the old format findable by its feature.
    let feature = FeatureId::parse("支払い").unwrap();
    let pay = Purpose::for_scope(Scope::Feature(feature));
    let filter = SessionFilter {
        purpose: Some(pay.clone()),
        ..SessionFilter::default()
    };
    let sessions = store
        .list_sessions(&filter, PageRequest::first(2))
        .await
        .unwrap()
        .sessions;
    let purposes: Vec<_> = sessions
        .into_iter()
        .map(|session| session.purpose)
        .collect();
    assert_eq!(purposes, [Some(pay)]);
}

/// The first eleven migrations in order; they make a store of format 11.
const FORMAT_11_MIGRATIONS: [&str; 11] = [
    include_str!("../../src/schema/0001_sessions.sql"),
    include_str!("../../src/schema/0002_retry.sql"),
    include_str!("../../src/schema/0003_tags.sql"),
    include_str!("../../src/schema/0004_tokens.sql"),
    include_str!("../../src/schema/0005_scopes.sql"),
    include_str!("../../src/schema/0006_policy.sql"),
    include_str!("../../src/schema/0007_outside.sql"),
    include_str!("../../src/schema/0008_checkpoints.sql"),
    include_str!("../../src/schema/0009_context.sql"),
    include_str!("../../src/schema/0010_origins.sql"),
    include_str!("../../src/schema/0011_memory.sql"),
];

#[tokio::test]
async fn a_migrated_store_of_the_eleventh_format_retains_legs_and_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    {
        #[expect(clippy::disallowed_methods, reason = "an older segue made it")]
        let old = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
        for migration in FORMAT_11_MIGRATIONS {
            old.execute_batch(migration).unwrap();
        }
        old.execute_batch(
            r#"INSERT INTO projects (key) VALUES ('k');
             INSERT INTO sessions (id, project_id, cwd, title, title_from, provider, created_at, updated_at)
             VALUES ('20251207_143022_k3f9', 1, '/', 't', 'prompt', 'claude', 0, 0);
             INSERT INTO turns (session_id, n, state, started_at)
             VALUES ('20251207_143022_k3f9', 1, 'finished', 0);
             UPDATE sessions SET head_id = 1;
             INSERT INTO legs (session_id, n, provider, native_id, tip_id, consecutive_failures, opened_at)
             VALUES ('20251207_143022_k3f9', 1, 'claude', 'abc', 1, 2, 0);
             INSERT INTO checkpoints
                 (session_id, n, turn_id, base, depth, covers, delta, tokens, replaced, made_by, why, at)
             VALUES
                 ('20251207_143022_k3f9', 1, 1, NULL, 0, 1, '{"v":1,"set":[{"id":9,"kind":"goal","text":"x","turn":1,"message":0,"by":"record","weight":1}]}', 5, 9, 'record', 'asked', 0),
                 ('20251207_143022_k3f9', 2, 1, 1, 1, 1, '{"v":1,"gone":[9]}', 5, 9, 'summary', 'summed', 0);"#,
        )
        .unwrap();
        old.pragma_update(None, "application_id", 0x5345_4755)
            .unwrap();
        old.pragma_update(None, "user_version", 11).unwrap();
    }
    let store = SqliteStore::open(directory.path()).unwrap();
    let health = store.check_health().await.unwrap();
    assert_eq!((health.format, health.problems), (15, vec![]));
    let id = SessionId::parse("20251207_143022_k3f9").unwrap();
    let legs = store.legs(&id).await.unwrap();
    let legs: Vec<_> = legs
        .iter()
        .map(|leg| (leg.number, leg.tip, leg.consecutive_failures))
        .collect();
    let turns = store.turns(&id).await.unwrap();
    assert_eq!(legs, [(1, Some(turns[0].id), 0)]);
    assert_ne!(
        turns[0].id.to_bits(),
        1,
        "an ID of an earlier format is opaque too"
    );
    // The feed begins with what exists.
    let changes = store.changes(FeedCursor::START, 9).await.unwrap();
    let kinds: Vec<_> = changes.iter().map(|change| change.kind).collect();
    let turn = turns[0].id;
    let expected = [
        ChangeKind::SessionCreated,
        ChangeKind::TurnStarted { turn, number: 1 },
    ];
    assert_eq!(kinds, expected);
    let versions = store.checkpoints(&id).await.unwrap();
    let version_fields: Vec<_> = versions
        .iter()
        .map(|version| (version.n, version.last_read_turn, version.last_item_id))
        .collect();
    assert_eq!(version_fields, [(1, 0, 9), (2, 1, 0)]);
}

#[tokio::test]
async fn decisions_and_hints_of_other_versions_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let id = SessionId::parse("20251207_143022_k3f9").unwrap();
    {
        #[expect(clippy::disallowed_methods, reason = "an older segue made it")]
        let old = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
        for migration in FORMAT_11_MIGRATIONS {
            old.execute_batch(migration).unwrap();
        }
        old.execute_batch(
            "INSERT INTO projects (key) VALUES ('k');
             INSERT INTO sessions (id, project_id, cwd, title, title_from, provider, created_at, updated_at)
             VALUES ('20251207_143022_k3f9', 1, '/', 't', 'prompt', 'claude', 0, 0);
             INSERT INTO turns (session_id, n, state, started_at, failure_class, failure_message, failure_hint)
             VALUES ('20251207_143022_k3f9', 1, 'failed', 0, 'crashed', 'gone', 'try again');
             UPDATE sessions SET head_id = 1;
             INSERT INTO decisions (session_id, kind, text, at)
             VALUES ('20251207_143022_k3f9', 'opened', 'started a new native session', 0);",
        )
        .unwrap();
        old.pragma_update(None, "application_id", 0x5345_4755)
            .unwrap();
        old.pragma_update(None, "user_version", 11).unwrap();
    }
    let store = SqliteStore::open(directory.path()).unwrap();
    {
        #[expect(clippy::disallowed_methods, reason = "a newer segue wrote to it")]
        let newer = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
        newer
            .execute_batch(
                r#"INSERT INTO decisions (session_id, kind, text, at, data)
                 VALUES ('20251207_143022_k3f9', 'permission', '', 0, '{"v":1,"decision":"teleported"}'),
                        ('20251207_143022_k3f9', 'teleported', '', 0, '{"v":7}');"#,
            )
            .unwrap();
    }
    let decisions = store.decisions(&id, 9).await.unwrap();
    let decisions: Vec<_> = decisions
        .into_iter()
        .map(|(_, decision)| decision)
        .collect();
    let recorded = |kind, text: &str| {
        let text = text.to_owned();
        Decision::Recorded { kind, text }
    };
    assert_eq!(
        decisions,
        [
            recorded(DecisionKind::Opened, "started a new native session"),
            recorded(
                DecisionKind::Permission,
                r#"{"v":1,"decision":"teleported"}"#
            ),
            recorded(DecisionKind::Oddity, r#"{"v":7}"#),
        ]
    );
    let turns = store.turns(&id).await.unwrap();
    let failure = turns[0].failure.clone().unwrap();
    let text = "try again".to_owned();
    assert_eq!(failure.hint, Some(Hint::Recorded { text }));
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILE_NAME), "").unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    store.create_session(new_session(1)).await.unwrap();
    assert_eq!(count_sessions(&store).await, 1);
}

#[tokio::test]
async fn a_partially_created_store_is_recreated() {
    let source_directory = tempfile::tempdir().unwrap();
    let half_made = source_directory.path().join(FILE_NAME);
    #[expect(clippy::disallowed_methods, reason = "a file as a kill may leave it")]
    let db = rusqlite::Connection::open(&half_made).unwrap();
    // With a small cache SQLite writes to the file before the commit, and the journal contains the data for the
    // rollback.
    db.execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (x);")
        .unwrap();
    for _ in 0..200 {
        db.execute("INSERT INTO t VALUES (zeroblob(4000))", [])
            .unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    for name in [FILE_NAME, "segue.db-journal"] {
        fs::copy(
            source_directory.path().join(name),
            directory.path().join(name),
        )
        .unwrap();
    }
    let store = SqliteStore::open(directory.path()).unwrap();
    store.create_session(new_session(1)).await.unwrap();
    assert_eq!(count_sessions(&store).await, 1);
}

#[test]
fn a_foreign_file_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    fs::write(
        &path,
        "not a database at all, but long enough to be looked at".repeat(20),
    )
    .unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(
        SqliteStore::open(directory.path()),
        Err(StoreError::Corrupt { .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn concurrent_writers_in_several_stores_wait_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let stores: Vec<_> = (0..4)
        .map(|_| Arc::new(SqliteStore::open(directory.path()).unwrap()))
        .collect();
    let mut tasks = Vec::new();
    for n in 0..200 {
        let store = Arc::clone(&stores[n as usize % 4]);
        tasks.push(tokio::spawn(async move {
            store.create_session(new_session(n)).await
        }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(count_sessions(&stores[0]).await, 200);
}

#[tokio::test]
async fn a_failed_job_does_not_affect_other_jobs_of_its_batch() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
    store.create_session(new_session(7)).await.unwrap();
    // All tasks are queued at once, so that they share commits. Every third one creates a session that already exists.
    let tasks: Vec<_> = (0..60)
        .map(|n| {
            let store = Arc::clone(&store);
            let id = if n % 3 == 0 { 7 } else { 100 + n };
            tokio::spawn(async move { store.create_session(new_session(id)).await.is_ok() })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        created += usize::from(task.await.unwrap());
    }
    assert_eq!(created, 40);
    assert_eq!(count_sessions(&store).await, 41);
}
