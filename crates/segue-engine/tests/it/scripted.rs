//! A scripted agent, and a stage: the store and the engine that it runs with.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_agents::{
    Agent, AgentError, AgentConnection, AgentDefaults, ListedNativeSession, OpenRequest, OpenedConnection, Probe, AgentRefusal, ConnectionEvent,
};
use segue_catalog::Catalog;
use segue_core::agent::{PermissionAnswer, PermissionPolicy, PermissionRequest, ProcessIdentity};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::policy::{WaitPreference, Policy};
use segue_core::session::{
    AgentEvent, FailureClass, OpenMode, Project, Session, StopReason, TurnEnd, Usage,
};
use segue_engine::{ChatRequest, Engine, EngineError, StopLevel, Target, TurnEvent, TurnReport, Environment};
use segue_sqlite::SqliteStore;
use segue_store::{Lease, LeaseRequest, Store};
use tokio::sync::{mpsc, watch};

/// A scripted action of the agent.
pub(crate) enum Cue {
    Event(AgentEvent),
    Ask(PermissionRequest),
    /// An action that is not visible to the engine.
    Aside(Box<dyn FnOnce() -> Pending + Send>),
    Hang,
    /// The agent reports the id of the native session.
    Named(&'static str),
    Done(StopReason, Usage),
    /// The turn ends with an error.
    Fails(AgentError),
}

/// Future of a [`Cue::Aside`].
pub(crate) type Pending = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Record of what the agent received.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) asked_for: Vec<Option<NativeId>>,
    pub(crate) prompts: Vec<String>,
    /// State of the tokenizer when each prompt arrived: `true` if it was loaded.
    pub(crate) countable: Vec<bool>,
    pub(crate) answers: Vec<PermissionAnswer>,
    pub(crate) cancelled: usize,
    pub(crate) closed: usize,
    /// Strictness of each opening: whether it was to fail instead of starting a new native session.
    pub(crate) strict: Vec<bool>,
    /// Permission policy of each opening.
    pub(crate) permissions: Vec<PermissionPolicy>,
}

/// An agent that follows a script.
pub(crate) struct Scripted {
    provider: ProviderId,
    pub(crate) cues: Arc<Mutex<VecDeque<Cue>>>,
    pub(crate) heard: Arc<Mutex<Heard>>,
    /// Mode in which a native session is resumed. `Fresh` if it cannot be resumed.
    pub(crate) goes_on: Mutex<OpenMode>,
    /// Availability of a native session that cannot be resumed now: `true` if it could be resumed later.
    pub(crate) not_now: AtomicBool,
    /// Actions that protect native sessions, reported on opening and on closing.
    pub(crate) protects: Mutex<Vec<String>>,
    /// Configuration of the agent.
    pub(crate) defaults: Mutex<AgentDefaults>,
    /// Native sessions that the agent lists. `None` if it cannot list them.
    pub(crate) listed: Mutex<Option<Vec<ListedNativeSession>>>,
    /// `true` if the agent's program is installed.
    pub(crate) there: AtomicBool,
    /// `true` if a native session has no id until the agent reports one.
    pub(crate) nameless: AtomicBool,
    /// Process that runs as long as a native session is open. `None` if there is none.
    pub(crate) process: Mutex<Option<ProcessIdentity>>,
    /// Action that runs when a native session is opened.
    pub(crate) on_open: Mutex<Option<Box<dyn FnOnce() -> Pending + Send>>>,
}

impl Scripted {
    fn new(name: &str) -> Self {
        Self {
            provider: ProviderId::parse(name).unwrap(),
            cues: Arc::default(),
            heard: Arc::default(),
            goes_on: Mutex::new(OpenMode::Resumed),
            not_now: AtomicBool::new(false),
            protects: Mutex::default(),
            defaults: Mutex::default(),
            listed: Mutex::default(),
            there: AtomicBool::new(true),
            nameless: AtomicBool::new(false),
            process: Mutex::default(),
            on_open: Mutex::default(),
        }
    }
}

struct Play {
    native_id: Option<NativeId>,
    /// Cues of the agent. They are shared, so that a test can add cues after the opening.
    cues: Arc<Mutex<VecDeque<Cue>>>,
    heard: Arc<Mutex<Heard>>,
    cancelled: bool,
    protects: Vec<String>,
    process: Option<ProcessIdentity>,
}

