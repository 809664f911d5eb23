//! Tests of the priority of sources.

use segue_agents::SessionDefault;
use segue_core::agent::McpReach;

use super::*;

fn text_of(entry: Option<&Entry>) -> String {
    entry.map_or("-".into(), |entry| {
        format!("{} from {}", entry.value.toml(), entry.origin)
    })
}

#[test]
fn the_nearer_source_wins_and_is_named() {
    let user =
        "permissions = \"allow-reads\"\nprefer = [\"gemini\"]\n[timeouts]\nstart = 1\nfirst = 2\n";
    let machine = Machine::new(
        user,
        "prefer = [\"codex\"]\n\ntimeouts = { start = 3, first = 4 }\n",
    );
    let at = Surroundings {
        variable: |name| (name == "SEGUE_OPEN_TIMEOUT").then(|| "5".into()),
        ..machine.at()
    };
    let (user, project) = (machine.user(), machine.project());
    let shown = |loaded: &Loaded, key| text_of(loaded.settings.get(&key));
    let loaded = load(&at, &Flags::default());
    assert!(loaded.problems.is_empty());
    assert_eq!(
        shown(&loaded, Key::Prefer),
        format!("[\"codex\"] from {}:1", project.display())
    );
    assert_eq!(
        shown(&loaded, Key::Permissions),
        format!("\"allow-reads\" from {}:1", user.display())
    );
    assert_eq!(
        shown(&loaded, Key::Timeout(Wait::First)),
        format!("4 from {}:3", project.display())
    );
    assert_eq!(
        shown(&loaded, Key::Timeout(Wait::Start)),
        "5 from environment SEGUE_OPEN_TIMEOUT"
    );
    assert_eq!(shown(&loaded, Key::Timeout(Wait::Turn)), "0 from default");
    let flags = Flags {
        permissions: Some(PermissionPolicy::Deny),
        start: Some(Duration::from_secs(6)),
    };
    let loaded = load(&at, &flags);
    assert_eq!(
        shown(&loaded, Key::Permissions),
        "\"deny\" from flag --permissions"
    );
    assert_eq!(
        loaded.config.defaults.timeouts.start,
        Duration::from_secs(6)
    );
}

#[test]
fn what_belongs_together_is_replaced_together() {
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
    let machine = Machine::new(user, project);
    machine.trust();
    let config = machine.load().config;
    let claude = config.agents.get(&Who::Claude).unwrap();
    assert_eq!(claude.defaults.permissions, PermissionPolicy::Deny);
    assert_eq!(
        claude.defaults.timeouts.silence,
        Some(Duration::from_secs(3))
    );
    assert_eq!(claude.defaults.timeouts.turn, Some(Duration::from_secs(2)));
    assert_eq!(claude.defaults.session, SessionDefault::ContinueLast);
    assert_eq!(
        claude.env,
        [("A".into(), "user".into()), ("B".into(), "project".into())]
    );
    let reach = McpReach::Http {
        url: "https://two".into(),
        headers: Vec::new(),
    };
    assert_eq!(
        config
            .mcp
            .iter()
            .map(|server| &server.reach)
            .collect::<Vec<_>>(),
        [&reach]
    );
}

#[test]
fn variables_set_what_they_say() {
    let base = Base {
        directory: "/w".into(),
        home: None,
    };
    let variable = |name: &str| {
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
    let (layer, problems) = environment::read(variable, &base);
    assert_eq!(problems, []);
    let set: Vec<String> = layer
        .iter()
        .map(|(key, entry)| format!("{key} = {}", entry.value.toml()))
        .collect();
    let expected = [
        "permissions = \"allow-edits\"",
        "claude.path = \"/w/claude\"",
        "codex.acp_path = \"codex-acp\"",
        "gemini.transports = [\"stream-json\", \"acp\"]",
        "gemini.model = \"m\"",
    ];
    assert_eq!(set, expected);
    let (layer, problems) = environment::read(|_| Some("?".into()), &base);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(problems.contains(&"environment variable SEGUE_CODEX_TRANSPORTS: \"?\" is not one of app-server, exec, acp".into()), "{problems:?}");
    assert!(
        problems.contains(
            &"environment variable SEGUE_OPEN_TIMEOUT: must be a number of seconds, not a text"
                .into()
        ),
        "{problems:?}"
    );
    assert!(layer.contains_key(&Key::Agent(Who::Claude, AgentKey::Path)));
}

#[test]
fn what_nobody_completes_is_a_problem() {
    let user = "prefer = [\"acp:a\", \"acp:b\"]\ncompaction.summariser = \"acp:d\"\n[acp.b]\nmodel = \"m\"\n[acp.c]\nargs = []\nmodel = \"m\"\n";
    let machine = Machine::new(user, "[acp.b]\npath = \"b\"");
    let loaded = machine.load();
    let file = machine.user();
    let said: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    let expected = [
        format!("{}:1:1: prefer: there is no agent acp:a", file.display()),
        format!(
            "{}:2:12: compaction.summariser: there is no agent acp:d",
            file.display()
        ),
        format!(
            "{}:7:1: acp.c has no `path`: nobody says which program it is",
            file.display()
        ),
    ];
    // `acp.b` has no problem, because the project sets its `path` and lacks only the user's trust.
    assert_eq!(said, expected);
    assert_eq!(loaded.config.agents.len(), 3);
}

#[test]
fn a_broken_file_is_left_out_as_a_whole() {
    let machine = Machine::new("permissions = \"deny\"\nx = 1", "prefer = [\"gemini\"]");
    let loaded = machine.load();
    assert_eq!(loaded.config.defaults.permissions, PermissionPolicy::Ask);
    assert_eq!(
        text_of(loaded.settings.get(&Key::Prefer)),
        format!("[\"gemini\"] from {}:1", machine.project().display())
    );
    let states: Vec<State> = loaded.files.iter().map(|found| found.state).collect();
    assert_eq!(states, [State::Broken, State::Read]);
    let refusal = loaded.refusal().unwrap();
    assert!(
        refusal
            .message
            .contains("config.toml:2:1: there is no setting x"),
        "{}",
        refusal.message
    );
}

#[test]
fn the_project_is_the_work_tree() {
    let machine = Machine::new("", "");
    let root = machine.0.path().join("project");
    assert_eq!(project_root(&root.join("deep")), root);
    fs::remove_dir_all(root.join(".git")).unwrap();
    assert_eq!(project_root(&root.join("deep")), root.join("deep"));
    fs::write(root.join(".git"), "gitdir: /elsewhere").unwrap();
    assert_eq!(project_root(&root.join("deep")), root);
}
