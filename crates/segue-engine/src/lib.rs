//! One place that runs a turn: resolve, open, send, record, settle.
//!
//! The engine is a library: its calls take and return plain data and a stream of events, and never touch a
//! terminal, a clock or the environment; those come in through [`World`]. Start at [`Engine::chat`].
//!
//! - A **session** is a conversation that outlives its agents: its record is segue's own.
//! - A **turn** is one prompt and all that comes of it. It is on the disk as it happens.
//! - A **leg** is the stretch of a session that one native session of an agent carries. When it can't go on, the next
//!   one is told the story so far.
//!
//! # One turn
//!
//! ```no_run
//! use std::{ffi::OsString, path::Path, sync::Arc};
//! use segue_agents::{Agent, Host, Leash, Outside, Settings, claude, known};
//! use segue_catalog::{Catalog, Claude, project_at};
//! use segue_engine::{ChatRequest, Engine, Target, TurnEvent, World};
//!
//! /// `path` is where programs are looked for, `home` is ours, and `user` that of the person.
//! async fn ask(world: World, path: OsString, home: &Path, user: &Path) -> anyhow::Result<()> {
//!     let settings = Settings {
//!         program: known::find("claude", &path),
//!         home: user.join(".claude"),
//!         ..Settings::default()
//!     };
//!     let host = Host {
//!         leash: Leash { program: std::env::current_exe()?, args: vec!["leash".into()] },
//!         version: "1.0",
//!         kept: home.join("kept"),
//!         path,
//!         outside: Outside { now: world.now, random: world.random },
//!     };
//!     let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(claude(&settings, &host))];
//!     let catalog = Catalog::new(vec![Arc::new(Claude::new(user.join(".claude")))]);
//!     let store = Arc::new(segue_sqlite::SqliteStore::open(home)?);
//!     let engine = Engine::new(store, agents, catalog, world);
//!
//!     let project = project_at(Path::new("/src/app")).ok_or_else(|| anyhow::anyhow!("not UTF-8"))?;
//!     let request = ChatRequest { target: Target::New, ..ChatRequest::new("list the open bugs", project) };
//!     let (sender, mut events) = tokio::sync::mpsc::channel(32);
//!     let listening = async {
//!         while let Some(event) = events.recv().await {
//!             if let TurnEvent::Text { words, .. } = event {
//!                 print!("{words}");
//!             }
//!         }
//!     };
//!     let (report, ()) = tokio::join!(engine.chat(request, sender), listening);
//!     println!("{}", report?.state.as_str());
//!     Ok(())
//! }
//! ```
//!
//! `examples/` has more, each of them runs offline: `turn`, `scope`, `handoff`, `orchestrator`.
//!
//! # What to know
//!
//! **The leash.** Agents are started through a small process that ends all they started, however the caller ends. It is
//! the caller's own program: when its first argument is what [`Leash::args`](segue_agents::Leash::args) says, it hands
//! the rest to [`leash::run_as`](segue_agents::leash::run_as) and exits with what that returns.
//!
//! **State** is where the [`Store`] keeps it: with `segue-sqlite` one file in a directory. Several processes may use the
//! same one, the `segue` command among them. The files of agents are read, and left as they are but for a delete that
//! was asked for and for what keeps an agent from harming its own sessions.
//!
//! **One turn at a time.** A session that somebody is at work in is refused with
//! [`StoreError::Held`](segue_store::StoreError::Held), in this process as in any other; different sessions run at once.
//! An agent that was kept running ([`ChatRequest::keep_open`]) keeps its session for this engine until it is let go.
//!
//! **Events** come through the caller's bounded channel. Whoever is slow to take them slows the agent down; what was
//! said is on the disk meanwhile. Whoever wants none lets the receiver go *before* the call: one that is kept and not
//! read holds the turn up.
//!
//! **Permission requests** that the policy does not answer are events ([`TurnEvent::Ask`]) with a channel for the answer;
//! to let that go is to refuse.
//!
//! **Stopping.** [`ChatRequest::stop`] asks the agent to stop, or ends it; either way the turn is settled and reported
//! as cancelled. To drop the future of a call is safe, too: the agent is ended, the session is free once it is gone, and
//! whoever uses it next finds the turn interrupted, with what was said up to then.
//!
//! **Errors.** A turn that the agent failed is a [`TurnReport`] with a failure. [`EngineError`] says that there was no
//! turn, or that its record could not be kept. What segue decided by itself on the way is a
//! [`Decision`](segue_core::Decision): one line for a person.
//!
//! **Runtime.** A tokio runtime with time and I/O enabled; one thread will do. [`Engine`] is `Send` and `Sync`, and so is
//! made to be shared in an [`Arc`]; its futures can be spawned. Agents that were kept running
//! ([`ChatRequest::keep_open`]) are ended by [`Engine::close`], and by force when the engine is dropped.

