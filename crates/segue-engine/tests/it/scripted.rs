//! An agent that does as it is told, and a stage to put it on.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_agents::{
    Agent, AgentError, Conversation, Defaults, Listed, OpenRequest, Opening, Probe, Refusal, Step,
};
use segue_catalog::Catalog;
use segue_core::{
    AgentEvent, FailureClass, Haste, NativeId, Opened, PermissionAnswer, PermissionPolicy,
    PermissionRequest, Policy, ProcessMark, Project, ProviderId, Session, SessionId, StopReason,
    TurnEnd, Usage,
};
use segue_engine::{ChatRequest, Engine, EngineError, Stop, Target, TurnEvent, TurnReport, World};
use segue_sqlite::SqliteStore;
use segue_store::{Lease, LeaseRequest, Store};
use tokio::sync::{mpsc, watch};

/// What the agent does next.
pub(crate) enum Cue {
    Event(AgentEvent),
    Ask(PermissionRequest),
    /// Something happens behind the scenes.
    Aside(Box<dyn FnOnce() -> Pending + Send>),
    Hang,
    /// The agent says what it calls the conversation.
    Named(&'static str),
    Done(StopReason, Usage),
    /// The turn ends with an error.
    Fails(AgentError),
}

/// What happens behind the scenes may take a while.
pub(crate) type Pending = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the agent was asked and told.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) asked_for: Vec<Option<NativeId>>,
    pub(crate) prompts: Vec<String>,
    /// Whether tokens could be counted by the time each prompt came.
    pub(crate) countable: Vec<bool>,
    pub(crate) answers: Vec<PermissionAnswer>,
    pub(crate) cancelled: usize,
    pub(crate) closed: usize,
    /// Whether each opening was to fail rather than to begin anew.
    pub(crate) strict: Vec<bool>,
    /// Under which policy each opening was.
    pub(crate) permissions: Vec<PermissionPolicy>,
}

/// The agent.
pub(crate) struct Scripted {
    provider: ProviderId,
    pub(crate) cues: Arc<Mutex<VecDeque<Cue>>>,
    pub(crate) heard: Arc<Mutex<Heard>>,
    /// How a native session is gone on with; `Fresh` for "it can't be".
    pub(crate) goes_on: Mutex<Opened>,
    /// Whether it could go on later.
    pub(crate) not_now: AtomicBool,
    /// What is done against harm, on opening and again on closing.
    pub(crate) protects: Mutex<Vec<String>>,
    /// What the agent is configured to do.
    pub(crate) defaults: Mutex<Defaults>,
    /// What the agent lists; `None` for "it can't".
    pub(crate) listed: Mutex<Option<Vec<Listed>>>,
    /// Whether its program is on this machine.
    pub(crate) there: AtomicBool,
    /// Whether a conversation has no name until the agent gives it one.
    pub(crate) nameless: AtomicBool,
    /// The program that runs as long as a conversation is open, if one does.
    pub(crate) process: Mutex<Option<ProcessMark>>,
    /// Looks at the world when a conversation is opened.
    pub(crate) on_open: Mutex<Option<Box<dyn FnOnce() -> Pending + Send>>>,
}

impl Scripted {
    fn new(name: &str) -> Self {
        Self {
            provider: ProviderId::parse(name).unwrap(),
            cues: Arc::default(),
            heard: Arc::default(),
            goes_on: Mutex::new(Opened::Resumed),
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
    /// What is done next is what the agent is told at that time.
    cues: Arc<Mutex<VecDeque<Cue>>>,
    heard: Arc<Mutex<Heard>>,
    cancelled: bool,
    protects: Vec<String>,
    process: Option<ProcessMark>,
}

#[async_trait]
impl Agent for Scripted {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
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
            (Some(_), Opened::Fresh) if request.strict => {
                let refusal = Refusal::new(FailureClass::SessionUnknown, "it is gone");
                return Err(AgentError::refused("the resume", refusal));
            }
            (Some(_), Opened::Fresh) => (fresh, Opened::Fresh, Some("it is gone".to_owned())),
            (Some(id), opened) => (id.clone(), opened, None),
            (None, _) => (fresh, Opened::Fresh, None),
        };
        let nameless = self.nameless.load(Ordering::Relaxed) && opened == Opened::Fresh;
        let conversation = Play {
            native_id: (!nameless).then_some(native_id),
            cues: Arc::clone(&self.cues),
            heard: Arc::clone(&self.heard),
            cancelled: false,
            protects: self.protects.lock().unwrap().clone(),
            process: self.process.lock().unwrap().clone(),
        };
        Ok(Opening {
            protected: conversation.protects.clone(),
            not_now: why_not.is_some() && self.not_now.load(Ordering::Relaxed),
            why_not,
            ..Opening::new(conversation, opened)
        })
    }

    async fn list(
        &self,
        _cwd: &Path,
        _timeout: Duration,
    ) -> Result<Option<Vec<Listed>>, AgentError> {
        Ok(self.listed.lock().unwrap().clone())
    }

    fn defaults(&self) -> Defaults {
        self.defaults.lock().unwrap().clone()
    }

