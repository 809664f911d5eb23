//! Tests of the table of settings.

use super::*;
use crate::definition::SettingPlace;
use crate::providers::CONFIGURABLE_PROVIDERS;
use crate::settings::SETTING_TABLES;

#[test]
fn every_setting_has_an_example_and_changes_the_configuration() {
    for table in &SETTING_TABLES {
        let lines = table.settings.iter().map(reference::example_line);
        let header = match table.path {
            "" => String::new(),
            _ => format!("[{}]\n", table.example),
        };
        // A default changes nothing, if it is also the value of a configuration without settings.
        let text = (header + &lines.collect::<Vec<_>>().join("\n"))
            .replace("fallback = []", "fallback = [\"codex\"]")
            .replace("\"ask\"", "\"deny\"")
            .replace("timeouts.start = 60", "timeouts.start = 61")
            .replace("timeouts.turn = 0", "timeouts.turn = 1");
        let layer = parse_text(&text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        assert_eq!(layer.len(), table.settings.len(), "{text}");
        let config = Config::from_settings(&layer);
        // `session.continue_last` cannot be set together with `session.resume_id`.
        let keys = layer
            .keys()
            .filter(|key| !key.to_string().ends_with("continue_last"));
        for key in keys {
            let mut reduced_layer = layer.clone();
            reduced_layer.remove(key);
            assert_ne!(Config::from_settings(&reduced_layer), config, "{key}");
        }
    }
}

#[test]
fn every_provider_has_its_settings() {
    for provider in &CONFIGURABLE_PROVIDERS {
        let table = provider.table.replace("NAME", "x");
        let transports = provider.transports;
        let text = format!("[{table}]\npath = \"x\"\ntransports = {transports:?}\nenv.A = \"1\"");
        let config = Config::from_settings(&parse_text(&text).unwrap());
        let name = table.replace('.', ":");
        let (agent, config) = config
            .agents
            .iter()
            .find(|(agent, _)| agent.name() == name)
            .unwrap();
        assert_eq!(config.transports, transports, "{agent:?}");
        assert_eq!(config.path.as_deref(), Some("x"), "{agent:?}");
        let adapter = parse_text(&format!("{text}\nacp_path = \"y\""));
        assert_eq!(adapter.is_ok(), provider.has_acp_adapter, "{agent:?}");
    }
    let built_in = CONFIGURABLE_PROVIDERS
        .iter()
        .filter(|provider| provider.is_built_in());
    let names: Vec<&str> = built_in.map(|provider| provider.name).collect();
    let defaults = default_settings();
    let prefer = find_setting(&defaults, "prefer").unwrap();
    assert_eq!(prefer.value.to_toml(), format!("{names:?}"));
    assert_eq!(
        ConfiguredAgent::BUILT_IN.map(|agent| agent.name()),
        names.as_slice()
    );
}

#[test]
fn every_default_is_valid() {
    let defaults = SETTING_PLACES
        .iter()
        .filter(|place| place.setting.default.is_some());
    assert_eq!(default_settings().len(), defaults.count());
}

#[test]
fn no_value_follows_a_table_in_the_output() {
    // In TOML, such a value would belong to that table.
    for (index, place) in SETTING_PLACES.iter().enumerate() {
        let parent = &place.path[..place.path.len() - 1];
        let mut earlier = SETTING_PLACES.iter().take(index);
        let table = earlier.find(|other| {
            std::ptr::eq(other.table, place.table)
                && other.path.len() > place.path.len()
                && other.path.starts_with(parent)
        });
        assert!(table.is_none(), "{:?}", place.path);
    }
}

#[test]
fn variables_and_keys_are_unique() {
    let mut variables: Vec<String> = SETTING_PLACES
        .iter()
        .filter_map(SettingPlace::variable)
        .collect();
    let mut paths: Vec<String> = SETTING_PLACES
        .iter()
        .map(|place| place.path.join("."))
        .collect();
    for names in [&mut variables, &mut paths] {
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
