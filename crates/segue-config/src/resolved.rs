//! Effective configuration as typed data.

mod policy;
mod roles;

use std::collections::BTreeMap;
use std::time::Duration;

use segue_agents::{AgentDefaults, SessionDefault, Timeouts};
use segue_core::agent::{McpEndpoint, McpServer, PermissionPolicy, RoleRegistry};
use segue_core::brief::DEFAULT_BUDGET_TOKENS;
use segue_core::id::ProviderId;
use segue_core::policy::Policy;
use segue_core::spend::Cost;
use segue_core::spend::{Price, Prices};

use super::ConfigFlags;
use super::key::{AgentKey, ConfigKey, ConfiguredAgent, McpKey, NO_AGENT, PriceKey, TimeoutPhase};
use super::problem::{ConfigProblem, ProblemLocation, ValueError};
use super::setting::{ConfigEntry, ConfigLayer, ConfigOrigin, ConfigValue};
pub use roles::resolve_roles;

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
    pub transports: Vec<String>,
    pub model: Option<String>,
    pub mode: Option<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub defaults: AgentDefaults,
}

/// Returns the default settings.
pub fn default_settings() -> ConfigLayer {
    let timeouts = Timeouts::default();
    let agent_names = ConfiguredAgent::BUILT_IN
        .iter()
        .map(ConfiguredAgent::name)
        .collect();
    let mut values = vec![
        (ConfigKey::Prefer, ConfigValue::TextList(agent_names)),
        (
            ConfigKey::Permissions,
            ConfigValue::Policy(PermissionPolicy::default()),
        ),
        (ConfigKey::Budget, ConfigValue::Count(DEFAULT_BUDGET_TOKENS)),
    ];
    values.extend(policy::default_settings());
    for phase in TimeoutPhase::ALL {
        let timeout = match phase {
            TimeoutPhase::Start => Some(timeouts.start),
            TimeoutPhase::FirstOutput => timeouts.first_output,
            TimeoutPhase::Silence => timeouts.silence,
            TimeoutPhase::Turn => timeouts.turn,
        };
        values.push((
            ConfigKey::Timeout(phase),
            ConfigValue::Seconds(timeout.unwrap_or_default()),
        ));
    }
    build_layer(values, &ConfigOrigin::Default)
}

/// Returns the settings from the command line.
pub fn flag_settings(flags: &ConfigFlags) -> ConfigLayer {
    let permissions = flags
        .permissions
        .map(|policy| (ConfigKey::Permissions, ConfigValue::Policy(policy)));
    let start = flags.start_timeout.map(|time| {
        (
            ConfigKey::Timeout(TimeoutPhase::Start),
            ConfigValue::Seconds(time),
        )
    });
    let mut layer = build_layer(permissions, &ConfigOrigin::Flag("--permissions"));
    layer.extend(build_layer(start, &ConfigOrigin::Flag("--open-timeout")));
    layer
}

fn build_layer(
    values: impl IntoIterator<Item = (ConfigKey, ConfigValue)>,
    origin: &ConfigOrigin,
) -> ConfigLayer {
    let to_entry = |value| ConfigEntry {
        value,
        origin: origin.clone(),
    };
    values
        .into_iter()
        .map(|(key, value)| (key, to_entry(value)))
        .collect()
}

/// Returns the problems of settings that no source completes.
pub fn find_incomplete_settings(settings: &ConfigLayer) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let has_path = |name: &str| {
        settings.contains_key(&ConfigKey::Agent(
            ConfiguredAgent::Acp(name.to_owned()),
            AgentKey::Path,
        ))
    };
    let mut last_reported = None;
    for (key, entry) in settings {
        if let ConfigKey::Agent(ConfiguredAgent::Acp(name), _) = key
            && !has_path(name)
            && last_reported != Some(name)
        {
            last_reported = Some(name);
            let error = ValueError::new(format!("acp.{name} needs a `path` to its program"));
            problems.extend(locate_problem(entry, error));
        }
        let names = match (key, &entry.value) {
            (ConfigKey::Prefer | ConfigKey::Fallback, ConfigValue::TextList(names)) => {
                names.as_slice()
            }
            (ConfigKey::Summariser, ConfigValue::Text(name)) => std::slice::from_ref(name),
            _ => &[],
        };
        let acp = names.iter().filter_map(|name| name.strip_prefix("acp:"));
        for name in acp.filter(|name| !has_path(name)) {
            let error = ValueError::new(format!("{key}: unknown agent `acp:{name}`"));
            let hint = format!("configure it as [acp.{name}], with a `path`");
            problems.extend(locate_problem(entry, error.with_hint(hint)));
        }
    }
    problems.extend(roles::find_undescribed_roles(settings));
    problems
}

