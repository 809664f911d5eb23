//! Tests of the settings that a project may set without trust.

use super::*;

/// A project's file that uses every setting once.
const ALL_SETTINGS: &str = r#"
    prefer = ["codex"]
    fallback = ["codex"]
    error_limit = 1
    backoff_seconds = 1
    context_limit = 1
    context_limits = { m = 1 }
    permissions = "allow-all"
    timeouts = { silence = 1 }
    [claude]
    path = "x"
    acp_path = "x"
    transports = ["acp"]
    model = "m"
    mode = "plan"
    args = ["x"]
    env = { A = "1" }
    permissions = "ask"
    context_limit = 1
    timeouts = { silence = 1 }
    session = { continue_last = true }
    [codex]
    permissions = "deny"
    [acp.x]
    path = "x"
    model = "m"
    [mcp.x]
    command = "x"
    [mcp.y]
    url = "https://y"
"#;

#[test]
fn an_untrusted_project_starts_no_program_and_widens_no_permission() {
    let fixture = ConfigFixture::new("[claude]\npath = \"mine\"", ALL_SETTINGS);
    let loaded = fixture.load();
    let withheld: Vec<String> = loaded.withheld.iter().map(ToString::to_string).collect();
    let expected = [
        "fallback",
        "permissions",
        "claude.path",
        "claude.acp_path",
        "claude.transports",
        "claude.mode",
        "claude.args",
        "claude.permissions",
        "claude.env.A",
        "acp.x.path",
        "acp.x.model",
        "mcp.x.command",
        "mcp.y.url",
    ];
    assert_eq!(withheld, expected);
    assert_eq!(
        format_key_summary(&loaded.withheld),
        "fallback, permissions, claude.path, claude.acp_path, claude.transports, claude.mode, claude.args, claude.permissions, claude.env.A, acp.x, mcp.x, mcp.y"
    );
    let granted: Vec<String> = loaded.settings.iter()
        .filter(|(_, entry)| matches!(&entry.origin, ConfigOrigin::File { path, .. } if *path == fixture.project_file()))
        .map(|(key, _)| key.to_string())
        .collect();
    let expected = [
        "prefer",
        "error_limit",
        "backoff_seconds",
        "context_limit",
        "timeouts.silence",
        "claude.model",
        "claude.context_limit",
        "claude.timeouts.silence",
        "claude.session.continue_last",
        "codex.permissions",
        "context_limits.m",
    ];
    assert_eq!(granted, expected);
    assert_eq!(
        loaded
            .config
            .agents
            .get(&ConfiguredAgent::Claude)
            .unwrap()
            .path
            .as_deref(),
        Some("mine")
    );
    assert!(loaded.config.mcp_servers.is_empty() && loaded.problems.is_empty());
    assert_eq!(
        loaded.files.last().unwrap().status,
        ConfigFileStatus::Untrusted
    );
}

#[test]
fn a_project_may_disable_the_summariser_but_not_replace_it() {
    let user = "compaction.summariser = \"codex\"";
    let summariser_with = |project: &str| {
        let config = ConfigFixture::new(user, project).load().config;
        config.summariser.map(|name| name.to_string())
    };
    assert_eq!(summariser_with(""), Some("codex".to_owned()));
    assert_eq!(summariser_with("compaction.summariser = \"none\""), None);
    let summariser = summariser_with("compaction.summariser = \"gemini\"");
    assert_eq!(summariser, Some("codex".to_owned()));
}

#[test]
fn a_project_may_remove_fallbacks() {
    let fixture = ConfigFixture::new("fallback = [\"codex\"]", "fallback = []");
    let loaded = fixture.load();
    assert_eq!(loaded.withheld, []);
    assert_eq!(loaded.config.policy.fallback, []);
    let fixture = ConfigFixture::new("fallback = [\"codex\"]", "fallback = [\"gemini\"]");
    assert_eq!(fixture.load().config.policy.fallback.len(), 1);
    assert_eq!(fixture.load().config.policy.fallback[0].as_str(), "codex");
}

