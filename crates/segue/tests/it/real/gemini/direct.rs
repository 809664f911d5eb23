//! The agent itself, without the rest of segue: what it tells, and several turns in one conversation.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_agents::{
    Agent, AgentError, AgentConnection, AgentHost, LeashCommand, OpenRequest, OpenedConnection, ProviderSettings, ConnectionEvent, gemini_provider,
};
use segue_core::agent::{CapabilitySource, PermissionPolicy};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, OpenMode, TurnEnd};
use segue_testkit::model::{Reply, Script};
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use tokio::sync::watch;

use super::{files, last_prompts};

/// Gemini CLI in a sandbox, talked to in one way.
pub(super) fn agent(sandbox: &Sandbox, transport: &str) -> impl Agent + use<> {
    let command = sandbox.cli_command(SandboxCli::Gemini);
    let text = |value: &std::ffi::OsStr| value.to_str().unwrap().to_owned();
    let env = command.get_envs();
    let settings = ProviderSettings {
        program: Some(command.get_program().into()),
        transports: vec![transport.to_owned()],
        env: env
            .filter_map(|(name, value)| Some((text(name), text(value?))))
            .collect(),
        home: sandbox.home().join(".gemini"),
        ..ProviderSettings::default()
    };
    let host = AgentHost {
        leash: LeashCommand {
            program: env!("CARGO_BIN_EXE_segue").into(),
            args: vec!["leash".into()],
        },
        version: "0",
        agent_files_dir: sandbox.path().join("kept"),
        search_path: sandbox.path().join("bin").into_os_string(),
        system: crate::real::stage::OUTSIDE,
    };
    gemini_provider(&settings, &host)
}

pub(super) fn request(sandbox: &Sandbox, id: Option<&NativeId>, strict: bool) -> OpenRequest {
    OpenRequest {
        cwd: sandbox.project(),
        native_id: id.cloned(),
        branch_point: None,
        strict,
        permissions: PermissionPolicy::Ask,
        role: None,
        model: None,
        mcp: Vec::new(),
        timeout: Duration::from_mins(1),
        process_sender: watch::channel(None).0,
    }
}

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// One turn: what was said, and how it ended.
pub(super) async fn turn(
    conversation: &mut dyn AgentConnection,
    prompt: &str,
) -> (String, Result<TurnEnd, AgentError>) {
    conversation.send_prompt(prompt).await.unwrap();
    let mut said = String::new();
    loop {
        match conversation.next_event().await {
            ConnectionEvent::Event(AgentEvent::Text(words)) => said.push_str(&words),
            ConnectionEvent::TurnEnded(end) => return (said, end),
            ConnectionEvent::Event(_) | ConnectionEvent::NativeIdReported(_) => {}
            ConnectionEvent::PermissionRequested(..) => panic!("it asks"),
        }
    }
}

