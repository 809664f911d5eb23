//! Engine that runs turns: it resolves the session, opens a leg, sends the prompt, records the events and settles the
//! turn.
//!
//! The engine is a library: its calls take and return plain data and a stream of events. It never reads a terminal, a
//! clock or the environment itself: the caller supplies time, randomness and the identity of the process through
//! [`Environment`]. Start at [`Engine::chat`].
//!
//! - A **session** is a conversation that outlives its agents, because segue stores its own record of it.
//! - A **turn** is one prompt and everything that follows it. It is written to disk as it happens.
//! - A **leg** is the part of a session that runs on one native session of an agent. If that native session cannot be
//!   resumed, the next leg starts a new one with a brief of the session.
//!
//! # Components
//!
//! [`Engine`] is a facade. [`TurnRunner`] runs turns, [`Resolver`] finds sessions, [`Reconciler`] applies changes in
//! native sessions, [`BriefPlanner`] plans briefs and compactions, [`Compactor`] compacts sessions, [`Library`] lists,
//! shows and searches, [`SessionEditor`] changes sessions, and [`Upkeep`] deletes, archives and restores. A component can
//! be cloned and used without the others.
//!
//! # One turn
//!
//! ```no_run
//! use std::{ffi::OsString, path::Path, sync::Arc};
//! use segue_providers::{
//!     Agent, AgentHost, LeashCommand, ProviderSettings, SystemFns, claude_provider, known,
//! };
//! use segue_catalog::{Catalog, ClaudeReader, project_at};
//! use segue_engine::{ChatRequest, Engine, Environment, Target, TurnEvent};
//!
//! /// Runs one turn. `search_path` is the value of `PATH`, `home` the directory for segue's own data, and `user_home`
//! /// the home directory of the user.
//! async fn run_turn(
//!     environment: Environment,
//!     search_path: OsString,
//!     home: &Path,
//!     user_home: &Path,
//! ) -> anyhow::Result<()> {
//!     let claude_home = user_home.join(".claude");
//!     let settings = ProviderSettings {
//!         program: known::find_program("claude", &search_path),
//!         home: claude_home.clone(),
//!         ..ProviderSettings::default()
//!     };
//!     let host = AgentHost {
//!         leash: LeashCommand { program: std::env::current_exe()?, args: vec!["leash".into()] },
//!         version: "1.0",
//!         agent_files_dir: home.join("agent-files"),
//!         search_path,
//!         system: SystemFns { now: environment.now, random: environment.random },
//!     };
//!     let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(claude_provider(&settings, &host))];
//!     let catalog = Catalog::new(vec![Arc::new(ClaudeReader::new(claude_home))]);
//!     let store = Arc::new(segue_sqlite::SqliteStore::open(home)?);
//!     let engine = Engine::builder(store, agents, catalog, environment).build();
//!
//!     let project = project_at(Path::new("/src/app")).ok_or_else(|| anyhow::anyhow!("not UTF-8"))?;
//!     let request = ChatRequest { target: Target::New, ..ChatRequest::new("list the open bugs", project) };
//!     let (sender, mut events) = tokio::sync::mpsc::channel(32);
//!     let printing = async {
//!         while let Some(event) = events.recv().await {
//!             if let TurnEvent::Text { text, .. } = event {
//!                 print!("{text}");
//!             }
//!         }
//!     };
//!     let (report, ()) = tokio::join!(engine.chat(request, sender), printing);
//!     println!("{}", report?.state.as_str());
//!     Ok(())
//! }
//! ```
//!
//! `examples/` has more programs, all of which run offline: `turn`, `scope`, `handoff`, `orchestrator`.
//!
//! # Guarantees and requirements
//!
//! **The leash.** segue starts agents through a small helper process, which ends all processes that they started,
//! however the caller's process ends. The helper is the caller's own program: if its first argument is the one in
//! [`LeashCommand::args`](segue_providers::LeashCommand::args), the program passes the remaining arguments to
//! [`leash::run_from_args`](segue_providers::leash::run_from_args) and exits with the code that it returns.
//!
//! **State** is stored by the [`Store`](segue_store::Store): with `segue-sqlite`, in one file in a directory. Several processes may use the
//! same store, including the `segue` command. segue reads the files of agents, and changes them in two cases only: to
//! delete a session on request, and to prevent an agent from damaging its own sessions.
//!
//! **One turn at a time.** A call on a session that is in use fails with
//! [`StoreError::Leased`](segue_store::StoreError::Leased), whether this process or another one uses it; different
//! sessions run concurrently. An agent that stays running ([`ChatRequest::keep_agent`]) retains the lease on its
//! session for this engine until the engine ends the agent.
//!
//! **Events** arrive through the caller's bounded channel. A slow receiver slows the agent down, but loses nothing,
//! because segue writes messages to disk as they arrive. A caller that wants no events drops the receiver *before* the
//! call: a receiver that exists but is not read blocks the turn.
//!
//! **Permission requests** that the policy does not answer are events ([`TurnEvent::PermissionRequested`]) with a
//! channel for the answer; dropping that channel refuses the request.
//!
//! **Stopping.** [`ChatRequest::stop`] asks the agent to stop, or ends it; in both cases the turn is settled and
//! reported as cancelled. Dropping the future of a call is safe, too: segue ends the agent, and releases the session
//! once the agent has exited. The next call on the session finds the turn interrupted, with the messages that had
//! arrived.
//!
//! **Errors.** A turn that the agent failed is a [`TurnReport`] with a failure. [`TurnError`] means that no turn ran, or
//! that its record could not be written. Each component has an error type of its own, and [`EngineError`] is their
//! union. An automatic choice of segue is a [`Decision`](segue_core::session::Decision), an enum with fields;
//! `segue_api::text` has the line for the user.
//!
//! **Runtime.** The engine needs a tokio runtime with time and I/O enabled; one thread is enough. [`Engine`] is `Send`
//! and `Sync`, a clone shares everything, and its futures can be spawned. Agents that stay running
//! ([`ChatRequest::keep_agent`]) are ended by [`Engine::close`], and killed when the engine is dropped.

