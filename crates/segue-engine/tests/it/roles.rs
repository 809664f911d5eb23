//! Roles: the brief that an agent receives, and the tools that it may not use.

use std::fs;
use std::path::Path;
use std::process::Command;

use segue_core::agent::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionPolicy, PermissionRequest,
    RoleOverride, RoleRegistry,
};
use segue_core::brief::CachedContext;
use segue_core::id::FeatureId;
use segue_core::json::Json;
use segue_core::scope::{Purpose, RoleName, Scope};
use segue_core::session::{
    AgentEvent, DecisionKind, OpenMode, Part, Project, Session, SessionStatus, ToolCall, ToolStatus,
};
use segue_engine::{
    AccessError, ChatRequest, ContextRebuild, Conversation, EngineSettings, PlanError, Target,
    TurnError, TurnReport,
};

use crate::decision_text;
use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};

fn purpose(role: &str) -> Purpose {
    Purpose {
        scope: Scope::Feature(FeatureId::parse("auth").unwrap()),
        role: Some(RoleName::parse(role).unwrap()),
    }
}

/// A working directory, and a harness with an agent.
struct ProjectHarness {
    harness: EngineHarness,
    directory: tempfile::TempDir,
}

impl ProjectHarness {
    /// Returns the cached project context of a session.
    async fn cached_context(&self, session: &Session) -> CachedContext {
        let cached = self.harness.store.saved_context(&session.id).await;
        cached.unwrap().unwrap()
    }

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("CLAUDE.md"), "Use tabs.\n").unwrap();
        Self {
            harness: EngineHarness::new(),
            directory,
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn request(&self, prompt: &str, target: Target) -> ChatRequest {
        let cwd = self.path().canonicalize().unwrap().display().to_string();
        ChatRequest {
            project: Project {
                key: cwd.clone(),
                cwd,
            },
            permissions: Some(PermissionPolicy::AllowAll),
            ..self.harness.request(prompt, target)
        }
    }

    async fn run_turn(&self, prompt: &str, target: Target) -> TurnReport {
        self.harness.script([send_text("heard"), end_turn()]);
        let request = self.request(prompt, target);
        self.harness.chat(request, |_| {}).await.unwrap()
    }

    fn last_prompt(&self) -> String {
        let received = self.harness.agent.received.lock().unwrap();
        received.prompts.last().unwrap().clone()
    }
}

fn tool_call(id: &str, name: &str, kind: &str, status: ToolStatus) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: name.into(),
        kind: kind.into(),
        args: Json::empty_object(),
        status,
        output: None,
        diffs: Vec::new(),
    }
}

fn request_permission(id: &str, name: &str, kind: &str) -> ScriptedAction {
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    ScriptedAction::PermissionRequested(PermissionRequest {
        call: tool_call(id, name, kind, ToolStatus::Pending),
        options: vec![
            option("yes", PermissionKind::AllowOnce),
            option("no", PermissionKind::RejectOnce),
        ],
    })
}

#[tokio::test]
async fn each_native_session_receives_its_role_and_context_once() {
    let project = ProjectHarness::new();
    let first = project
        .run_turn("what is wanted?", Target::Scope(purpose("pm")))
        .await;
    assert_eq!(first.opened.unwrap().0, OpenMode::Fresh);
    let brief = project.last_prompt();
    let sections = [
        "[Feature: auth] [Role: pm]\n\n[Your role]\n> You are the project manager",
        "> Tools you may use: Read, Glob, Grep.\n",
        "[Project context]\n",
        "> # CLAUDE.md\n> Use tabs.\n",
        "> # Feature auth\n",
    ];
    let positions: Vec<_> = sections.iter().map(|part| brief.find(part)).collect();
    assert!(
        positions.iter().all(Option::is_some) && positions.is_sorted(),
        "{positions:?} {brief}"
    );
    assert!(brief.ends_with("\n\nwhat is wanted?"), "{brief}");
    // A resumed native session does not receive it a second time.
    project
        .run_turn("and then?", Target::Scope(purpose("pm")))
        .await;
    assert_eq!(project.last_prompt(), "and then?");
    // A new native session with a brief receives it as well, before the conversation.
    *project.harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    project
        .run_turn("once more", Target::Scope(purpose("pm")))
        .await;
    let brief = project.last_prompt();
    let parts = ["[Your role", "> Use tabs.", "what is wanted?", "once more"];
    assert!(parts.map(|part| brief.find(part)).is_sorted(), "{brief}");
    // The record contains only the user's prompt.
    let turns = project.harness.store.turns(&first.session).await.unwrap();
    let messages = project.harness.store.messages(turns[0].id).await.unwrap();
    assert_eq!(messages[0].parts, [Part::Text("what is wanted?".into())]);
}

