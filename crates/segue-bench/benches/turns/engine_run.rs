//! The engine with an agent that stays open between turns.

use segue_bench::create_temp_dir;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use segue_catalog::Catalog;
use segue_core::id::SessionId;
use segue_core::session::{OpenMode, Project, TurnState};
use segue_engine::{ChatRequest, Engine, Environment, StopLevel, Target};
use segue_providers::{Agent, identify_process};
use segue_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// An engine with a store on disk and an agent that stays open.
pub(crate) struct EngineDriver {
    runtime: Runtime,
    engine: Engine,
    project_dir: PathBuf,
    session: Option<SessionId>,
    stop: watch::Sender<StopLevel>,
    _directory: TempDir,
}

impl EngineDriver {
    /// Creates an engine with one agent, which works in `project_dir`.
    pub(crate) fn start(agent: Arc<dyn Agent>, project_dir: &Path) -> Self {
        let directory = create_temp_dir();
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        let engine = Engine::builder(store, vec![agent], Catalog::default(), new_environment());
        Self {
            engine: engine.build(),
            // The same kind of runtime as in the program.
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            project_dir: project_dir.to_owned(),
            session: None,
            stop: watch::channel(StopLevel::None).0,
            _directory: directory,
        }
    }

    /// Runs one turn and returns the elapsed milliseconds.
    pub(crate) fn measure_turn(&mut self, prompt: &str, answer: &str) -> f64 {
        let start = Instant::now();
        let request = build_request(prompt, self.session.as_ref(), &self.project_dir, &self.stop);
        let report = self.runtime.block_on(async {
            let (sender, mut events) = mpsc::channel(64);
            let drain_events = async { while events.recv().await.is_some() {} };
            tokio::join!(self.engine.chat(request, sender), drain_events).0
        });
        let elapsed = start.elapsed();
        let report = report.unwrap();
        assert_eq!(report.state, TurnState::Finished);
        let expected_mode = if self.session.is_some() {
            OpenMode::Live
        } else {
            OpenMode::Fresh
        };
        assert_eq!(report.opened.unwrap().0, expected_mode);
        assert_eq!(report.text.as_deref(), Some(answer));
        self.session = Some(report.session);
        elapsed.as_secs_f64() * 1e3
    }
}

impl Drop for EngineDriver {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.close());
    }
}

fn build_request(
    prompt: &str,
    session: Option<&SessionId>,
    project_dir: &Path,
    stop: &watch::Sender<StopLevel>,
) -> ChatRequest {
    let project_path = project_dir.to_str().unwrap().to_owned();
    ChatRequest {
        prompt: prompt.to_owned(),
        target: session.map_or(Target::New, |session| Target::Session(session.clone())),
        project: Project {
            key: project_path.clone(),
            cwd: project_path,
        },
        provider: None,
        model: None,
        force: false,
        explain: None,
        wait_preference: segue_core::policy::WaitPreference::Wait,
        strict: false,
        permissions: None,
        open_timeout: None,
        turn_timeout: None,
        max_text_bytes: usize::MAX,
        keep_agent: true,
        stop: stop.subscribe(),
    }
}

fn new_environment() -> Environment {
    static NEXT_RANDOM: AtomicU32 = AtomicU32::new(0);
    Environment {
        now: Timestamp::now,
        random: || NEXT_RANDOM.fetch_add(1, Ordering::Relaxed),
        process: identify_process(std::process::id()).unwrap(),
    }
}
