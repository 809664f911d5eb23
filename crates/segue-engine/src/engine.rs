//! The engine: a facade over its components, and its builder.

use std::path::PathBuf;
use std::sync::Arc;

use segue_catalog::{Catalog, Index};
use segue_core::agent::{McpServer, RoleRegistry};
use segue_core::brief::DEFAULT_BUDGET_TOKENS;
use segue_core::id::SessionId;
use segue_core::policy::Policy;
use segue_core::session::GuardAction;
use segue_providers::Agent;
use segue_store::Store;
use tokio::sync::mpsc;

use crate::agents::AgentRegistry;
use crate::brief::BriefPlanner;
use crate::checkpoint::Compactor;
use crate::context::EngineContext;
use crate::leg::agent_pool::AgentPool;
use crate::library::Library;
use crate::native::NativeSessions;
use crate::reconcile::Reconciler;
use crate::resolve::Resolver;
use crate::session::SessionEditor;
use crate::session::lease::Leases;
use crate::turn::TurnRunner;
use crate::upkeep::Upkeep;
use crate::{ArchiveService, ChatRequest, Environment, TurnError, TurnEvent, TurnReport};

/// An engine that runs turns on a store and a set of agents.
///
/// Each component covers one area. A frontend that needs only one of them can clone it and drop the engine.
#[derive(Clone)]
pub struct Engine {
    turns: TurnRunner,
    library: Library,
    resolver: Resolver,
    reconciler: Reconciler,
    briefs: BriefPlanner,
    compactor: Compactor,
    sessions: SessionEditor,
    upkeep: Upkeep,
}

impl Engine {
    /// Starts to build an engine on `store`. It drives `agents`, listed in order of preference, and finds native
    /// sessions in `catalog`.
    #[must_use]
    pub fn builder(
        store: Arc<dyn Store>,
        agents: Vec<Arc<dyn Agent>>,
        catalog: Catalog,
        environment: Environment,
    ) -> EngineBuilder {
        EngineBuilder {
            store,
            agents,
            catalog,
            environment,
            index: None,
            archive_service: None,
            settings: EngineSettings::default(),
        }
    }

    /// Runs one turn. The prompt is on disk before it is sent, and the output is recorded as it arrives.
    ///
    /// Returns `Err` if no turn was started, or if its record could not be saved. A turn in which the agent failed is a
    /// normal report. The turn waits for a caller that does not receive its events. A caller that needs no events drops
    /// the receiver before the call.
    pub async fn chat(
        &self,
        request: ChatRequest,
        events: mpsc::Sender<TurnEvent>,
    ) -> Result<TurnReport, TurnError> {
        self.turns.chat(request, events).await
    }

    /// Ends every waiting agent and releases its session. Returns the actions that protected native sessions.
    pub async fn close(&self) -> Vec<GuardAction> {
        self.turns.close().await
    }

    /// Returns the agents that the engine drives.
    #[must_use]
    pub fn agents(&self) -> &AgentRegistry {
        self.library.agents()
    }

    /// Returns the component that lists, shows and searches conversations.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the component that finds the session for a reference, a purpose or a request.
    #[must_use]
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Returns the component that applies changes in native sessions to the record.
    #[must_use]
    pub fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    /// Returns the component that plans briefs and project contexts.
    #[must_use]
    pub fn briefs(&self) -> &BriefPlanner {
        &self.briefs
    }

    /// Returns the component that compacts sessions and changes their checkpoints.
    #[must_use]
    pub fn compactor(&self) -> &Compactor {
        &self.compactor
    }

    /// Returns the component that changes sessions at the user's request.
    #[must_use]
    pub fn sessions(&self) -> &SessionEditor {
        &self.sessions
    }

    /// Returns the component that deletes, archives and restores conversations.
    #[must_use]
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }
}

/// Settings of an engine.
#[derive(Clone)]
pub struct EngineSettings {
    /// Maximum number of tokens of a brief together with its prompt.
    pub budget: u64,
    /// Policy for failures, context limits, fallback providers and automatic compaction.
    pub policy: Policy,
    /// Roles that sessions can have.
    pub roles: RoleRegistry,
    /// MCP servers that segue passes to every agent that accepts any.
    pub tools: McpTools,
    /// Path of the git program that lists commits. `None` if project contexts contain no commits.
    pub git: Option<PathBuf>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            budget: DEFAULT_BUDGET_TOKENS,
            policy: Policy::default(),
            roles: RoleRegistry::default(),
            tools: McpTools::default(),
            git: None,
        }
    }
}

/// MCP servers that segue passes to agents when it opens a native session.
#[derive(Clone, Default)]
pub struct McpTools {
    /// Servers that every session gets.
    pub servers: Vec<McpServer>,
    /// Factory for segue's own server; `None` if agents get no tools of segue.
    pub segue_server: Option<SegueServerFactory>,
}

/// A function that creates the MCP server for a session.
pub type SegueServerFactory = Arc<dyn Fn(&SessionId) -> McpServer + Send + Sync>;

impl McpTools {
    pub(crate) fn for_session(&self, id: &SessionId) -> Vec<McpServer> {
        let segue_server = self.segue_server.iter().map(|create| create(id));
        segue_server.chain(self.servers.iter().cloned()).collect()
    }
}

/// Parts of an engine, before its components exist.
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    agents: Vec<Arc<dyn Agent>>,
    catalog: Catalog,
    environment: Environment,
    index: Option<Index>,
    archive_service: Option<ArchiveService>,
    settings: EngineSettings,
}

impl EngineBuilder {
    /// Sets the index that the engine queries before it reads the files of agents.
    #[must_use]
    pub fn with_index(mut self, index: Index) -> Self {
        self.index = Some(index);
        self
    }

    /// Enables the deletion and archiving of native sessions.
    #[must_use]
    pub fn with_archive_service(mut self, service: ArchiveService) -> Self {
        self.archive_service = Some(service);
        self
    }

    /// Replaces all settings.
    #[must_use]
    pub fn with_settings(mut self, settings: EngineSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Creates the engine.
    #[must_use]
    pub fn build(self) -> Engine {
        let agent_pool = Arc::new(AgentPool::default());
        let context = Arc::new(EngineContext {
            leases: Leases::new(
                Arc::clone(&self.store),
                self.environment.clone(),
                Arc::clone(&agent_pool),
            ),
            agents: AgentRegistry::new(self.agents),
            natives: NativeSessions::new(self.catalog),
            index: self.index.map(Arc::new),
            archive_service: self.archive_service,
            store: self.store,
            environment: self.environment,
            settings: self.settings,
            agent_pool,
        });
        let reconciler = Reconciler::new(&context);
        let library = Library::new(&context);
        let briefs = BriefPlanner::new(&context);
        let compactor = Compactor::new(&context, &briefs, &reconciler);
        let resolver = Resolver {
            context: Arc::clone(&context),
            library: library.clone(),
            reconciler: reconciler.clone(),
        };
        Engine {
            turns: TurnRunner {
                context: Arc::clone(&context),
                resolver: resolver.clone(),
                reconciler: reconciler.clone(),
                compactor: compactor.clone(),
            },
            sessions: SessionEditor {
                context: Arc::clone(&context),
                library: library.clone(),
                reconciler: reconciler.clone(),
            },
            upkeep: Upkeep::new(&context, &library, &resolver),
            library,
            resolver,
            reconciler,
            briefs,
            compactor,
        }
    }
}