#[test]
fn trust_applies_only_to_the_unchanged_file() {
    let fixture = ConfigFixture::new("", ALL_SETTINGS);
    fixture.trust_project();
    let loaded = fixture.load();
    assert_eq!(loaded.withheld, []);
    assert_eq!(
        loaded.files.last().unwrap().status,
        ConfigFileStatus::Trusted
    );
    assert_eq!(loaded.config.mcp_servers.len(), 2);
    fs::write(fixture.project_file(), format!("{ALL_SETTINGS}# changed")).unwrap();
    assert_eq!(
        fixture.load().files.last().unwrap().status,
        ConfigFileStatus::Untrusted
    );
    fs::write(fixture.project_file(), ALL_SETTINGS).unwrap();
    assert_eq!(
        fixture.load().files.last().unwrap().status,
        ConfigFileStatus::Trusted
    );
    // If the list cannot be read, no file is trusted.
    fs::write(fixture.inputs().home.join("trusted.json"), "{").unwrap();
    assert_eq!(
        fixture.load().files.last().unwrap().status,
        ConfigFileStatus::Untrusted
    );
    assert!(TrustStore::update(&fixture.inputs().home, |_| ()).is_err());
}

#[test]
fn the_users_own_file_needs_no_trust_in_any_location() {
    let fixture = ConfigFixture::new("", ALL_SETTINGS);
    let mut inputs = fixture.inputs();
    inputs.user_file = Some(ConfigSource {
        owner: ConfigOwner::User,
        path: fixture.project_file(),
        is_required: true,
    });
    let loaded = load(&inputs, &ConfigFlags::default());
    assert_eq!((loaded.files.len(), loaded.withheld.len()), (1, 0));
    assert_eq!(loaded.config.mcp_servers.len(), 2);
}

#[test]
fn a_project_may_narrow_the_tools_of_a_role_but_not_widen_them() {
    let user = "[roles.pm]\nallowed_tools = [\"Read\", \"Bash\"]\n\
                [roles.reviewer]\nrole = \"You review.\"\nallowed_tools = [\"Read\"]";
    let tools = |loaded: &LoadedConfig, role: &str| {
        let role = RoleName::parse(role).unwrap();
        let role = loaded.config.roles.get(&role).unwrap();
        role.allowed_tools.clone().map(|tools| tools.join(" "))
    };
    let some = |tools: &str| Some(tools.to_owned());
    // Project's file, role, the role's tools without trust, and its tools with trust.
    for (project, role, untrusted_tools, trusted_tools) in [
        (
            "[roles.pm]\nallowed_tools = [\"Read\"]",
            "pm",
            some("Read"),
            some("Read"),
        ),
        (
            "[roles.pm]\nallowed_tools = [\"Read\", \"Edit\"]",
            "pm",
            some("Read Bash"),
            some("Read Edit"),
        ),
        (
            "[roles.pm]\nallowed_tools = [\"*\"]",
            "pm",
            some("Read Bash"),
            None,
        ),
        ("[roles.dev]\nallowed_tools = []", "dev", some(""), some("")),
        (
            "[roles.reviewer]\nallowed_tools = [\"Bash\"]",
            "reviewer",
            some("Read"),
            some("Bash"),
        ),
        // No other source describes the role, and an agent without a role has all tools.
        ("[roles.cook]\nrole = \"You cook.\"", "cook", None, None),
    ] {
        let fixture = ConfigFixture::new(user, project);
        let loaded = fixture.load();
        assert_eq!(loaded.problems.len(), 0, "{project}");
        assert_eq!(tools(&loaded, role), untrusted_tools, "{project}");
        assert_eq!(
            loaded.withheld.is_empty(),
            untrusted_tools == trusted_tools,
            "{project}"
        );
        fixture.trust_project();
        assert_eq!(tools(&fixture.load(), role), trusted_tools, "{project}");
    }
}
