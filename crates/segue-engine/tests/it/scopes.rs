//! Sessions by purpose: which session a prompt continues, and what the agent receives about its purpose.

use jiff::{SignedDuration, Timestamp};
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::policy::{WaitPreference, Policy, Cooldown};
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};
use segue_core::session::{
    DecisionKind, FailureClass, OpenMode, Project, SessionRef, ResolutionStepKind, Tag, Title, TitleSource,
};
use segue_engine::{ChatRequest, EngineError, RefContext, Target, TurnEvent, TurnReport};
use segue_store::{SessionFilter, PageRequest, TagChange, Store, StoreError};

use crate::scripted::{Stage, done, same, say};

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

fn as_qa(purpose: Purpose) -> Purpose {
    Purpose {
        role: Some(RoleName::parse("qa").unwrap()),
        ..purpose
    }
}

async fn turn(
    stage: &Stage,
    target: fn(Purpose) -> Target,
    purpose: &Purpose,
    prompt: &str,
) -> TurnReport {
    stage.script([say("heard"), done()]);
    let request = stage.request(prompt, target(purpose.clone()));
    stage.chat(request, |_| {}).await.unwrap()
}

async fn scoped(stage: &Stage, purpose: &Purpose) -> SessionId {
    turn(stage, Target::Scope, purpose, "go").await.session
}

#[tokio::test]
async fn each_purpose_has_a_session_of_its_own_that_goes_on() {
    let stage = Stage::new();
    let nothing = stage.turn("x", Target::New).await.session;
    let purposes = [
        Purpose::for_scope(Scope::Project),
        as_qa(Purpose::for_scope(Scope::Project)),
        feature("auth"),
        feature("auth-2"),
        as_qa(feature("auth")),
        task(None, "dev"),
        task(Some("auth"), "dev"),
        task(Some("auth"), "qa"),
    ];
    let mut made: Vec<SessionId> = vec![nothing];
    for purpose in &purposes {
        let session = scoped(&stage, purpose).await;
        assert!(!made.contains(&session), "{purpose} has another's session");
        made.push(session);
    }
    for (purpose, session) in purposes.iter().zip(&made[1..]) {
        assert_eq!(scoped(&stage, purpose).await, *session, "{purpose}");
    }
}

#[tokio::test]
async fn the_first_prompt_of_a_native_session_is_headed_and_no_other() {
    let stage = Stage::new();
    let auth = feature("auth");
    let report = turn(&stage, Target::Scope, &auth, "one").await;
    turn(&stage, Target::Scope, &auth, "two").await;
    // The native session is lost, so another one receives a brief with the same header.
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    turn(&stage, Target::Scope, &auth, "three").await;
    let prompts = stage.agent.heard.lock().unwrap().prompts.clone();
    assert_eq!(prompts[..2], ["[Feature: auth]\n\none", "two"]);
    assert!(
        prompts[2].starts_with("[Feature: auth]\n\n[The conversation so far"),
        "{}",
        prompts[2]
    );
    assert_eq!(prompts[2].matches("[Feature: auth]").count(), 1);
    // The record and the title contain only what the user wrote.
    let mut said = Vec::new();
    for turn in stage.store.turns(&report.session).await.unwrap() {
        said.push(stage.store.messages(turn.id).await.unwrap()[0].plain_text());
    }
    assert_eq!(said, ["one", "two", "three"]);
    let session = stage.store.session(&report.session).await.unwrap().unwrap();
    assert_eq!(session.title.as_str(), "one");
}

#[tokio::test]
async fn the_session_worked_in_last_goes_on() {
    let stage = Stage::new();
    let auth = feature("auth");
    let first = turn(&stage, Target::Scope, &auth, "one").await;
    let second = turn(&stage, Target::NewWithPurpose, &auth, "two").await;
    assert_ne!(first.session, second.session);
    assert_eq!(scoped(&stage, &auth).await, second.session);
    stage.turn("three", same(&first)).await;
    assert_eq!(scoped(&stage, &auth).await, first.session);
    // A new title or tag is not activity.
    let title = Title::new("the other one", TitleSource::User).unwrap();
    let engine = &stage.engine;
    engine.rename_session(&second.session, &title).await.unwrap();
    let retag = TagChange {
        add: vec![Tag::parse("old").unwrap()],
        ..TagChange::default()
    };
    engine.change_tags(&second.session, retag).await.unwrap();
    assert_eq!(scoped(&stage, &auth).await, first.session);
}

