//! Settings from texts of the process: environment variables and flags.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::definition::{SETTING_PLACES, SettingPlace, ValueKind};
use crate::key::ConfigKey;
use crate::layer::{ConfigEntry, ConfigLayer, ConfigOrigin, ConfigValue};
use crate::problem::{ConfigProblem, ValueError};
use crate::validate::{PathBase, UncheckedValue, validate_value};

/// Settings from the command line: the text of each flag that is given, such as `--permissions`.
#[derive(Debug, Clone, Default)]
pub struct ConfigFlags(pub BTreeMap<&'static str, String>);

/// Reads the settings of the environment. An empty variable counts as not set.
pub(crate) fn read_variables(
    env_var: impl Fn(&str) -> Option<OsString>,
    base: &PathBase,
) -> (ConfigLayer, Vec<ConfigProblem>) {
    read_texts(base, |place| {
        let name = place.variable()?;
        let value = env_var(&name).filter(|value| !value.is_empty())?;
        Some((value, ConfigOrigin::Environment(name)))
    })
}

/// Reads the settings of the command line.
pub(crate) fn read_flags(
    flags: &ConfigFlags,
    base: &PathBase,
) -> (ConfigLayer, Vec<ConfigProblem>) {
    read_texts(base, |place| {
        let flag = place.setting.flag?;
        Some((flags.0.get(flag)?.into(), ConfigOrigin::Flag(flag)))
    })
}

/// Reads the settings for which `text` returns a text and its origin.
fn read_texts(
    base: &PathBase,
    text: impl Fn(&SettingPlace) -> Option<(OsString, ConfigOrigin)>,
) -> (ConfigLayer, Vec<ConfigProblem>) {
    let (mut layer, mut problems) = (ConfigLayer::new(), Vec::new());
    for place in SETTING_PLACES.iter() {
        let Some((text, origin)) = text(place) else {
            continue;
        };
        match parse_text(place, text, base) {
            Ok(value) => {
                let entry = ConfigEntry { value, origin };
                layer.insert(ConfigKey::new(place, &place.path), entry);
            }
            Err(error) => {
                problems.extend(
                    origin
                        .location()
                        .map(|location| error.into_problem(location)),
                );
            }
        }
    }
    (layer, problems)
}

/// Parses a text as the type of the setting.
fn parse_text(
    place: &SettingPlace,
    text: OsString,
    base: &PathBase,
) -> Result<ConfigValue, ValueError> {
    let text = text
        .into_string()
        .map_err(|_| ValueError::new("invalid UTF-8"))?;
    let value = match place.setting.kind {
        ValueKind::Bool => text.parse().ok().map(UncheckedValue::Bool),
        ValueKind::Count(..)
        | ValueKind::Seconds
        | ValueKind::PositiveSeconds
        | ValueKind::Price => text.parse().ok().map(UncheckedValue::Number),
        ValueKind::TextList(_) | ValueKind::Agents | ValueKind::Transports => {
            let items = text.split(',').map(|item| item.trim().to_owned());
            Some(UncheckedValue::TextList(items.collect()))
        }
        ValueKind::Text(_) | ValueKind::Agent | ValueKind::Program => None,
    };
    validate_value(place, value.unwrap_or(UncheckedValue::Text(text)), base)
}
