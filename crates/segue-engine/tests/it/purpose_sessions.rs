//! Sessions by purpose: which session a prompt continues, and what the agent receives about its purpose.

use jiff::{SignedDuration, Timestamp};
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::policy::{Cooldown, Policy, WaitPreference};
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};
use segue_core::session::{
    DecisionKind, FailureClass, OpenMode, Project, ResolutionStepKind, SessionRef, Tag, Title,
    TitleSource,
};
use segue_engine::{
    AccessError, ChatRequest, RefContext, ResolveError, Target, TurnError, TurnEvent, TurnReport,
};
use segue_store::{PageRequest, SessionFilter, StoreError, TagChange};

use crate::scripted::{EngineHarness, end_turn, send_text, session_target};
use crate::{decision_text, step_text};

fn feature(name: &str) -> Purpose {
    Purpose::for_scope(Scope::Feature(FeatureId::parse(name).unwrap()))
}

fn task(feature: Option<&str>, state: &str) -> Purpose {
    Purpose::for_scope(Scope::Task {
        feature: feature.map(|name| FeatureId::parse(name).unwrap()),
        task: TaskId::parse("t").unwrap(),
        state: TaskState::parse(state).unwrap(),
    })
}

fn with_qa_role(purpose: Purpose) -> Purpose {
    Purpose {
        role: Some(RoleName::parse("qa").unwrap()),
        ..purpose
    }
}

async fn run_turn_for(
    harness: &EngineHarness,
    target: fn(Purpose) -> Target,
    purpose: &Purpose,
    prompt: &str,
) -> TurnReport {
    harness.script([send_text("heard"), end_turn()]);
    let request = harness.request(prompt, target(purpose.clone()));
    harness.chat(request, |_| {}).await.unwrap()
}

async fn run_scoped_turn(harness: &EngineHarness, purpose: &Purpose) -> SessionId {
    run_turn_for(harness, Target::Scope, purpose, "go")
        .await
        .session
}

#[tokio::test]
async fn each_purpose_resumes_its_own_session() {
    let harness = EngineHarness::new();
    let without_purpose = harness.run_turn("x", Target::New).await.session;
    let purposes = [
        Purpose::for_scope(Scope::Project),
        with_qa_role(Purpose::for_scope(Scope::Project)),
        feature("auth"),
        feature("auth-2"),
        with_qa_role(feature("auth")),
        task(None, "dev"),
        task(Some("auth"), "dev"),
        task(Some("auth"), "qa"),
    ];
    let mut sessions: Vec<SessionId> = vec![without_purpose];
    for purpose in &purposes {
        let session = run_scoped_turn(&harness, purpose).await;
        assert!(
            !sessions.contains(&session),
            "{purpose} resumed the session of another purpose"
        );
        sessions.push(session);
    }
    for (purpose, session) in purposes.iter().zip(&sessions[1..]) {
        assert_eq!(
            run_scoped_turn(&harness, purpose).await,
            *session,
            "{purpose}"
        );
    }
}