/// Locates a problem at the origin of the entry. `None` for a default or a flag.
fn locate_problem(entry: &ConfigEntry, error: ValueError) -> Option<ConfigProblem> {
    let location = match &entry.origin {
        ConfigOrigin::File { path, line, column } => ProblemLocation::Position {
            path: path.clone(),
            line: *line,
            column: *column,
        },
        ConfigOrigin::Environment(name) => ProblemLocation::Environment(name.clone()),
        ConfigOrigin::Default | ConfigOrigin::Flag(_) => return None,
    };
    Some(error.into_problem(location))
}

impl Config {
    /// Builds the configuration from the merged settings.
    pub fn from_settings(settings: &ConfigLayer) -> Self {
        let view = SettingsView(settings);
        let mut agents: BTreeMap<ConfiguredAgent, AgentConfig> = ConfiguredAgent::BUILT_IN
            .into_iter()
            .map(|agent| (agent.clone(), view.agent_config(&agent)))
            .collect();
        for key in settings.keys() {
            if let ConfigKey::Agent(agent @ ConfiguredAgent::Acp(_), AgentKey::Path) = key {
                agents.insert(agent.clone(), view.agent_config(agent));
            }
        }
        let names = view.text_list(&ConfigKey::Prefer);
        Self {
            preferred_providers: names
                .iter()
                .filter_map(|name| ProviderId::parse(name).ok())
                .collect(),
            defaults: view.request_defaults(None),
            agents,
            mcp_servers: view.mcp_servers(),
            budget: view
                .count(&ConfigKey::Budget)
                .unwrap_or(DEFAULT_BUDGET_TOKENS),
            prices: view.prices(),
            policy: view.policy(),
            roles: resolve_roles(settings),
            summariser: view
                .text(&ConfigKey::Summariser)
                .filter(|name| name != NO_AGENT)
                .and_then(|name| ProviderId::parse(&name).ok()),
        }
    }

    /// Returns the agents in the order in which segue chooses one: the preferred agents, then the others in default
    /// order.
    pub fn agents_by_preference(&self) -> Vec<(ProviderId, &ConfiguredAgent, &AgentConfig)> {
        let agents = self.agents.iter();
        let mut all: Vec<_> = agents
            .filter_map(|(agent, config)| Some((agent.provider_id()?, agent, config)))
            .collect();
        all.sort_by_key(|(provider, _, _)| self.preference_rank(provider));
        all
    }

    /// Returns the position of a provider in the order of preference, `usize::MAX` if it is not listed.
    pub fn preference_rank(&self, provider: &ProviderId) -> usize {
        let position = self
            .preferred_providers
            .iter()
            .position(|preferred| preferred == provider);
        position.unwrap_or(usize::MAX)
    }
}

/// Typed access to settings.
struct SettingsView<'a>(&'a ConfigLayer);

