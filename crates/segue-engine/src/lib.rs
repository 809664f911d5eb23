//! One place that runs a turn: resolve, open, send, record, settle.
//!
//! The engine is a library: its calls take and return plain data and a stream of events, and never touch a
//! terminal, a clock or the environment; those come in through [`World`]. Start at [`Engine::chat`].

mod added;
mod adopt;
mod branch;
mod counted;
mod depart;
mod error;
mod handoff;
mod head;
mod hold;
mod indexed;
mod native;
mod open;
mod outside;
mod pieces;
mod policy;
mod purpose;
mod recall;
mod record;
mod recover;
mod request;
mod resolve;
mod sessions;
mod spending;
mod tell;
mod turn;
mod upkeep;
mod warm;
mod world;

use std::collections::HashMap;
use std::sync::Arc;

use segue_agents::Agent;
use segue_catalog::{Catalog, Index, NativeSession};
use segue_core::{DEFAULT_BUDGET, McpServer, NativeId, Policy, ProviderId, SessionId};
use segue_store::Store;
use tokio::sync::Mutex;

pub use added::{Added, Speaker};
pub use depart::{Departure, Obstacle};
pub use error::EngineError;
pub use handoff::HandedOver;
pub use head::{DroppedTurn, RevertPlan, SetAside};
pub use indexed::{Caught, Freshness, Known};
pub use native::{Conversation, ConversationId, Conversations, Native, Survey};
pub use purpose::ForPurpose;
pub use recall::{
    DescribeError, Described, Detail, FoundIn, FoundTurn, SearchReport, SearchRequest, Turns,
};
pub use request::{ChatRequest, Stop, Target, TurnEvent, TurnReport};
pub use resolve::{Fitting, Standpoint};
pub use segue_catalog::index::{Order, Query, QueryError, Snippet, Words};
pub use sessions::{Forked, Listed, Reverted, SessionView, Transcript, TranscriptTurn};
pub use spending::{SpendingRequest, Spendings};
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
