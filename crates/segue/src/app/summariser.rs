//! Setup of the summariser: an agent as configured, but without tools.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segue_core::id::ProviderId;
use segue_engine::Summariser;
use segue_providers::{Agent, Provider};

use super::build_agents;
use crate::config::{AgentConfig, Config, ConfiguredAgent};
use crate::error::CliError;

/// Timeout of an answer if the configuration sets no timeout for turns.
const DEFAULT_SUMMARY_TIMEOUT: Duration = Duration::from_mins(5);

/// Builds the summariser of this name. Fails if the agent is not installed.
pub(crate) fn build_summariser(
    home: &Path,
    config: &Config,
    name: &ProviderId,
) -> Result<Summariser, CliError> {
    let mut toolless_config = config.clone();
    for (configured_agent, agent) in &mut toolless_config.agents {
        remove_tools(configured_agent, agent);
    }
    let mut providers = build_agents(home, &toolless_config).into_iter();
    let matching: Option<Arc<Provider>> = providers.find(|agent| agent.provider() == name);
    let agent = matching.ok_or_else(|| {
        CliError::usage(format!(
            "cannot use `{name}` as summariser: agent not found on this machine"
        ))
        .with_hint("run `segue doctor` to list available agents, or use `--summariser none`")
    })?;
    Ok(Summariser {
        timeout: agent
            .defaults()
            .timeouts
            .turn
            .unwrap_or(DEFAULT_SUMMARY_TIMEOUT),
        agent,
    })
}

/// Removes an agent's tools, because the summariser reads text from others and must not act on it. Disables the
/// built-in tools if the program has a switch for that, and drops the mode and the arguments that let it work without
/// permission.
fn remove_tools(configured_agent: &ConfiguredAgent, agent: &mut AgentConfig) {
    agent.mode = None;
    agent.args = match configured_agent {
        ConfiguredAgent::Claude => ["--tools=", "--strict-mcp-config"]
            .map(str::to_owned)
            .to_vec(),
        ConfiguredAgent::Codex | ConfiguredAgent::Gemini => Vec::new(),
        // The arguments start the program in ACP mode.
        ConfiguredAgent::Acp(_) => std::mem::take(&mut agent.args),
    };
}
