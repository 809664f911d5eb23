//! Effective configuration as typed data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use segue_core::agent::{McpEndpoint, McpServer, RoleOverride, RoleRegistry};
use segue_core::id::ProviderId;
use segue_core::policy::{AutoCompaction, ContextLimits, Policy};
use segue_core::scope::RoleName;
use segue_core::spend::{Cost, Price, Prices};
use segue_providers::{AgentDefaults, SessionDefault, Timeouts};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::key::NO_AGENT;
use crate::layer::{ConfigEntry, ConfigLayer, ConfigOrigin};
use crate::providers::ConfiguredAgent;

/// The effective configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Providers in the order in which segue chooses one, if the user names none.
    pub preferred_providers: Vec<ProviderId>,
    /// Defaults for agents that are not configured.
    pub defaults: AgentDefaults,
    /// Known agents, and the user's own agents that have a `path`.
    pub agents: BTreeMap<ConfiguredAgent, AgentConfig>,
    /// MCP servers that agents receive.
    pub mcp_servers: Vec<McpServer>,
    /// Maximum number of tokens of a brief and its prompt.
    pub budget: u64,
    /// Prices of models.
    pub prices: Prices,
    /// Policy for failures, cooldowns and context limits of agents.
    pub policy: Policy,
    /// Available roles of agents.
    pub roles: RoleRegistry,
    /// Provider that refines checkpoints. `None` if no agent does.
    pub summariser: Option<ProviderId>,
}

/// Configuration of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentConfig {
    /// Program of the agent, as an absolute path or a name on `PATH`.
    pub path: Option<String>,
    /// Program that provides ACP for the agent, as an absolute path or a name on `PATH`.
    pub acp_path: Option<String>,
    /// Names of the transports, in the order in which they are tried. Empty for the default order.
    pub transports: Vec<String>,
    /// Model, by the agent's name for it.
    pub model: Option<String>,
    /// Mode, by the agent's name for it.
    pub mode: Option<String>,
    /// Additional arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Values that apply if a request gives none.
    pub defaults: AgentDefaults,
}

impl Config {
    /// Builds the configuration from the merged settings.
    pub(crate) fn from_settings(settings: &ConfigLayer) -> Self {
        let general = TableValues::new(settings);
        let custom_agents = general.names("acp").into_iter();
        let custom_agents = custom_agents.map(|name| ConfiguredAgent::Acp(name.to_owned()));
        let mut agents = BTreeMap::new();
        let mut policy = general.policy();
        for agent in ConfiguredAgent::BUILT_IN.into_iter().chain(custom_agents) {
            let name = agent.name();
            let table = general.table(&name.split(':').collect::<Vec<_>>());
            if let (Some(provider), Some(limit)) = (agent.provider_id(), table.get("context_limit"))
            {
                policy.context.providers.insert(provider, limit);
            }
            let config = table.agent_config(&general);
            // Without a program, an additional agent cannot be used.
            if config.path.is_some() || !matches!(agent, ConfiguredAgent::Acp(_)) {
                agents.insert(agent, config);
            }
        }
        let summariser = general.get("compaction.summariser");
        let summariser = summariser.filter(|name: &String| name != NO_AGENT);
        let servers = general.names("mcp").into_iter();
        let models = general.names("prices").into_iter();
        Self {
            preferred_providers: general.providers("prefer"),
            defaults: general.agent_config(&general).defaults,
            agents,
            mcp_servers: servers
                .filter_map(|name| general.table(&["mcp", name]).to_server(name))
                .collect(),
            budget: general.get("budget").unwrap_or_default(),
            prices: models
                .filter_map(|name| {
                    Some((
                        name.to_owned(),
                        general.table(&["prices", name]).to_price()?,
                    ))
                })
                .collect(),
            policy,
            roles: resolve_roles(settings),
            summariser: summariser.and_then(|name| ProviderId::parse(&name).ok()),
        }
    }

    /// Returns the agents in the order in which segue chooses one: the preferred agents, then the others in default
    /// order.
    #[must_use]
    pub fn agents_by_preference(&self) -> Vec<(ProviderId, &ConfiguredAgent, &AgentConfig)> {
        let agents = self.agents.iter();
        let mut all: Vec<_> = agents
            .filter_map(|(agent, config)| Some((agent.provider_id()?, agent, config)))
            .collect();
        all.sort_by_key(|(provider, _, _)| self.preference_rank(provider));
        all
    }

    /// Returns the position of a provider in the order of preference, `usize::MAX` if it is not listed.
    #[must_use]
    pub fn preference_rank(&self, provider: &ProviderId) -> usize {
        let mut preferred = self.preferred_providers.iter();
        preferred
            .position(|preferred| preferred == provider)
            .unwrap_or(usize::MAX)
    }
}

/// Returns the built-in roles with the changes of the settings, and the roles that the settings add.
pub(crate) fn resolve_roles(settings: &ConfigLayer) -> RoleRegistry {
    let general = TableValues::new(settings);
    let mut roles = RoleRegistry::default();
    for name in general.names("roles") {
        let role = general.table(&["roles", name]);
        let role_override = RoleOverride {
            description: role.get("role"),
            instructions: role.get("instructions"),
            allowed_tools: role.get("allowed_tools"),
            tool_instructions: role.get("tool_instructions"),
        };
        if let Ok(name) = RoleName::parse(name) {
            roles.apply_override(&name, role_override);
        }
    }
    roles
}

