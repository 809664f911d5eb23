//! Lookup of the session for a purpose, without a prompt.

use segue_core::id::{FeatureId, ProviderId};
use segue_core::policy::Policy;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::OpenMode;
use segue_engine::{MessageAuthor, PurposeSession, Target};

use crate::scripted::{EngineHarness, end_turn, send_text};

async fn find_or_create_session(
    harness: &EngineHarness,
    feature: &str,
    provider: Option<&str>,
) -> PurposeSession {
    let purpose = Purpose::for_scope(Scope::Feature(FeatureId::parse(feature).unwrap()));
    let provider = provider.map(|name| ProviderId::parse(name).unwrap());
    let project = harness.request("", Target::New).project;
    let session = harness
        .engine
        .resolver()
        .session_for_purpose(&purpose, provider.as_ref(), &project)
        .await;
    session.unwrap()
}

#[tokio::test]
async fn the_session_of_a_purpose_is_created_once_and_receives_its_prompts() {
    let harness = EngineHarness::with_agents(&["codex"], Policy::default());
    let created = find_or_create_session(&harness, "pay", None).await;
    assert!(created.is_new);
    assert_eq!(created.session.title.as_str(), "feature pay");
    assert_eq!(created.session.provider.as_str(), "scripted");
    let log = harness
        .store
        .decisions(&created.session.id, 9)
        .await
        .unwrap();
    assert_eq!(log.len(), created.decisions.len());

    let existing = find_or_create_session(&harness, "pay", None).await;
    assert!(!existing.is_new);
    assert_eq!(existing.session.id, created.session.id);
    let log_after = harness
        .store
        .decisions(&created.session.id, 9)
        .await
        .unwrap();
    assert_eq!(log_after, log, "a lookup changes nothing");
    let other_feature = find_or_create_session(&harness, "pay-2", None).await;
    assert_ne!(other_feature.session.id, created.session.id);
    let codex_session = find_or_create_session(&harness, "pay", Some("codex")).await;
    assert!(codex_session.is_new && codex_session.session.provider.as_str() == "codex");

    let purpose = created.session.purpose.clone().unwrap();
    let mut request = harness.request("go", Target::Scope(purpose));
    request.provider = Some(created.session.provider.clone());
    harness.script([send_text("ok"), end_turn()]);
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.session, created.session.id);
    assert_eq!(report.opened.unwrap().0, OpenMode::Fresh);
    let prompts = harness.agent.received.lock().unwrap().prompts.clone();
    assert_eq!(prompts, ["[Feature: pay]\n\ngo"]);
}

#[tokio::test]
async fn messages_added_before_the_first_prompt_are_in_its_brief() {
    let harness = EngineHarness::new();
    let session = find_or_create_session(&harness, "pay", None).await.session;
    let engine = &harness.engine;
    let adding =
        engine
            .sessions()
            .add_message(&session.id, MessageAuthor::User, "amounts are in cents");
    adding.await.unwrap();
    let conversation = engine.library().conversation(&session.id).await.unwrap();
    let preview = engine
        .briefs()
        .preview_brief(&conversation, None, "go")
        .await
        .unwrap();

    let report = harness.run_turn("go", Target::Session(session.id)).await;
    assert_eq!(
        (report.turn, report.opened.unwrap().0),
        (2, OpenMode::Briefed)
    );
    let prompts = harness.agent.received.lock().unwrap().prompts.clone();
    assert_eq!(prompts, [preview.plan.brief.prepend_to("go")]);
    assert!(prompts[0].starts_with("[Feature: pay]\n\n"));
    assert!(prompts[0].contains("> amounts are in cents\n"));
}