/// Everything in a directory, however deep.
fn all(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn one_conversation_has_several_turns() {
    for transport in ["stream-json", "json"] {
        let sandbox = Sandbox::new(Script::new());
        let agent = agent(&sandbox, transport);
        run(async {
            let opening = agent.open(&request(&sandbox, None, false)).await.unwrap();
            let OpenedConnection {
                connection: mut conversation,
                open_mode: opened,
                ..
            } = opening;
            assert_eq!(opened, OpenMode::Fresh);
            let id = conversation.native_id().unwrap().clone();
            for prompt in ["one", "two"] {
                let (said, end) = turn(conversation.as_mut(), prompt).await;
                assert_eq!(said, format!("You said: {prompt}"), "{transport}");
                assert_eq!(end.unwrap().usage.total_tokens, Some(126), "{transport}");
            }
            assert_eq!(conversation.native_id(), Some(&id));
            // The minute may have changed meanwhile.
            let told = conversation.close().await;
            let is_twin = |line: &String| line.starts_with("removed an empty twin");
            assert!(told.iter().all(is_twin), "{told:?}");
        });
        assert_eq!(last_prompts(&sandbox), ["one", "two"], "{transport}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_that_is_lost_between_two_turns_is_not_begun_anew() {
    let sandbox = Sandbox::new(Script::new());
    let agent = agent(&sandbox, "stream-json");
    run(async {
        let opening = agent.open(&request(&sandbox, None, false)).await.unwrap();
        let mut conversation = opening.connection;
        turn(conversation.as_mut(), "one").await.1.unwrap();
        let [file] = files(&sandbox).try_into().unwrap();
        // What was deleted is put back, with all that was said.
        fs::remove_file(&file).unwrap();
        turn(conversation.as_mut(), "two").await.1.unwrap();
        assert_eq!(last_prompts(&sandbox), ["one", "two"]);
        // Unless nothing was kept.
        fs::remove_file(&file).unwrap();
        fs::remove_dir_all(sandbox.path().join("kept")).unwrap();
        let error = conversation.send_prompt("three").await.unwrap_err();
        assert_eq!(error.class().as_str(), "session_unknown", "{error}");
        let told = conversation.close().await;
        assert!(told[0].starts_with("put back"), "{told:?}");
    });
    assert_eq!(last_prompts(&sandbox), ["one", "two"]);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_unknown_session_is_an_error_or_the_start_of_a_new_one() {
    let sandbox = Sandbox::new(Script::new());
    let unknown = NativeId::parse("99999999-1111-4111-8111-111111111111").unwrap();
    for transport in ["acp", "stream-json", "json"] {
        let agent = agent(&sandbox, transport);
        run(async {
            let opened = agent.open(&request(&sandbox, Some(&unknown), false)).await;
            let opening = opened.unwrap();
            assert_eq!(opening.open_mode, OpenMode::Fresh, "{transport}");
            assert!(opening.fallback_reason.is_some(), "{transport}");
            assert_ne!(opening.connection.native_id(), Some(&unknown));
            opening.connection.close().await;
            if transport != "acp" {
                let error = agent.open(&request(&sandbox, Some(&unknown), true)).await;
                let class = error.err().map(|error| error.class().as_str());
                assert_eq!(class, Some("session_unknown"), "{transport}");
            }
        });
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn asking_what_it_is_leaves_the_users_home_alone() {
    let sandbox = Sandbox::new(Script::new().with_rule("", [Reply::from_text("?")]));
    for transport in ["acp", "stream-json", "json"] {
        let before = all(&sandbox.home());
        let probe = run(agent(&sandbox, transport).probe(Duration::from_mins(1))).unwrap();
        assert_eq!(probe.version.as_deref(), Some("0.61.0"), "{transport}");
        let load = (transport == "acp").then_some(CapabilitySource::Protocol);
        assert_eq!(probe.capabilities.load, load, "{transport}");
        assert_eq!(probe.capabilities.list, Some(CapabilitySource::Files), "{transport}");
        assert_eq!(all(&sandbox.home()), before, "{transport}");
    }
    let requests = sandbox.model().requests();
    assert!(requests.is_empty(), "{requests:#?}");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn other_sessions_are_not_deleted_by_our_start() {
    for transport in ["acp", "stream-json"] {
        let sandbox = super::with_retention(Sandbox::new(Script::new()));
        let ran = sandbox.run(SandboxCli::Gemini, ["-o", "json", "somebody else's words"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let [session] = files(&sandbox).try_into().unwrap();
        let text = fs::read_to_string(&session).unwrap();
        // What a resume in another minute leaves behind.
        let twin: String = text.split_inclusive('\n').take(2).collect();
        let name = session.file_name().unwrap().to_str().unwrap();
        let (start, id) = name.rsplit_once('-').unwrap();
        let (day, _) = start.split_once('T').unwrap();
        let other = format!("{day}T23-59-{id}");
        fs::write(session.with_file_name(other), twin).unwrap();

        let agent = agent(&sandbox, transport);
        let told = run(async {
            let opening = agent.open(&request(&sandbox, None, false)).await.unwrap();
            let mut conversation = opening.connection;
            turn(conversation.as_mut(), "our own words")
                .await
                .1
                .unwrap();
            conversation.close().await
        });

        let short = id.trim_end_matches(".jsonl");
        let line = format!("put back Gemini session {short}, which Gemini CLI had deleted");
        assert_eq!(told, [line], "{transport}");
        assert_eq!(fs::read_to_string(&session).unwrap(), text, "{transport}");
    }
}