mod added;
mod adopt;
mod branch;
mod checkpoints;
mod compact;
mod context;
mod counted;
mod depart;
mod error;
mod forgot;
mod handoff;
mod head;
mod hold;
mod indexed;
mod native;
mod open;
mod outside;
mod pieces;
mod policy;
mod portable;
mod purpose;
mod recall;
mod record;
mod recover;
mod request;
mod resolve;
mod sessions;
mod spending;
mod summarise;
mod tell;
mod turn;
mod upkeep;
mod warm;
mod world;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use segue_agents::Agent;
use segue_catalog::{Catalog, Index, NativeSession};
use segue_core::{DEFAULT_BUDGET, McpServer, NativeId, Policy, ProviderId, Roles, SessionId};
use segue_store::Store;
use tokio::sync::Mutex;

pub use added::{Added, Speaker};
pub use checkpoints::{Changed, CheckpointError, CheckpointView, Fullness, Place};
pub use compact::{Compacted, Compaction};
pub use context::{Gathered, Gathering};
pub use depart::{Departure, Obstacle};
pub use error::EngineError;
pub use handoff::HandedOver;
pub use head::{DroppedTurn, RevertPlan, SetAside};
pub use indexed::{Caught, Freshness, Known};
pub use native::{Conversation, ConversationId, Conversations, Native, Survey};
pub use portable::{Export, Import, Namesake, Present, count_tokens};
pub use purpose::ForPurpose;
pub use recall::{
    DescribeError, Described, Detail, FoundIn, FoundTurn, SearchReport, SearchRequest, Turns,
};
pub use request::{ChatRequest, Stop, Target, TurnEvent, TurnReport};
pub use resolve::{Fitting, Standpoint};
pub use segue_catalog::index::{Order, Query, QueryError, Snippet, Words};
pub use sessions::{Forked, Listed, Reverted, SessionView, Transcript, TranscriptTurn};
pub use spending::{SpendingRequest, Spendings};
pub use summarise::{Proposal, Summariser, TakenUp};
pub use tell::Preview;
pub use upkeep::{DeletePlan, Deleted, Doomed, Extent, Fate, Means, Restored, Spared, Upkeep};
pub use world::World;

/// Runs turns over a store and a set of agents.
pub struct Engine {
    store: Arc<dyn Store>,
    agents: Vec<Arc<dyn Agent>>,
    catalog: Catalog,
    index: Option<Arc<Index>>,
    world: World,
    tools: Tools,
    warm: warm::Warm,
    /// Where native sessions were when they were last looked for.
    places: Mutex<HashMap<(ProviderId, NativeId), NativeSession>>,
    upkeep: Option<Upkeep>,
    budget: u64,
    policy: Policy,
    roles: Roles,
    /// The program that tells of commits.
    git: Option<PathBuf>,
}

/// The MCP servers that agents are handed with a conversation.
#[derive(Clone, Default)]
pub struct Tools {
    /// Those that everybody gets.
    pub servers: Vec<McpServer>,
    /// segue's own, bound to a session.
    pub own: Option<OwnTools>,
}

/// Makes the server that is bound to a session.
pub type OwnTools = Arc<dyn Fn(&SessionId) -> McpServer + Send + Sync>;

impl Tools {
    fn for_session(&self, id: &SessionId) -> Vec<McpServer> {
        let own = self.own.iter().map(|own| own(id));
        own.chain(self.servers.iter().cloned()).collect()
    }
}

impl Engine {
    /// An engine over `store` that may drive `agents`, the preferred ones first, and knows the native sessions
    /// in `catalog`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        agents: Vec<Arc<dyn Agent>>,
        catalog: Catalog,
        world: World,
    ) -> Self {
        Self {
            store,
            agents,
            catalog,
            index: None,
            world,
            tools: Tools::default(),
            warm: warm::Warm::default(),
            places: Mutex::default(),
            upkeep: None,
            budget: DEFAULT_BUDGET,
            policy: Policy::default(),
            roles: Roles::default(),
            git: None,
        }
    }

    /// The same engine, which hands these tools to every agent that can take any.
    #[must_use]
    pub fn with_tools(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// The same engine, which goes by this policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The same engine, which knows these roles.
    #[must_use]
    pub fn with_roles(mut self, roles: Roles) -> Self {
        self.roles = roles;
        self
    }

    /// The roles there are.
    #[must_use]
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The same engine, which asks this index before it reads the files of agents.
    #[must_use]
    pub fn with_index(mut self, index: Index) -> Self {
        self.index = Some(Arc::new(index));
        self
    }

    /// The agent of that name, to ask what it can do ([`Agent::probe`]) and how it is configured ([`Agent::defaults`]).
    /// [`Engine::drivable`] tells all names.
    pub fn agent(&self, provider: &ProviderId) -> Result<&Arc<dyn Agent>, EngineError> {
        self.agents
            .iter()
            .find(|agent| agent.provider() == provider)
            .ok_or_else(|| EngineError::UnknownProvider {
                provider: provider.clone(),
                known: self
                    .agents
                    .iter()
                    .map(|agent| agent.provider().clone())
                    .collect(),
            })
    }
}