#[async_trait]
impl Agent for Scripted {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let look = self.on_open.lock().unwrap().take();
        if let Some(look) = look {
            look().await;
        }
        let goes_on = *self.goes_on.lock().unwrap();
        let mut heard = self.heard.lock().unwrap();
        heard.asked_for.push(request.native_id.clone());
        heard.strict.push(request.strict);
        heard.permissions.push(request.permissions);
        let name = match self.provider.as_str() {
            "scripted" => "native",
            other => other,
        };
        let fresh = NativeId::parse(&format!("{name}-{}", heard.asked_for.len())).unwrap();
        let (native_id, opened, why_not) = match (&request.native_id, goes_on) {
            (Some(_), OpenMode::Fresh) if request.strict => {
                let refusal = AgentRefusal::new(FailureClass::SessionUnknown, "it is gone");
                return Err(AgentError::from_refusal("the resume", refusal));
            }
            (Some(_), OpenMode::Fresh) => (fresh, OpenMode::Fresh, Some("it is gone".to_owned())),
            (Some(id), opened) => (id.clone(), opened, None),
            (None, _) => (fresh, OpenMode::Fresh, None),
        };
        let nameless = self.nameless.load(Ordering::Relaxed) && opened == OpenMode::Fresh;
        let conversation = Play {
            native_id: (!nameless).then_some(native_id),
            cues: Arc::clone(&self.cues),
            heard: Arc::clone(&self.heard),
            cancelled: false,
            protects: self.protects.lock().unwrap().clone(),
            process: self.process.lock().unwrap().clone(),
        };
        Ok(OpenedConnection {
            guard_actions: conversation.protects.clone(),
            session_unavailable: why_not.is_some() && self.not_now.load(Ordering::Relaxed),
            fallback_reason: why_not,
            ..OpenedConnection::new(conversation, opened)
        })
    }

    async fn list_sessions(
        &self,
        _cwd: &Path,
        _timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        Ok(self.listed.lock().unwrap().clone())
    }

    fn defaults(&self) -> AgentDefaults {
        self.defaults.lock().unwrap().clone()
    }

    fn is_installed(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }

    async fn probe(&self, _timeout: Duration) -> Result<Probe, AgentError> {
        panic!("nobody asks")
    }
}

#[async_trait]
impl AgentConnection for Play {
    fn native_id(&self) -> Option<&NativeId> {
        self.native_id.as_ref()
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.process.clone()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.cancelled = false;
        let mut heard = self.heard.lock().unwrap();
        heard.prompts.push(prompt.to_owned());
        let countable = segue_tokens::count_if_ready("").is_some();
        heard.countable.push(countable);
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            if self.cancelled {
                return ConnectionEvent::TurnEnded(Ok(TurnEnd {
                    reason: StopReason::Cancelled,
                    usage: Usage::default(),
                }));
            }
            let cue = {
                let mut cues = self.cues.lock().unwrap();
                match cues.front() {
                    Some(Cue::Hang) => None,
                    Some(_) => cues.pop_front(),
                    None => panic!("the script has ended"),
                }
            };
            match cue {
                None | Some(Cue::Hang) => std::future::pending::<()>().await,
                Some(Cue::Event(event)) => return ConnectionEvent::Event(event),
                Some(Cue::Named(name)) => {
                    let name = NativeId::parse(name).unwrap();
                    self.native_id = Some(name.clone());
                    return ConnectionEvent::NativeIdReported(name);
                }
                Some(Cue::Ask(request)) => {
                    let heard = Arc::clone(&self.heard);
                    let reply = Box::new(move |answer| heard.lock().unwrap().answers.push(answer));
                    return ConnectionEvent::PermissionRequested(request, reply);
                }
                Some(Cue::Aside(action)) => action().await,
                Some(Cue::Done(reason, usage)) => {
                    return ConnectionEvent::TurnEnded(Ok(TurnEnd { reason, usage }));
                }
                Some(Cue::Fails(error)) => return ConnectionEvent::TurnEnded(Err(error)),
            }
        }
    }

    fn cancel(&mut self) {
        self.heard.lock().unwrap().cancelled += 1;
        self.cancelled = true;
    }

    fn is_alive(&mut self) -> bool {
        true
    }

    async fn close(self: Box<Self>) -> Vec<String> {
        self.heard.lock().unwrap().closed += 1;
        self.protects
    }
}

/// A store, an engine and an agent.
pub(crate) struct Stage {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) agent: Arc<Scripted>,
    /// Further agents.
    pub(crate) others: Vec<Arc<Scripted>>,
    pub(crate) engine: Engine,
    pub(crate) stop: watch::Sender<StopLevel>,
    _directory: tempfile::TempDir,
}

