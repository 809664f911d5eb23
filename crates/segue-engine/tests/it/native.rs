//! Native sessions in lists and lookups, together with segue's sessions.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use segue_catalog::{
    Catalog, SessionLocation, SessionHead, IdHint, NativeSessionKind, ReadError, Reader, Records, ReadStart, SessionScan,
};
use segue_core::id::NativeId;
use segue_core::session::{Project, SessionRef, Title};
use segue_engine::{Conversation, EngineError, Freshness, RefContext, Target};
use segue_store::SessionFilter;

use crate::scripted::{Stage, same};

/// An agent with these sessions, oldest first. A session has an id and no records.
struct Names(&'static [&'static str]);

impl Reader for Names {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn scan_sessions(&self) -> SessionScan {
        let found = self.0.iter().zip(1..).map(|(id, second)| SessionLocation {
            path: PathBuf::from(id),
            id_hint: IdHint::Complete((*id).to_owned()),
            size: 1,
            modified: Timestamp::from_second(second).unwrap(),
            archived: false,
        });
        SessionScan {
            locations: found.collect(),
            unreadable: Vec::new(),
        }
    }

    fn read_head(&self, found: &SessionLocation) -> Result<SessionHead, ReadError> {
        let id = NativeId::parse(found.path.to_str().unwrap()).unwrap();
        Ok(SessionHead {
            kind: NativeSessionKind::Conversation,
            cwd: Some("/".into()),
            title: Some(Title::from_prompt("hello")),
            ..SessionHead::new(id, found.modified)
        })
    }

    fn open_records(&self, found: &SessionLocation, _: &ReadStart) -> Result<Box<dyn Records>, ReadError> {
        Err(ReadError::NotASession {
            path: found.path.clone(),
            reason: "there is nothing but its name".into(),
        })
    }
}

fn stage(names: &'static [&'static str]) -> Stage {
    Stage::beside(Catalog::new(vec![Arc::new(Names(names))]))
}

async fn ids(stage: &Stage, limit: u32) -> (Vec<String>, bool) {
    let listed = stage
        .engine
        .list_conversations(&SessionFilter::default(), limit, Freshness::Fresh)
        .await
        .unwrap();
    let ids = listed.rows.iter().map(|row| row.id().to_string());
    (ids.collect(), listed.has_more)
}

#[tokio::test]
async fn a_native_session_that_carries_one_of_ours_is_not_listed_again() {
    let stage = stage(&["native-1", "native-2", "their-own"]);
    let report = stage.turn("hello", Target::New).await;
    let own = report.session.to_string();
    // The native id of the session is native-1, which the catalog lists too.
    let (listed, more) = ids(&stage, 10).await;
    assert_eq!(listed, [&own, "scripted:their-own", "scripted:native-2"]);
    assert!(!more);
    // A second leg, on native-2, ends the first one. Both native sessions stay attached to the session.
    *stage.agent.goes_on.lock().unwrap() = segue_core::session::OpenMode::Fresh;
    stage.turn("again", same(&report)).await;
    assert_eq!(ids(&stage, 10).await.0, [&own, "scripted:their-own"]);
    assert_eq!(ids(&stage, 1).await, (vec![own], true));
}

#[tokio::test]
async fn a_reference_means_ours_before_theirs() {
    let stage = stage(&["native-1", "native-10", "other"]);
    let report = stage.turn("hello", Target::New).await;
    let standpoint = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let find = async |text: &str| {
        let reference = SessionRef::parse(text).unwrap();
        stage.engine.find_conversation(&reference, &standpoint).await
    };
    for ours in ["native-1", report.session.as_str()] {
        let found = find(ours).await.unwrap();
        assert!(matches!(found, Conversation::Session(..)), "{ours}");
    }
    for theirs in ["oth", "other", "scripted:other", "native-10"] {
        let found = find(theirs).await.unwrap();
        assert!(matches!(found, Conversation::Native(_)), "{theirs}");
    }
    assert!(matches!(
        find("nowhere").await,
        Err(EngineError::NoMatch(_))
    ));
    let reference = SessionRef::parse("other").unwrap();
    let taken = stage.engine.find_session(&reference, &standpoint).await;
    assert!(matches!(taken, Err(EngineError::NotAdopted(_))));
}
