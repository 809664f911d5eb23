//! The keys of all settings.

use std::fmt;

use segue_agents::known::KNOWN_AGENTS;
use segue_core::agent::{PermissionPolicy, RoleRegistry};
use segue_core::id::ProviderId;
use segue_core::scope::RoleName;

use super::setting::{ConfigValue, format_toml_key};

/// Value that selects no agent at all.
pub const NO_AGENT: &str = "none";

/// A setting. The order of the variants is the order of the output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigKey {
    Prefer,
    /// Providers to use while an agent is in cooldown.
    Fallback,
    Permissions,
    /// Maximum number of tokens of a brief and its prompt.
    Budget,
    /// Switch for automatic compaction.
    CompactionAuto,
    /// Provider that refines checkpoints.
    Summariser,
    /// Number of consecutive failures that ends a native session.
    ErrorLimit,
    /// Time without prompts after a failure.
    Backoff,
    /// Maximum context of a native session, in tokens.
    ContextLimit,
    Timeout(TimeoutPhase),
    Agent(ConfiguredAgent, AgentKey),
    Mcp(String, McpKey),
    /// Price of the models whose name begins with this prefix.
    Price(String, PriceKey),
    /// Maximum context of a native session for the models whose name begins with this prefix.
    ModelLimit(String),
    /// A setting of an agent's role.
    Role(RoleName, RoleKey),
}

/// Phase of a turn that has a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeoutPhase {
    Start,
    FirstOutput,
    Silence,
    Turn,
}

/// An agent that can be configured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfiguredAgent {
    Claude,
    Codex,
    Gemini,
    /// Any other ACP agent, by its name in the configuration.
    Acp(String),
}

/// A setting of one agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKey {
    Path,
    AcpPath,
    Transports,
    Model,
    Mode,
    Args,
    Permissions,
    ContextLimit,
    Timeout(TimeoutPhase),
    ResumeId,
    ContinueLast,
    Env(String),
}

/// A setting of one MCP server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum McpKey {
    Command,
    Args,
    Url,
    Env(String),
    Header(String),
}

/// Kind of tokens that has a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriceKey {
    Input,
    Output,
    Cached,
}

/// A setting of one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleKey {
    Role,
    Instructions,
    AllowedTools,
    ToolInstructions,
}

impl RoleKey {
    pub const ALL: [Self; 4] = [
        Self::Role,
        Self::Instructions,
        Self::AllowedTools,
        Self::ToolInstructions,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Instructions => "instructions",
            Self::AllowedTools => "allowed_tools",
            Self::ToolInstructions => "tool_instructions",
        }
    }
}

impl PriceKey {
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Cached];

    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Cached => "cached",
        }
    }
}

impl TimeoutPhase {
    pub const ALL: [Self; 4] = [Self::Start, Self::FirstOutput, Self::Silence, Self::Turn];

    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::FirstOutput => "first",
            Self::Silence => "silence",
            Self::Turn => "turn",
        }
    }
}

impl ConfiguredAgent {
    /// Agents that need no configuration, in the default order.
    pub const BUILT_IN: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// Returns the known agent of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            "gemini" => Some(Self::Gemini),
            _ => None,
        }
    }

    /// Returns the name of the provider.
    pub fn name(&self) -> String {
        match self {
            Self::Claude => "claude".into(),
            Self::Codex => "codex".into(),
            Self::Gemini => "gemini".into(),
            Self::Acp(name) => format!("acp:{name}"),
        }
    }

    /// Returns the provider. `None` if the name is not valid for a provider.
    pub fn provider_id(&self) -> Option<ProviderId> {
        ProviderId::parse(&self.name()).ok()
    }

    /// Returns the default name of the agent's program.
    pub fn default_program(&self) -> Option<&'static str> {
        let name = self.name();
        let known_agent = KNOWN_AGENTS
            .iter()
            .find(|candidate| candidate.provider == name);
        known_agent.map(|known_agent| known_agent.program)
    }

    /// Returns the names of the agent's transports.
    pub fn transports(&self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["stream-json", "acp"],
            Self::Codex => &["app-server", "exec", "acp"],
            Self::Gemini => &["acp", "stream-json", "json"],
            Self::Acp(_) => &["acp"],
        }
    }

    /// Returns `true` if a separate program provides ACP for the agent.
    pub fn has_acp_adapter(&self) -> bool {
        matches!(self, Self::Claude | Self::Codex)
    }
}

