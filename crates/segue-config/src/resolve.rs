//! Effective configuration as typed data.
//!
//! The merged settings are converted to the [`SettingValues`], whose fields have the names of the settings. A setting
//! without a field, and a field without a setting of its type, fail the tests.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use segue_agents::{AgentDefaults, SessionDefault, Timeouts};
use segue_core::agent::{McpEndpoint, McpServer, PermissionPolicy, RoleOverride, RoleRegistry};
use segue_core::id::ProviderId;
use segue_core::policy::{AutoCompaction, ContextLimits, Policy};
use segue_core::scope::RoleName;
use segue_core::spend::{Cost, Price, Prices};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::key::NO_AGENT;
use crate::layer::{ConfigLayer, ConfigOrigin};
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    #[serde(deserialize_with = "deserialize_pairs")]
    pub env: Vec<(String, String)>,
    /// Values that apply if a request gives none.
    #[serde(skip)]
    pub defaults: AgentDefaults,
    permissions: Option<PermissionPolicy>,
    context_limit: Option<u64>,
    timeouts: TimeoutValues,
    session: SessionValues,
}

/// Values of all settings.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SettingValues {
    prefer: Vec<String>,
    fallback: Vec<String>,
    permissions: PermissionPolicy,
    budget: u64,
    error_limit: u32,
    backoff_seconds: SecondsValue,
    context_limit: u64,
    compaction: CompactionValues,
    timeouts: TimeoutValues,
    /// Settings of each agent, by the name of the provider.
    agents: BTreeMap<String, AgentConfig>,
    mcp: BTreeMap<String, ServerValues>,
    prices: BTreeMap<String, PriceValues>,
    context_limits: BTreeMap<String, u64>,
    roles: BTreeMap<String, RoleValues>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactionValues {
    auto: Option<bool>,
    summariser: Option<String>,
}

/// Timeouts, 0 for no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeoutValues {
    start: Option<SecondsValue>,
    first: Option<SecondsValue>,
    silence: Option<SecondsValue>,
    turn: Option<SecondsValue>,
}

/// A number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "f64")]
struct SecondsValue(Duration);

