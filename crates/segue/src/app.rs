//! Choice of the implementations, and the environment that the libraries receive.

mod agents;
mod summariser;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use jiff::Timestamp;
use segue_agents::{Agent, Leash, known, mark_of};
use segue_catalog::{Catalog, Claude, Codex, Gemini, Index, Opencode, Reader, project_at};
use segue_core::agent::{McpReach, McpServer, ProcessMark};
use segue_core::id::{NativeId, SessionId};
use segue_core::session::{Project, Session, SessionRef};
use segue_engine::{Conversation, Engine, Native, Standpoint, Tools, World};
use segue_sqlite::SqliteStore;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{self, Config, Flags, Loaded, Owner, Source, Surroundings, Who};
use crate::error::CliError;
use crate::last_list;
use crate::terminal::{Style, one_line, say, say_decision};
pub(crate) use agents::{agents, entrust, kept, own_program_of};
pub(crate) use summariser::summariser;

/// Version of segue.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The state that every command uses.
pub(crate) struct App {
    pub(crate) home: PathBuf,
    pub(crate) project: Project,
    pub(crate) engine: Arc<Engine>,
}

impl App {
    /// Opens the application for a command that runs an agent. A broken configuration is an error, and requests of an
    /// untrusted project are reported.
    pub(crate) fn open() -> Result<Self, CliError> {
        let project = project()?;
        let loaded = configuration(&Flags::default())?;
        if let Some(refusal) = loaded.refusal() {
            return Err(refusal);
        }
        tell_withheld(&loaded);
        tell_guarded(&take_back(&loaded.config)?);
        Self::with(project, &loaded.config)
    }

    /// Opens the application for a command that runs no agent. A broken configuration is reported, and its valid
    /// settings apply.
    pub(crate) fn open_to_look() -> Result<Self, CliError> {
        let config = configuration_to_look()?;
        tell_guarded(&take_back(&config)?);
        Self::with(project_of(&nearest_directory()?)?, &config)
    }

    /// Opens the application for a caller that reports problems of the configuration itself, or has already reported
    /// them.
    pub(crate) fn open_quietly() -> Result<Self, CliError> {
        let config = configuration(&Flags::default())?.config;
        take_back(&config)?;
        Self::with(project_of(&nearest_directory()?)?, &config)
    }

    fn with(project: Project, config: &Config) -> Result<Self, CliError> {
        survive_file_size_limit();
        let home = home()?;
        let store = Arc::new(SqliteStore::open(&home)?);
        let agents = agents(&home, config).into_iter();
        let agents = agents.map(|provider| provider as Arc<dyn Agent>).collect();
        let tools = Tools {
            servers: agents::mcp_servers(config),
            own: Some(Arc::new(own_tools(home.clone()))),
        };
        let upkeep = agents::upkeep(&home, config);
        let catalog = catalog(&project, config).with_archive(upkeep.archive.clone());
        let engine = Engine::new(store, agents, catalog, world()).with_index(Index::new(&home));
        let engine = engine.with_policy(config.policy.clone());
        let engine = engine.with_roles(config.roles.clone());
        let git = known::find("git", &std::env::var_os("PATH").unwrap_or_default());
        Ok(Self {
            home,
            project,
            engine: Arc::new(
                engine
                    .with_tools(tools)
                    .with_upkeep(upkeep)
                    .with_budget(config.budget)
                    .with_git(git),
            ),
        })
    }

    /// Resolves a typed reference to a session.
    pub(crate) async fn find(&self, reference: &SessionRef) -> Result<Session, CliError> {
        Ok(self.engine.find(reference, &self.standpoint()).await?)
    }

    /// Reconciles a session with its native session and reports the decisions. Returns the session unchanged if that
    /// fails.
    pub(crate) async fn up_to_date(&self, session: Session) -> Session {
        match self.engine.refreshed(session.clone()).await {
            Ok((session, decisions)) => {
                decisions.iter().for_each(say_decision);
                session
            }
            Err(_) => session,
        }
    }

