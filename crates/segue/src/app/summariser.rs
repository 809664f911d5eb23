//! Setup of the summariser: an agent as configured, but without tools.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segue_agents::{Agent, Provider};
use segue_core::id::ProviderId;
use segue_engine::Summariser;

use super::agents;
use crate::config::{AgentConfig, Config, Who};
use crate::error::CliError;

/// Timeout of an answer if the configuration sets no timeout for turns.
const PATIENCE: Duration = Duration::from_mins(5);

/// Builds the summariser of this name. Fails if the agent is not installed.
pub(crate) fn summariser(
    home: &Path,
    config: &Config,
    name: &ProviderId,
) -> Result<Summariser, CliError> {
    let mut bare = config.clone();
    for (who, agent) in &mut bare.agents {
        without_tools(who, agent);
    }
    let mut all = agents(home, &bare).into_iter();
    let found: Option<Arc<Provider>> = all.find(|agent| agent.provider() == name);
    let agent = found.ok_or_else(|| {
        CliError::usage(format!("{name} can't sum up: it is not on this machine")).hint(
            "`segue doctor` shows which agents can be started; `--summariser none` does without",
        )
    })?;
    Ok(Summariser {
        patience: agent.defaults().timeouts.turn.unwrap_or(PATIENCE),
        agent,
    })
}

/// Removes an agent's tools, because the summariser reads text from others and must not act on it. Disables the
/// built-in tools if the program has a switch for that, and drops the mode and the arguments that let it work without
/// permission.
fn without_tools(who: &Who, agent: &mut AgentConfig) {
    agent.mode = None;
    agent.args = match who {
        Who::Claude => ["--tools=", "--strict-mcp-config"]
            .map(str::to_owned)
            .to_vec(),
        Who::Codex | Who::Gemini => Vec::new(),
        // The arguments start the program in ACP mode.
        Who::Acp(_) => std::mem::take(&mut agent.args),
    };
}
