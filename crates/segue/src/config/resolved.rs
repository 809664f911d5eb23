//! Effective configuration as typed data.

mod policy;
mod roles;

use std::collections::BTreeMap;
use std::time::Duration;

use segue_agents::{Defaults, SessionDefault, Timeouts};
use segue_core::agent::{McpReach, McpServer, PermissionPolicy, Roles};
use segue_core::brief::DEFAULT_BUDGET;
use segue_core::id::ProviderId;
use segue_core::policy::Policy;
use segue_core::spend::Cost;
use segue_core::spend::{Price, Prices};

use super::Flags;
use super::key::{AgentKey, Key, McpKey, NOBODY, PriceKey, Wait, Who};
use super::problem::{Place, Problem, Wrong};
use super::value::{Entry, Layer, Origin, Value};
pub(crate) use roles::roles;

/// The effective configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Config {
    /// Providers in the order in which segue chooses one, if the user names none.
    pub(crate) prefer: Vec<ProviderId>,
    /// Defaults for agents that are not configured.
    pub(crate) defaults: Defaults,
    /// Known agents, and the user's own agents that have a `path`.
    pub(crate) agents: BTreeMap<Who, AgentConfig>,
    /// MCP servers that agents receive.
    pub(crate) mcp: Vec<McpServer>,
    /// Maximum number of tokens of a brief and its prompt.
    pub(crate) budget: u64,
    /// Prices of models.
    pub(crate) prices: Prices,
    /// Policy for failures, cooldowns and context limits of agents.
    pub(crate) policy: Policy,
    /// Available roles of agents.
    pub(crate) roles: Roles,
    /// Provider that refines checkpoints. `None` if no agent does.
    pub(crate) summariser: Option<ProviderId>,
}

/// Configuration of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AgentConfig {
    /// Program of the agent, as an absolute path or a name on `PATH`.
    pub(crate) path: Option<String>,
    /// Program that provides ACP for the agent, as an absolute path or a name on `PATH`.
    pub(crate) acp_path: Option<String>,
    pub(crate) transports: Vec<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) defaults: Defaults,
}

/// Returns the default settings.
pub(crate) fn defaults() -> Layer {
    let timeouts = Timeouts::default();
    let known = Who::KNOWN.iter().map(Who::name).collect();
    let mut values = vec![
        (Key::Prefer, Value::Texts(known)),
        (Key::Permissions, Value::Policy(PermissionPolicy::default())),
        (Key::Budget, Value::Count(DEFAULT_BUDGET)),
    ];
    values.extend(policy::defaults());
    for wait in Wait::ALL {
        let time = match wait {
            Wait::Start => Some(timeouts.start),
            Wait::First => timeouts.first,
            Wait::Silence => timeouts.silence,
            Wait::Turn => timeouts.turn,
        };
        values.push((Key::Timeout(wait), Value::Seconds(time.unwrap_or_default())));
    }
    from(values, &Origin::Default)
}

/// Returns the settings from the command line.
pub(crate) fn typed(flags: &Flags) -> Layer {
    let policy = flags
        .permissions
        .map(|policy| (Key::Permissions, Value::Policy(policy)));
    let start = flags
        .start
        .map(|time| (Key::Timeout(Wait::Start), Value::Seconds(time)));
    let mut layer = from(policy, &Origin::Flag("--permissions"));
    layer.extend(from(start, &Origin::Flag("--open-timeout")));
    layer
}

fn from(values: impl IntoIterator<Item = (Key, Value)>, origin: &Origin) -> Layer {
    let entry = |value| Entry {
        value,
        origin: origin.clone(),
    };
    values
        .into_iter()
        .map(|(key, value)| (key, entry(value)))
        .collect()
}