#[tokio::test]
async fn a_session_without_a_role_receives_no_role_brief() {
    let project = ProjectHarness::new();
    project.run_turn("hello", Target::New).await;
    assert_eq!(project.last_prompt(), "hello");
    let auth = Purpose::for_scope(Scope::Feature(FeatureId::parse("auth").unwrap()));
    let report = project.run_turn("hello", Target::Scope(auth)).await;
    assert_eq!(project.last_prompt(), "[Feature: auth]\n\nhello");
    assert_eq!(
        project
            .harness
            .store
            .saved_context(&report.session)
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn tools_denied_by_a_role_are_refused_under_any_policy() {
    let project = ProjectHarness::new();
    project.harness.script([
        request_permission("1", "Edit", "edit"),
        request_permission("2", "Read", "read"),
        request_permission("3", "mcp__segue__session_describe", "other"),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            "4",
            "Bash",
            "execute",
            ToolStatus::InProgress,
        ))),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            "4",
            "Bash",
            "execute",
            ToolStatus::Completed,
        ))),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            "4",
            "Bash",
            "execute",
            ToolStatus::Completed,
        ))),
        ScriptedAction::Event(AgentEvent::Tool(tool_call(
            "5",
            "Bash",
            "execute",
            ToolStatus::Failed,
        ))),
        end_turn(),
    ]);
    let request = project.request("change it", Target::Scope(purpose("pm")));
    let report = project.harness.chat(request, |_| {}).await.unwrap();
    let answers = project
        .harness
        .agent
        .received
        .lock()
        .unwrap()
        .permission_answers
        .clone();
    let expected = ["no", "yes", "yes"].map(|id| PermissionAnswer::Selected(id.into()));
    assert_eq!(answers, expected);
    let log = project
        .harness
        .store
        .decisions(&report.session, 20)
        .await
        .unwrap();
    let permission_entries = log
        .iter()
        .filter(|(_, decision)| decision.kind() == DecisionKind::Permission);
    let texts: Vec<String> = permission_entries
        .map(|(_, decision)| decision_text(decision))
        .collect();
    assert_eq!(
        texts,
        [
            "refused \"Edit\" because the role pm does not allow it",
            "allowed \"Read\" by policy allow-all",
            "allowed \"mcp__segue__session_describe\" by policy allow-all",
            "the agent used \"Bash\" without requesting permission; the role pm does not allow it",
        ]
    );
    // An agent that cannot request permissions gets no more than the role allows.
    let permissions = project
        .harness
        .agent
        .received
        .lock()
        .unwrap()
        .permissions
        .clone();
    assert_eq!(permissions, [PermissionPolicy::AllowReads]);
}

