//! Tests of the configuration that a valid file produces.

use std::collections::BTreeMap;

use segue_agents::{SessionDefault, Timeouts};
use segue_core::agent::{McpReach, McpServer};

use super::*;
use crate::config::accept::server_name;
use crate::config::key::McpKey;

/// Returns the configuration of one file.
fn config(text: &str) -> Config {
    let layer = parse(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    Config::of(&merge::merge([resolved::defaults(), layer]))
}

fn agent(text: &str, who: &Who) -> AgentConfig {
    config(text).agents.get(who).unwrap().clone()
}

#[test]
fn an_empty_file_is_the_default() {
    let config = config("");
    let names: Vec<&str> = config
        .prefer
        .iter()
        .map(segue_core::id::ProviderId::as_str)
        .collect();
    assert_eq!(names, ["claude", "codex", "gemini"]);
    assert_eq!(config.defaults, segue_agents::Defaults::default());
    let known: BTreeMap<Who, AgentConfig> = Who::KNOWN
        .into_iter()
        .map(|who| (who, AgentConfig::default()))
        .collect();
    assert_eq!(config.agents, known);
    assert!(config.mcp.is_empty());
}

#[test]
fn programs_are_names_or_paths_from_where_the_file_is() {
    let cases = [
        ("claude-next", "claude-next"),
        ("/opt/claude", "/opt/claude"),
        ("./bin/claude", "/etc/bin/claude"),
        ("bin/claude", "/etc/bin/claude"),
        ("../claude", "/etc/../claude"),
        ("~/bin/claude", "/u/bin/claude"),
        ("~other", "~other"),
    ];
    for (written, expected) in cases {
        let claude = agent(&format!("[claude]\npath = {written:?}"), &Who::Claude);
        assert_eq!(claude.path.as_deref(), Some(expected), "{written}");
    }
}

#[test]
fn everything_about_an_agent_arrives() {
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
    let codex = agent(text, &Who::Codex);
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
    let expected = segue_agents::Defaults {
        permissions: PermissionPolicy::Deny,
        timeouts: Timeouts {
            start: Timeouts::default().start,
            first: None,
            silence: Some(Duration::from_millis(500)),
            turn: Some(Duration::from_hours(1)),
        },
        session: SessionDefault::Resume("feature:pay".into()),
        model: Some("m".into()),
        mode: Some("read-only".into()),
    };
    assert_eq!(codex.defaults, expected);
    let gemini = agent(text, &Who::Gemini).defaults;
    assert_eq!(gemini.permissions, PermissionPolicy::AllowReads);
    assert_eq!(gemini.session, SessionDefault::ContinueLast);
    assert_eq!(gemini.timeouts.silence, Timeouts::default().silence);
    let own = agent(text, &Who::Acp("open-code".into()));
    assert_eq!(own.defaults.permissions, PermissionPolicy::AllowReads);
}

#[test]
fn the_policy_is_the_users() {
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
    let policy = Config::of(&parse(text).unwrap()).policy;
    let provider = |name: &str| segue_core::id::ProviderId::parse(name).unwrap();
    assert_eq!(policy.fallback, [provider("codex"), provider("acp:x")]);
    assert_eq!(policy.error_limit, 5);
    assert_eq!(policy.backoff, jiff::SignedDuration::from_millis(500));
    let limit = |name, model| policy.context.of(&provider(name), model);
    assert_eq!(limit("gemini", None), Some(200_000));
    assert_eq!(limit("claude", Some("opus")), Some(900_000));
    assert_eq!(limit("acp:x", None), Some(7));
    assert_eq!(limit("codex", Some("gpt-5.5-high")), None);
    let defaults = Config::of(&super::super::resolved::defaults()).policy;
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
            reach: McpReach::Program {
                command: "docs-mcp".into(),
                args: vec!["--stdio".into()],
                env: vec![("A".into(), "1".into())],
            },
        },
        McpServer {
            name: "web".into(),
            reach: McpReach::Http {
                url: "https://example.org/mcp".into(),
                headers: vec![("Authorization".into(), "Bearer x".into())],
            },
        },
    ];
    assert_eq!(config(text).mcp, expected);
}

#[test]
fn no_server_passes_for_segues_own() {
    for good in ["docs", "Docs-2", "a_b-c", "segue2", "my-segue"] {
        assert_eq!(server_name(good), Ok(()), "{good}");
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
        assert!(server_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn agents_are_in_the_order_of_preference() {
    let text =
        "prefer = [\"acp:b\", \"gemini\", \"acp:b\"]\n[acp.b]\npath = \"b\"\n[acp.a]\npath = \"a\"";
    let config = config(text);
    let order: Vec<String> = config
        .in_order()
        .iter()
        .map(|(id, _, _)| id.to_string())
        .collect();
    assert_eq!(order, ["acp:b", "gemini", "claude", "codex", "acp:a"]);
}

#[test]
fn secrets_are_known_by_their_names() {
    let env = |name: &str| Key::Agent(Who::Claude, AgentKey::Env(name.into()));
    let header = |name: &str| Key::Mcp("x".into(), McpKey::Header(name.into()));
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
        Key::Prefer,
        Key::Agent(Who::Claude, AgentKey::Path),
    ] {
        assert!(!key.is_secret(), "{key}");
    }
}

#[test]
fn values_are_written_as_they_are_read() {
    let nasty = "a\"b\\c\n\td\u{1b}\u{202e}\u{200b}ü";
    for value in [
        Value::Text(nasty.into()),
        Value::Texts(vec![nasty.into(), String::new()]),
    ] {
        let key = match value {
            Value::Text(_) => "env.A",
            _ => "args",
        };
        let layer = parse(&format!("claude.{key} = {}", value.toml())).unwrap();
        let read: Vec<&Value> = layer.values().map(|entry| &entry.value).collect();
        assert_eq!(read, [&value]);
        assert!(!value.toml().contains(['\u{1b}', '\u{202e}', '\u{200b}']));
    }
}

#[test]
fn prices_are_dollars_for_a_million_tokens() {
    let config = config(
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
        let price = config.prices.of(model)?;
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
fn a_price_is_replaced_as_a_whole() {
    let layer = |text: &str| parse(text).unwrap();
    let far = layer(
        "prices.m = { input = 1, output = 2, cached = 0.1 }\nprices.n = { input = 1, output = 1 }",
    );
    let near = layer("prices.m = { input = 3, output = 4 }");
    let config = Config::of(&merge::merge([far, near]));
    let cached = |model: &str| config.prices.of(model).map(|price| price.cached.micros());
    assert_eq!(cached("m"), Some(3_000_000));
    assert_eq!(cached("n"), Some(1_000_000));
    let shown = layer("prices.m = { input = 0.125, output = 15 }");
    let shown: Vec<String> = shown.values().map(|entry| entry.value.toml()).collect();
    assert_eq!(shown, ["0.125", "15"]);
}