#[tokio::test]
async fn each_step_is_told_to_those_who_ask() {
    let stage = Stage::new();
    let mut told = Vec::new();
    for _ in 0..2 {
        stage.script([say("heard"), done()]);
        let request = ChatRequest {
            explain: Some(Vec::new()),
            ..stage.request("go", Target::Scope(as_qa(feature("auth"))))
        };
        let mut steps = None;
        let report = stage.chat(request, |event| {
            if let TurnEvent::Explained(told) = event {
                steps = Some(told);
            }
        });
        assert_eq!(report.await.unwrap().steps, steps);
        told.push(steps.unwrap());
    }
    let kinds = |steps: &[segue_core::session::ResolutionStep]| -> Vec<ResolutionStepKind> {
        steps.iter().map(|step| step.kind).collect()
    };
    let [first, second] = told.try_into().unwrap();
    assert_eq!(
        kinds(&first),
        [
            ResolutionStepKind::Id,
            ResolutionStepKind::Task,
            ResolutionStepKind::Feature,
            ResolutionStepKind::Catalog,
            ResolutionStepKind::New,
            ResolutionStepKind::Provider
        ]
    );
    assert_eq!(
        first[2].text,
        "the store has no session for feature auth as qa"
    );
    assert_eq!(
        kinds(&second),
        [
            ResolutionStepKind::Id,
            ResolutionStepKind::Task,
            ResolutionStepKind::Feature,
            ResolutionStepKind::Provider
        ]
    );
    let untold = turn(&stage, Target::Scope, &feature("auth"), "go").await;
    assert_eq!(untold.steps, None);
}

#[tokio::test]
async fn a_session_whose_directory_is_gone_is_not_passed_over() {
    let stage = Stage::new();
    let directory = tempfile::tempdir().unwrap();
    let mut request = stage.request("go", Target::Scope(feature("auth")));
    let elsewhere = directory.path().canonicalize().unwrap();
    request.project.cwd = elsewhere.display().to_string();
    stage.script([say("heard"), done()]);
    stage.chat(request.clone(), |_| {}).await.unwrap();
    drop(directory);
    let refused = stage.chat(request.clone(), |_| {}).await;
    assert!(matches!(refused, Err(EngineError::SessionDirectoryMissing(..))));
    // A new session replaces it.
    request.project.cwd = "/".into();
    request.target = Target::NewWithPurpose(feature("auth"));
    stage.script([say("heard"), done()]);
    let new = stage.chat(request.clone(), |_| {}).await.unwrap();
    assert_eq!(scoped(&stage, &feature("auth")).await, new.session);
}

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

/// Puts the first agent into a cooldown of three hours.
async fn put_to_rest(stage: &Stage) {
    let rest = Cooldown {
        provider: provider("scripted"),
        until: Timestamp::now() + SignedDuration::from_hours(3),
        class: FailureClass::Quota,
    };
    stage.store.set_cooldown(rest).await.unwrap();
}

#[tokio::test]
async fn what_was_handed_over_goes_on_there_while_its_agent_rests() {
    let policy = Policy {
        fallback: vec![provider("spare")],
        ..Policy::default()
    };
    for purpose in [Some(feature("auth")), None] {
        let stage = Stage::with(&["spare"], policy.clone());
        let ask = async |prompt: &str| {
            let target = match &purpose {
                Some(purpose) => Target::Scope(purpose.clone()),
                None => Target::NewestInDirectory,
            };
            let request = ChatRequest {
                provider: Some(provider("scripted")),
                explain: Some(Vec::new()),
                ..stage.request(prompt, target)
            };
            stage.chat(request, |_| {}).await.unwrap()
        };
        stage.script([say("heard"), done()]);
        let first = ask("one").await;
        assert_eq!(first.provider, provider("scripted"));
        put_to_rest(&stage).await;
        for n in 2..=4 {
            let spare = &stage.others[0];
            spare.cues.lock().unwrap().extend([say("heard"), done()]);
            let report = ask("more").await;
            let went = (report.session.clone(), report.turn, report.provider.clone());
            let expected = (first.session.clone(), n, provider("spare"));
            assert_eq!(went, expected, "{:?}", report.decisions);
            let said: Vec<&str> = report.decisions.iter().map(|d| d.text.as_str()).collect();
            assert!(
                said.iter()
                    .any(|text| text.starts_with("continuing session")),
                "{said:?}"
            );
            assert!(
                !said.iter().any(|text| text.contains("starting")),
                "{said:?}"
            );
            if n > 2 {
                assert!(
                    said.iter().any(|text| text.starts_with("spare goes on")),
                    "{said:?}"
                );
            }
            let new = report
                .steps
                .unwrap()
                .into_iter()
                .filter(|step| step.kind == ResolutionStepKind::New);
            assert_eq!(new.count(), 0);
        }
    }
}