    /// Resolves a typed reference to a conversation, which may be a native session.
    pub(crate) async fn find_any(&self, reference: &SessionRef) -> Result<Conversation, CliError> {
        Ok(self.engine.find_any(reference, &self.standpoint()).await?)
    }

    /// Resolves a typed reference to a session. Adopts a native session and reports it.
    pub(crate) async fn take(&self, reference: &SessionRef) -> Result<Session, CliError> {
        let (session, taken) = self.engine.take(reference, &self.standpoint()).await?;
        taken.iter().for_each(say_decision);
        Ok(session)
    }

    /// Adopts a native session and reports it.
    pub(crate) async fn take_over(&self, native: &Native) -> Result<Session, CliError> {
        let (session, taken) = self.engine.take_over(native, &self.project).await?;
        taken.iter().for_each(say_decision);
        Ok(session)
    }

    pub(crate) fn standpoint(&self) -> Standpoint {
        Standpoint {
            project: self.project.clone(),
            last_list: last_list::recall(&self.home, &self.project),
        }
    }
}

/// Restores sessions that an agent destroyed while it had the terminal. Runs before any command looks for sessions.
fn take_back(config: &Config) -> Result<Vec<String>, CliError> {
    let entrust = agents::entrust(&home()?, config);
    Ok(entrust.map_or_else(Vec::new, |entrust| entrust.take_back()))
}

