//! Native sessions in lists and lookups, together with segue's sessions.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use segue_catalog::{
    Catalog, Found, Head, IdHint, Kind, ReadError, Reader, Records, Start, Whereabouts,
};
use segue_core::id::NativeId;
use segue_core::session::{Project, SessionRef, Title};
use segue_engine::{Conversation, EngineError, Freshness, Standpoint, Target};
use segue_store::Filter;

use crate::scripted::{Stage, same};

/// An agent with these sessions, oldest first. A session has an id and no records.
struct Names(&'static [&'static str]);

impl Reader for Names {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn find(&self) -> Whereabouts {
        let found = self.0.iter().zip(1..).map(|(id, second)| Found {
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
            cwd: Some("/".into()),
            title: Some(Title::from_prompt("hello")),
            ..Head::new(id, found.modified)
        })
    }

    fn records(&self, found: &Found, _: &Start) -> Result<Box<dyn Records>, ReadError> {
        Err(ReadError::NotASession {
            path: found.path.clone(),
            why: "there is nothing but its name".into(),
        })
    }
}

fn stage(names: &'static [&'static str]) -> Stage {
    Stage::beside(Catalog::new(vec![Arc::new(Names(names))]))
}

async fn ids(stage: &Stage, limit: u32) -> (Vec<String>, bool) {
    let listed = stage
        .engine
        .conversations(&Filter::default(), limit, Freshness::Fresh)
        .await
        .unwrap();
    let ids = listed.rows.iter().map(|row| row.id().to_string());
    (ids.collect(), listed.more)
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
    *stage.agent.goes_on.lock().unwrap() = segue_core::session::Opened::Fresh;
    stage.turn("again", same(&report)).await;
    assert_eq!(ids(&stage, 10).await.0, [&own, "scripted:their-own"]);
    assert_eq!(ids(&stage, 1).await, (vec![own], true));
}

#[tokio::test]
async fn a_reference_means_ours_before_theirs() {
    let stage = stage(&["native-1", "native-10", "other"]);
    let report = stage.turn("hello", Target::New).await;
    let standpoint = Standpoint {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let find = async |text: &str| {
        let reference = SessionRef::parse(text).unwrap();
        stage.engine.find_any(&reference, &standpoint).await
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
    let taken = stage.engine.find(&reference, &standpoint).await;
    assert!(matches!(taken, Err(EngineError::OnlyNative(_))));
}
