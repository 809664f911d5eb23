//! Merge of configuration sources.

use segue_core::agent::Roles;

use super::key::{AgentKey, Key};
use super::value::Layer;

/// Merges all layers. Later layers have priority.
///
/// In general a setting replaces only itself. Some settings are replaced as a group: the `session` of an agent, an MCP
/// server and the price of a model, because a mix of two sources makes no sense. A setting for all agents also replaces
/// the settings for single agents from layers of lower priority, so that a file never overrides a flag or a variable.
pub(crate) fn merge(layers: impl IntoIterator<Item = Layer>) -> Layer {
    let mut merged = Layer::new();
    for layer in layers {
        for key in layer.keys() {
            merged.retain(|under, _| !replaces(key, under));
        }
        merged.extend(layer);
    }
    merged
}

/// Returns `true` if `over`, from a layer of higher priority, discards `under`.
fn replaces(over: &Key, under: &Key) -> bool {
    let of_session = |key: &AgentKey| matches!(key, AgentKey::ResumeId | AgentKey::ContinueLast);
    match (over, under) {
        (Key::Permissions, Key::Agent(_, AgentKey::Permissions))
        | (Key::ContextLimit, Key::Agent(_, AgentKey::ContextLimit) | Key::ModelLimit(_)) => true,
        (Key::Timeout(over), Key::Agent(_, AgentKey::Timeout(under))) => over == under,
        (Key::Agent(who, over), Key::Agent(other, under)) => {
            who == other && of_session(over) && of_session(under)
        }
        (Key::Mcp(over, _), Key::Mcp(under, _)) | (Key::Price(over, _), Key::Price(under, _)) => {
            over == under
        }
        _ => over == under,
    }
}

/// Removes the settings that need the user's trust from a project's layer, given the roles without the project. Returns
/// the removed keys.
pub(crate) fn withhold(layer: &mut Layer, roles: &Roles) -> Vec<Key> {
    let needs_trust = |(key, entry): (&Key, &super::Entry)| {
        let why = key.needs_trust(&entry.value, roles);
        why.is_some().then(|| key.clone())
    };
    let withheld: Vec<Key> = layer.iter().filter_map(needs_trust).collect();
    for key in &withheld {
        layer.remove(key);
    }
    withheld
}