/// Turns a file-size limit into a write error, which segue reports, instead of a signal that ends the process.
fn survive_file_size_limit() {
    // If the handler cannot be set, the limit ends the process, which loses no acknowledged data either.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Returns the directory of segue's data.
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

/// Returns the path of the running program, which is valid even if its file has been replaced.
pub(crate) fn own_program() -> PathBuf {
    let linux = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && linux.exists() {
        return linux;
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("segue"))
}

/// Returns a function that describes segue's own MCP server for a session, with the store in `home`.
fn own_tools(home: PathBuf) -> impl Fn(&SessionId) -> McpServer {
    // The agent starts the server later, so the path must be valid in other processes, which `/proc/self/exe` is not.
    let program = std::env::current_exe().unwrap_or_else(|_| own_program());
    move |session| McpServer {
        name: "segue".to_owned(),
        reach: McpReach::Program {
            command: program.to_string_lossy().into_owned(),
            args: ["mcp", "--session", session.as_str()]
                .map(str::to_owned)
                .to_vec(),
            env: vec![("SEGUE_HOME".to_owned(), home.to_string_lossy().into_owned())],
        },
    }
}

/// Returns the command that runs an agent under the leash.
pub(crate) fn leash() -> Leash {
    Leash {
        program: own_program(),
        args: vec!["leash".into()],
    }
}

/// Collects the locations and variables of this machine that the configuration is read from.
pub(crate) fn surroundings() -> Result<Surroundings, CliError> {
    let base = etcetera::base_strategy::Xdg::new().ok();
    let named = std::env::var_os("SEGUE_CONFIG").filter(|path| !path.is_empty());
    let cwd = nearest_directory()?;
    let user_file = match (named, &base) {
        (Some(named), _) => Some((cwd.join(named), true)),
        (None, Some(base)) => Some((base.config_dir().join("segue/config.toml"), false)),
        (None, None) => None,
    };
    Ok(Surroundings {
        home: home()?,
        user_home: base.map(|base| base.home_dir().to_owned()),
        cwd,
        user_file: user_file.map(|(path, named)| Source {
            owner: Owner::User,
            path,
            named,
        }),
        variable: |name| std::env::var_os(name),
    })
}

/// Loads the configuration with all its problems.
pub(crate) fn configuration(flags: &Flags) -> Result<Loaded, CliError> {
    Ok(config::load(&surroundings()?, flags))
}

/// Loads the configuration, reports its problems and returns its valid settings.
pub(crate) fn configuration_to_look() -> Result<Config, CliError> {
    let loaded = configuration(&Flags::default())?;
    tell_problems(&loaded);
    Ok(loaded.config)
}

/// Reports the first problem of the configuration in one line.
pub(crate) fn tell_problems(loaded: &Loaded) {
    if let Some(first) = loaded.problems.first() {
        let mark = Style::stderr().yellow("segue:");
        let what = one_line(&first.to_string());
        say(&format!(
            "{mark} {what} (left out; `segue config check` tells more)"
        ));
    }
}

/// Reports the actions that protected sessions from their agents.
pub(crate) fn tell_guarded(told: &[String]) {
    let mark = Style::stderr().yellow("segue:");
    for line in told {
        say(&format!("{mark} {}", one_line(line)));
    }
}

/// Reports in one line that a project's file asks for settings that need the user's trust.
pub(crate) fn tell_withheld(loaded: &Loaded) {
    if !loaded.withheld.is_empty() {
        let mark = Style::stderr().yellow("segue:");
        let what = one_line(&config::in_short(&loaded.withheld));
        say(&format!(
            "{mark} segue.toml asks for things that need your trust ({what}); `segue trust` shows them"
        ));
    }
}

/// Builds the catalog of the native sessions on this machine, in the directories that the agents use. Empty if the user
/// has no home directory.
pub(crate) fn catalog(here: &Project, config: &Config) -> Catalog {
    let home = |who: Who| {
        let env = config.agents.get(&who).map(|agent| agent.env.as_slice());
        agents::native_home(&who, env.unwrap_or_default())
    };
    let (Some(claude), Some(codex), Some(gemini), Some(opencode)) = (
        home(Who::Claude),
        home(Who::Codex),
        home(Who::Gemini),
        home(Who::Acp("opencode".into())),
    ) else {
        return Catalog::default();
    };
    // Older versions of Gemini CLI name a directory only by its hash.
    let gemini = Gemini::new(gemini).knowing([here.cwd.clone()]);
    let readers: Vec<Arc<dyn Reader>> = vec![
        Arc::new(Claude::new(claude)),
        Arc::new(Codex::new(codex)),
        Arc::new(gemini),
        Arc::new(Opencode::new(opencode)),
    ];
    Catalog::new(readers)
}

/// Returns the clock, the source of randomness and the identity of this process.
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
    // Without a source of randomness the smallest digits of the clock must do: an id that is taken is drawn again.
    getrandom::u32().unwrap_or_else(|_| Timestamp::now().subsec_nanosecond().unsigned_abs())
}

/// Returns a random id for a session of the rehearsal agent.
pub(crate) fn native_id() -> NativeId {
    loop {
        let text = format!("r-{:08x}{:08x}", random(), random());
        if let Ok(id) = NativeId::parse(&text) {
            return id;
        }
    }
}

fn working_directory() -> Result<PathBuf, CliError> {
    std::env::current_dir()
        .and_then(|cwd| cwd.canonicalize())
        .map_err(|error| CliError::failed("cannot tell the working directory").because(&error))
}

/// Returns the working directory, or `PWD` if that directory was removed, for commands that only read.
fn nearest_directory() -> Result<PathBuf, CliError> {
    working_directory().or_else(|error| {
        // The shell that started segue recorded its directory in `PWD`.
        let remembered = std::env::var_os("PWD").map(PathBuf::from);
        remembered.filter(|path| path.is_absolute()).ok_or(error)
    })
}

/// Returns the project of the working directory.
pub(crate) fn project() -> Result<Project, CliError> {
    project_of(&working_directory()?)
}

fn project_of(cwd: &Path) -> Result<Project, CliError> {
    project_at(cwd).ok_or_else(|| {
        CliError::failed(format!(
            "cannot work in {}: its name is not valid UTF-8",
            cwd.display()
        ))
    })
}