    fn is_there(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }

    async fn probe(&self, _timeout: Duration) -> Result<Probe, AgentError> {
        panic!("nobody asks")
    }
}

#[async_trait]
impl Conversation for Play {
    fn native_id(&self) -> Option<&NativeId> {
        self.native_id.as_ref()
    }

    fn process(&self) -> Option<ProcessMark> {
        self.process.clone()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.cancelled = false;
        let mut heard = self.heard.lock().unwrap();
        heard.prompts.push(prompt.to_owned());
        let countable = segue_tokens::count_if_ready("").is_some();
        heard.countable.push(countable);
        Ok(())
    }

    async fn next(&mut self) -> Step {
        loop {
            if self.cancelled {
                return Step::Done(Ok(TurnEnd {
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
                Some(Cue::Event(event)) => return Step::Event(event),
                Some(Cue::Named(name)) => {
                    let name = NativeId::parse(name).unwrap();
                    self.native_id = Some(name.clone());
                    return Step::Named(name);
                }
                Some(Cue::Ask(request)) => {
                    let heard = Arc::clone(&self.heard);
                    let reply = Box::new(move |answer| heard.lock().unwrap().answers.push(answer));
                    return Step::Ask(request, reply);
                }
                Some(Cue::Aside(action)) => action().await,
                Some(Cue::Done(reason, usage)) => {
                    return Step::Done(Ok(TurnEnd { reason, usage }));
                }
                Some(Cue::Fails(error)) => return Step::Done(Err(error)),
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
    /// Those besides it, where there are any.
    pub(crate) others: Vec<Arc<Scripted>>,
    pub(crate) engine: Engine,
    pub(crate) stop: watch::Sender<Stop>,
    _directory: tempfile::TempDir,
}

fn random() -> u32 {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn world() -> World {
    World {
        now: Timestamp::now,
        random,
        me: segue_agents::mark_of(std::process::id()).unwrap(),
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::beside(Catalog::default())
    }

    /// A stage on a machine that has these native sessions.
    pub(crate) fn beside(catalog: Catalog) -> Self {
        Self::cast(&[], Policy::default(), catalog)
    }

    /// A stage with several agents, which goes by a policy.
    pub(crate) fn with(names: &[&str], policy: Policy) -> Self {
        Self::cast(names, policy, Catalog::default())
    }

    /// The same on a machine that has these native sessions.
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
            stop: watch::channel(Stop::No).0,
            _directory: directory,
        }
    }

    /// The same, by another policy.
    pub(crate) fn going_by(self, policy: Policy) -> Self {
        Self {
            engine: self.engine.with_policy(policy),
            ..self
        }
    }

    /// The same, whose briefs have so many tokens at most.
    pub(crate) fn within(self, budget: u64) -> Self {
        Self {
            engine: self.engine.with_budget(budget),
            ..self
        }
    }

    /// Another engine on the same store and with the same agent.
    pub(crate) fn beside_it(&self) -> Engine {
        let agent: Arc<dyn Agent> = self.agent.clone();
        Engine::new(self.store.clone(), vec![agent], Catalog::default(), world())
    }

    /// Another engine on the same store and with all of the agents.
    pub(crate) fn beside_all(&self) -> Engine {
        let all = std::iter::once(&self.agent).chain(&self.others);
        let agents = all.map(|agent| agent.clone() as Arc<dyn Agent>).collect();
        Engine::new(self.store.clone(), agents, Catalog::default(), world())
    }

    /// What the agent will do in the next turn.
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
            haste: Haste::Wait,
            anyway: false,
            permissions: Some(PermissionPolicy::Ask),
            open_timeout: Some(Duration::from_secs(5)),
            turn_timeout: None,
            text_up_to: usize::MAX,
            keep_open: false,
            stop: self.stop.subscribe(),
        }
    }

    /// Runs a turn; `listen` is told each event.
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

    /// The session of a report, as it is now.
    pub(crate) async fn session_of(&self, report: &TurnReport) -> Session {
        self.store.session(&report.session).await.unwrap().unwrap()
    }

    /// Claims a session for a process.
    pub(crate) async fn claim(&self, session: &SessionId, owner: ProcessMark) -> Lease {
        let request = LeaseRequest {
            session: session.clone(),
            owner,
            at: Timestamp::now(),
            expires_after: jiff::SignedDuration::from_secs(30),
            dead_epoch: None,
        };
        self.store.acquire(request).await.unwrap().lease
    }

    /// A whole small turn.
    pub(crate) async fn turn(&self, prompt: &str, target: Target) -> TurnReport {
        self.script([say(&format!("heard {prompt}")), done()]);
        self.chat(self.request(prompt, target), |_| {})
            .await
            .unwrap()
    }
}

/// This process.
pub(crate) fn living() -> ProcessMark {
    segue_agents::mark_of(std::process::id()).unwrap()
}

/// A process that is gone.
pub(crate) fn dead() -> ProcessMark {
    ProcessMark {
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

/// The session of a report, as a target.
pub(crate) fn same(report: &TurnReport) -> Target {
    let id: &SessionId = &report.session;
    Target::Session(id.clone())
}
