//! A scripted agent, and a harness: the store and the engine that it runs with.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_catalog::Catalog;
use segue_core::agent::{PermissionAnswer, PermissionPolicy, PermissionRequest, ProcessIdentity};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::policy::{Policy, WaitPreference};
use segue_core::session::{
    AgentEvent, FailureClass, GuardAction, OpenMode, Project, Session, StopReason, TurnEnd, Usage,
};
use segue_engine::{
    ChatRequest, Engine, EngineBuilder, EngineSettings, Environment, StopLevel, Target, TurnError,
    TurnEvent, TurnReport,
};
use segue_providers::{
    Agent, AgentConnection, AgentDefaults, AgentError, AgentRefusal, ConnectionEvent,
    ListedNativeSession, OpenRequest, OpenedConnection, Probe,
};
use segue_sqlite::SqliteStore;
use segue_store::{Lease, LeaseRequest, Store};
use tokio::sync::{mpsc, watch};

/// A scripted action of the agent.
pub(crate) enum ScriptedAction {
    Event(AgentEvent),
    PermissionRequested(PermissionRequest),
    /// An action that is not visible to the engine.
    SideEffect(Box<dyn FnOnce() -> SideEffectFuture + Send>),
    Hang,
    /// The agent reports the id of the native session.
    NativeIdReported(&'static str),
    TurnEnded(StopReason, Usage),
    /// The turn ends with an error.
    TurnFailed(AgentError),
}

/// Future of a [`ScriptedAction::SideEffect`].
pub(crate) type SideEffectFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Record of what the agent received.
#[derive(Default)]
pub(crate) struct ReceivedCalls {
    pub(crate) requested_ids: Vec<Option<NativeId>>,
    pub(crate) prompts: Vec<String>,
    /// State of the tokenizer when each prompt arrived: `true` if it was loaded.
    pub(crate) tokenizer_loaded: Vec<bool>,
    pub(crate) permission_answers: Vec<PermissionAnswer>,
    pub(crate) cancel_count: usize,
    pub(crate) close_count: usize,
    /// Strictness of each opening: whether it was to fail instead of starting a new native session.
    pub(crate) strict: Vec<bool>,
    /// Permission policy of each opening.
    pub(crate) permissions: Vec<PermissionPolicy>,
}

/// An agent that follows a script.
pub(crate) struct ScriptedAgent {
    provider: ProviderId,
    pub(crate) actions: Arc<Mutex<VecDeque<ScriptedAction>>>,
    pub(crate) received: Arc<Mutex<ReceivedCalls>>,
    /// Mode in which a native session is resumed. `Fresh` if it cannot be resumed.
    pub(crate) resume_mode: Mutex<OpenMode>,
    /// Availability of a native session that cannot be resumed now: `true` if it could be resumed later.
    pub(crate) is_unavailable: AtomicBool,
    /// Actions that protect native sessions, reported on opening and on closing.
    pub(crate) guard_actions: Mutex<Vec<GuardAction>>,
    /// Configuration of the agent.
    pub(crate) defaults: Mutex<AgentDefaults>,
    /// Native sessions that the agent lists. `None` if it cannot list them.
    pub(crate) listed_sessions: Mutex<Option<Vec<ListedNativeSession>>>,
    /// `true` if the agent's program is installed.
    pub(crate) is_installed: AtomicBool,
    /// `true` if a native session has no id until the agent reports one.
    pub(crate) reports_id_late: AtomicBool,
    /// Process that runs as long as a native session is open. `None` if there is none.
    pub(crate) process: Mutex<Option<ProcessIdentity>>,
    /// Action that runs when a native session is opened.
    pub(crate) on_open: Mutex<Option<Box<dyn FnOnce() -> SideEffectFuture + Send>>>,
}

impl ScriptedAgent {
    fn new(name: &str) -> Self {
        Self {
            provider: ProviderId::parse(name).unwrap(),
            actions: Arc::default(),
            received: Arc::default(),
            resume_mode: Mutex::new(OpenMode::Resumed),
            is_unavailable: AtomicBool::new(false),
            guard_actions: Mutex::default(),
            defaults: Mutex::default(),
            listed_sessions: Mutex::default(),
            is_installed: AtomicBool::new(true),
            reports_id_late: AtomicBool::new(false),
            process: Mutex::default(),
            on_open: Mutex::default(),
        }
    }
}

struct ScriptedConnection {
    native_id: Option<NativeId>,
    /// Actions of the agent. They are shared, so that a test can add actions after the opening.
    actions: Arc<Mutex<VecDeque<ScriptedAction>>>,
    received: Arc<Mutex<ReceivedCalls>>,
    is_cancelled: bool,
    guard_actions: Vec<GuardAction>,
    process: Option<ProcessIdentity>,
}

#[async_trait]
impl Agent for ScriptedAgent {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let on_open = self.on_open.lock().unwrap().take();
        if let Some(on_open) = on_open {
            on_open().await;
        }
        let resume_mode = *self.resume_mode.lock().unwrap();
        let mut received = self.received.lock().unwrap();
        received.requested_ids.push(request.native_id.clone());
        received.strict.push(request.strict);
        received.permissions.push(request.permissions);
        let name = match self.provider.as_str() {
            "scripted" => "native",
            provider => provider,
        };
        let fresh_id =
            NativeId::parse(&format!("{name}-{}", received.requested_ids.len())).unwrap();
        let (native_id, mode, fallback_reason) = match (&request.native_id, resume_mode) {
            (Some(_), OpenMode::Fresh) if request.strict => {
                let refusal = AgentRefusal::new(FailureClass::SessionUnknown, "session not found");
                return Err(AgentError::from_refusal("the resume", refusal));
            }
            (Some(_), OpenMode::Fresh) => (
                fresh_id,
                OpenMode::Fresh,
                Some("session not found".to_owned()),
            ),
            (Some(id), mode) => (id.clone(), mode, None),
            (None, _) => (fresh_id, OpenMode::Fresh, None),
        };
        let reports_id_late =
            self.reports_id_late.load(Ordering::Relaxed) && mode == OpenMode::Fresh;
        let connection = ScriptedConnection {
            native_id: (!reports_id_late).then_some(native_id),
            actions: Arc::clone(&self.actions),
            received: Arc::clone(&self.received),
            is_cancelled: false,
            guard_actions: self.guard_actions.lock().unwrap().clone(),
            process: self.process.lock().unwrap().clone(),
        };
        Ok(OpenedConnection {
            guard_actions: connection.guard_actions.clone(),
            session_unavailable: fallback_reason.is_some()
                && self.is_unavailable.load(Ordering::Relaxed),
            fallback_reason,
            ..OpenedConnection::new(connection, mode)
        })
    }