impl From<f64> for SecondsValue {
    fn from(seconds: f64) -> Self {
        Self(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SessionValues {
    resume_id: String,
    continue_last: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerValues {
    command: Option<String>,
    args: Vec<String>,
    #[serde(deserialize_with = "deserialize_pairs")]
    env: Vec<(String, String)>,
    url: Option<String>,
    #[serde(deserialize_with = "deserialize_pairs")]
    headers: Vec<(String, String)>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceValues {
    input: Option<f64>,
    output: Option<f64>,
    cached: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleValues {
    role: Option<String>,
    instructions: Option<Vec<String>>,
    allowed_tools: Option<Vec<String>>,
    tool_instructions: Option<String>,
}

impl Config {
    /// Builds the configuration from the merged settings. Fails if the definition of a setting does not match its
    /// field.
    pub(crate) fn from_settings(settings: &ConfigLayer) -> Result<Self, serde_json::Error> {
        let mut values: SettingValues = serde_json::from_value(nest_values(settings))?;
        for agent in ConfiguredAgent::BUILT_IN {
            values.agents.entry(agent.name()).or_default();
        }
        let is_budget_set = settings.iter().any(|(key, entry)| {
            key.toml_path() == ["budget"] && entry.origin != ConfigOrigin::Default
        });
        let mut agents = BTreeMap::new();
        for (name, agent) in &values.agents {
            let configured_agent = match name.strip_prefix("acp:") {
                // Without a program, the agent cannot be used.
                Some(_) if agent.path.is_none() => None,
                Some(acp_name) => Some(ConfiguredAgent::Acp(acp_name.to_owned())),
                None => ConfiguredAgent::from_name(name),
            };
            let defaults = values.agent_defaults(agent);
            let config = AgentConfig {
                defaults,
                ..agent.clone()
            };
            agents.extend(configured_agent.map(|configured_agent| (configured_agent, config)));
        }
        let summariser = values.compaction.summariser.iter();
        let prices = values.prices.iter();
        let servers = values.mcp.iter();
        Ok(Self {
            preferred_providers: parse_providers(&values.prefer).collect(),
            defaults: values.agent_defaults(&AgentConfig::default()),
            agents,
            mcp_servers: servers
                .filter_map(|(name, server)| server.to_server(name))
                .collect(),
            budget: values.budget,
            prices: prices
                .filter_map(|(model, price)| Some((model.clone(), price.to_price()?)))
                .collect(),
            policy: values.policy(is_budget_set),
            summariser: parse_providers(summariser.filter(|name| *name != NO_AGENT)).next(),
            roles: to_roles(values.roles),
        })
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
    Config::from_settings(settings).map_or_else(|_| RoleRegistry::default(), |config| config.roles)
}

/// Converts the settings to nested objects. The settings of agents are in `agents`, by the name of the provider.
fn nest_values(settings: &ConfigLayer) -> Value {
    let mut root = json!({});
    for (key, entry) in settings {
        let path = key.toml_path();
        let depth = key.setting_place().table_depth;
        let provider = key.setting_place().provider.map(|_| {
            path.iter()
                .take(depth)
                .copied()
                .collect::<Vec<_>>()
                .join(":")
        });
        let names = match &provider {
            Some(provider) => ["agents", provider.as_str()]
                .into_iter()
                .chain(path.iter().skip(depth).copied())
                .collect(),
            None => path,
        };
        let mut object = &mut root;
        for name in names {
            if !object.is_object() {
                *object = json!({});
            }
            object = &mut object[name];
        }
        *object = json!(entry.value);
    }
    root
}

fn parse_providers<'a>(
    names: impl IntoIterator<Item = &'a String>,
) -> impl Iterator<Item = ProviderId> {
    let names = names.into_iter();
    names.filter_map(|name| ProviderId::parse(name).ok())
}

fn deserialize_pairs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let pairs: BTreeMap<String, String> = Deserialize::deserialize(deserializer)?;
    Ok(pairs.into_iter().collect())
}

impl SettingValues {
    /// Returns the defaults of requests: the agent's own settings, else the settings for all agents.
    fn agent_defaults(&self, agent: &AgentConfig) -> AgentDefaults {
        let limit = |own: Option<SecondsValue>, general: Option<SecondsValue>| {
            let SecondsValue(limit) = own.or(general)?;
            (!limit.is_zero()).then_some(limit)
        };
        let (own, general) = (&agent.timeouts, &self.timeouts);
        let session = match &agent.session {
            SessionValues { resume_id, .. } if !resume_id.is_empty() => {
                SessionDefault::Selected(resume_id.clone())
            }
            session if session.continue_last => SessionDefault::NewestInDirectory,
            _ => SessionDefault::New,
        };
        AgentDefaults {
            permissions: agent.permissions.unwrap_or(self.permissions),
            timeouts: Timeouts {
                start: limit(own.start, general.start).unwrap_or(Timeouts::default().start),
                first_output: limit(own.first, general.first),
                silence: limit(own.silence, general.silence),
                turn: limit(own.turn, general.turn),
            },
            session,
            model: agent.model.clone(),
            mode: agent.mode.clone(),
        }
    }

    /// Returns the policy. Without `compaction.auto`, it depends on whether a source sets the budget.
    fn policy(&self, is_budget_set: bool) -> Policy {
        let limits = self.agents.iter().filter_map(|(name, agent)| {
            Some((ProviderId::parse(name).ok()?, agent.context_limit?))
        });
        Policy {
            error_limit: self.error_limit,
            backoff: SignedDuration::try_from(self.backoff_seconds.0).unwrap_or_default(),
            context: ContextLimits {
                default_limit: self.context_limit,
                providers: limits.collect(),
                models: self.context_limits.clone(),
            },
            fallback: parse_providers(&self.fallback).collect(),
            compaction: AutoCompaction::from_config(self.compaction.auto, is_budget_set),
        }
    }
}

impl PriceValues {
    fn to_price(&self) -> Option<Price> {
        let input = Cost::from_dollars(self.input?)?;
        Some(Price {
            input,
            output: Cost::from_dollars(self.output?)?,
            cached: self.cached.and_then(Cost::from_dollars).unwrap_or(input),
        })
    }
}

impl ServerValues {
    fn to_server(&self, name: &str) -> Option<McpServer> {
        let endpoint = match &self.command {
            Some(command) => McpEndpoint::Program {
                command: command.clone(),
                args: self.args.clone(),
                env: self.env.clone(),
            },
            None => McpEndpoint::Http {
                url: self.url.clone()?,
                headers: self.headers.clone(),
            },
        };
        let name = name.to_owned();
        Some(McpServer { name, endpoint })
    }
}

fn to_roles(values: BTreeMap<String, RoleValues>) -> RoleRegistry {
    let mut roles = RoleRegistry::default();
    for (name, values) in values {
        if let Ok(name) = RoleName::parse(&name) {
            let role_override = RoleOverride {
                description: values.role,
                instructions: values.instructions,
                allowed_tools: values.allowed_tools,
                tool_instructions: values.tool_instructions,
            };
            roles.apply_override(&name, role_override);
        }
    }
    roles
}
