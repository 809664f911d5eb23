//! Deletion of conversations that are indexed or in use.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use segue_catalog::{Archive, Catalog, ClaudeReader, Index, Trash};
use segue_core::session::{Project, SessionRef};
use segue_engine::{
    AccessError, ArchiveService, Conversation, DeleteMode, DeleteScope, Library, RefContext,
    Target, UpkeepError,
};

use crate::scripted::EngineHarness;

const SAMPLE_TRANSCRIPT: &str =
    include_str!("../../../segue-providers/tests/it/samples/claude.jsonl");
const SAMPLE_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

/// Creates a harness whose engine has an index, an archive and a trash.
fn harness_with_archive(home: &Path) -> EngineHarness {
    let claude = ClaudeReader::new(home.join("claude"));
    let mut harness = EngineHarness::with_catalog(Catalog::new(vec![Arc::new(claude)]));
    harness.engine = harness
        .engine_builder()
        .with_index(Index::new(home))
        .with_archive_service(ArchiveService {
            archive: Archive::open(home),
            trash: Trash::open(home),
            exports_dir: home.join("tmp"),
            guard_dir: home.join("kept"),
            native_clis: Vec::new(),
        })
        .build();
    harness
}

async fn find_conversation(harness: &EngineHarness, text: &str) -> Conversation {
    let ref_context = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let reference = SessionRef::parse(text).unwrap();
    harness
        .engine
        .resolver()
        .find_conversation(&reference, &ref_context)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_session_opened_after_the_delete_plan_is_not_deleted() {
    let home = tempfile::tempdir().unwrap();
    let file = home
        .path()
        .join(format!("claude/projects/-w/{SAMPLE_ID}.jsonl"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, SAMPLE_TRANSCRIPT).unwrap();
    let harness = harness_with_archive(home.path());
    let conversation = find_conversation(&harness, SAMPLE_ID).await;
    let plan = harness
        .engine
        .upkeep()
        .plan_delete(&conversation, DeleteScope::Everything, DeleteMode::Trash)
        .await
        .unwrap();
    assert_eq!(plan.natives[0].process, None);
    let open_file = File::open(&file).unwrap();
    let mut sleep = Command::new("sleep");
    let mut child = sleep
        .arg("60")
        .stdin(Stdio::from(open_file))
        .spawn()
        .unwrap();
    let result = harness.engine.upkeep().delete_conversation(&plan).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        matches!(&result, Err(UpkeepError::Access(AccessError::InUse { pid, .. })) if *pid == child.id()),
        "{result:?}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), SAMPLE_TRANSCRIPT);
    assert!(Trash::open(home.path()).list().0.is_empty());
    harness
        .engine
        .upkeep()
        .delete_conversation(&plan)
        .await
        .unwrap();
    assert!(!file.exists());
}

#[tokio::test]
async fn deleted_sessions_are_removed_from_the_index() {
    let home = tempfile::tempdir().unwrap();
    let harness = harness_with_archive(home.path());
    for is_direct_delete in [true, false] {
        let id = harness.run_turn("hello", Target::New).await.session;
        harness
            .engine
            .library()
            .refresh_index(Library::INDEX_LOCK_TIMEOUT, Arc::new(|_| ()))
            .await
            .unwrap();
        let indexed_turns = || {
            harness
                .engine
                .library()
                .index()
                .unwrap()
                .own_turn_ids(&id)
                .unwrap()
        };
        assert!(!indexed_turns().is_empty());
        let conversation = find_conversation(&harness, id.as_str()).await;
        match &conversation {
            Conversation::Session(session, _) if is_direct_delete => {
                harness
                    .engine
                    .sessions()
                    .delete_session(session)
                    .await
                    .unwrap();
            }
            conversation => {
                let plan = harness
                    .engine
                    .upkeep()
                    .plan_delete(conversation, DeleteScope::Everything, DeleteMode::Purge)
                    .await
                    .unwrap();
                harness
                    .engine
                    .upkeep()
                    .delete_conversation(&plan)
                    .await
                    .unwrap();
            }
        }
        assert!(
            indexed_turns().is_empty(),
            "direct delete: {is_direct_delete}"
        );
    }
}
