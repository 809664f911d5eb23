//! Lookup of the session for a purpose, without a prompt.

use segue_core::id::{FeatureId, ProviderId};
use segue_core::policy::Policy;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::OpenMode;
use segue_engine::{Conversation, PurposeSession, MessageAuthor, Target};
use segue_store::Store;

use crate::scripted::{Stage, done, say};

async fn session_for(stage: &Stage, feature: &str, provider: Option<&str>) -> PurposeSession {
    let purpose = Purpose::for_scope(Scope::Feature(FeatureId::parse(feature).unwrap()));
    let provider = provider.map(|name| ProviderId::parse(name).unwrap());
    let project = stage.request("", Target::New).project;
    let found = stage
        .engine
        .session_for_purpose(&purpose, provider.as_ref(), &project)
        .await;
    found.unwrap()
}

#[tokio::test]
async fn it_is_made_once_and_is_the_one_that_a_prompt_goes_to() {
    let stage = Stage::with(&["codex"], Policy::default());
    let made = session_for(&stage, "pay", None).await;
    assert!(made.is_new);
    assert_eq!(made.session.title.as_str(), "feature pay");
    assert_eq!(made.session.provider.as_str(), "scripted");
    let log = stage.store.decisions(&made.session.id, 9).await.unwrap();
    assert_eq!(log.len(), made.decisions.len());

    let again = session_for(&stage, "pay", None).await;
    assert!(!again.is_new);
    assert_eq!(again.session.id, made.session.id);
    let log_after = stage.store.decisions(&made.session.id, 9).await.unwrap();
    assert_eq!(log_after, log, "a look changes nothing");
    let other = session_for(&stage, "pay-2", None).await;
    assert_ne!(other.session.id, made.session.id);
    let codex = session_for(&stage, "pay", Some("codex")).await;
    assert!(codex.is_new && codex.session.provider.as_str() == "codex");

    let purpose = made.session.purpose.clone().unwrap();
    let mut request = stage.request("go", Target::Scope(purpose));
    request.provider = Some(made.session.provider.clone());
    stage.script([say("ok"), done()]);
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.session, made.session.id);
    assert_eq!(report.opened.unwrap().0, OpenMode::Fresh);
    let heard = stage.agent.heard.lock().unwrap().prompts.clone();
    assert_eq!(heard, ["[Feature: pay]\n\ngo"]);
}

#[tokio::test]
async fn what_is_added_before_the_first_prompt_is_in_its_brief() {
    let stage = Stage::new();
    let session = session_for(&stage, "pay", None).await.session;
    let engine = &stage.engine;
    let added = engine.add_message(&session.id, MessageAuthor::User, "amounts are in cents");
    added.await.unwrap();
    let session = stage.store.session(&session.id).await.unwrap().unwrap();
    let status = engine.session_status(&session).await.unwrap();
    let conversation = Conversation::Session(Box::new(session.clone()), status);
    let preview = engine.preview_brief(&conversation, None, "go").await.unwrap();

    let report = stage.turn("go", Target::Session(session.id)).await;
    assert_eq!(
        (report.turn, report.opened.unwrap().0),
        (2, OpenMode::Briefed)
    );
    let heard = stage.agent.heard.lock().unwrap().prompts.clone();
    assert_eq!(heard, [preview.brief.prepend_to("go")]);
    assert!(heard[0].starts_with("[Feature: pay]\n\n"));
    assert!(heard[0].contains("> amounts are in cents\n"));
}
