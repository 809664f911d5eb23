use std::collections::BTreeMap;
use std::fs;

use segue_agents::{SessionDefault, Timeouts};
use segue_core::{McpReach, McpServer};
use tempfile::TempDir;

use super::accept::server_name;
use super::key::{AgentKey, McpKey, Wait};
use super::*;

/// A machine with configuration files.
struct Machine(TempDir);

impl Machine {
    fn new(user: &str, project: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("project/.git")).unwrap();
        fs::create_dir_all(directory.path().join("project/deep")).unwrap();
        let machine = Self(directory);
        fs::write(machine.user(), user).unwrap();
        fs::write(machine.project(), project).unwrap();
        machine
    }

    fn user(&self) -> PathBuf {
        self.0.path().join("config.toml")
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project/segue.toml")
    }

    fn at(&self) -> Surroundings {
        Surroundings {
            home: self.0.path().join("home"),
            user_home: Some("/u".into()),
            cwd: self.0.path().join("project/deep"),
            user_file: Some(Source {
                owner: Owner::User,
                path: self.user(),
                named: false,
            }),
            variable: |_| None,
        }
    }

    fn load(&self) -> Loaded {
        load(&self.at(), &Flags::default())
    }

    fn trust(&self) {
        let content = fs::read(self.project()).unwrap();
        let file = TrustedFile {
            path: self.project(),
            sha256: fingerprint(&content),
            trusted_at: "2026-01-01T00:00:00Z".into(),
        };
        Trusted::change(&self.at().home, |list| list.files.push(file)).unwrap();
    }
}

fn parse(text: &str) -> Result<Layer, Vec<Problem>> {
    read::read(text, Path::new("/etc/c.toml"), Some(Path::new("/u")))
}

