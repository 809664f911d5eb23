//! Choice of the implementations, and the environment that the libraries receive.

mod agents;
mod summariser;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use jiff::Timestamp;
use segue_api::text::format_guard_action;
use segue_catalog::{Catalog, Index, project_at};
use segue_core::agent::{McpEndpoint, McpServer, ProcessIdentity};
use segue_core::id::{NativeId, SessionId};
use segue_core::session::{GuardAction, Project, Session, SessionRef};
use segue_engine::{
    Conversation, Engine, EngineSettings, Environment, McpTools, NativeEntry, RefContext,
};
use segue_providers::{Agent, LeashCommand, PROVIDERS, identify_process, known};
use segue_sqlite::SqliteStore;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{
    self, Config, ConfigFlags, ConfigInputs, ConfigOwner, ConfigSource, ConfiguredAgent,
    LoadedConfig,
};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::last_list;
use crate::terminal::{eprint_decisions, eprint_note, to_single_line};

pub(crate) use agents::{agent_files_dir, build_agents, native_resume_command, unattended_guard};
pub(crate) use summariser::build_summariser;

/// Version of segue.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The state that every command uses.
pub(crate) struct App {
    pub(crate) home: PathBuf,
    pub(crate) project: Project,
    pub(crate) engine: Engine,
}

impl App {
    /// Opens the application for a command that runs an agent. A broken configuration is an error, and requests of an
    /// untrusted project are reported.
    pub(crate) fn open() -> Result<Self, CliError> {
        let project = current_project()?;
        let loaded = load_config(&ConfigFlags::default())?;
        if let Some(refusal) = config::validation_error(&loaded) {
            return Err(refusal);
        }
        report_withheld_settings(&loaded);
        report_guard_actions(&restore_guarded_sessions(&loaded.config)?);
        Self::from_config(project, &loaded.config)
    }

    /// Opens the application for a command that runs no agent. A broken configuration is reported, and its valid
    /// settings apply.
    pub(crate) fn open_lenient() -> Result<Self, CliError> {
        let config = load_config_lenient()?;
        report_guard_actions(&restore_guarded_sessions(&config)?);
        Self::from_config(resolve_project(&working_directory_or_pwd()?)?, &config)
    }

    /// Opens the application for a caller that reports problems of the configuration itself, or has already reported
    /// them.
    pub(crate) fn open_quiet() -> Result<Self, CliError> {
        let config = load_config(&ConfigFlags::default())?.config;
        restore_guarded_sessions(&config)?;
        Self::from_config(resolve_project(&working_directory_or_pwd()?)?, &config)
    }

    fn from_config(project: Project, config: &Config) -> Result<Self, CliError> {
        survive_file_size_limit();
        let home = home()?;
        let store = Arc::new(SqliteStore::open(&home)?);
        let agents = build_agents(&home, config).into_iter();
        let agents = agents.map(|provider| provider as Arc<dyn Agent>).collect();
        let tools = McpTools {
            servers: agents::resolve_mcp_servers(config),
            segue_server: Some(Arc::new(segue_server_factory(home.clone()))),
        };
        let archive_service = agents::build_archive_service(&home, config);
        let catalog = build_catalog(&project, config).with_archive(archive_service.archive.clone());
        let settings = EngineSettings {
            budget: config.budget,
            policy: config.policy.clone(),
            roles: config.roles.clone(),
            tools,
            git: known::find_program("git", &std::env::var_os("PATH").unwrap_or_default()),
        };
        let engine = Engine::builder(store, agents, catalog, environment())
            .with_index(Index::new(&home))
            .with_archive_service(archive_service)
            .with_settings(settings)
            .build();
        Ok(Self {
            home,
            project,
            engine,
        })
    }

    /// Resolves a typed reference to a session.
    pub(crate) async fn find_session(&self, reference: &SessionRef) -> Result<Session, CliError> {
        let (resolver, context) = (self.engine.resolver(), self.ref_context());
        Ok(resolver.find_session(reference, &context).await?)
    }

    /// Reconciles a session with its native session and reports the decisions. Returns the session unchanged if that
    /// fails.
    pub(crate) async fn reconcile_session(&self, session: Session) -> Session {
        let reconciler = self.engine.reconciler();
        match reconciler.reconcile_if_idle(session.clone()).await {
            Ok((session, decisions)) => {
                eprint_decisions(&decisions, Frontend::Shell);
                session
            }
            Err(_) => session,
        }
    }