/// Settings of a table and of the tables below it, by their names below the table.
struct TableValues<'a>(Vec<(Vec<&'a str>, &'a ConfigEntry)>);

impl<'a> TableValues<'a> {
    /// Returns all settings.
    fn new(settings: &'a ConfigLayer) -> Self {
        let settings = settings.iter();
        Self(
            settings
                .map(|(key, entry)| (key.toml_path(), entry))
                .collect(),
        )
    }

    /// Returns the settings of a table below this one.
    fn table(&self, path: &[&str]) -> Self {
        let settings = self.0.iter();
        let below = settings.filter(|(names, _)| names.starts_with(path));
        let below =
            below.map(|(names, entry)| (names.iter().skip(path.len()).copied().collect(), *entry));
        Self(below.collect())
    }

    /// Returns the names in a table below this one.
    fn names(&self, table: &str) -> BTreeSet<&'a str> {
        let settings = self.table(&[table]).0.into_iter();
        settings
            .filter_map(|(names, _)| names.first().copied())
            .collect()
    }

    fn entry(&self, key: &str) -> Option<&'a ConfigEntry> {
        let mut settings = self.0.iter();
        let (_, entry) = settings.find(|(names, _)| names.iter().copied().eq(key.split('.')))?;
        Some(entry)
    }

    /// Returns the value of a setting. `None` if it is not set.
    fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        parse_value(self.entry(key)?)
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.get(key).unwrap_or_default()
    }

    fn providers(&self, key: &str) -> Vec<ProviderId> {
        let names = self.list(key).into_iter();
        names
            .filter_map(|name| ProviderId::parse(&name).ok())
            .collect()
    }

    /// Returns the names and the values of a table below this one.
    fn pairs<C: FromIterator<(String, T)>, T: DeserializeOwned>(&self, table: &str) -> C {
        let settings = self.table(&[table]).0.into_iter();
        let pairs =
            settings.filter_map(|(names, entry)| Some((names.concat(), parse_value(entry)?)));
        pairs.collect()
    }

    /// Returns a time. `None` if it is not set.
    fn seconds(&self, key: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.get(key)?).ok()
    }

    /// Returns the configuration of the agent of this table: its own settings, else the settings for all agents.
    fn agent_config(&self, general: &Self) -> AgentConfig {
        let limit = |key| {
            let limit = self.seconds(key).or_else(|| general.seconds(key));
            limit.filter(|limit| !limit.is_zero())
        };
        let permissions = self
            .get("permissions")
            .or_else(|| general.get("permissions"));
        let resume_id: Option<String> = self.get("session.resume_id");
        let session = match resume_id.filter(|id| !id.is_empty()) {
            Some(id) => SessionDefault::Selected(id),
            None if self.get("session.continue_last") == Some(true) => {
                SessionDefault::NewestInDirectory
            }
            None => SessionDefault::New,
        };
        AgentConfig {
            path: self.get("path"),
            acp_path: self.get("acp_path"),
            transports: self.list("transports"),
            model: self.get("model"),
            mode: self.get("mode"),
            args: self.list("args"),
            env: self.pairs("env"),
            defaults: AgentDefaults {
                permissions: permissions.unwrap_or_default(),
                timeouts: Timeouts {
                    start: limit("timeouts.start").unwrap_or(Timeouts::default().start),
                    first_output: limit("timeouts.first"),
                    silence: limit("timeouts.silence"),
                    turn: limit("timeouts.turn"),
                },
                session,
                model: self.get("model"),
                mode: self.get("mode"),
            },
        }
    }

    /// Returns the policy, without the limits of single agents. Without `compaction.auto`, it depends on whether a
    /// source sets the budget.
    fn policy(&self) -> Policy {
        let budget = self.entry("budget");
        let is_budget_set = budget.is_some_and(|entry| entry.origin != ConfigOrigin::Default);
        let backoff = self.seconds("backoff_seconds").unwrap_or_default();
        Policy {
            error_limit: self.get("error_limit").unwrap_or_default(),
            backoff: SignedDuration::try_from(backoff).unwrap_or_default(),
            context: ContextLimits {
                default_limit: self.get("context_limit").unwrap_or_default(),
                providers: BTreeMap::new(),
                models: self.pairs("context_limits"),
            },
            fallback: self.providers("fallback"),
            compaction: AutoCompaction::from_config(self.get("compaction.auto"), is_budget_set),
        }
    }

    fn to_price(&self) -> Option<Price> {
        let cost = |key| Cost::from_dollars(self.get(key)?);
        let input = cost("input")?;
        Some(Price {
            input,
            output: cost("output")?,
            cached: cost("cached").unwrap_or(input),
        })
    }

    fn to_server(&self, name: &str) -> Option<McpServer> {
        let endpoint = match self.get("command") {
            Some(command) => McpEndpoint::Program {
                command,
                args: self.list("args"),
                env: self.pairs("env"),
            },
            None => McpEndpoint::Http {
                url: self.get("url")?,
                headers: self.pairs("headers"),
            },
        };
        let name = name.to_owned();
        Some(McpServer { name, endpoint })
    }
}

fn parse_value<T: DeserializeOwned>(entry: &ConfigEntry) -> Option<T> {
    serde_json::from_value(json!(entry.value)).ok()
}