impl ConfigKey {
    /// Returns the names from the outermost table to the setting.
    pub fn toml_path(&self) -> Vec<&str> {
        match self {
            Self::Prefer => vec!["prefer"],
            Self::Fallback => vec!["fallback"],
            Self::Permissions => vec!["permissions"],
            Self::Budget => vec!["budget"],
            Self::CompactionAuto => vec!["compaction", "auto"],
            Self::Summariser => vec!["compaction", "summariser"],
            Self::ErrorLimit => vec!["error_limit"],
            Self::Backoff => vec!["backoff_seconds"],
            Self::ContextLimit => vec!["context_limit"],
            Self::ModelLimit(model) => vec!["context_limits", model],
            Self::Timeout(phase) => vec!["timeouts", phase.name()],
            Self::Agent(agent, key) => {
                let mut path = match agent {
                    ConfiguredAgent::Claude => vec!["claude"],
                    ConfiguredAgent::Codex => vec!["codex"],
                    ConfiguredAgent::Gemini => vec!["gemini"],
                    ConfiguredAgent::Acp(name) => vec!["acp", name],
                };
                match key {
                    AgentKey::Path => path.push("path"),
                    AgentKey::AcpPath => path.push("acp_path"),
                    AgentKey::Transports => path.push("transports"),
                    AgentKey::Model => path.push("model"),
                    AgentKey::Mode => path.push("mode"),
                    AgentKey::Args => path.push("args"),
                    AgentKey::Permissions => path.push("permissions"),
                    AgentKey::ContextLimit => path.push("context_limit"),
                    AgentKey::Timeout(phase) => path.extend(["timeouts", phase.name()]),
                    AgentKey::ResumeId => path.extend(["session", "resume_id"]),
                    AgentKey::ContinueLast => path.extend(["session", "continue_last"]),
                    AgentKey::Env(name) => path.extend(["env", name.as_str()]),
                }
                path
            }
            Self::Mcp(server, key) => {
                let mut path = vec!["mcp", server];
                match key {
                    McpKey::Command => path.push("command"),
                    McpKey::Args => path.push("args"),
                    McpKey::Url => path.push("url"),
                    McpKey::Env(name) => path.extend(["env", name.as_str()]),
                    McpKey::Header(name) => path.extend(["headers", name.as_str()]),
                }
                path
            }
            Self::Price(model, key) => vec!["prices", model, key.name()],
            Self::Role(role, key) => vec!["roles", role.as_str(), key.name()],
        }
    }

    /// Returns the reason why a project needs the user's trust to set this value, given the roles without the project.
    /// `None` if it needs none.
    pub fn trust_reason(&self, value: &ConfigValue, roles: &RoleRegistry) -> Option<&'static str> {
        // A project may always deny all permissions, because that can do no harm.
        let denies_all = *value == ConfigValue::Policy(PermissionPolicy::Deny);
        match self {
            Self::Role(role, RoleKey::AllowedTools) => match value {
                ConfigValue::TextList(tools) if roles.is_tool_expansion(role, tools) => {
                    Some("additional tools for the role")
                }
                _ => None,
            },
            Self::Prefer
            | Self::Budget
            | Self::CompactionAuto
            | Self::Role(..)
            | Self::Timeout(_)
            | Self::Price(..)
            | Self::ErrorLimit
            | Self::Backoff
            | Self::ContextLimit
            | Self::ModelLimit(_) => None,
            // No fallback and no summariser can do no harm.
            Self::Fallback if *value == ConfigValue::TextList(Vec::new()) => None,
            Self::Fallback => Some("agents that receive the session during a cooldown"),
            Self::Summariser if *value == ConfigValue::Text(NO_AGENT.to_owned()) => None,
            Self::Summariser => Some("an agent that receives the session to summarise it"),
            Self::Permissions | Self::Agent(_, AgentKey::Permissions) if denies_all => None,
            Self::Permissions | Self::Agent(_, AgentKey::Permissions | AgentKey::Mode) => {
                Some("what an agent may do without asking")
            }
            Self::Agent(_, AgentKey::Path | AgentKey::AcpPath) => Some("a program to start"),
            Self::Agent(_, AgentKey::Args) => Some("arguments of a program"),
            Self::Agent(_, AgentKey::Env(_)) => Some("the environment of a program"),
            // Some transports cannot ask for permission.
            Self::Agent(_, AgentKey::Transports) => Some("how segue communicates with the agent"),
            Self::Agent(_, AgentKey::ResumeId) => Some("the session that prompts go to"),
            Self::Agent(
                agent,
                AgentKey::Model
                | AgentKey::Timeout(_)
                | AgentKey::ContinueLast
                | AgentKey::ContextLimit,
            ) => matches!(agent, ConfiguredAgent::Acp(_)).then_some("an additional agent"),
            Self::Mcp(..) => Some("an MCP server for the agents"),
        }
    }

    /// Returns `true` if the value must not be printed.
    pub fn is_secret(&self) -> bool {
        const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION"];
        match self {
            Self::Agent(_, AgentKey::Env(name))
            | Self::Mcp(_, McpKey::Env(name) | McpKey::Header(name)) => {
                let name = name.to_ascii_uppercase();
                SECRET_WORDS.iter().any(|word| name.contains(word))
            }
            Self::Prefer
            | Self::Fallback
            | Self::Permissions
            | Self::Budget
            | Self::CompactionAuto
            | Self::Summariser
            | Self::ErrorLimit
            | Self::Backoff
            | Self::ContextLimit
            | Self::ModelLimit(_)
            | Self::Timeout(_)
            | Self::Agent(..)
            | Self::Mcp(..)
            | Self::Price(..)
            | Self::Role(..) => false,
        }
    }
}

/// Writes the path with dots, as in TOML.
impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<String> = self.toml_path().into_iter().map(format_toml_key).collect();
        f.write_str(&path.join("."))
    }
}
