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
use segue_engine::{ChatRequest, Conversation, EngineError, ContextRebuild, Target, TurnReport};
use segue_store::Store;

use crate::scripted::{Cue, Stage, done, same, say};

fn purpose(role: &str) -> Purpose {
    Purpose {
        scope: Scope::Feature(FeatureId::parse("auth").unwrap()),
        role: Some(RoleName::parse(role).unwrap()),
    }
}

/// A working directory, and a stage with an agent.
struct Work {
    stage: Stage,
    directory: tempfile::TempDir,
}

impl Work {
    /// Returns the cached project context of a session.
    async fn kept(&self, session: &Session) -> CachedContext {
        let kept = self.stage.store.saved_context(&session.id).await;
        kept.unwrap().unwrap()
    }

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("CLAUDE.md"), "Use tabs.\n").unwrap();
        Self {
            stage: Stage::new(),
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
            ..self.stage.request(prompt, target)
        }
    }

    async fn turn(&self, prompt: &str, target: Target) -> TurnReport {
        self.stage.script([say("heard"), done()]);
        let request = self.request(prompt, target);
        self.stage.chat(request, |_| {}).await.unwrap()
    }

    fn last_prompt(&self) -> String {
        let heard = self.stage.agent.heard.lock().unwrap();
        heard.prompts.last().unwrap().clone()
    }
}

fn call(id: &str, name: &str, kind: &str, status: ToolStatus) -> ToolCall {
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

fn asks(id: &str, name: &str, kind: &str) -> Cue {
    let option = |id: &str, kind| PermissionOption {
        id: id.into(),
        name: id.into(),
        kind,
    };
    Cue::Ask(PermissionRequest {
        call: call(id, name, kind, ToolStatus::Pending),
        options: vec![
            option("yes", PermissionKind::AllowOnce),
            option("no", PermissionKind::RejectOnce),
        ],
    })
}

#[tokio::test]
async fn a_role_and_its_context_are_told_once_to_each_native_session() {
    let work = Work::new();
    let first = work
        .turn("what is wanted?", Target::Scope(purpose("pm")))
        .await;
    assert_eq!(first.opened.unwrap().0, OpenMode::Fresh);
    let told = work.last_prompt();
    let sections = [
        "[Feature: auth] [Role: pm]\n\n[Your role, which you act by]\n> You are the project manager",
        "> Tools you may use: Read, Glob, Grep.\n",
        "[The context, for you to know]\n",
        "> # CLAUDE.md\n> Use tabs.\n",
        "> # The feature auth\n",
    ];
    let places: Vec<_> = sections.iter().map(|part| told.find(part)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} {told}"
    );
    assert!(told.ends_with("\n\nwhat is wanted?"), "{told}");
    // A resumed native session does not receive it a second time.
    work.turn("and then?", Target::Scope(purpose("pm"))).await;
    assert_eq!(work.last_prompt(), "and then?");
    // A new native session with a brief receives it as well, before the conversation.
    *work.stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    work.turn("once more", Target::Scope(purpose("pm"))).await;
    let told = work.last_prompt();
    let parts = ["[Your role", "> Use tabs.", "what is wanted?", "once more"];
    assert!(parts.map(|part| told.find(part)).is_sorted(), "{told}");
    // The record contains only the user's prompt.
    let turns = work.stage.store.turns(&first.session).await.unwrap();
    let said = work.stage.store.messages(turns[0].id).await.unwrap();
    assert_eq!(said[0].parts, [Part::Text("what is wanted?".into())]);
}

