//! A search ends in time, whatever there is to read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use segue_catalog::{
    Catalog, Event, Found, Head, IdHint, Kind, Mark, ReadError, Reader, Record, Records, Said,
    Skipped, Start, Whereabouts,
};
use segue_core::{Message, NativeId, ProcessMark, Role};
use segue_engine::{Engine, Query, SearchRequest, World};
use segue_sqlite::SqliteStore;

/// An agent with two sessions: one that never ends, and an older one.
struct Endless;

impl Reader for Endless {
    fn provider(&self) -> &'static str {
        "endless"
    }

    fn find(&self) -> Whereabouts {
        let found = ["old", "new"].iter().zip(1..).map(|(id, second)| Found {
            path: PathBuf::from(id),
            id: IdHint::Whole((*id).to_owned()),
            size: 1,
            modified: Timestamp::from_second(second).unwrap(),
            archived: false,
        });
        Whereabouts {
            found: found.collect(),
            unreadable: Vec::new(),
        }
    }

    fn head(&self, found: &Found) -> Result<Head, ReadError> {
        let id = NativeId::parse(found.path.to_str().unwrap()).unwrap();
        Ok(Head {
            kind: Kind::Conversation,
            ..Head::new(id, found.modified)
        })
    }

    fn records(&self, _: &Found, _: &Start) -> Result<Box<dyn Records>, ReadError> {
        Ok(Box::new(Hay))
    }
}

struct Hay;

impl Records for Hay {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let message = Message::text(Role::User, "hay", Timestamp::UNIX_EPOCH);
        Ok(Some(Record {
            mark: Mark::Id("1".into()),
            at: None,
            events: vec![Event::Prompt(Said { key: None, message })],
        }))
    }

    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

/// A clock that goes on a tenth of a second whenever it is looked at.
fn now() -> Timestamp {
    static TENTHS: AtomicI64 = AtomicI64::new(0);
    let tenths = TENTHS.fetch_add(1, Ordering::Relaxed);
    Timestamp::from_millisecond(tenths * 100).unwrap()
}

#[tokio::test]
async fn an_endless_session_does_not_hold_up_a_search() {
    let home = tempfile::tempdir().unwrap();
    let world = World {
        now,
        random: || 0,
        me: ProcessMark {
            host: "here".into(),
            pid: 1,
            started: "now".into(),
        },
    };
    let store = Arc::new(SqliteStore::open(home.path()).unwrap());
    let catalog = Catalog::new(vec![Arc::new(Endless)]);
    let engine = Engine::new(store, Vec::new(), catalog, world);
    let request = SearchRequest {
        query: Query::parse("needle").unwrap(),
        project: None,
        limit: 10,
    };
    let report = engine.search(&request).await.unwrap();
    assert_eq!(
        report.to_string(),
        "Nothing was found in 0 session(s).\n\n\
         The search stopped after 5 seconds, with 0 of 2 session(s) looked at: there may be more.\n"
    );
}
