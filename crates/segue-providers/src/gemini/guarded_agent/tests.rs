//! Protection of the sessions if the caller does not wait for the end, with a stand-in for the agent.

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use segue_core::session::{OpenMode, RestoreCause, StopReason, Usage};

use super::*;
use crate::gemini::test_home::{
    GuardTestHome, SESSION_FILE, SESSION_ID, TWIN_FILE, empty_session_text, parse_id, session_text,
    turn_text,
};
use crate::identify_process;
use crate::provider::TEST_SYSTEM_FNS;

/// A process that runs until it is killed.
struct TestProcess(std::process::Child);

impl TestProcess {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn identity(&self) -> Option<ProcessIdentity> {
        identify_process(self.0.id())
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Behaviour of the stand-in when it opens a session.
enum OpenBehaviour {
    Hanging,
    Successful,
}

/// An agent that leaves a twin, as Gemini CLI does.
struct TwinLeavingAgent {
    provider: ProviderId,
    twin_path: PathBuf,
    process: Mutex<Option<ProcessIdentity>>,
    open_behaviour: OpenBehaviour,
}

#[async_trait]
impl Agent for TwinLeavingAgent {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let process = self.process.lock().unwrap().clone();
        request.process_sender.send_replace(process);
        fs::write(&self.twin_path, empty_session_text(SESSION_ID)).unwrap();
        match self.open_behaviour {
            OpenBehaviour::Hanging => std::future::pending().await,
            OpenBehaviour::Successful => Ok(OpenedConnection::new(
                ImmediateConnection {
                    native_id: parse_id(SESSION_ID),
                },
                OpenMode::Resumed,
            )),
        }
    }

    async fn probe(&self, _: Duration) -> Result<Probe, AgentError> {
        std::future::pending().await
    }
}

/// A connection in which each turn ends at once.
struct ImmediateConnection {
    native_id: NativeId,
}

#[async_trait]
impl AgentConnection for ImmediateConnection {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.native_id)
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        None
    }

    async fn send_prompt(&mut self, _: &str) -> Result<(), AgentError> {
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        ConnectionEvent::TurnEnded(Ok(TurnEnd {
            reason: StopReason::EndTurn,
            usage: Usage::default(),
        }))
    }

    fn cancel(&mut self) {}

    fn is_alive(&mut self) -> bool {
        true
    }

    async fn close(self: Box<Self>) -> Vec<GuardAction> {
        Vec::new()
    }
}

/// Creates a home with a session, an agent, and a request for that session.
fn build_fixture(
    open_behaviour: OpenBehaviour,
    lifetime: ProcessLifetime,
    process: Option<ProcessIdentity>,
) -> (GuardTestHome, GuardedAgent, OpenRequest) {
    let test_home = GuardTestHome::new(TEST_SYSTEM_FNS);
    test_home.write_session(SESSION_FILE, &session_text(SESSION_ID));
    let agent = TwinLeavingAgent {
        provider: ProviderId::gemini(),
        twin_path: test_home.session_path(TWIN_FILE),
        process: Mutex::new(process),
        open_behaviour,
    };
    let guarded_agent = GuardedAgent::new(Arc::new(agent), Arc::clone(&test_home.guard), lifetime);
    let request = test_home.open_request();
    (test_home, guarded_agent, request)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(future)
}

/// Waits until `condition` returns `true`.
fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the condition was not met in time");
}

/// Returns the number of guard records on disk.
fn count_guard_records(test_home: &GuardTestHome) -> usize {
    fs::read_dir(test_home.copies_root().join(".endangered")).map_or(0, Iterator::count)
}

#[test]
fn an_abandoned_open_leaves_no_twin() {
    let process = TestProcess::start();
    let (test_home, agent, request) = build_fixture(
        OpenBehaviour::Hanging,
        ProcessLifetime::Connection,
        process.identity(),
    );
    block_on(async {
        let open_future = agent.open(&request);
        let mut process_receiver = request.process_sender.subscribe();
        tokio::select! {
            _ = open_future => panic!("the connection opened"),
            _ = process_receiver.changed() => {}
        }
    });
    // The program may make its twin as long as it lives; a caller that does not wait for its end has returned by then.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(count_guard_records(&test_home), 1);
    test_home.write_session(TWIN_FILE, &empty_session_text(SESSION_ID));
    drop(process);
    wait_until(|| count_guard_records(&test_home) == 0);
    assert_eq!(test_home.read_session(TWIN_FILE), None);
    assert_eq!(
        test_home.read_session(SESSION_FILE),
        Some(session_text(SESSION_ID))
    );
}

#[test]
fn a_dropped_connection_leaves_no_twin() {
    for lifetime in [ProcessLifetime::Connection, ProcessLifetime::Turn] {
        let (test_home, agent, request) = build_fixture(OpenBehaviour::Successful, lifetime, None);
        let opened = block_on(agent.open(&request)).unwrap();
        test_home.write_session(TWIN_FILE, &empty_session_text(SESSION_ID));
        test_home.write_session(
            SESSION_FILE,
            &(session_text(SESSION_ID) + &turn_text("second")),
        );
        // The runtime no longer exists.
        drop(opened);
        wait_until(|| count_guard_records(&test_home) == 0);
        assert_eq!(test_home.read_session(TWIN_FILE), None, "{lifetime:?}");
        test_home.remove_sessions(&[SESSION_FILE]);
        test_home
            .guard
            .prepare_for_start(&test_home.cwd(), Some(&parse_id(SESSION_ID)));
        let expected = session_text(SESSION_ID) + &turn_text("second");
        assert_eq!(
            test_home.read_session(SESSION_FILE),
            Some(expected),
            "{lifetime:?}"
        );
    }
}

#[test]
fn every_turn_is_copied_when_it_ends() {
    for lifetime in [ProcessLifetime::Connection, ProcessLifetime::Turn] {
        let (test_home, agent, request) = build_fixture(OpenBehaviour::Successful, lifetime, None);
        block_on(async {
            let mut connection = agent.open(&request).await.unwrap().connection;
            let mut text = session_text(SESSION_ID);
            for prompt in ["second", "third"] {
                connection.send_prompt(prompt).await.unwrap();
                text.push_str(&turn_text(prompt));
                test_home.write_session(SESSION_FILE, &text);
                assert!(matches!(
                    connection.next_event().await,
                    ConnectionEvent::TurnEnded(Ok(_))
                ));
                let copy = test_home
                    .copies_root()
                    .join(SESSION_ID)
                    .join("project")
                    .join(SESSION_FILE);
                assert_eq!(fs::read_to_string(copy).unwrap(), text, "{lifetime:?}");
            }
            test_home.remove_sessions(&[SESSION_FILE]);
            if lifetime == ProcessLifetime::Turn {
                connection.send_prompt("fourth").await.unwrap();
            }
            let actions = connection.close().await;
            let restored = GuardAction::SessionRestored {
                short_id: "11111111".to_owned(),
                cause: RestoreCause::Deleted,
            };
            assert!(actions.contains(&restored), "{lifetime:?}: {actions:?}");
            assert_eq!(
                test_home.read_session(SESSION_FILE),
                Some(text),
                "{lifetime:?}"
            );
        });
        assert_eq!(count_guard_records(&test_home), 0, "{lifetime:?}");
    }
}