#[tokio::test]
async fn who_has_no_role_is_told_nothing_of_it() {
    let work = Work::new();
    work.turn("hello", Target::New).await;
    assert_eq!(work.last_prompt(), "hello");
    let auth = Purpose::for_scope(Scope::Feature(FeatureId::parse("auth").unwrap()));
    let report = work.turn("hello", Target::Scope(auth)).await;
    assert_eq!(work.last_prompt(), "[Feature: auth]\n\nhello");
    assert_eq!(
        work.stage.store.saved_context(&report.session).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn what_a_role_may_not_do_is_refused_and_recorded_whatever_the_policy() {
    let work = Work::new();
    work.stage.script([
        asks("1", "Edit", "edit"),
        asks("2", "Read", "read"),
        asks("3", "mcp__segue__session_describe", "other"),
        Cue::Event(AgentEvent::Tool(call(
            "4",
            "Bash",
            "execute",
            ToolStatus::InProgress,
        ))),
        Cue::Event(AgentEvent::Tool(call(
            "4",
            "Bash",
            "execute",
            ToolStatus::Completed,
        ))),
        Cue::Event(AgentEvent::Tool(call(
            "4",
            "Bash",
            "execute",
            ToolStatus::Completed,
        ))),
        Cue::Event(AgentEvent::Tool(call(
            "5",
            "Bash",
            "execute",
            ToolStatus::Failed,
        ))),
        done(),
    ]);
    let request = work.request("change it", Target::Scope(purpose("pm")));
    let report = work.stage.chat(request, |_| {}).await.unwrap();
    let heard = work.stage.agent.heard.lock().unwrap().answers.clone();
    let chosen = ["no", "yes", "yes"].map(|id| PermissionAnswer::Selected(id.into()));
    assert_eq!(heard, chosen);
    let log = work
        .stage
        .store
        .decisions(&report.session, 20)
        .await
        .unwrap();
    let about = log
        .iter()
        .filter(|(_, decision)| decision.kind == DecisionKind::Permission);
    let about: Vec<&str> = about.map(|(_, decision)| decision.text.as_str()).collect();
    assert_eq!(
        about,
        [
            "refused \"Edit\" since the role pm may not use it",
            "allowed \"Read\" by policy allow-all",
            "allowed \"mcp__segue__session_describe\" by policy allow-all",
            "the agent used \"Bash\" without asking, which the role pm may not",
        ]
    );
    // An agent that cannot request permissions gets no more than the role allows.
    let heard = work.stage.agent.heard.lock().unwrap().permissions.clone();
    assert_eq!(heard, [PermissionPolicy::AllowReads]);
}

#[tokio::test]
async fn a_role_that_nobody_describes_is_refused_and_nothing_is_begun() {
    let mut work = Work::new();
    let request = work.request("hello", Target::Scope(purpose("cook")));
    let error = work.stage.chat(request, |_| {}).await.unwrap_err();
    let EngineError::UnknownRole { role, available: known } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(role.as_str(), "cook");
    let known: Vec<_> = known.iter().map(RoleName::as_str).collect();
    assert_eq!(known, ["dev", "harness", "merge", "pm", "qa"]);
    assert!(work.stage.store.session_stamps().await.unwrap().is_empty());

    let mut roles = RoleRegistry::default();
    let change = RoleOverride {
        description: Some("You cook.".into()),
        ..RoleOverride::default()
    };
    roles.apply_override(&RoleName::parse("cook").unwrap(), change);
    work.stage.engine = work.stage.beside_it().with_roles(roles);
    let report = work.turn("hello", Target::Scope(purpose("cook"))).await;
    assert!(work.last_prompt().contains("> You cook.\n"));
    // Without the description of the role, its tools are unknown.
    work.stage.engine = work.stage.beside_it();
    let request = work.request("and now?", same(&report));
    let error = work.stage.chat(request, |_| {}).await.unwrap_err();
    assert!(
        matches!(error, EngineError::UnknownRole { .. }),
        "{error:?}"
    );
    let session = work.stage.session_of(&report).await;
    assert_eq!(session.turns, 1);
}

#[tokio::test]
async fn a_context_is_kept_until_its_sources_change() {
    let work = Work::new();
    let report = work.turn("one", Target::Scope(purpose("dev"))).await;
    let session = work.stage.session_of(&report).await;
    let kept = work.kept(&session).await;
    assert!(kept.tokens > 0);
    let engine = &work.stage.engine;
    let again = engine.current_context(&session, false).await.unwrap();
    assert_eq!((again.rebuild, &again.cached), (ContextRebuild::NotNeeded, &kept));

    fs::write(work.path().join("CLAUDE.md"), "Use blanks instead.\n").unwrap();
    let conversation = Conversation::Session(Box::new(session.clone()), SessionStatus::Idle);
    let preview = engine.preview_brief(&conversation, None, "two").await.unwrap();
    assert!(preview.brief.text.contains("> Use blanks instead.\n"));
    let names: Vec<_> = preview
        .brief
        .sections
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["heading", "role", "context", "messages", "prompt"]);
    let unchanged = work.stage.store.saved_context(&session.id).await.unwrap();
    assert_eq!(unchanged.as_ref(), Some(&kept), "a preview changes nothing");

    *work.stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let report = work.turn("two", same(&report)).await;
    let news: Vec<_> = report
        .decisions
        .iter()
        .filter(|decision| decision.kind == DecisionKind::Context)
        .map(|decision| decision.text.as_str())
        .collect();
    assert_eq!(
        news,
        ["the context was gathered anew, since it changed: CLAUDE.md"]
    );
    assert!(work.last_prompt().contains("> Use blanks instead.\n"));
    let asked = engine.refresh_context(&session, true).await.unwrap();
    assert_eq!(asked.rebuild, ContextRebuild::Requested);
}

#[tokio::test]
async fn what_can_not_be_told_in_the_budget_is_an_error_that_says_what() {
    let mut work = Work::new();
    let mut roles = RoleRegistry::default();
    let change = RoleOverride {
        description: Some("You are patient. ".repeat(2_000)),
        ..RoleOverride::default()
    };
    roles.apply_override(&RoleName::parse("pm").unwrap(), change);
    work.stage.engine = work.stage.beside_it().with_roles(roles).with_budget(4_000);
    let request = work.request("hello", Target::Scope(purpose("pm")));
    let error = work
        .stage
        .chat(request, |_| {})
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "more than the 3,600 that a budget of 4,000 has for it; the role alone takes "
        ),
        "{error}"
    );
    let found = work.stage.store.session_stamps().await.unwrap();
    assert_eq!(found.len(), 1);
    let session = work
        .stage
        .store
        .session(&found[0].id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        session.head, None,
        "what was never sent is no part of the history"
    );
    // With a larger budget, the same session continues.
    let large = work.stage.beside_it();
    let small = std::mem::replace(&mut work.stage.engine, large);
    let report = work.turn("hello", Target::Scope(purpose("pm"))).await;
    assert_eq!((&report.session, report.turn), (&session.id, 1));
    // The session is not compacted for a brief that cannot be sent.
    work.stage.engine = small;
    *work.stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    for _ in 0..2 {
        let request = work.request("and now?", same(&report));
        let error = work.stage.chat(request, |_| {}).await.unwrap_err();
        assert!(matches!(error, EngineError::Brief(_)), "{error:?}");
    }
    let session = work.stage.session_of(&report).await;
    assert_eq!(session.turns, 1);
    let store = &work.stage.store;
    assert_eq!(store.checkpoints(&session.id).await.unwrap(), []);
    // The leg stays open, because only a leg that can receive the brief replaces it.
    let legs = store.legs(&session.id).await.unwrap();
    assert!(
        legs.last().is_some_and(|leg| leg.ended.is_none()),
        "{legs:?}"
    );
    let log = store.decisions(&session.id, 10).await.unwrap();
    let words = r#"nobody could be told the prompt: "and now?""#;
    assert!(log.iter().any(|(_, noted)| noted.text == words), "{log:#?}");
}

