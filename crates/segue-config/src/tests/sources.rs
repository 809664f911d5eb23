//! Tests of the priority of sources.

use std::time::Duration;

use segue_core::agent::McpEndpoint;
use segue_providers::SessionDefault;

use super::*;

fn format_entry(entry: Option<&ConfigEntry>) -> String {
    entry.map_or("-".into(), |entry| {
        format!("{} from {}", entry.value.to_toml(), entry.origin)
    })
}

#[test]
fn the_source_with_the_highest_priority_wins_and_is_recorded() {
    let user =
        "permissions = \"allow-reads\"\nprefer = [\"gemini\"]\n[timeouts]\nstart = 1\nfirst = 2\n";
    let fixture = ConfigFixture::new(
        user,
        "prefer = [\"codex\"]\n\ntimeouts = { start = 3, first = 4 }\n",
    );
    let inputs = ConfigInputs {
        env_var: |name| (name == "SEGUE_OPEN_TIMEOUT").then(|| "5".into()),
        ..fixture.inputs()
    };
    let (user, project) = (fixture.user_file(), fixture.project_file());
    let format_setting =
        |loaded: &LoadedConfig, key| format_entry(find_setting(&loaded.settings, key));
    let loaded = load(&inputs, &ConfigFlags::default());
    assert!(loaded.problems.is_empty());
    assert_eq!(
        format_setting(&loaded, "prefer"),
        format!("[\"codex\"] from {}:1", project.display())
    );
    assert_eq!(
        format_setting(&loaded, "permissions"),
        format!("\"allow-reads\" from {}:1", user.display())
    );
    assert_eq!(
        format_setting(&loaded, "timeouts.first"),
        format!("4 from {}:3", project.display())
    );
    assert_eq!(
        format_setting(&loaded, "timeouts.start"),
        "5 from environment SEGUE_OPEN_TIMEOUT"
    );
    assert_eq!(format_setting(&loaded, "timeouts.turn"), "0 from default");
    let flags = [("--permissions", "deny"), ("--open-timeout", "6")];
    let flags = ConfigFlags(flags.map(|(flag, text)| (flag, text.to_owned())).into());
    let loaded = load(&inputs, &flags);
    assert_eq!(
        format_setting(&loaded, "permissions"),
        "\"deny\" from flag --permissions"
    );
    assert_eq!(
        loaded.config.defaults.timeouts.start,
        Duration::from_secs(6)
    );
}

#[test]
fn related_settings_are_replaced_as_a_group() {
    let user = r#"
        permissions = "ask"
        [claude]
        permissions = "allow-all"
        timeouts = { silence = 1, turn = 2 }
        env = { A = "user", B = "user" }
        session = { resume_id = "abcd" }
        [mcp.x]
        command = "one"
        args = ["--one"]
    "#;
    let project = r#"
        permissions = "deny"
        timeouts = { silence = 3 }
        [claude]
        env = { B = "project" }
        session = { continue_last = true }
        [mcp.x]
        url = "https://two"
    "#;
    let fixture = ConfigFixture::new(user, project);
    fixture.trust_project();
    let config = fixture.load().config;
    let claude = config.agents.get(&ConfiguredAgent::Claude).unwrap();
    assert_eq!(claude.defaults.permissions, PermissionPolicy::Deny);
    assert_eq!(
        claude.defaults.timeouts.silence,
        Some(Duration::from_secs(3))
    );
    assert_eq!(claude.defaults.timeouts.turn, Some(Duration::from_secs(2)));
    assert_eq!(claude.defaults.session, SessionDefault::NewestInDirectory);
    assert_eq!(
        claude.env,
        [("A".into(), "user".into()), ("B".into(), "project".into())]
    );
    let endpoint = McpEndpoint::Http {
        url: "https://two".into(),
        headers: Vec::new(),
    };
    assert_eq!(
        config
            .mcp_servers
            .iter()
            .map(|server| &server.endpoint)
            .collect::<Vec<_>>(),
        [&endpoint]
    );
}

#[test]
fn environment_variables_set_their_settings() {
    let base = PathBase {
        directory: "/w".into(),
        home: None,
    };
    let env_var = |name: &str| {
        let value = match name {
            "SEGUE_CLAUDE_PATH" => "./claude",
            "SEGUE_CODEX_ACP_PATH" => "codex-acp",
            "SEGUE_GEMINI_TRANSPORTS" => "stream-json, acp",
            "SEGUE_GEMINI_MODEL" => "m",
            "SEGUE_PERMISSIONS" => "allow-edits",
            "SEGUE_CODEX_MODEL" => "",
            _ => return None,
        };
        Some(value.into())
    };
    let (layer, problems) = text_sources::read_variables(env_var, &base);
    assert_eq!(problems, []);
    let settings: Vec<String> = layer
        .iter()
        .map(|(key, entry)| format!("{key} = {}", entry.value.to_toml()))
        .collect();
    let expected = [
        "permissions = \"allow-edits\"",
        "claude.path = \"/w/claude\"",
        "codex.acp_path = \"codex-acp\"",
        "gemini.transports = [\"stream-json\", \"acp\"]",
        "gemini.model = \"m\"",
    ];
    assert_eq!(settings, expected);
    let (layer, problems) = text_sources::read_variables(|_| Some("?".into()), &base);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(problems.contains(&"environment variable SEGUE_CODEX_TRANSPORTS: \"?\" is not one of app-server, exec, acp".into()), "{problems:?}");
    assert!(
        problems.contains(
            &"environment variable SEGUE_OPEN_TIMEOUT: must be a number of seconds, not a string"
                .into()
        ),
        "{problems:?}"
    );
    assert!(find_setting(&layer, "claude.path").is_some());
}

#[test]
fn settings_that_no_source_completes_are_problems() {
    let user = "prefer = [\"acp:a\", \"acp:b\"]\ncompaction.summariser = \"acp:d\"\n[acp.b]\nmodel = \"m\"\n[acp.c]\nargs = []\nmodel = \"m\"\n";
    let fixture = ConfigFixture::new(user, "[acp.b]\npath = \"b\"");
    let loaded = fixture.load();
    let file = fixture.user_file();
    let messages: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    let expected = [
        format!("{}:1:1: prefer: unknown agent `acp:a`", file.display()),
        format!(
            "{}:2:12: compaction.summariser: unknown agent `acp:d`",
            file.display()
        ),
        format!(
            "{}:7:1: acp.c needs a `path` to its program",
            file.display()
        ),
    ];
    // `acp.b` has no problem, because the project sets its `path` and lacks only the user's trust.
    assert_eq!(messages, expected);
    assert_eq!(loaded.config.agents.len(), 3);
}

#[test]
fn a_broken_file_is_ignored_completely() {
    let fixture = ConfigFixture::new("permissions = \"deny\"\nx = 1", "prefer = [\"gemini\"]");
    let loaded = fixture.load();
    assert_eq!(loaded.config.defaults.permissions, PermissionPolicy::Ask);
    assert_eq!(
        format_entry(find_setting(&loaded.settings, "prefer")),
        format!("[\"gemini\"] from {}:1", fixture.project_file().display())
    );
    let statuses: Vec<ConfigFileStatus> = loaded.files.iter().map(|file| file.status).collect();
    assert_eq!(statuses, [ConfigFileStatus::Broken, ConfigFileStatus::Read]);
    let problem = loaded.problems.first().unwrap().to_string();
    assert!(
        problem.contains("config.toml:2:1: unknown setting `x`"),
        "{problem}"
    );
}