/// What a file alone comes to.
fn config(text: &str) -> Config {
    let layer = parse(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    Config::of(&merge::merge([resolved::defaults(), layer]))
}

fn agent(text: &str, who: &Who) -> AgentConfig {
    config(text).agents.get(who).unwrap().clone()
}

fn text_of(entry: Option<&Entry>) -> String {
    entry.map_or("-".into(), |entry| {
        format!("{} from {}", entry.value.toml(), entry.origin)
    })
}

#[test]
fn an_empty_file_is_the_default() {
    let config = config("");
    let names: Vec<&str> = config
        .prefer
        .iter()
        .map(segue_core::ProviderId::as_str)
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

/// What is wrong, as `line:column: message | hint`.
fn wrong(text: &str) -> Vec<String> {
    let problems = parse(text).err().unwrap_or_default();
    let lines = problems.iter().map(|problem| {
        let problem_text = problem.to_string();
        let place = problem_text
            .strip_prefix("/etc/c.toml:")
            .unwrap_or(&problem_text);
        match &problem.hint {
            Some(hint) => format!("{place} | {hint}"),
            None => place.to_owned(),
        }
    });
    lines.collect()
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let agents = "it belongs to one agent: put it under [claude], [codex], [gemini] or [acp.NAME]";
    let cases: &[(&str, &[&str])] = &[
        (
            "prefr = []",
            &["1:1: there is no setting prefr | did you mean `prefer`?"],
        ),
        (
            "[claude]\n\npathh = 1",
            &["3:1: there is no setting pathh in [claude] | did you mean `path`?"],
        ),
        (
            "model = \"m\"",
            &[&format!("1:1: there is no setting model | {agents}")],
        ),
        (
            "[opencode]\npath = \"x\"",
            &[
                "1:2: there is no setting opencode | an agent that speaks ACP is configured as [acp.opencode]; else there are: prefer, permissions, timeouts, claude, codex, gemini, acp, mcp",
            ],
        ),
        (
            "[gemini]\nacp_path = \"x\"",
            &[
                "2:1: there is no setting acp_path in [gemini] | there are: path, transports, model, mode, args, env, permissions, timeouts, session",
            ],
        ),
        (
            "[claude.session]\nresume = \"\"",
            &["2:1: there is no setting resume in [claude.session] | did you mean `resume_id`?"],
        ),
        (
            "[claude.timeouts]\nstrat = 1",
            &["2:1: there is no setting strat in [claude.timeouts] | did you mean `start`?"],
        ),
        (
            "permissions = \"allow\"",
            &[
                "1:15: permissions: \"allow\" is not one of ask, allow-reads, allow-edits, allow-all, deny",
            ],
        ),
        (
            "permissions = \"alow-all\"",
            &[
                "1:15: permissions: \"alow-all\" is not one of ask, allow-reads, allow-edits, allow-all, deny | did you mean \"allow-all\"?",
            ],
        ),
        (
            "permissions = true",
            &["1:15: permissions: must be a text in quotes, not true or false"],
        ),
        (
            "prefer = [\"claud\"]",
            &[
                "1:10: prefer: \"claud\" is not one of claude, codex, gemini, rehearsal, acp:NAME | did you mean \"claude\"?",
            ],
        ),
        (
            "prefer = [\"acp:A\"]",
            &["1:10: prefer: \"acp:A\" is not one of claude, codex, gemini, rehearsal, acp:NAME"],
        ),
        (
            "prefer = \"claude\"",
            &["1:10: prefer: must be a list of texts, like [\"one\", \"two\"], not a text"],
        ),
        (
            "prefer = [1]",
            &[
                "1:10: prefer: must be a list of texts, like [\"one\", \"two\"], not a list of other things",
            ],
        ),
        (
            "[codex]\ntransports = [\"stream-json\"]",
            &["2:14: codex.transports: \"stream-json\" is not one of app-server, exec, acp"],
        ),
        (
            "[codex]\ntransports = []",
            &[
                "2:14: codex.transports: is empty; name one of app-server, exec, acp, or leave it out",
            ],
        ),
        (
            "[claude]\nmodel = \"--yes\"",
            &["2:9: claude.model: \"--yes\" may not start with `-` or contain control characters"],
        ),
        (
            "[claude]\nmodel = \"\"",
            &["2:9: claude.model: is empty; leave it out to let the agent choose"],
        ),
        (
            "[claude]\npath = \"\"",
            &["2:8: claude.path: is empty; leave it out to look on PATH"],
        ),
        (
            "[claude]\nargs = [\"a\\u0000\"]",
            &["2:8: claude.args: may not contain a NUL character"],
        ),
        (
            "[claude]\nenv = [\"A=1\"]",
            &["2:7: claude.env must be a table, not a list | write it as [claude.env]"],
        ),
        (
            "[claude]\nenv = { \"A=B\" = \"1\" }",
            &["2:9: \"A=B\" can't be the name of a variable"],
        ),
        (
            "[claude]\nenv = { A = 1 }",
            &["2:13: claude.env.A: must be a text in quotes, not a number"],
        ),
        (
            "claude = 3",
            &["1:10: claude must be a table, not a number | write it as [claude]"],
        ),
        (
            "[claude.session]\nresume_id = \"7\"",
            &[
                "2:13: claude.session.resume_id: \"7\" is a number from a list, which means another session tomorrow | use the session's id",
            ],
        ),
        (
            "[claude.session]\nresume_id = \"a/b\"",
            &["2:13: claude.session.resume_id: a session id may not contain '/'"],
        ),
        (
            "[claude.session]\ncontinue_last = \"yes\"",
            &[
                "2:17: claude.session.continue_last: must be true or false, without quotes, not a text",
            ],
        ),
        (
            "[claude.session]\nresume_id = \"abcd\"\ncontinue_last = true",
            &[
                "3:1: claude.session.continue_last: a session can't both be that of `resume_id` and the last one | remove `continue_last` to always go on with the named one, or `resume_id` to go on with the last",
            ],
        ),
        (
            "[timeouts]\nstart = 0",
            &[
                "2:9: timeouts.start: must be more than 0: a start that never ends can't be told from a slow one",
            ],
        ),
        (
            "[timeouts]\nturn = -1",
            &["2:8: timeouts.turn: must be a number of seconds from 0 to 31536000, not -1"],
        ),
        (
            "[timeouts]\nturn = nan",
            &["2:8: timeouts.turn: must be a number of seconds from 0 to 31536000, not NaN"],
        ),
        (
            "[timeouts]\nturn = 99999999999999999999",
            &["2:8: timeouts.turn: must be a number of seconds, not so large a number"],
        ),
        (
            "[acp.Big]\npath = \"x\"",
            &[
                "1:6: \"Big\" can't be the name of an agent: small letters, digits, `-`, `_` and `.`, at most 60",
            ],
        ),
        (
            "[mcp.segue]\ncommand = \"x\"",
            &["1:6: `segue` is the name of segue's own MCP server; choose another"],
        ),
        (
            "[mcp.a]",
            &[
                "1:6: mcp.a has neither a `command` nor a `url` | a program that is started has a `command`, one that listens has a `url`",
            ],
        ),
        (
            "[mcp.a]\nurl = \"ftp://x\"",
            &["2:7: mcp.a.url: must be an address that starts with https:// or http://"],
        ),
        (
            "[mcp.a]\nurl = \"https://x\"\nargs = []",
            &[
                "3:1: mcp.a.args: a server with a `url` is not started, so it has no `args` or `env` | remove it",
            ],
        ),
        (
            "[mcp.a]\ncommand = \"x\"\nheaders = { A = \"1\" }",
            &[
                "3:13: mcp.a.headers.A: a server with a `command` is not asked over HTTP, so it has no `headers` | remove it",
            ],
        ),
        (
            "[mcp.a]\nurl = \"https://x\"\nheaders = { A = \"1\\r\\nB: 2\" }",
            &["3:17: mcp.a.headers.A: may not contain control characters"],
        ),
        (
            "x = 1\npermissions = 1",
            &[
                "1:1: there is no setting x | there are: prefer, permissions, timeouts, claude, codex, gemini, acp, mcp",
                "2:15: permissions: must be a text in quotes, not a number",
            ],
        ),
        (
            "# ü\n\"ü\" = 1",
            &[
                "2:1: there is no setting \"ü\" | there are: prefer, permissions, timeouts, claude, codex, gemini, acp, mcp",
            ],
        ),
        (
            "permissions = ask",
            &[
                "1:15: string values must be quoted, expected literal string, in `permissions = ask`",
            ],
        ),
        ("a = 1\na = 2", &["2:1: duplicate key, in `a = 2`"]),
    ];
    for (text, expected) in cases {
        assert_eq!(wrong(text), *expected, "{text}");
    }
}

#[test]
fn a_slip_beside_a_secret_does_not_show_it() {
    for text in [
        "[claude]\nenv = { API_KEY = \"sk-1",
        "[claude]\nenv = { API_KEY = \"sk-1\" x }",
    ] {
        let said = wrong(text).join("\n");
        assert!(said.contains("2:") && !said.contains("sk-1"), "{said}");
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("{}a = 1", "a.".repeat(50_000)),
    ] {
        assert_eq!(wrong(&text).len(), 1);
    }
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

/// A project's file that uses every setting once.
const ALL: &str = r#"
    prefer = ["codex"]
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
        "permissions",
        "claude.path",
        "claude.acp_path",
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
        "permissions, claude.path, claude.acp_path, claude.mode, claude.args, claude.permissions, claude.env.A, acp.x, mcp.x, mcp.y"
    );
    let granted: Vec<String> = loaded.settings.iter()
        .filter(|(_, entry)| matches!(&entry.origin, Origin::File { path, .. } if *path == machine.project()))
        .map(|(key, _)| key.to_string())
        .collect();
    let expected = [
        "prefer",
        "timeouts.silence",
        "claude.transports",
        "claude.model",
        "claude.timeouts.silence",
        "claude.session.continue_last",
        "codex.permissions",
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
    // A list that can't be read trusts nothing.
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
fn what_nobody_completes_is_a_problem() {
    let user = "prefer = [\"acp:a\", \"acp:b\"]\n[acp.b]\nmodel = \"m\"\n[acp.c]\nargs = []\nmodel = \"m\"\n";
    let machine = Machine::new(user, "[acp.b]\npath = \"b\"");
    let loaded = machine.load();
    let file = machine.user();
    let said: Vec<String> = loaded.problems.iter().map(ToString::to_string).collect();
    let expected = [
        format!("{}:1:1: prefer: there is no agent acp:a", file.display()),
        format!(
            "{}:6:1: acp.c has no `path`: nobody says which program it is",
            file.display()
        ),
    ];
    // That of b comes from the project, and waits only for trust.
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
fn files_that_are_none_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("latin"), b"# 1\n# \xc3\xbc\xe9\n").unwrap();
    fs::write(at("large"), "#".repeat(10 << 20)).unwrap();
    fs::write(at("full"), "#".repeat(1 << 20)).unwrap();
    std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
    let cases = [
        (at("directory"), Err(": it is not a file")),
        (at("latin"), Err(":2:4: it is not valid UTF-8 from here on")),
        (
            at("large"),
            Err(": it is larger than 1024 KiB, which no configuration is"),
        ),
        (at("full"), Ok(true)),
        (
            at("loop"),
            Err(": cannot read it: Too many levels of symbolic links (os error 40)"),
        ),
        (at("absent"), Ok(false)),
        (at("full/beneath"), Ok(false)),
        ("/dev/zero".into(), Err(": it is not a file")),
        ("/dev/null".into(), Ok(true)),
    ];
    for (path, expected) in cases {
        let source = Source {
            owner: Owner::User,
            path: path.clone(),
            named: false,
        };
        let found = read_source(&source, None).map(|read| read.is_some());
        let found = found.map_err(|problems| problems.first().unwrap().to_string());
        let expected = expected.map_err(|words| format!("{}{words}", path.display()));
        assert_eq!(found, expected);
    }
    let source = Source {
        owner: Owner::User,
        path: at("absent"),
        named: true,
    };
    assert!(
        read_source(&source, None).is_err(),
        "a file that was asked for must be there"
    );
}

#[test]
fn the_project_is_the_work_tree() {
    let machine = Machine::new("", "");
    let root = machine.0.path().join("project");
    assert_eq!(project_root(&root.join("deep")), root);
    fs::remove_dir(root.join(".git")).unwrap();
    assert_eq!(project_root(&root.join("deep")), root.join("deep"));
    fs::write(root.join(".git"), "gitdir: /elsewhere").unwrap();
    assert_eq!(project_root(&root.join("deep")), root);
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
