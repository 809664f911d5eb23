//! Choosing the implementations, and telling the libraries about the world.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use jiff::Timestamp;
use segue_agents::known::{self, KNOWN};
use segue_agents::{Agent, Host, Leash, Settings, claude, codex, gemini, mark_of, rehearsal};
use segue_catalog::{Catalog, Claude, Codex, Gemini, Opencode, Reader, project_key};
use segue_core::{NativeId, ProcessMark, Project, Session, SessionRef};
use segue_engine::{Conversation, Engine, Scope, World};
use segue_sqlite::SqliteStore;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::CliError;
use crate::last_list;

/// Our version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything a command works with.
pub(crate) struct App {
    pub(crate) home: PathBuf,
    pub(crate) project: Project,
    pub(crate) engine: Engine,
}

impl App {
    /// Opens the store and chooses the agents.
    pub(crate) fn open() -> Result<Self, CliError> {
        survive_file_size_limit();
        let home = home()?;
        let project = project()?;
        let store = Arc::new(SqliteStore::open(&home)?);
        let engine = Engine::new(store, agents(&home), catalog(&project), world());
        Ok(Self {
            home,
            project,
            engine,
        })
    }

    /// The session that a typed reference means.
    pub(crate) async fn find(&self, reference: &SessionRef) -> Result<Session, CliError> {
        Ok(self.engine.find(reference, &self.scope()).await?)
    }

    /// The conversation that a typed reference means, also one that only an agent has.
    pub(crate) async fn find_any(&self, reference: &SessionRef) -> Result<Conversation, CliError> {
        Ok(self.engine.find_any(reference, &self.scope()).await?)
    }

    fn scope(&self) -> Scope {
        Scope {
            project: self.project.clone(),
            last_list: last_list::recall(&self.home, &self.project),
        }
    }
}

/// Makes a file-size limit an error of the write, which is reported, instead of a signal that kills us.
fn survive_file_size_limit() {
    // Where the handler can't be set, the limit kills us: nothing acknowledged is lost by that either.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Where segue keeps its data.
pub(crate) fn home() -> Result<PathBuf, CliError> {
    if let Some(home) = std::env::var_os("SEGUE_HOME").filter(|home| !home.is_empty()) {
        let home = PathBuf::from(home);
        return std::path::absolute(&home).map_err(|error| {
            CliError::failed(format!("cannot use SEGUE_HOME {}", home.display())).because(&error)
        });
    }
    let base = etcetera::base_strategy::Xdg::new().map_err(|error| {
        CliError::failed("cannot find your home directory")
            .because(&error)
            .hint("set SEGUE_HOME to the directory segue may keep its data in")
    })?;
    Ok(base.data_dir().join("segue"))
}

/// Our own program, also if its file was replaced meanwhile.
fn own_program() -> PathBuf {
    let linux = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && linux.exists() {
        return linux;
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("segue"))
}

/// How agents are put on the leash.
pub(crate) fn leash() -> Leash {
    Leash {
        program: own_program(),
        args: vec!["leash".into()],
    }
}

/// The agents that can be driven, the preferred ones first.
pub(crate) fn agents(home: &Path) -> Vec<Arc<dyn Agent>> {
    let host = Host {
        leash: leash(),
        version: VERSION,
        kept: home.join("kept"),
        path: std::env::var_os("PATH").unwrap_or_default(),
    };
    let mut agents: Vec<Arc<dyn Agent>> = Vec::new();
    let base = etcetera::base_strategy::Xdg::new().ok();
    for known in KNOWN {
        let variable = |what: &str| {
            std::env::var(format!("SEGUE_{}_{what}", known.provider.to_uppercase())).ok()
        };
        let program = variable("PATH").map(PathBuf::from);
        let usual = base.as_ref().map(|base| base.home_dir().to_owned());
        let settings = Settings {
            program: program.or_else(|| known::find(known.program, &host.path)),
            adapter: variable("ACP_PATH").map(PathBuf::from),
            transports: variable("TRANSPORTS")
                .map(|all| all.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
            home: usual
                .unwrap_or_default()
                .join(format!(".{}", known.provider)),
            ..Settings::default()
        };
        let drive = match known.provider {
            "claude" => claude,
            "codex" => codex,
            _ => gemini,
        };
        let provider = drive(&settings, &host);
        if !provider.ways().is_empty() {
            agents.push(Arc::new(provider));
        }
    }
    let rehearsal = rehearsal(own_program(), home.join("rehearsal"), leash(), VERSION);
    agents.push(Arc::new(rehearsal));
    agents
}

/// The native sessions of the agents on this machine, where those look for them themselves. Without a home
/// directory there are none.
fn catalog(here: &Project) -> Catalog {
    let Ok(base) = etcetera::base_strategy::Xdg::new() else {
        return Catalog::default();
    };
    let set = |variable: &str| {
        let value = std::env::var_os(variable).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let usual = |directory: &str| base.home_dir().join(directory);
    let claude = set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| usual(".claude"));
    let codex = set("CODEX_HOME").unwrap_or_else(|| usual(".codex"));
    let gemini =
        set("GEMINI_CLI_HOME").map_or_else(|| usual(".gemini"), |home| home.join(".gemini"));
    // Older versions of Gemini CLI name a directory only by its hash.
    let gemini = Gemini::new(gemini).knowing([here.cwd.clone()]);
    let readers: Vec<Arc<dyn Reader>> = vec![
        Arc::new(Claude::new(claude)),
        Arc::new(Codex::new(codex)),
        Arc::new(gemini),
        Arc::new(Opencode::new(base.data_dir().join("opencode"))),
    ];
    Catalog::new(readers)
}

/// The clock, chance, and this process.
fn world() -> World {
    World {
        now: Timestamp::now,
        random,
        me: me(),
    }
}

fn me() -> ProcessMark {
    let pid = std::process::id();
    mark_of(pid).unwrap_or_else(|| ProcessMark {
        host: "unknown".into(),
        pid,
        started: Timestamp::now().to_string(),
    })
}

fn random() -> u32 {
    // Without a source of chance the clock's smallest digits must do; a taken id is drawn again.
    getrandom::u32().unwrap_or_else(|_| Timestamp::now().subsec_nanosecond().unsigned_abs())
}

/// A fresh id for a session of the rehearsal agent.
pub(crate) fn native_id() -> NativeId {
    loop {
        let text = format!("r-{:08x}{:08x}", random(), random());
        if let Ok(id) = NativeId::parse(&text) {
            return id;
        }
    }
}

/// Where we are.
fn project() -> Result<Project, CliError> {
    let cwd = std::env::current_dir()
        .and_then(|cwd| cwd.canonicalize())
        .map_err(|error| CliError::failed("cannot tell the working directory").because(&error))?;
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(CliError::failed(format!(
            "cannot work in {}: its name is not valid UTF-8",
            path.display()
        ))),
    };
    Ok(Project {
        key: text(&project_key(&cwd))?,
        cwd: text(&cwd)?,
    })
}
