//! Settings from environment variables.

use std::ffi::OsString;

use super::key::{AgentKey, ConfigKey, ConfiguredAgent, TimeoutPhase};
use super::problem::{ConfigProblem, ProblemLocation, ValueError};
use super::setting::{ConfigEntry, ConfigLayer, ConfigOrigin};
use super::validate::{PathBase, UncheckedValue, validate_value};

/// Returns the supported variables, each with its setting.
pub fn supported_variables() -> Vec<(String, ConfigKey)> {
    let mut variables = vec![
        ("SEGUE_PERMISSIONS".to_owned(), ConfigKey::Permissions),
        (
            "SEGUE_OPEN_TIMEOUT".to_owned(),
            ConfigKey::Timeout(TimeoutPhase::Start),
        ),
    ];
    for agent in ConfiguredAgent::BUILT_IN {
        let agent_variables = [
            ("PATH", AgentKey::Path),
            ("ACP_PATH", AgentKey::AcpPath),
            ("TRANSPORTS", AgentKey::Transports),
            ("MODEL", AgentKey::Model),
        ];
        for (suffix, key) in agent_variables {
            if key != AgentKey::AcpPath || agent.has_acp_adapter() {
                let name = format!("SEGUE_{}_{suffix}", agent.name().to_uppercase());
                variables.push((name, ConfigKey::Agent(agent.clone(), key)));
            }
        }
    }
    variables
}

/// Reads the settings of the environment. An empty variable counts as not set.
pub fn read_variables(
    env_var: impl Fn(&str) -> Option<OsString>,
    base: &PathBase,
) -> (ConfigLayer, Vec<ConfigProblem>) {
    let (mut layer, mut problems) = (ConfigLayer::new(), Vec::new());
    for (name, key) in supported_variables() {
        let Some(value) = env_var(&name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let value = match value.into_string() {
            Ok(text) => validate_value(&key, to_unchecked_value(&key, text), base),
            Err(_) => Err(ValueError::new("invalid UTF-8")),
        };
        match value {
            Ok(value) => {
                let origin = ConfigOrigin::Environment(name);
                layer.insert(key, ConfigEntry { value, origin });
            }
            Err(error) => problems.push(error.into_problem(ProblemLocation::Environment(name))),
        }
    }
    (layer, problems)
}

/// Converts the text of a variable to the type that the setting expects.
fn to_unchecked_value(key: &ConfigKey, text: String) -> UncheckedValue {
    match key {
        ConfigKey::Agent(_, AgentKey::Transports) => {
            UncheckedValue::TextList(text.split(',').map(|name| name.trim().to_owned()).collect())
        }
        ConfigKey::Timeout(_) => match text.parse() {
            Ok(number) => UncheckedValue::Number(number),
            Err(_) => UncheckedValue::Text(text),
        },
        ConfigKey::Prefer
        | ConfigKey::Fallback
        | ConfigKey::Permissions
        | ConfigKey::Budget
        | ConfigKey::CompactionAuto
        | ConfigKey::Summariser
        | ConfigKey::ErrorLimit
        | ConfigKey::Backoff
        | ConfigKey::ContextLimit
        | ConfigKey::ModelLimit(_)
        | ConfigKey::Agent(..)
        | ConfigKey::Mcp(..)
        | ConfigKey::Price(..)
        | ConfigKey::Role(..) => UncheckedValue::Text(text),
    }
}