fn random() -> u32 {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn world() -> Environment {
    Environment {
        now: Timestamp::now,
        random,
        process: segue_agents::identify_process(std::process::id()).unwrap(),
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::beside(Catalog::default())
    }

    /// Creates a stage with the native sessions of a catalog.
    pub(crate) fn beside(catalog: Catalog) -> Self {
        Self::cast(&[], Policy::default(), catalog)
    }

    /// Creates a stage with several agents and a policy.
    pub(crate) fn with(names: &[&str], policy: Policy) -> Self {
        Self::cast(names, policy, Catalog::default())
    }

    /// Creates a stage with several agents, a policy, and the native sessions of a catalog.
    pub(crate) fn cast(names: &[&str], policy: Policy, catalog: Catalog) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        let agent = Arc::new(Scripted::new("scripted"));
        let others: Vec<Arc<Scripted>> = names
            .iter()
            .map(|name| Arc::new(Scripted::new(name)))
            .collect();
        let mut agents: Vec<Arc<dyn Agent>> = vec![agent.clone()];
        agents.extend(others.iter().map(|agent| agent.clone() as Arc<dyn Agent>));
        Self {
            engine: Engine::new(store.clone(), agents, catalog, world()).with_policy(policy),
            store,
            agent,
            others,
            stop: watch::channel(StopLevel::None).0,
            _directory: directory,
        }
    }

    /// Replaces the policy.
    pub(crate) fn going_by(self, policy: Policy) -> Self {
        Self {
            engine: self.engine.with_policy(policy),
            ..self
        }
    }

    /// Sets the maximum number of tokens of a brief.
    pub(crate) fn within(self, budget: u64) -> Self {
        Self {
            engine: self.engine.with_budget(budget),
            ..self
        }
    }

    /// Creates a second engine with the same store and the same agent.
    pub(crate) fn beside_it(&self) -> Engine {
        let agent: Arc<dyn Agent> = self.agent.clone();
        Engine::new(self.store.clone(), vec![agent], Catalog::default(), world())
    }

    /// Creates a second engine with the same store and all agents.
    pub(crate) fn beside_all(&self) -> Engine {
        let all = std::iter::once(&self.agent).chain(&self.others);
        let agents = all.map(|agent| agent.clone() as Arc<dyn Agent>).collect();
        Engine::new(self.store.clone(), agents, Catalog::default(), world())
    }

    /// Adds actions to the agent's script.
    pub(crate) fn script(&self, cues: impl IntoIterator<Item = Cue>) {
        self.agent.cues.lock().unwrap().extend(cues);
    }

    pub(crate) fn request(&self, prompt: &str, target: Target) -> ChatRequest {
        ChatRequest {
            prompt: prompt.to_owned(),
            target,
            project: Project {
                key: "/project".into(),
                cwd: Path::new("/").display().to_string(),
            },
            provider: None,
            model: None,
            explain: None,
            strict: false,
            wait_preference: WaitPreference::Wait,
            force: false,
            permissions: Some(PermissionPolicy::Ask),
            open_timeout: Some(Duration::from_secs(5)),
            turn_timeout: None,
            max_text_bytes: usize::MAX,
            keep_agent: false,
            stop: self.stop.subscribe(),
        }
    }

    /// Runs a turn, and calls `listen` with each event.
    pub(crate) async fn chat(
        &self,
        request: ChatRequest,
        mut listen: impl FnMut(TurnEvent),
    ) -> Result<TurnReport, EngineError> {
        let (sender, mut events) = mpsc::channel(8);
        let chat = self.engine.chat(request, sender);
        let listening = async {
            while let Some(event) = events.recv().await {
                listen(event);
            }
        };
        tokio::join!(chat, listening).0
    }

    /// Returns the current state of the session of a report.
    pub(crate) async fn session_of(&self, report: &TurnReport) -> Session {
        self.store.session(&report.session).await.unwrap().unwrap()
    }

    /// Acquires the lease of a session for a process.
    pub(crate) async fn claim(&self, session: &SessionId, owner: ProcessIdentity) -> Lease {
        let request = LeaseRequest {
            session: session.clone(),
            owner,
            at: Timestamp::now(),
            expires_after: jiff::SignedDuration::from_secs(30),
            dead_epoch: None,
        };
        self.store.acquire_lease(request).await.unwrap().lease
    }

    /// Runs a turn with a short answer.
    pub(crate) async fn turn(&self, prompt: &str, target: Target) -> TurnReport {
        self.script([say(&format!("heard {prompt}")), done()]);
        self.chat(self.request(prompt, target), |_| {})
            .await
            .unwrap()
    }
}

/// Returns the identity of this process.
pub(crate) fn living() -> ProcessIdentity {
    segue_agents::identify_process(std::process::id()).unwrap()
}

/// Returns the identity of a process that does not exist.
pub(crate) fn dead() -> ProcessIdentity {
    ProcessIdentity {
        pid: u32::MAX - 1,
        ..living()
    }
}

pub(crate) fn say(words: &str) -> Cue {
    Cue::Event(AgentEvent::Text(words.to_owned()))
}

pub(crate) fn done() -> Cue {
    Cue::Done(StopReason::EndTurn, Usage::default())
}

/// Returns the session of a report as a target.
pub(crate) fn same(report: &TurnReport) -> Target {
    let id: &SessionId = &report.session;
    Target::Session(id.clone())
}