/// Returns the problems of settings that no source completes.
pub(crate) fn gaps(settings: &Layer) -> Vec<Problem> {
    let mut problems = Vec::new();
    let has_path =
        |name: &str| settings.contains_key(&Key::Agent(Who::Acp(name.to_owned()), AgentKey::Path));
    let mut told = None;
    for (key, entry) in settings {
        if let Key::Agent(Who::Acp(name), _) = key
            && !has_path(name)
            && told != Some(name)
        {
            told = Some(name);
            let wrong = Wrong::new(format!(
                "acp.{name} has no `path`: nobody says which program it is"
            ));
            problems.extend(at(entry, wrong));
        }
        let names = match (key, &entry.value) {
            (Key::Prefer | Key::Fallback, Value::Texts(names)) => names.as_slice(),
            (Key::Summariser, Value::Text(name)) => std::slice::from_ref(name),
            _ => &[],
        };
        let acp = names.iter().filter_map(|name| name.strip_prefix("acp:"));
        for name in acp.filter(|name| !has_path(name)) {
            let wrong = Wrong::new(format!("{key}: there is no agent acp:{name}"));
            let hint = format!("configure it as [acp.{name}], with a `path`");
            problems.extend(at(entry, wrong.hint(hint)));
        }
    }
    problems.extend(roles::gaps(settings));
    problems
}

/// Locates a problem at the origin of the entry. `None` for a default or a flag.
fn at(entry: &Entry, wrong: Wrong) -> Option<Problem> {
    let place = match &entry.origin {
        Origin::File { path, line, column } => Place::At {
            path: path.clone(),
            line: *line,
            column: *column,
        },
        Origin::Environment(name) => Place::Environment(name.clone()),
        Origin::Default | Origin::Flag(_) => return None,
    };
    Some(wrong.at(place))
}

impl Config {
    /// Builds the configuration from the merged settings.
    pub(crate) fn of(settings: &Layer) -> Self {
        let view = View(settings);
        let mut agents: BTreeMap<Who, AgentConfig> = Who::KNOWN
            .into_iter()
            .map(|who| (who.clone(), view.agent(&who)))
            .collect();
        for key in settings.keys() {
            if let Key::Agent(who @ Who::Acp(_), AgentKey::Path) = key {
                agents.insert(who.clone(), view.agent(who));
            }
        }
        let names = view.texts(&Key::Prefer);
        Self {
            prefer: names
                .iter()
                .filter_map(|name| ProviderId::parse(name).ok())
                .collect(),
            defaults: view.defaults(None),
            agents,
            mcp: view.servers(),
            budget: view.count(&Key::Budget).unwrap_or(DEFAULT_BUDGET),
            prices: view.prices(),
            policy: view.policy(),
            roles: roles(settings),
            summariser: view
                .text(&Key::Summariser)
                .filter(|name| name != NOBODY)
                .and_then(|name| ProviderId::parse(&name).ok()),
        }
    }

    /// Returns the agents in the order in which segue chooses one: the preferred agents, then the others in default
    /// order.
    pub(crate) fn in_order(&self) -> Vec<(ProviderId, &Who, &AgentConfig)> {
        let named = self.agents.iter();
        let mut all: Vec<_> = named
            .filter_map(|(who, agent)| Some((who.provider()?, who, agent)))
            .collect();
        all.sort_by_key(|(provider, _, _)| self.rank(provider));
        all
    }

    /// Returns the position of a provider in the order of preference, `usize::MAX` if it is not listed.
    pub(crate) fn rank(&self, provider: &ProviderId) -> usize {
        let place = self
            .prefer
            .iter()
            .position(|preferred| preferred == provider);
        place.unwrap_or(usize::MAX)
    }
}

/// Typed access to settings.
struct View<'a>(&'a Layer);

