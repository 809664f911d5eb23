//! Construction of the available agents from the configuration.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use jiff::Timestamp;
use segue_catalog::{Archive, Trash};
use segue_core::agent::{McpEndpoint, McpServer};
use segue_core::id::ProviderId;
use segue_engine::NativeResume;
use segue_providers::exec::{self, NativeCommand};
use segue_providers::known;
use segue_providers::{
    Agent, AgentHost, NativeCli, PROVIDERS, Provider, ProviderSettings, SystemFns, Transport,
    UnattendedGuard, build_provider, find_provider, rehearsal_agent,
};

use segue_engine::ArchiveService;

use super::{VERSION, current_program, leash};
use crate::config::{AgentConfig, Config, ConfiguredAgent};

const SYSTEM_FNS: SystemFns = SystemFns {
    now: Timestamp::now,
    random: super::random,
};

/// Returns the available agents, in the order in which segue chooses one.
///
/// Includes an agent whose configured program is missing, so that its use reports what is missing. Omits an agent that
/// has no configured program and was not found.
pub(crate) fn build_agents(home: &Path, config: &Config) -> Vec<Arc<Provider>> {
    let host = AgentHost {
        leash: leash(),
        version: VERSION,
        agent_files_dir: agent_files_dir(home),
        search_path: std::env::var_os("PATH").unwrap_or_default(),
        system: SYSTEM_FNS,
    };
    let providers = config.agents_by_preference().into_iter();
    let mut agents: Vec<Arc<Provider>> = providers
        .map(|(id, configured_agent, agent)| {
            let mut settings = build_settings(configured_agent, agent, &host.search_path);
            let mut host = host.clone();
            let is_missing = agent.path.is_some()
                && settings.program.as_ref().is_none_or(|path| !path.is_file());
            if is_missing {
                // The user configured this program, so segue does not use another one instead.
                settings.adapter = None;
                host.search_path = OsString::new();
            }
            build_provider(&id, &settings, &host).with_program(settings.program.as_ref())
        })
        .filter(|provider| !provider.transports().is_empty())
        .map(Arc::new)
        .collect();
    agents.push(Arc::new(build_rehearsal_provider(home, config)));
    // The sort is stable: rehearsal remains last unless the configuration prefers it.
    agents.sort_by_key(|agent| config.preference_rank(agent.provider()));
    agents
}

/// Returns the directory of files that segue stores for agents, such as copies of native sessions.
pub(crate) fn agent_files_dir(home: &Path) -> PathBuf {
    home.join("kept")
}

/// Returns the guard for Gemini CLI sessions that the user resumes outside segue. `None` if the user has no home
/// directory.
pub(crate) fn unattended_guard(home: &Path, config: &Config) -> Option<UnattendedGuard> {
    let agent = config.agents.get(&ConfiguredAgent::Gemini);
    let env = agent.map_or(&[][..], |agent| &agent.env);
    let gemini_home = native_home(&ConfiguredAgent::Gemini, env)?;
    Some(UnattendedGuard::new(
        gemini_home,
        &agent_files_dir(home),
        SYSTEM_FNS,
    ))
}

/// Builds the service for archive and trash, with the programs that have commands for their own sessions.
pub(super) fn build_archive_service(home: &Path, config: &Config) -> ArchiveService {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let with_commands = PROVIDERS
        .into_iter()
        .filter(|descriptor| descriptor.session_commands.delete.is_some());
    let native_clis = with_commands.filter_map(|descriptor| {
        let name = descriptor.name;
        let agent = config.agents.get(&ConfiguredAgent::for_native(name));
        let program = configured_program(agent, &path)
            .or_else(|| known::find_program(descriptor.program, &path));
        let env = agent.map_or(&[][..], |agent| &agent.env);
        let program = program.filter(|program| program.is_file())?;
        NativeCli::new(name, &program, env, &leash())
    });
    ArchiveService {
        archive: Archive::open(home),
        trash: Trash::open(home),
        exports_dir: home.join("tmp"),
        guard_dir: agent_files_dir(home),
        native_clis: native_clis.collect(),
    }
}

/// Builds the built-in agent with the configured defaults.
fn build_rehearsal_provider(home: &Path, config: &Config) -> Provider {
    let agent = rehearsal_agent(current_program(), home.join("rehearsal"), leash(), VERSION);
    let transport = Transport {
        name: "acp",
        agent: Arc::new(agent),
    };
    Provider::new(
        ProviderId::rehearsal(),
        vec![transport],
        config.defaults.clone(),
    )
}