    async fn list_sessions(
        &self,
        _cwd: &Path,
        _timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        Ok(self.listed_sessions.lock().unwrap().clone())
    }

    fn defaults(&self) -> AgentDefaults {
        self.defaults.lock().unwrap().clone()
    }

    fn is_installed(&self) -> bool {
        self.is_installed.load(Ordering::Relaxed)
    }

    async fn probe(&self, _timeout: Duration) -> Result<Probe, AgentError> {
        panic!("the engine does not probe agents")
    }
}

#[async_trait]
impl AgentConnection for ScriptedConnection {
    fn native_id(&self) -> Option<&NativeId> {
        self.native_id.as_ref()
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.process.clone()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.is_cancelled = false;
        let mut received = self.received.lock().unwrap();
        received.prompts.push(prompt.to_owned());
        let is_tokenizer_loaded = segue_tokens::count_if_ready("").is_some();
        received.tokenizer_loaded.push(is_tokenizer_loaded);
        Ok(())
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            if self.is_cancelled {
                return ConnectionEvent::TurnEnded(Ok(TurnEnd {
                    reason: StopReason::Cancelled,
                    usage: Usage::default(),
                }));
            }
            let next_action = {
                let mut actions = self.actions.lock().unwrap();
                match actions.front() {
                    Some(ScriptedAction::Hang) => None,
                    Some(_) => actions.pop_front(),
                    None => panic!("the script has ended"),
                }
            };
            match next_action {
                None | Some(ScriptedAction::Hang) => std::future::pending::<()>().await,
                Some(ScriptedAction::Event(event)) => return ConnectionEvent::Event(event),
                Some(ScriptedAction::NativeIdReported(id)) => {
                    let native_id = NativeId::parse(id).unwrap();
                    self.native_id = Some(native_id.clone());
                    return ConnectionEvent::NativeIdReported(native_id);
                }
                Some(ScriptedAction::PermissionRequested(request)) => {
                    let received = Arc::clone(&self.received);
                    let reply = Box::new(move |answer| {
                        received.lock().unwrap().permission_answers.push(answer);
                    });
                    return ConnectionEvent::PermissionRequested(request, reply);
                }
                Some(ScriptedAction::SideEffect(action)) => action().await,
                Some(ScriptedAction::TurnEnded(reason, usage)) => {
                    return ConnectionEvent::TurnEnded(Ok(TurnEnd { reason, usage }));
                }
                Some(ScriptedAction::TurnFailed(error)) => {
                    return ConnectionEvent::TurnEnded(Err(error));
                }
            }
        }
    }

    fn cancel(&mut self) {
        self.received.lock().unwrap().cancel_count += 1;
        self.is_cancelled = true;
    }

    fn is_alive(&mut self) -> bool {
        true
    }

    async fn close(self: Box<Self>) -> Vec<GuardAction> {
        self.received.lock().unwrap().close_count += 1;
        self.guard_actions
    }
}

