//! Native sessions in lists and lookups, together with segue's sessions.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use segue_catalog::{
    Catalog, IdHint, NativeSessionKind, ReadError, ReadStart, Reader, Records, SessionHead,
    SessionLocation, SessionScan,
};
use segue_core::id::NativeId;
use segue_core::session::{Project, SessionRef, Title};
use segue_engine::{Conversation, Freshness, RefContext, ResolveError, Target};
use segue_store::SessionFilter;

use crate::scripted::{EngineHarness, session_target};

/// An agent with these sessions, oldest first. A session has an id and no records.
struct IdOnlyReader(&'static [&'static str]);

impl Reader for IdOnlyReader {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn scan_sessions(&self) -> SessionScan {
        let locations = self.0.iter().zip(1..).map(|(id, second)| SessionLocation {
            path: PathBuf::from(id),
            id_hint: IdHint::Complete((*id).to_owned()),
            size: 1,
            modified: Timestamp::from_second(second).unwrap(),
            archived: false,
        });
        SessionScan {
            locations: locations.collect(),
            unreadable: Vec::new(),
        }
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        let id = NativeId::parse(location.path.to_str().unwrap()).unwrap();
        Ok(SessionHead {
            kind: NativeSessionKind::Conversation,
            cwd: Some("/".into()),
            title: Some(Title::from_prompt("hello")),
            ..SessionHead::new(id, location.modified)
        })
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        _: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        Err(ReadError::NotASession {
            path: location.path.clone(),
            reason: "the session has no records".into(),
        })
    }
}

fn harness_with_natives(ids: &'static [&'static str]) -> EngineHarness {
    EngineHarness::with_catalog(Catalog::new(vec![Arc::new(IdOnlyReader(ids))]))
}

async fn list_ids(harness: &EngineHarness, limit: u32) -> (Vec<String>, bool) {
    let conversations = harness
        .engine
        .library()
        .list_conversations(&SessionFilter::default(), limit, Freshness::Fresh)
        .await
        .unwrap();
    let ids = conversations.rows.iter().map(|row| row.id().to_string());
    (ids.collect(), conversations.has_more)
}

#[tokio::test]
async fn a_native_session_attached_to_a_session_is_not_listed() {
    let harness = harness_with_natives(&["native-1", "native-2", "their-own"]);
    let report = harness.run_turn("hello", Target::New).await;
    let own_id = report.session.to_string();
    // The native id of the session is native-1, which the catalog lists too.
    let (listed, has_more) = list_ids(&harness, 10).await;
    assert_eq!(listed, [&own_id, "scripted:their-own", "scripted:native-2"]);
    assert!(!has_more);
    // A second leg, on native-2, ends the first one. Both native sessions stay attached to the session.
    *harness.agent.resume_mode.lock().unwrap() = segue_core::session::OpenMode::Fresh;
    harness.run_turn("again", session_target(&report)).await;
    assert_eq!(
        list_ids(&harness, 10).await.0,
        [&own_id, "scripted:their-own"]
    );
    assert_eq!(list_ids(&harness, 1).await, (vec![own_id], true));
}

#[tokio::test]
async fn a_reference_matches_sessions_before_native_sessions() {
    let harness = harness_with_natives(&["native-1", "native-10", "other"]);
    let report = harness.run_turn("hello", Target::New).await;
    let ref_context = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let find_conversation = async |text: &str| {
        let reference = SessionRef::parse(text).unwrap();
        harness
            .engine
            .resolver()
            .find_conversation(&reference, &ref_context)
            .await
    };
    for session_reference in ["native-1", report.session.as_str()] {
        let conversation = find_conversation(session_reference).await.unwrap();
        assert!(
            matches!(conversation, Conversation::Session(..)),
            "{session_reference}"
        );
    }
    for native_reference in ["oth", "other", "scripted:other", "native-10"] {
        let conversation = find_conversation(native_reference).await.unwrap();
        assert!(
            matches!(conversation, Conversation::Native(_)),
            "{native_reference}"
        );
    }
    assert!(matches!(
        find_conversation("missing").await,
        Err(ResolveError::NoMatch(_))
    ));
    let reference = SessionRef::parse("other").unwrap();
    let result = harness
        .engine
        .resolver()
        .find_session(&reference, &ref_context)
        .await;
    assert!(matches!(result, Err(ResolveError::NotAdopted(_))));
}