#[tokio::test]
async fn a_feature_by_name_is_its_own_session_before_those_of_its_tasks() {
    let stage = Stage::with(&["spare"], Policy::default());
    let standpoint = RefContext {
        project: Project {
            key: "/project".into(),
            cwd: "/".into(),
        },
        last_list: Vec::new(),
    };
    let reference = SessionRef::parse("feature:auth").unwrap();
    let find = async || {
        let found = stage.engine.find_session(&reference, &standpoint).await;
        found.map(|session| session.id)
    };
    let auth = feature("auth");
    let made = stage
        .engine
        .session_for_purpose(&auth, None, &standpoint.project)
        .await;
    assert_eq!(find().await.unwrap(), made.unwrap().session.id);
    let task = scoped(&stage, &task(Some("auth"), "dev")).await;
    assert_eq!(find().await.unwrap(), task, "nothing was said in the other");
    let own = scoped(&stage, &auth).await;
    scoped(&stage, &as_qa(auth.clone())).await;
    assert_eq!(find().await.unwrap(), own);

    // A second agent has a session for the feature too. It is not a match until it has turns, and then the name is
    // ambiguous.
    let spare = provider("spare");
    let theirs = stage
        .engine
        .session_for_purpose(&auth, Some(&spare), &standpoint.project)
        .await
        .unwrap();
    assert_eq!(find().await.unwrap(), own);
    let told = &theirs.decisions[0].text;
    let command = format!("which scripted has for it: segue session handoff {own} -p spare");
    assert!(told.ends_with(&command), "{told}");
    let cues = [say("heard"), done()];
    stage.others[0].cues.lock().unwrap().extend(cues);
    let request = stage.request("go", Target::Session(theirs.session.id.clone()));
    stage.chat(request, |_| {}).await.unwrap();
    match find().await {
        Err(EngineError::Ambiguous { candidates, .. }) => {
            let agents: Vec<_> = candidates.into_iter().filter_map(|one| one.agent).collect();
            assert_eq!(agents, [spare, provider("scripted")]);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_way_to_a_session_is_told_even_if_there_is_no_turn() {
    let stage = Stage::new();
    let session = scoped(&stage, &feature("auth")).await;
    put_to_rest(&stage).await;
    let request = ChatRequest {
        explain: Some(Vec::new()),
        wait_preference: WaitPreference::FailFast,
        ..stage.request("go", Target::Scope(feature("auth")))
    };
    let mut steps = Vec::new();
    let refused = stage.chat(request, |event| {
        if let TurnEvent::Explained(told) = event {
            steps = told;
        }
    });
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, EngineError::ProviderUnavailable { .. }), "{refused:?}");
    assert!(steps[2].text.contains(session.as_str()), "{steps:?}");
}

#[tokio::test]
async fn two_first_prompts_at_once_make_one_session() {
    let stage = Stage::new();
    let other = stage.beside_it();
    let auth = feature("auth");
    for _ in 0..2 {
        stage.script([say("heard"), done()]);
    }
    let ask = |prompt: &str| stage.request(prompt, Target::Scope(auth.clone()));
    let unheard = || tokio::sync::mpsc::channel(1).0;
    let (one, two) = tokio::join!(
        stage.engine.chat(ask("one"), unheard()),
        other.chat(ask("two"), unheard()),
    );
    let mut sessions = Vec::new();
    for outcome in [one, two] {
        sessions.push(match outcome {
            Ok(report) => {
                let told = report.decisions.iter().filter(|told| {
                    matches!(told.kind, DecisionKind::Session | DecisionKind::Continued)
                });
                assert_eq!(told.count(), 1, "{:?}", report.decisions);
                report.session
            }
            Err(EngineError::Store(StoreError::Leased { session, .. })) => session,
            Err(error) => panic!("{error}"),
        });
    }
    assert_eq!(sessions[0], sessions[1]);
    let found = stage.store.list_sessions(&SessionFilter::default(), PageRequest::first(9)).await;
    assert_eq!(found.unwrap().sessions.len(), 1);

    // Two concurrent lookups without a prompt create one session as well.
    let pay = feature("pay");
    let project = stage.request("", Target::New).project;
    let (one, two) = tokio::join!(
        stage.engine.session_for_purpose(&pay, None, &project),
        other.session_for_purpose(&pay, None, &project),
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.session.id, two.session.id);
    assert_ne!(one.is_new, two.is_new);
}
