//! Providers that can be configured.

use segue_core::id::ProviderId;
use segue_providers::find_provider;

/// Properties of a provider that its settings depend on.
pub(crate) struct ConfigurableProvider {
    pub(crate) name: &'static str,
    /// Path of the table with its settings.
    pub(crate) table: &'static str,
    /// Names of its transports, in the default order.
    pub(crate) transports: &'static [&'static str],
    /// Whether a separate program provides ACP for it.
    pub(crate) has_acp_adapter: bool,
}

/// Providers in the default order. The last one stands for all agents in `[acp.NAME]`.
pub(crate) static CONFIGURABLE_PROVIDERS: [ConfigurableProvider; 4] = [
    ConfigurableProvider {
        name: "claude",
        table: "claude",
        transports: &["stream-json", "acp"],
        has_acp_adapter: true,
    },
    ConfigurableProvider {
        name: "codex",
        table: "codex",
        transports: &["app-server", "exec", "acp"],
        has_acp_adapter: true,
    },
    ConfigurableProvider {
        name: "gemini",
        table: "gemini",
        transports: &["acp", "stream-json", "json"],
        has_acp_adapter: false,
    },
    ConfigurableProvider {
        name: "acp",
        table: "acp.NAME",
        transports: &["acp"],
        has_acp_adapter: false,
    },
];

impl ConfigurableProvider {
    /// Returns `true` for a provider that needs no configuration.
    pub(crate) fn is_built_in(&self) -> bool {
        self.name == self.table
    }
}

/// An agent that can be configured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfiguredAgent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Any other ACP agent, by its name in the configuration.
    Acp(String),
}

impl ConfiguredAgent {
    /// Agents that need no configuration, in the default order.
    pub const BUILT_IN: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// Returns the known agent of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut agents = Self::BUILT_IN.into_iter();
        agents.find(|agent| agent.name() == name)
    }

    /// Returns the agent whose native sessions have this provider name.
    #[must_use]
    pub fn for_native(name: &str) -> Self {
        Self::from_name(name).unwrap_or_else(|| Self::Acp(name.to_owned()))
    }

    /// Returns the name of the provider.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Claude => "claude".into(),
            Self::Codex => "codex".into(),
            Self::Gemini => "gemini".into(),
            Self::Acp(name) => format!("acp:{name}"),
        }
    }

    /// Returns the provider. `None` if the name is not valid for a provider.
    #[must_use]
    pub fn provider_id(&self) -> Option<ProviderId> {
        ProviderId::parse(&self.name()).ok()
    }

    /// Returns the default name of the agent's program.
    #[must_use]
    pub fn default_program(&self) -> Option<&'static str> {
        find_provider(&self.name()).map(|descriptor| descriptor.program)
    }
}
