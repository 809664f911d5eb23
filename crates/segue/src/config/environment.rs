//! Settings from environment variables.

use std::ffi::OsString;

use super::accept::{Base, Given, accept};
use super::key::{AgentKey, Key, Wait, Who};
use super::problem::{Place, Problem, Wrong};
use super::value::{Entry, Layer, Origin};

/// Returns the supported variables, each with its setting.
pub(crate) fn variables() -> Vec<(String, Key)> {
    let mut all = vec![
        ("SEGUE_PERMISSIONS".to_owned(), Key::Permissions),
        ("SEGUE_OPEN_TIMEOUT".to_owned(), Key::Timeout(Wait::Start)),
    ];
    for who in Who::KNOWN {
        let of_agent = [
            ("PATH", AgentKey::Path),
            ("ACP_PATH", AgentKey::AcpPath),
            ("TRANSPORTS", AgentKey::Transports),
            ("MODEL", AgentKey::Model),
        ];
        for (what, key) in of_agent {
            if key != AgentKey::AcpPath || who.has_adapter() {
                let name = format!("SEGUE_{}_{what}", who.name().to_uppercase());
                all.push((name, Key::Agent(who.clone(), key)));
            }
        }
    }
    all
}

/// Reads the settings of the environment. An empty variable counts as not set.
pub(crate) fn read(
    variable: impl Fn(&str) -> Option<OsString>,
    base: &Base,
) -> (Layer, Vec<Problem>) {
    let (mut layer, mut problems) = (Layer::new(), Vec::new());
    for (name, key) in variables() {
        let Some(value) = variable(&name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let value = match value.into_string() {
            Ok(text) => accept(&key, given(&key, text), base),
            Err(_) => Err(Wrong::new("is not valid UTF-8")),
        };
        match value {
            Ok(value) => {
                let origin = Origin::Environment(name);
                layer.insert(key, Entry { value, origin });
            }
            Err(wrong) => problems.push(wrong.at(Place::Environment(name))),
        }
    }
    (layer, problems)
}

/// Converts the text of a variable to the type that the setting expects.
fn given(key: &Key, text: String) -> Given {
    match key {
        Key::Agent(_, AgentKey::Transports) => {
            Given::Texts(text.split(',').map(|name| name.trim().to_owned()).collect())
        }
        Key::Timeout(_) => match text.parse() {
            Ok(number) => Given::Number(number),
            Err(_) => Given::Text(text),
        },
        Key::Prefer
        | Key::Fallback
        | Key::Permissions
        | Key::Budget
        | Key::CompactionAuto
        | Key::Summariser
        | Key::ErrorLimit
        | Key::Backoff
        | Key::ContextLimit
        | Key::ModelLimit(_)
        | Key::Agent(..)
        | Key::Mcp(..)
        | Key::Price(..)
        | Key::Role(..) => Given::Text(text),
    }
}