#[tokio::test]
async fn only_the_first_prompt_of_a_native_session_has_a_header() {
    let harness = EngineHarness::new();
    let auth = feature("auth");
    let report = run_turn_for(&harness, Target::Scope, &auth, "one").await;
    run_turn_for(&harness, Target::Scope, &auth, "two").await;
    // The native session is lost, so another one receives a brief with the same header.
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    run_turn_for(&harness, Target::Scope, &auth, "three").await;
    let prompts = harness.agent.received.lock().unwrap().prompts.clone();
    assert_eq!(prompts[..2], ["[Feature: auth]\n\none", "two"]);
    assert!(
        prompts[2].starts_with("[Feature: auth]\n\n[Conversation so far"),
        "{}",
        prompts[2]
    );
    assert_eq!(prompts[2].matches("[Feature: auth]").count(), 1);
    // The record and the title contain only what the user wrote.
    let mut recorded_prompts = Vec::new();
    for turn in harness.store.turns(&report.session).await.unwrap() {
        recorded_prompts.push(harness.store.messages(turn.id).await.unwrap()[0].plain_text());
    }
    assert_eq!(recorded_prompts, ["one", "two", "three"]);
    let session = harness
        .store
        .session(&report.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(session.title.as_str(), "one");
}

#[tokio::test]
async fn the_most_recently_used_session_is_resumed() {
    let harness = EngineHarness::new();
    let auth = feature("auth");
    let first = run_turn_for(&harness, Target::Scope, &auth, "one").await;
    let second = run_turn_for(&harness, Target::NewWithPurpose, &auth, "two").await;
    assert_ne!(first.session, second.session);
    assert_eq!(run_scoped_turn(&harness, &auth).await, second.session);
    harness.run_turn("three", session_target(&first)).await;
    assert_eq!(run_scoped_turn(&harness, &auth).await, first.session);
    // A new title or tag is not activity.
    let title = Title::new("the other one", TitleSource::User).unwrap();
    let engine = &harness.engine;
    engine
        .sessions()
        .rename_session(&second.session, &title)
        .await
        .unwrap();
    let tag_change = TagChange {
        add: vec![Tag::parse("old").unwrap()],
        ..TagChange::default()
    };
    engine
        .sessions()
        .change_tags(&second.session, tag_change)
        .await
        .unwrap();
    assert_eq!(run_scoped_turn(&harness, &auth).await, first.session);
}

#[tokio::test]
async fn resolution_steps_are_reported_on_request() {
    let harness = EngineHarness::new();
    let mut all_steps = Vec::new();
    for _ in 0..2 {
        harness.script([send_text("heard"), end_turn()]);
        let request = ChatRequest {
            explain: Some(Vec::new()),
            ..harness.request("go", Target::Scope(with_qa_role(feature("auth"))))
        };
        let mut steps = None;
        let report = harness.chat(request, |event| {
            if let TurnEvent::Explained(explained) = event {
                steps = Some(explained);
            }
        });
        assert_eq!(report.await.unwrap().steps, steps);
        all_steps.push(steps.unwrap());
    }
    let kinds = |steps: &[segue_core::session::ResolutionStep]| -> Vec<ResolutionStepKind> {
        steps
            .iter()
            .map(segue_core::session::ResolutionStep::kind)
            .collect()
    };
    let [first, second] = all_steps.try_into().unwrap();
    assert_eq!(
        kinds(&first),
        [
            ResolutionStepKind::Id,
            ResolutionStepKind::Task,
            ResolutionStepKind::Feature,
            ResolutionStepKind::Catalog,
            ResolutionStepKind::New,
            ResolutionStepKind::Provider,
            ResolutionStepKind::Opening
        ]
    );
    assert_eq!(
        step_text(&first[2]),
        "the store has no session for feature auth as qa"
    );
    assert_eq!(
        kinds(&second),
        [
            ResolutionStepKind::Id,
            ResolutionStepKind::Task,
            ResolutionStepKind::Feature,
            ResolutionStepKind::Provider,
            ResolutionStepKind::Opening
        ]
    );
    let unexplained = run_turn_for(&harness, Target::Scope, &feature("auth"), "go").await;
    assert_eq!(unexplained.steps, None);
}

#[tokio::test]
async fn a_session_with_a_missing_directory_is_not_skipped() {
    let harness = EngineHarness::new();
    let directory = tempfile::tempdir().unwrap();
    let mut request = harness.request("go", Target::Scope(feature("auth")));
    let project_dir = directory.path().canonicalize().unwrap();
    request.project.cwd = project_dir.display().to_string();
    harness.script([send_text("heard"), end_turn()]);
    harness.chat(request.clone(), |_| {}).await.unwrap();
    drop(directory);
    let result = harness.chat(request.clone(), |_| {}).await;
    assert!(matches!(
        result,
        Err(TurnError::Resolve(ResolveError::SessionDirectoryMissing(
            ..
        )))
    ));
    // A new session replaces it.
    request.project.cwd = "/".into();
    request.target = Target::NewWithPurpose(feature("auth"));
    harness.script([send_text("heard"), end_turn()]);
    let new_report = harness.chat(request.clone(), |_| {}).await.unwrap();
    assert_eq!(
        run_scoped_turn(&harness, &feature("auth")).await,
        new_report.session
    );
}

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

/// Puts the first agent into a cooldown of three hours.
async fn set_cooldown(harness: &EngineHarness) {
    let cooldown = Cooldown {
        provider: provider("scripted"),
        until: Timestamp::now() + SignedDuration::from_hours(3),
        class: FailureClass::Quota,
    };
    harness.store.set_cooldown(cooldown).await.unwrap();
}

#[tokio::test]
async fn a_handed_off_session_stays_with_its_agent_during_the_cooldown() {
    let policy = Policy {
        fallback: vec![provider("spare")],
        ..Policy::default()
    };
    for purpose in [Some(feature("auth")), None] {
        let harness = EngineHarness::with_agents(&["spare"], policy.clone());
        let send_prompt = async |prompt: &str| {
            let target = match &purpose {
                Some(purpose) => Target::Scope(purpose.clone()),
                None => Target::NewestInDirectory,
            };
            let request = ChatRequest {
                provider: Some(provider("scripted")),
                explain: Some(Vec::new()),
                ..harness.request(prompt, target)
            };
            harness.chat(request, |_| {}).await.unwrap()
        };
        harness.script([send_text("heard"), end_turn()]);
        let first = send_prompt("one").await;
        assert_eq!(first.provider, provider("scripted"));
        set_cooldown(&harness).await;
        for n in 2..=4 {
            let spare = &harness.other_agents[0];
            spare
                .actions
                .lock()
                .unwrap()
                .extend([send_text("heard"), end_turn()]);
            let report = send_prompt("more").await;
            let actual = (report.session.clone(), report.turn, report.provider.clone());
            let expected = (first.session.clone(), n, provider("spare"));
            assert_eq!(actual, expected, "{:?}", report.decisions);
            let texts: Vec<String> = report.decisions.iter().map(decision_text).collect();
            assert!(
                texts
                    .iter()
                    .any(|text| text.starts_with("continuing session")),
                "{texts:?}"
            );
            assert!(
                !texts.iter().any(|text| text.contains("starting")),
                "{texts:?}"
            );
            if n > 2 {
                assert!(
                    texts.iter().any(|text| text.starts_with("spare took over")),
                    "{texts:?}"
                );
            }
            let new_steps = report
                .steps
                .unwrap()
                .into_iter()
                .filter(|step| step.kind() == ResolutionStepKind::New);
            assert_eq!(new_steps.count(), 0);
        }
    }
}

#[tokio::test]
async fn a_feature_name_matches_its_own_session_before_those_of_its_tasks() {
    let harness = EngineHarness::with_agents(&["spare"], Policy::default());
    let ref_context = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let reference = SessionRef::parse("feature:auth").unwrap();
    let find_session = async || {
        let result = harness
            .engine
            .resolver()
            .find_session(&reference, &ref_context)
            .await;
        result.map(|session| session.id)
    };
    let auth = feature("auth");
    let created = harness
        .engine
        .resolver()
        .session_for_purpose(&auth, None, &ref_context.project)
        .await;
    assert_eq!(find_session().await.unwrap(), created.unwrap().session.id);
    let task_session = run_scoped_turn(&harness, &task(Some("auth"), "dev")).await;
    assert_eq!(
        find_session().await.unwrap(),
        task_session,
        "the session of the feature is empty"
    );
    let own_session = run_scoped_turn(&harness, &auth).await;
    run_scoped_turn(&harness, &with_qa_role(auth.clone())).await;
    assert_eq!(find_session().await.unwrap(), own_session);

    // A second agent has a session for the feature too. It is not a match until it has turns, and then the name is
    // ambiguous.
    let spare = provider("spare");
    let spare_session = harness
        .engine
        .resolver()
        .session_for_purpose(&auth, Some(&spare), &ref_context.project)
        .await
        .unwrap();
    assert_eq!(find_session().await.unwrap(), own_session);
    let text = decision_text(&spare_session.decisions[0]);
    let command =
        format!("of scripted instead, run `segue session handoff {own_session} -p spare`");
    assert!(text.ends_with(&command), "{text}");
    let actions = [send_text("heard"), end_turn()];
    harness.other_agents[0]
        .actions
        .lock()
        .unwrap()
        .extend(actions);
    let request = harness.request("go", Target::Session(spare_session.session.id.clone()));
    harness.chat(request, |_| {}).await.unwrap();
    match find_session().await {
        Err(ResolveError::Ambiguous { candidates, .. }) => {
            let agents: Vec<_> = candidates
                .into_iter()
                .filter_map(|candidate| candidate.agent)
                .collect();
            assert_eq!(agents, [spare, provider("scripted")]);
        }
        outcome => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn resolution_steps_are_reported_for_a_refused_prompt() {
    let harness = EngineHarness::new();
    let session = run_scoped_turn(&harness, &feature("auth")).await;
    set_cooldown(&harness).await;
    let request = ChatRequest {
        explain: Some(Vec::new()),
        wait_preference: WaitPreference::FailFast,
        ..harness.request("go", Target::Scope(feature("auth")))
    };
    let mut steps = Vec::new();
    let chat = harness.chat(request, |event| {
        if let TurnEvent::Explained(explained) = event {
            steps = explained;
        }
    });
    let error = chat.await.unwrap_err();
    assert!(
        matches!(error, TurnError::PromptRefused { .. }),
        "{error:?}"
    );
    assert!(step_text(&steps[2]).contains(session.as_str()), "{steps:?}");
}

#[tokio::test]
async fn two_concurrent_first_prompts_create_one_session() {
    let harness = EngineHarness::new();
    let second_engine = harness.second_engine();
    let auth = feature("auth");
    for _ in 0..2 {
        harness.script([send_text("heard"), end_turn()]);
    }
    let request = |prompt: &str| harness.request(prompt, Target::Scope(auth.clone()));
    let closed_channel = || tokio::sync::mpsc::channel(1).0;
    let (first_result, second_result) = tokio::join!(
        harness.engine.chat(request("one"), closed_channel()),
        second_engine.chat(request("two"), closed_channel()),
    );
    let mut sessions = Vec::new();
    for outcome in [first_result, second_result] {
        sessions.push(match outcome {
            Ok(report) => {
                let session_decisions = report.decisions.iter().filter(|decision| {
                    matches!(
                        decision.kind(),
                        DecisionKind::Session | DecisionKind::Continued
                    )
                });
                assert_eq!(session_decisions.count(), 1, "{:?}", report.decisions);
                report.session
            }
            Err(TurnError::Access(AccessError::Store(StoreError::Leased { session, .. }))) => {
                session
            }
            Err(error) => panic!("{error}"),
        });
    }
    assert_eq!(sessions[0], sessions[1]);
    let page = harness
        .store
        .list_sessions(&SessionFilter::default(), PageRequest::first(9))
        .await;
    assert_eq!(page.unwrap().sessions.len(), 1);

    // Two concurrent lookups without a prompt create one session as well.
    let pay = feature("pay");
    let project = harness.request("", Target::New).project;
    let (first_result, second_result) = tokio::join!(
        harness
            .engine
            .resolver()
            .session_for_purpose(&pay, None, &project),
        second_engine
            .resolver()
            .session_for_purpose(&pay, None, &project),
    );
    let (first_session, second_session) = (first_result.unwrap(), second_result.unwrap());
    assert_eq!(first_session.session.id, second_session.session.id);
    assert_ne!(first_session.is_new, second_session.is_new);
}
