//! Gemini CLI driven directly through its provider: its events, and several turns per connection.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::agent::{CapabilitySource, PermissionPolicy};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, GuardAction, OpenMode, RestoreCause, TurnEnd};
use segue_providers::{
    Agent, AgentConnection, AgentError, AgentHost, ConnectionEvent, LeashCommand, OpenRequest,
    OpenedConnection, ProviderSettings, gemini_provider,
};
use segue_testkit::model::{Reply, Script};
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use tokio::sync::watch;

use super::{last_prompts, session_files};

/// Returns Gemini CLI in a sandbox with one transport.
pub(super) fn gemini_agent(sandbox: &Sandbox, transport: &str) -> impl Agent + use<> {
    let command = sandbox.cli_command(SandboxCli::Gemini);
    let to_text = |value: &std::ffi::OsStr| value.to_str().unwrap().to_owned();
    let env = command.get_envs();
    let settings = ProviderSettings {
        program: Some(command.get_program().into()),
        transports: vec![transport.to_owned()],
        env: env
            .filter_map(|(name, value)| Some((to_text(name), to_text(value?))))
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
        system: crate::real::harness::SYSTEM_FNS,
    };
    gemini_provider(&settings, &host)
}

pub(super) fn open_request(sandbox: &Sandbox, id: Option<&NativeId>, strict: bool) -> OpenRequest {
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

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// Runs one turn. Returns the answer and the end of the turn.
pub(super) async fn run_turn(
    connection: &mut dyn AgentConnection,
    prompt: &str,
) -> (String, Result<TurnEnd, AgentError>) {
    connection.send_prompt(prompt).await.unwrap();
    let mut text = String::new();
    loop {
        match connection.next_event().await {
            ConnectionEvent::Event(AgentEvent::Text(chunk)) => text.push_str(&chunk),
            ConnectionEvent::TurnEnded(end) => return (text, end),
            ConnectionEvent::Event(_) | ConnectionEvent::NativeIdReported(_) => {}
            ConnectionEvent::PermissionRequested(..) => panic!("unexpected permission request"),
        }
    }
}

/// Returns all paths below a directory.
fn list_paths(directory: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(list_paths(&path));
        }
        paths.push(path);
    }
    paths.sort();
    paths
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_connection_runs_several_turns() {
    for transport in ["stream-json", "json"] {
        let sandbox = Sandbox::new(Script::new());
        let agent = gemini_agent(&sandbox, transport);
        block_on(async {
            let opened_connection = agent
                .open(&open_request(&sandbox, None, false))
                .await
                .unwrap();
            let OpenedConnection {
                mut connection,
                open_mode: mode,
                ..
            } = opened_connection;
            assert_eq!(mode, OpenMode::Fresh);
            let id = connection.native_id().unwrap().clone();
            for prompt in ["one", "two"] {
                let (text, end) = run_turn(connection.as_mut(), prompt).await;
                assert_eq!(text, format!("You said: {prompt}"), "{transport}");
                assert_eq!(end.unwrap().usage.total_tokens, Some(126), "{transport}");
            }
            assert_eq!(connection.native_id(), Some(&id));
            // A twin file is created only if a new minute has begun since the session was created.
            let guard_actions = connection.close().await;
            let is_twin =
                |action: &GuardAction| matches!(action, GuardAction::DuplicateRemoved { .. });
            assert!(guard_actions.iter().all(is_twin), "{guard_actions:?}");
        });
        assert_eq!(last_prompts(&sandbox), ["one", "two"], "{transport}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_lost_between_turns_is_restored_or_an_error() {
    let sandbox = Sandbox::new(Script::new());
    let agent = gemini_agent(&sandbox, "stream-json");
    block_on(async {
        let opened = agent
            .open(&open_request(&sandbox, None, false))
            .await
            .unwrap();
        let mut connection = opened.connection;
        run_turn(connection.as_mut(), "one").await.1.unwrap();
        let [file] = session_files(&sandbox).try_into().unwrap();
        // A deleted session file is restored with its messages.
        fs::remove_file(&file).unwrap();
        run_turn(connection.as_mut(), "two").await.1.unwrap();
        assert_eq!(last_prompts(&sandbox), ["one", "two"]);
        // Without a copy it cannot be restored.
        fs::remove_file(&file).unwrap();
        fs::remove_dir_all(sandbox.path().join("kept")).unwrap();
        let error = connection.send_prompt("three").await.unwrap_err();
        assert_eq!(error.class().as_str(), "session_unknown", "{error}");
        let guard_actions = connection.close().await;
        assert!(
            matches!(guard_actions[0], GuardAction::SessionRestored { .. }),
            "{guard_actions:?}"
        );
    });
    assert_eq!(last_prompts(&sandbox), ["one", "two"]);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_unknown_session_is_refused_or_replaced_by_a_new_one() {
    let sandbox = Sandbox::new(Script::new());
    let unknown = NativeId::parse("99999999-1111-4111-8111-111111111111").unwrap();
    for transport in ["acp", "stream-json", "json"] {
        let agent = gemini_agent(&sandbox, transport);
        block_on(async {
            let result = agent
                .open(&open_request(&sandbox, Some(&unknown), false))
                .await;
            let opened = result.unwrap();
            assert_eq!(opened.open_mode, OpenMode::Fresh, "{transport}");
            assert!(opened.fallback_reason.is_some(), "{transport}");
            assert_ne!(opened.connection.native_id(), Some(&unknown));
            opened.connection.close().await;
            if transport != "acp" {
                let error = agent
                    .open(&open_request(&sandbox, Some(&unknown), true))
                    .await;
                let class = error.err().map(|error| error.class().as_str());
                assert_eq!(class, Some("session_unknown"), "{transport}");
            }
        });
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_probe_leaves_the_users_home_unchanged() {
    let sandbox = Sandbox::new(Script::new().with_rule("", [Reply::from_text("?")]));
    for transport in ["acp", "stream-json", "json"] {
        let before = list_paths(&sandbox.home());
        let probe =
            block_on(gemini_agent(&sandbox, transport).probe(Duration::from_mins(1))).unwrap();
        assert_eq!(probe.version.as_deref(), Some("0.61.0"), "{transport}");
        let expected_load = (transport == "acp").then_some(CapabilitySource::Protocol);
        assert_eq!(probe.capabilities.load, expected_load, "{transport}");
        assert_eq!(
            probe.capabilities.list,
            Some(CapabilitySource::Files),
            "{transport}"
        );
        assert_eq!(list_paths(&sandbox.home()), before, "{transport}");
    }
    let requests = sandbox.model().requests();
    assert!(requests.is_empty(), "{requests:#?}");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_start_of_gemini_does_not_delete_other_sessions() {
    for transport in ["acp", "stream-json"] {
        let sandbox = super::enable_retention(Sandbox::new(Script::new()));
        let outcome = sandbox.run(SandboxCli::Gemini, ["-o", "json", "a prompt without segue"]);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        let [session] = session_files(&sandbox).try_into().unwrap();
        let text = fs::read_to_string(&session).unwrap();
        // The file that a resume in another minute leaves.
        let twin: String = text.split_inclusive('\n').take(2).collect();
        let name = session.file_name().unwrap().to_str().unwrap();
        let (prefix, id) = name.rsplit_once('-').unwrap();
        let (day, _) = prefix.split_once('T').unwrap();
        let twin_name = format!("{day}T23-59-{id}");
        fs::write(session.with_file_name(twin_name), twin).unwrap();

        let agent = gemini_agent(&sandbox, transport);
        let guard_actions = block_on(async {
            let opened = agent
                .open(&open_request(&sandbox, None, false))
                .await
                .unwrap();
            let mut connection = opened.connection;
            run_turn(connection.as_mut(), "a prompt from segue")
                .await
                .1
                .unwrap();
            connection.close().await
        });

        let expected = GuardAction::SessionRestored {
            short_id: id.trim_end_matches(".jsonl").to_owned(),
            cause: RestoreCause::DeletedByAgent,
        };
        assert_eq!(guard_actions, [expected], "{transport}");
        assert_eq!(fs::read_to_string(&session).unwrap(), text, "{transport}");
    }
}