impl SettingsView<'_> {
    fn value(&self, key: &ConfigKey) -> Option<&ConfigValue> {
        self.0.get(key).map(|entry| &entry.value)
    }

    fn text(&self, key: &ConfigKey) -> Option<String> {
        match self.value(key) {
            Some(ConfigValue::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn text_list(&self, key: &ConfigKey) -> Vec<String> {
        match self.value(key) {
            Some(ConfigValue::TextList(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the settings for which `name` returns a name, as pairs of that name and a text.
    fn named_texts<'k>(
        &'k self,
        name: impl Fn(&'k ConfigKey) -> Option<&'k String>,
    ) -> Vec<(String, String)> {
        let named_keys = self.0.keys().filter_map(|key| Some((name(key)?, key)));
        named_keys
            .filter_map(|(name, key)| Some((name.clone(), self.text(key)?)))
            .collect()
    }

    fn agent_config(&self, agent: &ConfiguredAgent) -> AgentConfig {
        let key = |key| ConfigKey::Agent(agent.clone(), key);
        AgentConfig {
            path: self.text(&key(AgentKey::Path)),
            acp_path: self.text(&key(AgentKey::AcpPath)),
            transports: self.text_list(&key(AgentKey::Transports)),
            model: self.text(&key(AgentKey::Model)),
            mode: self.text(&key(AgentKey::Mode)),
            args: self.text_list(&key(AgentKey::Args)),
            env: self.named_texts(|key| match key {
                ConfigKey::Agent(owner, AgentKey::Env(name)) if owner == agent => Some(name),
                _ => None,
            }),
            defaults: self.request_defaults(Some(agent)),
        }
    }

    /// Returns the defaults of requests: the agent's own settings, else the settings for all agents.
    fn request_defaults(&self, agent: Option<&ConfiguredAgent>) -> AgentDefaults {
        let agent_setting =
            |key| agent.and_then(|agent| self.value(&ConfigKey::Agent(agent.clone(), key)));
        let policy =
            agent_setting(AgentKey::Permissions).or_else(|| self.value(&ConfigKey::Permissions));
        let timeout = |phase| {
            let value = agent_setting(AgentKey::Timeout(phase))
                .or_else(|| self.value(&ConfigKey::Timeout(phase)));
            match value {
                Some(ConfigValue::Seconds(duration)) => *duration,
                _ => Duration::ZERO,
            }
        };
        let enabled_timeout = |phase| Some(timeout(phase)).filter(|timeout| !timeout.is_zero());
        let session = match (
            agent_setting(AgentKey::ResumeId),
            agent_setting(AgentKey::ContinueLast),
        ) {
            (Some(ConfigValue::Text(id)), _) if !id.is_empty() => {
                SessionDefault::Selected(id.clone())
            }
            (_, Some(ConfigValue::Bool(true))) => SessionDefault::NewestInDirectory,
            _ => SessionDefault::New,
        };
        AgentDefaults {
            permissions: match policy {
                Some(ConfigValue::Policy(policy)) => *policy,
                _ => PermissionPolicy::default(),
            },
            timeouts: Timeouts {
                start: enabled_timeout(TimeoutPhase::Start).unwrap_or(Timeouts::default().start),
                first_output: enabled_timeout(TimeoutPhase::FirstOutput),
                silence: enabled_timeout(TimeoutPhase::Silence),
                turn: enabled_timeout(TimeoutPhase::Turn),
            },
            session,
            model: agent
                .and_then(|agent| self.text(&ConfigKey::Agent(agent.clone(), AgentKey::Model))),
            mode: agent
                .and_then(|agent| self.text(&ConfigKey::Agent(agent.clone(), AgentKey::Mode))),
        }
    }

    fn cost(&self, key: &ConfigKey) -> Option<Cost> {
        match self.value(key) {
            Some(ConfigValue::Money(cost)) => Some(*cost),
            _ => None,
        }
    }

    fn prices(&self) -> Prices {
        let price = |model: &String| {
            let cost_for = |key| self.cost(&ConfigKey::Price(model.clone(), key));
            let input = cost_for(PriceKey::Input)?;
            Some(Price {
                input,
                output: cost_for(PriceKey::Output)?,
                cached: cost_for(PriceKey::Cached).unwrap_or(input),
            })
        };
        let models = self.0.keys().filter_map(|key| match key {
            ConfigKey::Price(model, PriceKey::Input) => Some(model),
            _ => None,
        });
        models
            .filter_map(|model| Some((model.clone(), price(model)?)))
            .collect()
    }

    fn mcp_servers(&self) -> Vec<McpServer> {
        let build_endpoint = |name: &str, key: &McpKey| match key {
            McpKey::Command => Some(McpEndpoint::Program {
                command: self.text(&ConfigKey::Mcp(name.to_owned(), McpKey::Command))?,
                args: self.text_list(&ConfigKey::Mcp(name.to_owned(), McpKey::Args)),
                env: self.named_texts(|key| match key {
                    ConfigKey::Mcp(server, McpKey::Env(variable)) if server == name => {
                        Some(variable)
                    }
                    _ => None,
                }),
            }),
            McpKey::Url => Some(McpEndpoint::Http {
                url: self.text(&ConfigKey::Mcp(name.to_owned(), McpKey::Url))?,
                headers: self.named_texts(|key| match key {
                    ConfigKey::Mcp(server, McpKey::Header(header)) if server == name => {
                        Some(header)
                    }
                    _ => None,
                }),
            }),
            McpKey::Args | McpKey::Env(_) | McpKey::Header(_) => None,
        };
        let servers = self.0.keys().filter_map(|key| match key {
            ConfigKey::Mcp(name, key) => Some(McpServer {
                name: name.clone(),
                endpoint: build_endpoint(name, key)?,
            }),
            _ => None,
        });
        servers.collect()
    }
}