#[tokio::test]
async fn an_unknown_role_is_refused_before_a_turn_starts() {
    let mut project = ProjectHarness::new();
    let request = project.request("hello", Target::Scope(purpose("cook")));
    let error = project.harness.chat(request, |_| {}).await.unwrap_err();
    let TurnError::Access(AccessError::UnknownRole {
        role,
        available: known_roles,
    }) = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(role.as_str(), "cook");
    let role_names: Vec<_> = known_roles.iter().map(RoleName::as_str).collect();
    assert_eq!(role_names, ["dev", "harness", "merge", "pm", "qa"]);
    assert!(
        project
            .harness
            .store
            .session_stamps()
            .await
            .unwrap()
            .is_empty()
    );

    let mut roles = RoleRegistry::default();
    let change = RoleOverride {
        description: Some("You cook.".into()),
        ..RoleOverride::default()
    };
    roles.apply_override(&RoleName::parse("cook").unwrap(), change);
    project.harness.engine = project.harness.second_engine_with(EngineSettings {
        roles,
        ..EngineSettings::default()
    });
    let report = project
        .run_turn("hello", Target::Scope(purpose("cook")))
        .await;
    assert!(project.last_prompt().contains("> You cook.\n"));
    // Without the description of the role, its tools are unknown.
    project.harness.engine = project.harness.second_engine();
    let request = project.request("and now?", session_target(&report));
    let error = project.harness.chat(request, |_| {}).await.unwrap_err();
    assert!(
        matches!(error, TurnError::Access(AccessError::UnknownRole { .. })),
        "{error:?}"
    );
    let session = project.harness.load_session(&report).await;
    assert_eq!(session.turns, 1);
}

#[tokio::test]
async fn a_project_context_is_cached_until_its_sources_change() {
    let project = ProjectHarness::new();
    let report = project.run_turn("one", Target::Scope(purpose("dev"))).await;
    let session = project.harness.load_session(&report).await;
    let cached = project.cached_context(&session).await;
    assert!(cached.tokens > 0);
    let engine = &project.harness.engine;
    let gathered = engine
        .briefs()
        .current_context(&session, false)
        .await
        .unwrap();
    assert_eq!(
        (gathered.rebuild, &gathered.cached),
        (ContextRebuild::NotNeeded, &cached)
    );

    fs::write(project.path().join("CLAUDE.md"), "Use blanks instead.\n").unwrap();
    let conversation = Conversation::Session(Box::new(session.clone()), SessionStatus::Idle);
    let preview = engine
        .briefs()
        .preview_brief(&conversation, None, "two")
        .await
        .unwrap();
    assert!(preview.plan.brief.text.contains("> Use blanks instead.\n"));
    let names: Vec<_> = preview
        .plan
        .brief
        .sections
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["heading", "role", "context", "messages", "prompt"]);
    let cached_after_preview = project
        .harness
        .store
        .saved_context(&session.id)
        .await
        .unwrap();
    assert_eq!(
        cached_after_preview.as_ref(),
        Some(&cached),
        "a preview changes nothing"
    );

    *project.harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let report = project.run_turn("two", session_target(&report)).await;
    let context_decisions: Vec<_> = report
        .decisions
        .iter()
        .filter(|decision| decision.kind() == DecisionKind::Context)
        .map(decision_text)
        .collect();
    assert_eq!(
        context_decisions,
        ["rebuilt the project context after changes in CLAUDE.md"]
    );
    assert!(project.last_prompt().contains("> Use blanks instead.\n"));
    let refreshed = engine
        .briefs()
        .refresh_context(&session, true)
        .await
        .unwrap();
    assert_eq!(refreshed.rebuild, ContextRebuild::Requested);
}