    /// Resolves a typed reference to a conversation, which may be a native session.
    pub(crate) async fn find_conversation(
        &self,
        reference: &SessionRef,
    ) -> Result<Conversation, CliError> {
        let (resolver, context) = (self.engine.resolver(), self.ref_context());
        Ok(resolver.find_conversation(reference, &context).await?)
    }

    /// Resolves a typed reference to a session. Adopts a native session and reports it.
    pub(crate) async fn find_or_adopt(&self, reference: &SessionRef) -> Result<Session, CliError> {
        let (resolver, context) = (self.engine.resolver(), self.ref_context());
        let (session, decisions) = resolver.find_or_adopt(reference, &context).await?;
        eprint_decisions(&decisions, Frontend::Shell);
        Ok(session)
    }

    /// Adopts a native session and reports it.
    pub(crate) async fn adopt_native(&self, native: &NativeEntry) -> Result<Session, CliError> {
        let resolver = self.engine.resolver();
        let (session, decisions) = resolver.adopt_native(native, &self.project).await?;
        eprint_decisions(&decisions, Frontend::Shell);
        Ok(session)
    }

    pub(crate) fn ref_context(&self) -> RefContext {
        RefContext {
            project: self.project.clone(),
            last_list: last_list::load(&self.home, &self.project),
        }
    }
}

/// Restores sessions that an agent destroyed while it had the terminal. Runs before any command looks for sessions.
fn restore_guarded_sessions(config: &Config) -> Result<Vec<GuardAction>, CliError> {
    let guard = agents::unattended_guard(&home()?, config);
    Ok(guard.map_or_else(Vec::new, |guard| guard.restore_sessions()))
}

/// Turns a file-size limit into a write error, which segue reports, instead of a signal that ends the process.
pub(crate) fn survive_file_size_limit() {
    // If the handler cannot be set, the limit ends the process, which loses no acknowledged data either.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Returns the directory of segue's data.
pub(crate) fn home() -> Result<PathBuf, CliError> {
    if let Some(home) = std::env::var_os("SEGUE_HOME").filter(|home| !home.is_empty()) {
        let home = PathBuf::from(home);
        return std::path::absolute(&home).map_err(|error| {
            CliError::failed(format!("cannot use SEGUE_HOME {}", home.display())).with_cause(&error)
        });
    }
    let base = etcetera::base_strategy::Xdg::new().map_err(|error| {
        CliError::failed("cannot find your home directory")
            .with_cause(&error)
            .with_hint("set SEGUE_HOME to a directory for segue's data")
    })?;
    Ok(base.data_dir().join("segue"))
}

/// Returns the path of the running program, which is valid even if its file has been replaced.
pub(crate) fn current_program() -> PathBuf {
    let proc_self_exe = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && proc_self_exe.exists() {
        return proc_self_exe;
    }
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("segue"))
}

/// Returns a function that describes segue's own MCP server for a session, with the store in `home`.
fn segue_server_factory(home: PathBuf) -> impl Fn(&SessionId) -> McpServer {
    // The agent starts the server later, so the path must be valid in other processes, which `/proc/self/exe` is not.
    let program = std::env::current_exe().unwrap_or_else(|_| current_program());
    move |session| McpServer {
        name: "segue".to_owned(),
        endpoint: McpEndpoint::Program {
            command: program.to_string_lossy().into_owned(),
            args: ["mcp", "--session", session.as_str()]
                .map(str::to_owned)
                .to_vec(),
            env: vec![("SEGUE_HOME".to_owned(), home.to_string_lossy().into_owned())],
        },
    }
}

/// Returns the command that runs an agent under the leash.
pub(crate) fn leash() -> LeashCommand {
    LeashCommand {
        program: current_program(),
        args: vec!["leash".into()],
    }
}