fn build_settings(
    configured_agent: &ConfiguredAgent,
    agent: &AgentConfig,
    path: &OsStr,
) -> ProviderSettings {
    let default_program = configured_agent.default_program();
    let program = configured_program(Some(agent), path)
        .or_else(|| known::find_program(default_program?, path));
    let adapter = agent.acp_path.as_deref();
    ProviderSettings {
        program,
        adapter: adapter.map(|configured| resolve_program(configured, path)),
        transports: agent.transports.clone(),
        model: agent.model.clone(),
        mode: agent.mode.clone(),
        args: agent.args.clone(),
        env: agent.env.clone(),
        home: native_home(configured_agent, &agent.env).unwrap_or_default(),
        defaults: agent.defaults.clone(),
    }
}

/// Resolves the path of a configured program: a name without `/` is looked up in `path`. Returns a name that is not
/// found unchanged, so that its use reports an error.
fn resolve_program(configured: &str, path: &OsStr) -> PathBuf {
    let found = (!configured.contains('/')).then(|| known::find_program(configured, path));
    found.flatten().unwrap_or_else(|| PathBuf::from(configured))
}

/// Returns the path of the program that the user configured for an agent.
fn configured_program(agent: Option<&AgentConfig>, path: &OsStr) -> Option<PathBuf> {
    let configured = agent?.path.as_deref()?;
    Some(resolve_program(configured, path))
}

/// Returns the command with which the user resumes a native session in the agent's own program. `None` if the agent has
/// no such command or its program is not found.
pub(crate) fn native_resume_command(
    config: &Config,
    resume: &NativeResume,
) -> Option<NativeCommand> {
    let native_provider = resume.provider.as_str();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let direct_agent = ConfiguredAgent::from_name(native_provider);
    let is_direct = direct_agent.is_some();
    let configured_agent =
        direct_agent.unwrap_or_else(|| ConfiguredAgent::Acp(native_provider.to_owned()));
    let agent = config.agents.get(&configured_agent);
    // The arguments of an ACP agent are omitted, because they switch its program to ACP.
    let direct_args = agent.filter(|_| is_direct).map(|agent| agent.args.clone());
    let mut args = direct_args.unwrap_or_default();
    args.extend(exec::resume_args(native_provider, &resume.native_id)?);
    let configured = configured_program(agent, &path).filter(|program| {
        is_direct
            || program
                .file_name()
                .is_some_and(|name| name == native_provider)
    });
    Some(NativeCommand {
        path: configured.or_else(|| known::find_program(native_provider, &path))?,
        args,
        env: agent.map_or_else(Vec::new, |agent| agent.env.clone()),
        cwd: resume.cwd.clone(),
    })
}

/// Returns the MCP servers for the agents, with resolved program paths.
pub(crate) fn resolve_mcp_servers(config: &Config) -> Vec<McpServer> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut servers = config.mcp_servers.clone();
    for server in &mut servers {
        if let McpEndpoint::Program { command, .. } = &mut server.endpoint
            && let Ok(resolved) = resolve_program(command, &path)
                .into_os_string()
                .into_string()
        {
            *command = resolved;
        }
    }
    servers
}

/// Returns the directory in which an agent stores its sessions: from its configured environment, else from segue's
/// environment, else the default. `None` if the user has no home directory.
pub(super) fn native_home(
    configured_agent: &ConfiguredAgent,
    env: &[(String, String)],
) -> Option<PathBuf> {
    let base = etcetera::base_strategy::Xdg::new().ok()?;
    let env_path = |variable: &str| {
        let configured = env.iter().find(|(name, _)| name == variable);
        let configured = configured.map(|(_, value)| value.into());
        let value = configured.or_else(|| std::env::var_os(variable));
        value.filter(|value| !value.is_empty()).map(PathBuf::from)
    };
    let data_dir = base.data_dir();
    if let ConfiguredAgent::Acp(name) = configured_agent {
        return Some(data_dir.join(name));
    }
    let descriptor = find_provider(&configured_agent.name())?;
    let home = &descriptor.home;
    Some(home.resolve(env_path, base.home_dir(), &data_dir))
}