/// A store, an engine and an agent.
pub(crate) struct EngineHarness {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) agent: Arc<ScriptedAgent>,
    /// Further agents.
    pub(crate) other_agents: Vec<Arc<ScriptedAgent>>,
    pub(crate) engine: Engine,
    catalog: Catalog,
    settings: EngineSettings,
    pub(crate) stop: watch::Sender<StopLevel>,
    pub(crate) directory: tempfile::TempDir,
}

fn random() -> u32 {
    use std::sync::atomic::AtomicU32;
    static NEXT_RANDOM: AtomicU32 = AtomicU32::new(0);
    NEXT_RANDOM.fetch_add(1, Ordering::Relaxed)
}

fn to_dyn_agents<'a>(
    agents: impl IntoIterator<Item = &'a Arc<ScriptedAgent>>,
) -> Vec<Arc<dyn Agent>> {
    let agents = agents.into_iter();
    agents
        .map(|agent| Arc::clone(agent) as Arc<dyn Agent>)
        .collect()
}

fn test_environment() -> Environment {
    Environment {
        now: Timestamp::now,
        random,
        process: segue_providers::identify_process(std::process::id()).unwrap(),
    }
}

impl EngineHarness {
    pub(crate) fn new() -> Self {
        Self::with_catalog(Catalog::default())
    }

    /// Creates a harness with the native sessions of a catalog.
    pub(crate) fn with_catalog(catalog: Catalog) -> Self {
        Self::with_agents_and_catalog(&[], Policy::default(), catalog)
    }

    /// Creates a harness with several agents and a policy.
    pub(crate) fn with_agents(names: &[&str], policy: Policy) -> Self {
        Self::with_agents_and_catalog(names, policy, Catalog::default())
    }

