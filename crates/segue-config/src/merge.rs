//! Merge of configuration sources.

use segue_core::agent::RoleRegistry;

use super::key::{AgentKey, ConfigKey};
use super::setting::ConfigLayer;

/// Merges all layers. Later layers have priority.
///
/// In general a setting replaces only itself. Some settings are replaced as a group: the `session` of an agent, an MCP
/// server and the price of a model, because a mix of two sources makes no sense. A setting for all agents also replaces
/// the settings for single agents from layers of lower priority, so that a file never overrides a flag or a variable.
pub fn merge_layers(layers: impl IntoIterator<Item = ConfigLayer>) -> ConfigLayer {
    let mut merged = ConfigLayer::new();
    for layer in layers {
        for key in layer.keys() {
            merged.retain(|lower, _| !should_replace(key, lower));
        }
        merged.extend(layer);
    }
    merged
}

/// Returns `true` if `upper`, from a layer of higher priority, discards `lower`.
fn should_replace(upper: &ConfigKey, lower: &ConfigKey) -> bool {
    let is_session_key =
        |key: &AgentKey| matches!(key, AgentKey::ResumeId | AgentKey::ContinueLast);
    match (upper, lower) {
        (ConfigKey::Permissions, ConfigKey::Agent(_, AgentKey::Permissions))
        | (
            ConfigKey::ContextLimit,
            ConfigKey::Agent(_, AgentKey::ContextLimit) | ConfigKey::ModelLimit(_),
        ) => true,
        (ConfigKey::Timeout(upper), ConfigKey::Agent(_, AgentKey::Timeout(lower))) => {
            upper == lower
        }
        (ConfigKey::Agent(upper_agent, upper), ConfigKey::Agent(lower_agent, lower)) => {
            upper_agent == lower_agent && is_session_key(upper) && is_session_key(lower)
        }
        (ConfigKey::Mcp(upper, _), ConfigKey::Mcp(lower, _))
        | (ConfigKey::Price(upper, _), ConfigKey::Price(lower, _)) => upper == lower,
        _ => upper == lower,
    }
}

/// Removes the settings that need the user's trust from a project's layer, given the roles without the project. Returns
/// the removed keys.
pub fn remove_keys_needing_trust(layer: &mut ConfigLayer, roles: &RoleRegistry) -> Vec<ConfigKey> {
    let key_needing_trust = |(key, entry): (&ConfigKey, &super::ConfigEntry)| {
        let reason = key.trust_reason(&entry.value, roles);
        reason.is_some().then(|| key.clone())
    };
    let withheld: Vec<ConfigKey> = layer.iter().filter_map(key_needing_trust).collect();
    for key in &withheld {
        layer.remove(key);
    }
    withheld
}