/// Collects the locations and variables of this machine that the configuration is read from.
pub(crate) fn config_environment() -> Result<ConfigInputs, CliError> {
    let base = etcetera::base_strategy::Xdg::new().ok();
    let explicit_path = std::env::var_os("SEGUE_CONFIG").filter(|path| !path.is_empty());
    let cwd = working_directory_or_pwd()?;
    let user_file = match (explicit_path, &base) {
        (Some(explicit_path), _) => Some((cwd.join(explicit_path), true)),
        (None, Some(base)) => Some((base.config_dir().join("segue/config.toml"), false)),
        (None, None) => None,
    };
    Ok(ConfigInputs {
        home: home()?,
        user_home: base.map(|base| base.home_dir().to_owned()),
        project_root: config::project_root(&cwd).to_owned(),
        cwd,
        user_file: user_file.map(|(path, is_explicit)| ConfigSource {
            owner: ConfigOwner::User,
            path,
            is_required: is_explicit,
        }),
        env_var: |name| std::env::var_os(name),
    })
}

/// Loads the configuration with all its problems.
pub(crate) fn load_config(flags: &ConfigFlags) -> Result<LoadedConfig, CliError> {
    Ok(config::load(&config_environment()?, flags))
}

/// Loads the configuration, reports its problems and returns its valid settings.
pub(crate) fn load_config_lenient() -> Result<Config, CliError> {
    let loaded = load_config(&ConfigFlags::default())?;
    report_config_problem(&loaded);
    Ok(loaded.config)
}

/// Reports the first problem of the configuration in one line.
pub(crate) fn report_config_problem(loaded: &LoadedConfig) {
    if let Some(problem) = loaded.problems.first() {
        let problem = to_single_line(&problem.to_string());
        eprint_note(&format!(
            "{problem} (ignored; run `segue config check` for details)"
        ));
    }
}

/// Reports the actions that protected sessions from their agents.
pub(crate) fn report_guard_actions(actions: &[GuardAction]) {
    for action in actions {
        eprint_note(&to_single_line(&format_guard_action(action)));
    }
}

/// Reports in one line that a project's file asks for settings that need the user's trust.
pub(crate) fn report_withheld_settings(loaded: &LoadedConfig) {
    if !loaded.withheld.is_empty() {
        let summary = to_single_line(&config::format_key_summary(&loaded.withheld));
        eprint_note(&format!(
            "ignored settings of segue.toml that need your trust ({summary}); run `segue trust` to review them"
        ));
    }
}

/// Builds the catalog of the native sessions on this machine, in the directories that the agents use. Empty if the user
/// has no home directory.
pub(crate) fn build_catalog(project: &Project, config: &Config) -> Catalog {
    let readers = PROVIDERS.into_iter().filter_map(|descriptor| {
        let configured_agent = ConfiguredAgent::for_native(descriptor.name);
        let agent = config.agents.get(&configured_agent);
        let env = agent.map_or(&[][..], |agent| &agent.env);
        let home = agents::native_home(&configured_agent, env)?;
        Some((descriptor.new_reader)(home, Path::new(&project.cwd)))
    });
    Catalog::new(readers.collect())
}

/// Returns the clock, the source of randomness and the identity of this process.
fn environment() -> Environment {
    Environment {
        now: Timestamp::now,
        random,
        process: current_process(),
    }
}

fn current_process() -> ProcessIdentity {
    let pid = std::process::id();
    identify_process(pid).unwrap_or_else(|| ProcessIdentity {
        host: "unknown".into(),
        pid,
        start_time: Timestamp::now().to_string(),
    })
}

fn random() -> u32 {
    // Without a source of randomness the clock is sufficient, because an id that is in use is drawn again.
    getrandom::u32().unwrap_or_else(|_| Timestamp::now().subsec_nanosecond().unsigned_abs())
}

/// Returns a random id for a session of the rehearsal agent.
pub(crate) fn random_native_id() -> NativeId {
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
        .map_err(|error| {
            CliError::failed("cannot determine the working directory").with_cause(&error)
        })
}

/// Returns the working directory, or `PWD` if that directory was removed, for commands that only read.
fn working_directory_or_pwd() -> Result<PathBuf, CliError> {
    working_directory().or_else(|error| {
        // The shell that started segue recorded its directory in `PWD`.
        let pwd = std::env::var_os("PWD").map(PathBuf::from);
        pwd.filter(|path| path.is_absolute()).ok_or(error)
    })
}

/// Returns the project of the working directory.
pub(crate) fn current_project() -> Result<Project, CliError> {
    resolve_project(&working_directory()?)
}

fn resolve_project(cwd: &Path) -> Result<Project, CliError> {
    project_at(cwd).ok_or_else(|| {
        CliError::failed(format!(
            "cannot work in {}: its name is not valid UTF-8",
            cwd.display()
        ))
    })
}