    /// Creates a harness with several agents, a policy, and the native sessions of a catalog.
    pub(crate) fn with_agents_and_catalog(
        names: &[&str],
        policy: Policy,
        catalog: Catalog,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory.path()).unwrap());
        let agent = Arc::new(ScriptedAgent::new("scripted"));
        let other_agents: Vec<Arc<ScriptedAgent>> = names
            .iter()
            .map(|name| Arc::new(ScriptedAgent::new(name)))
            .collect();
        let settings = EngineSettings {
            policy,
            ..EngineSettings::default()
        };
        let agents = to_dyn_agents(std::iter::once(&agent).chain(&other_agents));
        let engine = Engine::builder(store.clone(), agents, catalog.clone(), test_environment())
            .with_settings(settings.clone());
        Self {
            engine: engine.build(),
            catalog,
            settings,
            store,
            agent,
            other_agents,
            stop: watch::channel(StopLevel::None).0,
            directory,
        }
    }

    /// Replaces the policy.
    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self.rebuild_engine()
    }

    /// Sets the maximum number of tokens of a brief.
    pub(crate) fn with_budget(mut self, budget: u64) -> Self {
        self.settings.budget = budget;
        self.rebuild_engine()
    }

    /// Replaces the engine by one with the current settings.
    fn rebuild_engine(mut self) -> Self {
        self.engine = self.engine_builder().build();
        self
    }

    /// Returns a builder of an engine with the store, the agents, the catalog and the settings of the harness.
    pub(crate) fn engine_builder(&self) -> EngineBuilder {
        let agents = to_dyn_agents(std::iter::once(&self.agent).chain(&self.other_agents));
        let catalog = self.catalog.clone();
        Engine::builder(self.store.clone(), agents, catalog, test_environment())
            .with_settings(self.settings.clone())
    }

    /// Returns a builder of an engine with the same store and the same agent, but without native sessions and with
    /// default settings.
    pub(crate) fn second_engine_builder(&self) -> EngineBuilder {
        let agents = to_dyn_agents([&self.agent]);
        let catalog = Catalog::default();
        Engine::builder(self.store.clone(), agents, catalog, test_environment())
    }

    /// Creates a second engine with the same store and the same agent.
    pub(crate) fn second_engine(&self) -> Engine {
        self.second_engine_builder().build()
    }

    /// Creates a second engine with the same store and the same agent, and with other settings.
    pub(crate) fn second_engine_with(&self, settings: EngineSettings) -> Engine {
        self.second_engine_builder().with_settings(settings).build()
    }

    /// Starts to build an engine with the same agent, on another store and with the native sessions of a catalog.
    pub(crate) fn engine_with_store(
        &self,
        store: Arc<dyn Store>,
        catalog: Catalog,
    ) -> EngineBuilder {
        let agent: Arc<dyn Agent> = self.agent.clone();
        Engine::builder(store, vec![agent], catalog, test_environment())
    }

    /// Creates a second engine with the same store and all agents.
    pub(crate) fn second_engine_with_all_agents(&self) -> Engine {
        let agents = to_dyn_agents(std::iter::once(&self.agent).chain(&self.other_agents));
        let catalog = Catalog::default();
        Engine::builder(self.store.clone(), agents, catalog, test_environment()).build()
    }

    /// Adds actions to the agent's script.
    pub(crate) fn script(&self, actions: impl IntoIterator<Item = ScriptedAction>) {
        self.agent.actions.lock().unwrap().extend(actions);
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

    /// Runs a turn, and calls `on_event` with each event.
    pub(crate) async fn chat(
        &self,
        request: ChatRequest,
        mut on_event: impl FnMut(TurnEvent),
    ) -> Result<TurnReport, TurnError> {
        let (sender, mut events) = mpsc::channel(8);
        let chat = self.engine.chat(request, sender);
        let receiving = async {
            while let Some(event) = events.recv().await {
                on_event(event);
            }
        };
        tokio::join!(chat, receiving).0
    }

    /// Returns the current state of the session of a report.
    pub(crate) async fn load_session(&self, report: &TurnReport) -> Session {
        self.store.session(&report.session).await.unwrap().unwrap()
    }

    /// Acquires the lease of a session for a process.
    pub(crate) async fn acquire_lease(&self, session: &SessionId, owner: ProcessIdentity) -> Lease {
        let request = LeaseRequest {
            session: session.clone(),
            owner,
            expires_after: jiff::SignedDuration::from_secs(30),
            dead_epoch: None,
        };
        self.store.acquire_lease(request).await.unwrap().lease
    }

    /// Runs a turn with a short answer.
    pub(crate) async fn run_turn(&self, prompt: &str, target: Target) -> TurnReport {
        self.script([send_text(&format!("heard {prompt}")), end_turn()]);
        self.chat(self.request(prompt, target), |_| {})
            .await
            .unwrap()
    }
}

/// Returns the identity of this process.
pub(crate) fn current_process() -> ProcessIdentity {
    segue_providers::identify_process(std::process::id()).unwrap()
}

/// Returns the identity of a process that does not exist.
pub(crate) fn dead_process() -> ProcessIdentity {
    ProcessIdentity {
        pid: u32::MAX - 1,
        ..current_process()
    }
}

pub(crate) fn send_text(text: &str) -> ScriptedAction {
    ScriptedAction::Event(AgentEvent::Text(text.to_owned()))
}

pub(crate) fn end_turn() -> ScriptedAction {
    ScriptedAction::TurnEnded(StopReason::EndTurn, Usage::default())
}

/// Returns the session of a report as a target.
pub(crate) fn session_target(report: &TurnReport) -> Target {
    let id: &SessionId = &report.session;
    Target::Session(id.clone())
}