mod agents;
mod brief;
mod checkpoint;
mod context;
mod engine;
mod environment;
mod error;
mod leg;
mod library;
mod native;
mod reconcile;
mod resolve;
mod session;
mod token_count;
mod turn;
mod upkeep;

pub use agents::AgentRegistry;
pub use brief::BriefPlanner;
pub use brief::added_messages::{AddedMessage, MessageAuthor};
pub use brief::plan::BriefPreview;
pub use brief::project_context::{ContextRebuild, GatheredContext};
pub use checkpoint::Compactor;
pub use checkpoint::compaction::CompactionOutcome;
pub use checkpoint::edit::{
    BudgetUsage, CheckpointChange, CheckpointEdit, CheckpointError, CheckpointView, VersionStatus,
};
pub use checkpoint::summariser::{Summariser, SummaryOutcome, SummaryProposal};
pub use engine::{Engine, EngineBuilder, EngineSettings, McpTools, SegueServerFactory};
pub use environment::Environment;
pub use error::{
    AccessError, CompactionError, EngineError, LibraryError, PlanError, ResolveError, SessionError,
    TurnError, UpkeepError,
};
pub use leg::handoff::HandoffOutcome;
pub use leg::native_resume::{NativeResume, NativeResumeError};
pub use library::Library;
pub use library::conversations::{
    Conversation, ConversationId, ConversationList, NativeEntry, NativeOutline,
};
pub use library::history::{HistoryDetail, HistorySelection};
pub use library::index_sync::{
    Freshness, IndexView, IndexedDetails, ProgressCallback, RefreshFailure,
};
pub use library::search::{SearchHit, SearchHitTurn, SearchReport, SearchRequest};
pub use library::sessions::{SessionView, Transcript, TranscriptTurn};
pub use library::spending::{SpendingReport, SpendingRequest};
pub use reconcile::Reconciler;
pub use resolve::Resolver;
pub use resolve::purpose_session::PurposeSession;
pub use resolve::{RefContext, SessionMatch};
pub use segue_catalog::index::{HitOrder, QueryError, QueryWords, SearchQuery, Snippet};
pub use session::SessionEditor;
pub use session::change::{ForkOutcome, RevertOutcome};
pub use session::describe::{DescribeError, DescribeOutcome};
pub use session::revert::{DetachedTurns, DroppedTurn, RevertPlan};
pub use session::transfer::{
    ExportOutcome, ImportConflict, ImportMatch, ImportOutcome, count_tokens,
};
pub use turn::TurnRunner;
pub use turn::request::{ChatRequest, StopLevel, Target, TurnEvent, TurnReport};
pub use upkeep::{
    ArchiveService, DeleteMethod, DeleteMode, DeleteOutcome, DeletePlan, DeleteScope,
    PlannedDeletion, RestoreOutcome, SkippedNative, Upkeep,
};
