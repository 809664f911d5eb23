//! Construction of the available agents from the configuration.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy;
use jiff::Timestamp;
use segue_agents::exec::{self, OwnProgram};
use segue_agents::known;
use segue_agents::{
    Agent, Entrust, Host, Outside, Own, Provider, Settings, Way, acp, claude, codex, gemini,
    rehearsal,
};
use segue_catalog::{Archive, Trash};
use segue_core::agent::{McpReach, McpServer};
use segue_core::id::ProviderId;
use segue_engine::Departure;

use segue_engine::Upkeep;

use super::{VERSION, leash, own_program};
use crate::config::{AgentConfig, Config, Who};

const OUTSIDE: Outside = Outside {
    now: Timestamp::now,
    random: super::random,
};

/// Returns the available agents, in the order in which segue chooses one.
///
/// Includes an agent whose configured program is missing, so that its use reports what is missing. Omits an agent that
/// has no configured program and was not found.
pub(crate) fn agents(home: &Path, config: &Config) -> Vec<Arc<Provider>> {
    let host = Host {
        leash: leash(),
        version: VERSION,
        kept: kept(home),
        path: std::env::var_os("PATH").unwrap_or_default(),
        outside: OUTSIDE,
    };
    let providers = config.in_order().into_iter();
    let mut agents: Vec<Arc<Provider>> = providers
        .map(|(id, who, agent)| {
            let mut settings = settings(who, agent, &host.path);
            let missing = agent.path.is_some()
                && settings.program.as_ref().is_none_or(|path| !path.is_file());
            if missing {
                // The user configured this program, so segue does not use another one instead.
                settings.adapter = None;
                let nowhere = Host {
                    path: OsString::new(),
                    ..host.clone()
                };
                return drive(&id, who, &settings, &nowhere).at(settings.program.as_ref());
            }
            drive(&id, who, &settings, &host).at(settings.program.as_ref())
        })
        .filter(|provider| !provider.ways().is_empty())
        .map(Arc::new)
        .collect();
    agents.push(Arc::new(rehearsing(home, config)));
    // The sort is stable: rehearsal remains last unless the configuration prefers it.
    agents.sort_by_key(|agent| config.rank(agent.provider()));
    agents
}

/// Returns the directory of files that segue stores for agents, such as copies of native sessions.
pub(crate) fn kept(home: &Path) -> PathBuf {
    home.join("kept")
}

/// Returns the guard for Gemini CLI sessions that the user resumes outside segue. `None` if the user has no home
/// directory.
pub(crate) fn entrust(home: &Path, config: &Config) -> Option<Entrust> {
    let agent = config.agents.get(&Who::Gemini);
    let env = agent.map_or(&[][..], |agent| &agent.env);
    let theirs = native_home(&Who::Gemini, env)?;
    Some(Entrust::new(theirs, &kept(home), OUTSIDE))
}

/// Builds the service for archive and trash, with the programs that have commands for their own sessions.
pub(super) fn upkeep(home: &Path, config: &Config) -> Upkeep {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = [Who::Codex, Who::Acp("opencode".to_owned())].into_iter();
    let own = own.filter_map(|who| {
        let agent = config.agents.get(&who);
        let name = match &who {
            Who::Acp(name) => name.as_str(),
            _ => "codex",
        };
        let configured = agent.and_then(|agent| agent.path.as_deref());
        let program = match configured {
            Some(configured) => Some(located(configured, &path)),
            None => known::find(name, &path),
        };
        let env = agent.map_or(&[][..], |agent| &agent.env);
        let program = program.filter(|program| program.is_file())?;
        Own::new(name, &program, env, &leash())
    });
    Upkeep {
        archive: Archive::open(home),
        trash: Trash::open(home),
        exports: home.join("tmp"),
        kept: kept(home),
        own: own.collect(),
    }
}

fn drive(id: &ProviderId, who: &Who, settings: &Settings, host: &Host) -> Provider {
    match who {
        Who::Claude => claude(settings, host),
        Who::Codex => codex(settings, host),
        Who::Gemini => gemini(settings, host),
        Who::Acp(_) => acp(id, settings, host),
    }
}

