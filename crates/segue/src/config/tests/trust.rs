//! Tests of the settings that a project may set without trust.

use super::*;

/// A project's file that uses every setting once.
const ALL: &str = r#"
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
fn an_untrusted_project_starts_nothing_and_widens_nothing() {
    let machine = Machine::new("[claude]\npath = \"mine\"", ALL);
    let loaded = machine.load();
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
        in_short(&loaded.withheld),
        "fallback, permissions, claude.path, claude.acp_path, claude.transports, claude.mode, claude.args, claude.permissions, claude.env.A, acp.x, mcp.x, mcp.y"
    );
    let granted: Vec<String> = loaded.settings.iter()
        .filter(|(_, entry)| matches!(&entry.origin, Origin::File { path, .. } if *path == machine.project()))
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
            .get(&Who::Claude)
            .unwrap()
            .path
            .as_deref(),
        Some("mine")
    );
    assert!(loaded.config.mcp.is_empty() && loaded.problems.is_empty());
    assert_eq!(loaded.files.last().unwrap().state, State::Untrusted);
}

#[test]
fn a_project_may_keep_a_conversation_from_a_summariser_and_send_it_to_none() {
    let own = "compaction.summariser = \"codex\"";
    let of = |project: &str| {
        let config = Machine::new(own, project).load().config;
        config.summariser.map(|name| name.to_string())
    };
    assert_eq!(of(""), Some("codex".to_owned()));
    assert_eq!(of("compaction.summariser = \"none\""), None);
    let other = of("compaction.summariser = \"gemini\"");
    assert_eq!(other, Some("codex".to_owned()));
}

#[test]
fn a_project_may_take_fallbacks_away() {
    let machine = Machine::new("fallback = [\"codex\"]", "fallback = []");
    let loaded = machine.load();
    assert_eq!(loaded.withheld, []);
    assert_eq!(loaded.config.policy.fallback, []);
    let machine = Machine::new("fallback = [\"codex\"]", "fallback = [\"gemini\"]");
    assert_eq!(machine.load().config.policy.fallback.len(), 1);
    assert_eq!(machine.load().config.policy.fallback[0].as_str(), "codex");
}

#[test]
fn trust_is_for_the_file_as_it_was() {
    let machine = Machine::new("", ALL);
    machine.trust();
    let loaded = machine.load();
    assert_eq!(loaded.withheld, []);
    assert_eq!(loaded.files.last().unwrap().state, State::Trusted);
    assert_eq!(loaded.config.mcp.len(), 2);
    fs::write(machine.project(), format!("{ALL}# changed")).unwrap();
    assert_eq!(machine.load().files.last().unwrap().state, State::Untrusted);
    fs::write(machine.project(), ALL).unwrap();
    assert_eq!(machine.load().files.last().unwrap().state, State::Trusted);
    // If the list cannot be read, no file is trusted.
    fs::write(machine.at().home.join("trusted.json"), "{").unwrap();
    assert_eq!(machine.load().files.last().unwrap().state, State::Untrusted);
    assert!(Trusted::change(&machine.at().home, |_| ()).is_err());
}

#[test]
fn the_users_own_file_needs_no_trust_wherever_it_lies() {
    let machine = Machine::new("", ALL);
    let mut at = machine.at();
    at.user_file = Some(Source {
        owner: Owner::User,
        path: machine.project(),
        named: true,
    });
    let loaded = load(&at, &Flags::default());
    assert_eq!((loaded.files.len(), loaded.withheld.len()), (1, 0));
    assert_eq!(loaded.config.mcp.len(), 2);
}

#[test]
fn a_project_may_narrow_the_tools_of_a_role_and_not_widen_them() {
    let user = "[roles.pm]\nallowed_tools = [\"Read\", \"Bash\"]\n\
                [roles.reviewer]\nrole = \"You review.\"\nallowed_tools = [\"Read\"]";
    let tools = |loaded: &Loaded, role: &str| {
        let role = RoleName::parse(role).unwrap();
        let role = loaded.config.roles.get(&role).unwrap();
        role.allowed_tools.clone().map(|tools| tools.join(" "))
    };
    let some = |tools: &str| Some(tools.to_owned());
    // Project's file, role, the role's tools without trust, and its tools with trust.
    for (project, role, without, with) in [
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
        let machine = Machine::new(user, project);
        let loaded = machine.load();
        assert_eq!(loaded.problems.len(), 0, "{project}");
        assert_eq!(tools(&loaded, role), without, "{project}");
        assert_eq!(loaded.withheld.is_empty(), without == with, "{project}");
        machine.trust();
        assert_eq!(tools(&machine.load(), role), with, "{project}");
    }
}
