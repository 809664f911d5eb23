//! Deletion of conversations that are indexed or in use.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use segue_catalog::{Archive, Catalog, ClaudeReader, Index, Trash};
use segue_core::session::{Project, SessionRef};
use segue_engine::{Conversation, EngineError, DeleteScope, DeleteMode, RefContext, Target, ArchiveService};

use crate::scripted::Stage;

const SAMPLE: &str = include_str!("../../../segue-catalog/tests/it/samples/claude.jsonl");
const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

/// Creates a stage whose engine has an index, an archive and a trash.
fn stage(home: &Path) -> Stage {
    let claude = ClaudeReader::new(home.join("claude"));
    let mut stage = Stage::beside(Catalog::new(vec![Arc::new(claude)]));
    stage.engine = stage
        .engine
        .with_index(Index::new(home))
        .with_archive_service(ArchiveService {
            archive: Archive::open(home),
            trash: Trash::open(home),
            exports_dir: home.join("tmp"),
            guard_dir: home.join("kept"),
            native_clis: Vec::new(),
        });
    stage
}

async fn find(stage: &Stage, text: &str) -> Conversation {
    let standpoint = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let reference = SessionRef::parse(text).unwrap();
    stage
        .engine
        .find_conversation(&reference, &standpoint)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_session_that_is_opened_while_a_person_thinks_stays() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(format!("claude/projects/-w/{ID}.jsonl"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, SAMPLE).unwrap();
    let stage = stage(home.path());
    let found = find(&stage, ID).await;
    let plan = stage
        .engine
        .plan_delete(&found, DeleteScope::Everything, DeleteMode::Trash)
        .await
        .unwrap();
    assert_eq!(plan.natives[0].process, None);
    let open = File::open(&file).unwrap();
    let mut sleep = Command::new("sleep");
    let mut child = sleep.arg("60").stdin(Stdio::from(open)).spawn().unwrap();
    let refused = stage.engine.delete_conversation(&plan).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        matches!(&refused, Err(EngineError::InUse { pid, .. }) if *pid == child.id()),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), SAMPLE);
    assert!(Trash::open(home.path()).list().0.is_empty());
    stage.engine.delete_conversation(&plan).await.unwrap();
    assert!(!file.exists());
}

#[tokio::test]
async fn the_index_forgets_what_is_deleted() {
    let home = tempfile::tempdir().unwrap();
    let stage = stage(home.path());
    for forget in [true, false] {
        let id = stage.turn("hello", Target::New).await.session;
        stage.engine.refresh_index(Arc::new(|_| ())).await.unwrap();
        let known = || stage.engine.index().unwrap().own_turn_ids(&id).unwrap();
        assert!(!known().is_empty());
        let found = find(&stage, id.as_str()).await;
        match &found {
            Conversation::Session(session, _) if forget => {
                stage.engine.delete_session(session).await.unwrap();
            }
            found => {
                let plan = stage
                    .engine
                    .plan_delete(found, DeleteScope::Everything, DeleteMode::Purge)
                    .await
                    .unwrap();
                stage.engine.delete_conversation(&plan).await.unwrap();
            }
        }
        assert!(known().is_empty(), "forget: {forget}");
    }
}