#[tokio::test]
async fn a_role_that_exceeds_the_budget_is_an_error_that_names_it() {
    let mut project = ProjectHarness::new();
    let mut roles = RoleRegistry::default();
    let change = RoleOverride {
        description: Some("You are patient. ".repeat(2_000)),
        ..RoleOverride::default()
    };
    roles.apply_override(&RoleName::parse("pm").unwrap(), change);
    project.harness.engine = project.harness.second_engine_with(EngineSettings {
        roles,
        budget: 4_000,
        ..EngineSettings::default()
    });
    let request = project.request("hello", Target::Scope(purpose("pm")));
    let error = project
        .harness
        .chat(request, |_| {})
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "more than the 3,600 that are available in a budget of 4,000; the role alone needs "
        ),
        "{error}"
    );
    let stamps = project.harness.store.session_stamps().await.unwrap();
    assert_eq!(stamps.len(), 1);
    let session = project
        .harness
        .store
        .session(&stamps[0].id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        session.head, None,
        "a prompt that was not sent is not part of the history"
    );
    // With a larger budget, the same session continues.
    let large_budget_engine = project.harness.second_engine();
    let small_budget_engine = std::mem::replace(&mut project.harness.engine, large_budget_engine);
    let report = project
        .run_turn("hello", Target::Scope(purpose("pm")))
        .await;
    assert_eq!((&report.session, report.turn), (&session.id, 1));
    // The session is not compacted for a brief that cannot be sent.
    project.harness.engine = small_budget_engine;
    *project.harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    for _ in 0..2 {
        let request = project.request("and now?", session_target(&report));
        let error = project.harness.chat(request, |_| {}).await.unwrap_err();
        assert!(
            matches!(error, TurnError::Plan(PlanError::Brief(_))),
            "{error:?}"
        );
    }
    let session = project.harness.load_session(&report).await;
    assert_eq!(session.turns, 1);
    let store = &project.harness.store;
    assert_eq!(store.checkpoints(&session.id).await.unwrap(), []);
    // The leg stays open, because only a leg that can receive the brief replaces it.
    let legs = store.legs(&session.id).await.unwrap();
    assert!(
        legs.last().is_some_and(|leg| leg.ended.is_none()),
        "{legs:?}"
    );
    let log = store.decisions(&session.id, 10).await.unwrap();
    let expected = r#"the prompt could not be sent: "and now?""#;
    assert!(
        log.iter()
            .any(|(_, decision)| decision_text(decision) == expected),
        "{log:#?}"
    );
}

fn run_git(directory: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    let identity = ["-c", "user.name=Ann", "-c", "user.email=a@example.org"];
    command.args(identity).args(args).current_dir(directory);
    assert!(command.output().unwrap().status.success(), "{args:?}");
}

#[tokio::test]
async fn a_new_commit_rebuilds_the_project_context() {
    let mut project = ProjectHarness::new();
    run_git(project.path(), &["init", "-q"]);
    project.harness.engine = project.harness.second_engine_with(EngineSettings {
        git: Some("git".into()),
        ..EngineSettings::default()
    });
    let report = project.run_turn("one", Target::Scope(purpose("dev"))).await;
    let session = project.harness.load_session(&report).await;
    let cached = project.cached_context(&session).await;
    assert_eq!(
        (cached.context.commits, cached.context.notes),
        (vec![], vec![])
    );
    run_git(
        project.path(),
        &["commit", "-q", "--allow-empty", "-m", "begin\n\nwith care"],
    );
    let gathered = project
        .harness
        .engine
        .briefs()
        .current_context(&session, false)
        .await
        .unwrap();
    assert_eq!(
        gathered.rebuild,
        ContextRebuild::SourcesChanged(vec!["HEAD".into()])
    );
    let [commit] = gathered.cached.context.commits.as_slice() else {
        panic!("{gathered:?}");
    };
    assert_eq!(
        (commit.message.as_str(), commit.author.as_str()),
        ("begin", "Ann")
    );
    assert_eq!(commit.hash.len(), 7);
    // Without git, a note states this.
    project.harness.engine = project.harness.second_engine();
    let gathered = project
        .harness
        .engine
        .briefs()
        .current_context(&session, false)
        .await
        .unwrap();
    assert_eq!(gathered.cached.context.commits, []);
    assert_eq!(
        gathered.cached.context.notes,
        ["cannot list commits: git not found"]
    );
}
