//! The agent that sums up: as it is configured, but for what would have it work.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use segue_agents::{Agent, Provider};
use segue_core::ProviderId;
use segue_engine::Summariser;

use super::agents;
use crate::config::{AgentConfig, Config, Who};
use crate::error::CliError;

/// How long an answer may take where the configuration does not say how long a turn may.
const PATIENCE: Duration = Duration::from_mins(5);

/// The summariser of this name. An agent that is not there is an error that says so.
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

/// It reads what others wrote, so that it gets nothing to do harm with: its own tools are off where its program has a
/// switch for that, and neither a mode nor arguments that let it work unasked apply.
fn without_tools(who: &Who, agent: &mut AgentConfig) {
    agent.mode = None;
    agent.args = match who {
        Who::Claude => ["--tools=", "--strict-mcp-config"]
            .map(str::to_owned)
            .to_vec(),
        Who::Codex | Who::Gemini => Vec::new(),
        // By these it speaks ACP at all.
        Who::Acp(_) => std::mem::take(&mut agent.args),
    };
}
