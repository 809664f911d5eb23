//! Protection of the sessions if the caller does not wait for the end, with a stand-in for the agent.

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use segue_core::session::{Opened, StopReason, Usage};

use super::*;
use crate::gemini::world::{FIRST, ID, TWIN, World, empty, id, said, session};
use crate::mark_of;
use crate::provider::OUTSIDE;

/// A process that runs until it is killed.
struct Running(std::process::Child);

impl Running {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn mark(&self) -> Option<ProcessMark> {
        mark_of(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Behaviour of the stand-in when it opens a session.
enum Opens {
    Never,
    Well,
}

/// An agent that leaves a twin, as Gemini CLI does.
struct StandIn {
    provider: ProviderId,
    twin: PathBuf,
    process: Mutex<Option<ProcessMark>>,
    opens: Opens,
}

#[async_trait]
impl Agent for StandIn {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let process = self.process.lock().unwrap().clone();
        request.started.send_replace(process);
        fs::write(&self.twin, empty(ID)).unwrap();
        match self.opens {
            Opens::Never => std::future::pending().await,
            Opens::Well => Ok(Opening::new(Talk { id: id(ID) }, Opened::Resumed)),
        }
    }

    async fn probe(&self, _: Duration) -> Result<Probe, AgentError> {
        std::future::pending().await
    }
}

/// A connection in which each turn ends at once.
struct Talk {
    id: NativeId,
}

#[async_trait]
impl Conversation for Talk {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.id)
    }

    fn process(&self) -> Option<ProcessMark> {
        None
    }

    async fn send(&mut self, _: &str) -> Result<(), AgentError> {
        Ok(())
    }

    async fn next(&mut self) -> Step {
        Step::Done(Ok(TurnEnd {
            reason: StopReason::EndTurn,
            usage: Usage::default(),
        }))
    }

    fn cancel(&mut self) {}

    fn is_alive(&mut self) -> bool {
        true
    }

    async fn close(self: Box<Self>) -> Vec<String> {
        Vec::new()
    }
}

/// Creates a home with a session, an agent, and a request for that session.
fn stage(opens: Opens, life: Life, process: Option<ProcessMark>) -> (World, Guarded, OpenRequest) {
    let world = World::new(OUTSIDE);
    world.write(FIRST, &session(ID));
    let agent = StandIn {
        provider: ProviderId::gemini(),
        twin: world.path(TWIN),
        process: Mutex::new(process),
        opens,
    };
    let guarded = Guarded::new(Arc::new(agent), Arc::clone(&world.keep), life);
    let request = world.request();
    (world, guarded, request)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(future)
}

/// Waits until `so` returns `true`.
fn until(so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never did");
}

/// Returns the number of vigils on disk.
fn vigils(world: &World) -> usize {
    fs::read_dir(world.kept().join(".endangered")).map_or(0, Iterator::count)
}

#[test]
fn an_opening_that_is_given_up_leaves_no_twin() {
    let process = Running::start();
    let (world, agent, request) = stage(Opens::Never, Life::Conversation, process.mark());
    run(async {
        let opening = agent.open(&request);
        let mut started = request.started.subscribe();
        tokio::select! {
            _ = opening => panic!("it opened"),
            _ = started.changed() => {}
        }
    });
    // The program may make its twin as long as it lives; a caller that does not wait for its end has returned by then.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(vigils(&world), 1);
    world.write(TWIN, &empty(ID));
    drop(process);
    until(|| vigils(&world) == 0);
    assert_eq!(world.text(TWIN), None);
    assert_eq!(world.text(FIRST), Some(session(ID)));
}

#[test]
fn a_conversation_that_is_let_go_of_leaves_no_twin() {
    for life in [Life::Conversation, Life::Turn] {
        let (world, agent, request) = stage(Opens::Well, life, None);
        let opening = run(agent.open(&request)).unwrap();
        world.write(TWIN, &empty(ID));
        world.write(FIRST, &(session(ID) + &said("second")));
        // The runtime no longer exists.
        drop(opening);
        until(|| vigils(&world) == 0);
        assert_eq!(world.text(TWIN), None, "{life:?}");
        world.remove(&[FIRST]);
        world.keep.before(&world.cwd(), Some(&id(ID)));
        let last_seen = session(ID) + &said("second");
        assert_eq!(world.text(FIRST), Some(last_seen), "{life:?}");
    }
}

#[test]
fn every_turn_is_copied_when_it_is_over() {
    for life in [Life::Conversation, Life::Turn] {
        let (world, agent, request) = stage(Opens::Well, life, None);
        run(async {
            let mut conversation = agent.open(&request).await.unwrap().conversation;
            let mut text = session(ID);
            for words in ["second", "third"] {
                conversation.send(words).await.unwrap();
                text.push_str(&said(words));
                world.write(FIRST, &text);
                assert!(matches!(conversation.next().await, Step::Done(Ok(_))));
                let copy = world.kept().join(ID).join("project").join(FIRST);
                assert_eq!(fs::read_to_string(copy).unwrap(), text, "{life:?}");
            }
            world.remove(&[FIRST]);
            if life == Life::Turn {
                conversation.send("fourth").await.unwrap();
            }
            let told = conversation.close().await;
            let put_back = "put back Gemini session 11111111, which had been deleted";
            assert!(
                told.iter().any(|line| line == put_back),
                "{life:?}: {told:?}"
            );
            assert_eq!(world.text(FIRST), Some(text), "{life:?}");
        });
        assert_eq!(vigils(&world), 0, "{life:?}");
    }
}