/// Builds the built-in agent with the configured defaults.
fn rehearsing(home: &Path, config: &Config) -> Provider {
    let agent = rehearsal(own_program(), home.join("rehearsal"), leash(), VERSION);
    let way = Way {
        name: "acp",
        agent: Arc::new(agent),
    };
    Provider::new(ProviderId::rehearsal(), vec![way], config.defaults.clone())
}

fn settings(who: &Who, agent: &AgentConfig, path: &OsStr) -> Settings {
    let program = match (&agent.path, who.program()) {
        (Some(configured), _) => Some(located(configured, path)),
        (None, Some(usual)) => known::find(usual, path),
        (None, None) => None,
    };
    let adapter = agent.acp_path.as_deref();
    Settings {
        program,
        adapter: adapter.map(|configured| located(configured, path)),
        transports: agent.transports.clone(),
        model: agent.model.clone(),
        mode: agent.mode.clone(),
        args: agent.args.clone(),
        env: agent.env.clone(),
        home: native_home(who, &agent.env).unwrap_or_default(),
        defaults: agent.defaults.clone(),
    }
}

/// Resolves the path of a configured program: a name without `/` is looked up in `path`. Returns a name that is not
/// found unchanged, so that its use reports an error.
fn located(configured: &str, path: &OsStr) -> PathBuf {
    let found = (!configured.contains('/')).then(|| known::find(configured, path));
    found.flatten().unwrap_or_else(|| PathBuf::from(configured))
}

/// Returns the command with which the user resumes a native session in the agent's own program. `None` if the agent has
/// no such command or its program is not found.
pub(crate) fn own_program_of(config: &Config, departure: &Departure) -> Option<OwnProgram> {
    let keeper = departure.provider.as_str();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = Who::known(keeper);
    // The arguments of an ACP agent are omitted, because they switch its program to ACP.
    let args = known.as_ref().and_then(|who| config.agents.get(who));
    let mut args = args.map_or_else(Vec::new, |agent| agent.args.clone());
    args.extend(exec::resume_args(keeper, &departure.native_id)?);
    let is_direct = known.is_some();
    let who = known.unwrap_or_else(|| Who::Acp(keeper.to_owned()));
    let agent = config.agents.get(&who);
    let configured = agent.and_then(|agent| agent.path.as_deref());
    let configured = configured.map(|configured| located(configured, &path));
    let configured = configured
        .filter(|program| is_direct || program.file_name().is_some_and(|name| name == keeper));
    Some(OwnProgram {
        path: configured.or_else(|| known::find(keeper, &path))?,
        args,
        env: agent.map_or_else(Vec::new, |agent| agent.env.clone()),
        cwd: departure.cwd.clone(),
    })
}

/// Returns the MCP servers for the agents, with resolved program paths.
pub(crate) fn mcp_servers(config: &Config) -> Vec<McpServer> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut servers = config.mcp.clone();
    for server in &mut servers {
        if let McpReach::Program { command, .. } = &mut server.reach
            && let Ok(found) = located(command, &path).into_os_string().into_string()
        {
            *command = found;
        }
    }
    servers
}

/// Returns the directory in which an agent stores its sessions: from its configured environment, else from segue's
/// environment, else the default. `None` if the user has no home directory.
pub(super) fn native_home(who: &Who, env: &[(String, String)]) -> Option<PathBuf> {
    let base = etcetera::base_strategy::Xdg::new().ok()?;
    let set = |variable: &str| {
        let configured = env.iter().find(|(name, _)| name == variable);
        let configured = configured.map(|(_, value)| value.into());
        let value = configured.or_else(|| std::env::var_os(variable));
        value.filter(|value| !value.is_empty()).map(PathBuf::from)
    };
    let usual = |directory: &str| base.home_dir().join(directory);
    Some(match who {
        Who::Claude => set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| usual(".claude")),
        Who::Codex => set("CODEX_HOME").unwrap_or_else(|| usual(".codex")),
        Who::Gemini => {
            set("GEMINI_CLI_HOME").map_or_else(|| usual(".gemini"), |home| home.join(".gemini"))
        }
        Who::Acp(name) => base.data_dir().join(name),
    })
}
