//! Putting one source on top of another.

use segue_core::Roles;

use super::key::{AgentKey, Key};
use super::value::Layer;

/// All layers in one, the later ones on top.
///
/// Mostly a setting replaces the same setting. Some things are replaced as a whole: the `session` of an agent, an MCP
/// server and the price of a model, since half of one and half of another make no sense; and what was said for one agent by what a nearer
/// layer says for all, so that a flag or a variable is never overruled by a file.
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

/// Whether `over`, from a nearer layer, makes `under` void.
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

/// Takes out of a project's layer what needs the user's trust, where there are these roles without it; returns the names of that.
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