impl View<'_> {
    fn value(&self, key: &Key) -> Option<&Value> {
        self.0.get(key).map(|entry| &entry.value)
    }

    fn text(&self, key: &Key) -> Option<String> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn texts(&self, key: &Key) -> Vec<String> {
        match self.value(key) {
            Some(Value::Texts(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the settings for which `name` returns a name, as pairs of that name and a text.
    fn pairs<'k>(&'k self, name: impl Fn(&'k Key) -> Option<&'k String>) -> Vec<(String, String)> {
        let named = self.0.keys().filter_map(|key| Some((name(key)?, key)));
        named
            .filter_map(|(name, key)| Some((name.clone(), self.text(key)?)))
            .collect()
    }

    fn agent(&self, who: &Who) -> AgentConfig {
        let key = |key| Key::Agent(who.clone(), key);
        AgentConfig {
            path: self.text(&key(AgentKey::Path)),
            acp_path: self.text(&key(AgentKey::AcpPath)),
            transports: self.texts(&key(AgentKey::Transports)),
            model: self.text(&key(AgentKey::Model)),
            mode: self.text(&key(AgentKey::Mode)),
            args: self.texts(&key(AgentKey::Args)),
            env: self.pairs(|key| match key {
                Key::Agent(of, AgentKey::Env(name)) if of == who => Some(name),
                _ => None,
            }),
            defaults: self.defaults(Some(who)),
        }
    }

    /// Returns the defaults of requests: the agent's own settings, else the settings for all agents.
    fn defaults(&self, who: Option<&Who>) -> Defaults {
        let own = |key| who.and_then(|who| self.value(&Key::Agent(who.clone(), key)));
        let policy = own(AgentKey::Permissions).or_else(|| self.value(&Key::Permissions));
        let time = |wait| {
            let value = own(AgentKey::Timeout(wait)).or_else(|| self.value(&Key::Timeout(wait)));
            match value {
                Some(Value::Seconds(time)) => *time,
                _ => Duration::ZERO,
            }
        };
        let some = |wait| Some(time(wait)).filter(|time| !time.is_zero());
        let session = match (own(AgentKey::ResumeId), own(AgentKey::ContinueLast)) {
            (Some(Value::Text(id)), _) if !id.is_empty() => SessionDefault::Resume(id.clone()),
            (_, Some(Value::Switch(true))) => SessionDefault::ContinueLast,
            _ => SessionDefault::New,
        };
        Defaults {
            permissions: match policy {
                Some(Value::Policy(policy)) => *policy,
                _ => PermissionPolicy::default(),
            },
            timeouts: Timeouts {
                start: some(Wait::Start).unwrap_or(Timeouts::default().start),
                first: some(Wait::First),
                silence: some(Wait::Silence),
                turn: some(Wait::Turn),
            },
            session,
            model: who.and_then(|who| self.text(&Key::Agent(who.clone(), AgentKey::Model))),
            mode: who.and_then(|who| self.text(&Key::Agent(who.clone(), AgentKey::Mode))),
        }
    }

    fn money(&self, key: &Key) -> Option<Cost> {
        match self.value(key) {
            Some(Value::Money(cost)) => Some(*cost),
            _ => None,
        }
    }

    fn prices(&self) -> Prices {
        let price = |model: &String| {
            let of = |key| self.money(&Key::Price(model.clone(), key));
            let input = of(PriceKey::Input)?;
            Some(Price {
                input,
                output: of(PriceKey::Output)?,
                cached: of(PriceKey::Cached).unwrap_or(input),
            })
        };
        let models = self.0.keys().filter_map(|key| match key {
            Key::Price(model, PriceKey::Input) => Some(model),
            _ => None,
        });
        models
            .filter_map(|model| Some((model.clone(), price(model)?)))
            .collect()
    }

    fn servers(&self) -> Vec<McpServer> {
        let reach = |name: &str, key: &McpKey| match key {
            McpKey::Command => Some(McpReach::Program {
                command: self.text(&Key::Mcp(name.to_owned(), McpKey::Command))?,
                args: self.texts(&Key::Mcp(name.to_owned(), McpKey::Args)),
                env: self.pairs(|key| match key {
                    Key::Mcp(of, McpKey::Env(variable)) if of == name => Some(variable),
                    _ => None,
                }),
            }),
            McpKey::Url => Some(McpReach::Http {
                url: self.text(&Key::Mcp(name.to_owned(), McpKey::Url))?,
                headers: self.pairs(|key| match key {
                    Key::Mcp(of, McpKey::Header(header)) if of == name => Some(header),
                    _ => None,
                }),
            }),
            McpKey::Args | McpKey::Env(_) | McpKey::Header(_) => None,
        };
        let servers = self.0.keys().filter_map(|key| match key {
            Key::Mcp(name, key) => Some(McpServer {
                name: name.clone(),
                reach: reach(name, key)?,
            }),
            _ => None,
        });
        servers.collect()
    }
}
