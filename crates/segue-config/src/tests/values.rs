//! Tests of the configuration that a valid file produces.

use std::collections::BTreeMap;
use std::time::Duration;

use segue_core::agent::{McpEndpoint, McpServer};
use segue_providers::{SessionDefault, Timeouts};

use super::*;
use crate::validate::check_server_name;

/// Returns the configuration of one file.
fn resolve_config(text: &str) -> Config {
    let layer = parse_text(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    Config::from_settings(&layer::merge_layers(&[default_settings(), layer]))
}

fn resolve_agent(text: &str, agent: &ConfiguredAgent) -> AgentConfig {
    resolve_config(text).agents.get(agent).unwrap().clone()
}

#[test]
fn an_empty_file_yields_the_default_configuration() {
    let config = resolve_config("");
    let names: Vec<&str> = config
        .preferred_providers
        .iter()
        .map(segue_core::id::ProviderId::as_str)
        .collect();
    assert_eq!(names, ["claude", "codex", "gemini"]);
    assert_eq!(config.defaults, segue_providers::AgentDefaults::default());
    let expected: BTreeMap<ConfiguredAgent, AgentConfig> = ConfiguredAgent::BUILT_IN
        .into_iter()
        .map(|agent| (agent, AgentConfig::default()))
        .collect();
    assert_eq!(config.agents, expected);
    assert!(config.mcp_servers.is_empty());
}

#[test]
fn programs_are_names_or_paths_relative_to_the_file() {
    let cases = [
        ("claude-next", "claude-next"),
        ("/opt/claude", "/opt/claude"),
        ("./bin/claude", "/etc/bin/claude"),
        ("bin/claude", "/etc/bin/claude"),
        ("../claude", "/etc/../claude"),
        ("~/bin/claude", "/u/bin/claude"),
        ("~other", "~other"),
    ];
    for (input, expected) in cases {
        let claude = resolve_agent(
            &format!("[claude]\npath = {input:?}"),
            &ConfiguredAgent::Claude,
        );
        assert_eq!(claude.path.as_deref(), Some(expected), "{input}");
    }
}

#[test]
fn all_settings_of_an_agent_are_applied() {
    let text = r#"
        permissions = "allow-reads"
        timeouts = { turn = 3600, first = 0 }
        [codex]
        path = "codex"
        acp_path = "codex-acp"
        transports = ["exec", "acp"]
        model = "m"
        mode = "read-only"
        args = ["--a", ""]
        env = { A = "1", B = "" }
        permissions = "deny"
        timeouts = { silence = 0.5 }
        session = { resume_id = "feature:pay" }
        [gemini.session]
        resume_id = ""
        continue_last = true
        [acp.open-code]
        path = "opencode"
    "#;
    let codex = resolve_agent(text, &ConfiguredAgent::Codex);
    assert_eq!(codex.acp_path.as_deref(), Some("codex-acp"));
    assert_eq!(codex.transports, ["exec", "acp"]);
    assert_eq!(
        (codex.model.as_deref(), codex.mode.as_deref()),
        (Some("m"), Some("read-only"))
    );
    assert_eq!(codex.args, ["--a", ""]);
    assert_eq!(
        codex.env,
        [("A".into(), "1".into()), ("B".into(), String::new())]
    );
    let expected = segue_providers::AgentDefaults {
        permissions: PermissionPolicy::Deny,
        timeouts: Timeouts {
            start: Timeouts::default().start,
            first_output: None,
            silence: Some(Duration::from_millis(500)),
            turn: Some(Duration::from_hours(1)),
        },
        session: SessionDefault::Selected("feature:pay".into()),
        model: Some("m".into()),
        mode: Some("read-only".into()),
    };
    assert_eq!(codex.defaults, expected);
    let gemini = resolve_agent(text, &ConfiguredAgent::Gemini).defaults;
    assert_eq!(gemini.permissions, PermissionPolicy::AllowReads);
    assert_eq!(gemini.session, SessionDefault::NewestInDirectory);
    assert_eq!(gemini.timeouts.silence, Timeouts::default().silence);
    let opencode = resolve_agent(text, &ConfiguredAgent::Acp("open-code".into()));
    assert_eq!(opencode.defaults.permissions, PermissionPolicy::AllowReads);
}

#[test]
fn the_policy_is_read_from_the_file() {
    let text = r#"
        fallback = ["codex", "acp:x", "codex"]
        error_limit = 5
        backoff_seconds = 0.5
        context_limit = 200_000
        [context_limits]
        "gpt-5.5" = 0
        [claude]
        context_limit = 900_000
        [acp.x]
        path = "x"
        context_limit = 7
    "#;
    let policy = Config::from_settings(&parse_text(text).unwrap()).policy;
    let provider = |name: &str| segue_core::id::ProviderId::parse(name).unwrap();
    assert_eq!(policy.fallback, [provider("codex"), provider("acp:x")]);
    assert_eq!(policy.error_limit, 5);
    assert_eq!(policy.backoff, jiff::SignedDuration::from_millis(500));
    let limit = |name, model| policy.context.limit_for(&provider(name), model);
    assert_eq!(limit("gemini", None), Some(200_000));
    assert_eq!(limit("claude", Some("opus")), Some(900_000));
    assert_eq!(limit("acp:x", None), Some(7));
    assert_eq!(limit("codex", Some("gpt-5.5-high")), None);
    let defaults = Config::from_settings(&default_settings()).policy;
    assert_eq!(defaults, segue_core::policy::Policy::default());
}

#[test]
fn mcp_servers_are_programs_or_addresses() {
    let text = r#"
        [mcp.web]
        url = "https://example.org/mcp"
        headers = { Authorization = "Bearer x" }
        [mcp.docs]
        command = "docs-mcp"
        args = ["--stdio"]
        env = { A = "1" }
    "#;
    let expected = [
        McpServer {
            name: "docs".into(),
            endpoint: McpEndpoint::Program {
                command: "docs-mcp".into(),
                args: vec!["--stdio".into()],
                env: vec![("A".into(), "1".into())],
            },
        },
        McpServer {
            name: "web".into(),
            endpoint: McpEndpoint::Http {
                url: "https://example.org/mcp".into(),
                headers: vec![("Authorization".into(), "Bearer x".into())],
            },
        },
    ];
    assert_eq!(resolve_config(text).mcp_servers, expected);
}

#[test]
fn no_server_name_imitates_segues_own() {
    for good in ["docs", "Docs-2", "a_b-c", "segue2", "my-segue"] {
        assert_eq!(check_server_name(good), Ok(()), "{good}");
    }
    for bad in [
        "segue",
        "Segue",
        "segue_",
        "segue__x",
        "_segue",
        "a--b",
        "a.b",
        "",
        "ä",
        &"a".repeat(61),
    ] {
        assert!(check_server_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn agents_are_ordered_by_preference() {
    let text =
        "prefer = [\"acp:b\", \"gemini\", \"acp:b\"]\n[acp.b]\npath = \"b\"\n[acp.a]\npath = \"a\"";
    let config = resolve_config(text);
    let order: Vec<String> = config
        .agents_by_preference()
        .iter()
        .map(|(id, _, _)| id.to_string())
        .collect();
    assert_eq!(order, ["acp:b", "gemini", "claude", "codex", "acp:a"]);
}

#[test]
fn secrets_are_recognised_by_their_names() {
    let env = |name: &str| key_of(&format!("claude.env.{name} = \"\""));
    let header = |name: &str| {
        key_of(&format!(
            "mcp.x = {{ url = \"http://x\", headers.{name} = \"\" }}"
        ))
    };
    for key in [
        env("ANTHROPIC_API_KEY"),
        env("my_token"),
        env("DB_PASSWORD"),
        header("authorization"),
        header("X-Secret-1"),
    ] {
        assert!(key.is_secret(), "{key}");
    }
    for key in [
        env("HOME"),
        header("Accept"),
        key_of("prefer = []"),
        key_of("claude.path = \"x\""),
    ] {
        assert!(!key.is_secret(), "{key}");
    }
}

#[test]
fn formatted_values_parse_to_the_same_values() {
    let nasty = "a\"b\\c\n\td\u{1b}\u{202e}\u{200b}ü";
    for value in [
        ConfigValue::Text(nasty.into()),
        ConfigValue::TextList(vec![nasty.into(), String::new()]),
    ] {
        let key = match value {
            ConfigValue::Text(_) => "env.A",
            _ => "args",
        };
        let layer = parse_text(&format!("claude.{key} = {}", value.to_toml())).unwrap();
        let parsed: Vec<&ConfigValue> = layer.values().map(|entry| &entry.value).collect();
        assert_eq!(parsed, [&value]);
        assert!(!value.to_toml().contains(['\u{1b}', '\u{202e}', '\u{200b}']));
    }
}

#[test]
fn prices_are_dollars_for_a_million_tokens() {
    let config = resolve_config(
        r#"
        [prices."gpt-5.5"]
        input = 1.25
        output = 10
        cached = 0.125
        [prices.claude-opus-4]
        input = 15
        output = 75.0
    "#,
    );
    let price = |model: &str| {
        let price = config.prices.find_price(model)?;
        Some([price.input, price.cached, price.output].map(segue_core::spend::Cost::micros))
    };
    assert_eq!(
        price("gpt-5.5-codex"),
        Some([1_250_000, 125_000, 10_000_000])
    );
    // Without a price for cached tokens, the price for input applies.
    assert_eq!(
        price("claude-opus-4-1"),
        Some([15_000_000, 15_000_000, 75_000_000])
    );
    assert_eq!(price("gpt-5"), None);
}

#[test]
fn a_price_is_replaced_completely() {
    let layer = |text: &str| parse_text(text).unwrap();
    let lower = layer(
        "prices.m = { input = 1, output = 2, cached = 0.1 }\nprices.n = { input = 1, output = 1 }",
    );
    let upper = layer("prices.m = { input = 3, output = 4 }");
    let config = Config::from_settings(&layer::merge_layers(&[lower, upper]));
    let cached = |model: &str| {
        config
            .prices
            .find_price(model)
            .map(|price| price.cached.micros())
    };
    assert_eq!(cached("m"), Some(3_000_000));
    assert_eq!(cached("n"), Some(1_000_000));
    let settings = layer("prices.m = { input = 0.125, output = 15 }");
    let formatted: Vec<String> = settings
        .values()
        .map(|entry| entry.value.to_toml())
        .collect();
    assert_eq!(formatted, ["0.125", "15"]);
}