fn git(directory: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    let who = ["-c", "user.name=Ann", "-c", "user.email=a@example.org"];
    command.args(who).args(args).current_dir(directory);
    assert!(command.output().unwrap().status.success(), "{args:?}");
}

#[tokio::test]
async fn commits_are_told_and_a_new_one_is_news() {
    let mut work = Work::new();
    git(work.path(), &["init", "-q"]);
    work.stage.engine = work.stage.beside_it().with_git(Some("git".into()));
    let report = work.turn("one", Target::Scope(purpose("dev"))).await;
    let session = work.stage.session_of(&report).await;
    let kept = work.kept(&session).await;
    assert_eq!((kept.context.commits, kept.context.notes), (vec![], vec![]));
    git(
        work.path(),
        &["commit", "-q", "--allow-empty", "-m", "begin\n\nwith care"],
    );
    let now = work.stage.engine.current_context(&session, false).await.unwrap();
    assert_eq!(now.rebuild, ContextRebuild::SourcesChanged(vec!["HEAD".into()]));
    let [commit] = now.cached.context.commits.as_slice() else {
        panic!("{now:?}");
    };
    assert_eq!(
        (commit.message.as_str(), commit.author.as_str()),
        ("begin", "Ann")
    );
    assert_eq!(commit.hash.len(), 7);
    // Without git, a note states this.
    work.stage.engine = work.stage.beside_it();
    let now = work.stage.engine.current_context(&session, false).await.unwrap();
    assert_eq!(now.cached.context.commits, []);
    assert_eq!(
        now.cached.context.notes,
        ["git is not on this machine, so that no commits are told"]
    );
}
