//! Support code of the examples: an engine in a home directory of its own, as any program that embeds segue needs it.
//!
//! Both agents are instances of the built-in offline agent, so that the examples run anywhere. `segue_providers` has the
//! real ones: `claude`, `codex`, `gemini` and `acp`.

use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use segue_acp::rehearsal::{self, RehearsalEnvironment};
use segue_catalog::{Catalog, project_at};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::Project;
use segue_engine::{Engine, Environment};
use segue_providers::{AcpAgent, Agent, LeashCommand, identify_process, leash};
use segue_sqlite::SqliteStore;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs an example with an engine and the project in which it works.
pub(crate) fn run(example: impl AsyncFnOnce(Engine, Project) -> Result<()>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut args = env::args_os().skip(1);
    let subcommand = args.next();
    runtime.block_on(async {
        match subcommand.as_deref().and_then(|argument| argument.to_str()) {
            // segue starts agents through this program, which ends all processes that they started, however the example
            // ends.
            Some("leash") => Ok(leash::run_from_args(args).await?.into()),
            Some("rehearsal-agent") => {
                let directory = args.next().context("no directory given")?;
                run_offline_agent(directory.into()).await?;
                Ok(ExitCode::SUCCESS)
            }
            _ => {
                let temp_dir = tempfile::tempdir()?;
                let (home, work_dir) = (temp_dir.path().join("home"), temp_dir.path().join("work"));
                std::fs::create_dir(&work_dir)?;
                let project = project_at(&work_dir)
                    .context("the path of the working directory is not valid UTF-8")?;
                example(create_engine(&home)?, project).await?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// Creates an engine with its data in `home`.
fn create_engine(home: &Path) -> Result<Engine> {
    let store = SqliteStore::open(home)?;
    let environment = Environment {
        now: Timestamp::now,
        random,
        process: identify_process(std::process::id())
            .context("cannot identify the current process")?,
    };
    let agents: Vec<Arc<dyn Agent>> = vec![
        Arc::new(offline_agent(home)?),
        Arc::new(AcpAgent {
            provider: ProviderId::parse("understudy")?,
            ..offline_agent(home)?
        }),
    ];
    // With readers for real agents, segue also lists and resumes their native sessions.
    let catalog = Catalog::default();
    Ok(Engine::builder(Arc::new(store), agents, catalog, environment).build())
}

/// Creates the built-in agent, which is this program itself, started with another argument.
fn offline_agent(home: &Path) -> Result<AcpAgent> {
    let program = env::current_exe()?;
    let leash = LeashCommand {
        program: program.clone(),
        args: vec!["leash".into()],
    };
    let sessions = home.join("rehearsal");
    Ok(segue_providers::rehearsal_agent(
        program, sessions, leash, VERSION,
    ))
}

async fn run_offline_agent(directory: PathBuf) -> Result<()> {
    let environment = RehearsalEnvironment {
        sessions_dir: directory,
        new_id,
        now: Timestamp::now,
        start_fault: None,
    };
    Ok(rehearsal::run(environment, VERSION).await?)
}

fn new_id() -> NativeId {
    loop {
        if let Ok(id) = NativeId::parse(&format!("r-{:08x}{:08x}", random(), random())) {
            return id;
        }
    }
}

/// Returns a random number, good enough to distinguish sessions of the same second.
fn random() -> u32 {
    let hash = RandomState::new().build_hasher().finish();
    u32::try_from(hash >> 32).unwrap_or_default()
}
