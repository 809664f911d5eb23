//! Tests of the index: the work of a refresh, searches, and recovery from failures.

mod damage;
mod incremental;
mod search;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use segue_catalog::index::{IndexFilter, IndexedSession, RefreshOutcome, RefreshStats};
use segue_catalog::{Catalog, Index, Reader};

use crate::agents::{SAMPLE_AGENTS, SampleAgent};

/// Creates a catalog of some agents' sessions below a directory, each in a home of its own.
fn create_catalog(home: &Path, agents: &[&SampleAgent]) -> Catalog {
    let readers = agents.iter().map(|agent| {
        let reader: Arc<dyn Reader> = Arc::from((agent.new_reader)(&home.join(agent.name)));
        reader
    });
    Catalog::new(readers.collect())
}

/// Returns one format of each agent.
fn first_format_per_agent() -> Vec<&'static SampleAgent> {
    let mut providers = BTreeSet::new();
    let is_first =
        |agent: &&SampleAgent| providers.insert((agent.new_reader)(Path::new("/")).provider());
    SAMPLE_AGENTS.iter().filter(is_first).collect()
}

fn refresh(index: &Index, catalog: &Catalog) -> RefreshStats {
    match index
        .refresh(catalog, Timestamp::now(), Duration::from_secs(10), &|_| ())
        .unwrap()
    {
        RefreshOutcome::Completed(stats) => stats,
        RefreshOutcome::Busy => panic!("somebody else is at it"),
    }
}

fn list_sessions(index: &Index, include_missing: bool) -> Vec<IndexedSession> {
    let filter = IndexFilter {
        include_missing,
        ..IndexFilter::default()
    };
    index.list_sessions(&filter, 1000, 0).unwrap()
}

/// Returns the complete content of an index, without the ids of its rows.
#[expect(clippy::disallowed_methods, reason = "a look from outside")]
fn dump(index: &Index) -> BTreeSet<String> {
    let db = Connection::open(index.path()).unwrap();
    let rows = |sql: &str| {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cell = |n| row.get::<_, rusqlite::types::Value>(n);
            let cells: rusqlite::Result<Vec<_>> = (0..columns).map(cell).collect();
            Ok(format!("{:?}", cells?))
        });
        rows.unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap()
    };
    let mut content = BTreeSet::new();
    content.extend(rows(
        "SELECT 'source', provider, path, part, size, modified, verdict, native_id FROM source",
    ));
    content.extend(rows(
        "SELECT 'session', provider, native_id, state, project, cwd, branch, title, title_from, first_prompt,
             last_prompt, forked_from, version, model, created_at, updated_at, turns, messages, input, output, cached,
             total, context FROM session",
    ));
    content.extend(rows(
        "SELECT 'turn', session.native_id, turn.id & 1048575, at, after, turn.messages, turn.input, turn.output,
             turn.cached, turn.total
         FROM turn JOIN session ON session.id = turn.id >> 20",
    ));
    db.execute_batch("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, 'text', 'instance')")
        .unwrap();
    content.extend(rows(
        "SELECT 'word', coalesce(session.native_id, 'nobody'), doc & 1048575, col, term, offset
         FROM temp.words LEFT JOIN session ON session.id = doc >> 20",
    ));
    content
}

#[test]
fn a_second_refresh_reads_nothing_and_writes_nothing() {
    let (home, index_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agents = first_format_per_agent();
    for agent in &agents {
        agent.write_session(&home.path().join(agent.name), agent.sample.as_bytes());
    }
    let catalog = create_catalog(home.path(), &agents);
    let index = Index::new(index_dir.path());
    let first = refresh(&index, &catalog);
    assert_eq!(
        (first.sources_read, first.sources),
        (agents.len(), agents.len())
    );
    assert!(first.bytes_read > 0 && first.rows_changed > 0);
    assert_eq!(list_sessions(&index, false).len(), agents.len());

    let snapshot_files = || {
        let files = std::fs::read_dir(index_dir.path())
            .unwrap()
            .map(Result::unwrap);
        let files = files.filter(|file| !file.path().to_string_lossy().ends_with("-shm"));
        let states = files.map(|file| {
            let metadata = file.metadata().unwrap();
            (
                file.path(),
                metadata.len(),
                metadata.modified().unwrap(),
                std::fs::read(file.path()).unwrap(),
            )
        });
        states.collect::<BTreeSet<_>>()
    };
    let before = snapshot_files();
    let second = refresh(&Index::new(index_dir.path()), &catalog);
    assert_eq!(
        (second.sources_read, second.bytes_read, second.rows_changed),
        (0, 0, 0)
    );
    assert_eq!(second.sources, agents.len());
    assert!(snapshot_files() == before, "a file was written");
}
