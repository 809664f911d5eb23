//! Command lines that start Claude Code.

use segue_core::agent::{McpReach, PermissionPolicy, RoleDescription};
use segue_core::scope::RoleName;
use tokio::sync::watch;

use super::*;

fn settings() -> Settings {
    Settings {
        program: Some("/bin/claude".into()),
        ..Settings::default()
    }
}

fn host() -> Host {
    Host {
        leash: Leash {
            program: "/bin/leash".into(),
            args: Vec::new(),
        },
        version: "0",
        kept: PathBuf::new(),
        path: OsString::new(),
        outside: crate::provider::OUTSIDE,
    }
}

fn request() -> OpenRequest {
    OpenRequest {
        cwd: "/".into(),
        native_id: None,
        from: None,
        strict: false,
        permissions: PermissionPolicy::Ask,
        role: None,
        model: None,
        mcp: Vec::new(),
        timeout: Duration::from_secs(1),
        started: watch::channel(None).0,
    }
}

fn arguments(settings: &Settings, request: &OpenRequest, going_on: bool) -> Vec<String> {
    let id = NativeId::parse("9302dd58-738b-4fd3-a52b-d0d6bad0873a").unwrap();
    let agent = ClaudeAgent::new("/bin/claude".into(), settings, &host());
    let start = if going_on {
        Start::GoOn(&id)
    } else {
        Start::New(&id)
    };
    let args = agent.arguments(request, start, None).into_iter();
    args.map(|arg| arg.into_string().unwrap()).collect()
}

#[test]
fn a_session_is_begun_or_gone_on_with() {
    let cases = [
        (false, "--session-id=9302dd58-738b-4fd3-a52b-d0d6bad0873a"),
        (true, "--resume=9302dd58-738b-4fd3-a52b-d0d6bad0873a"),
    ];
    for (going_on, expected) in cases {
        let args = arguments(&settings(), &request(), going_on);
        let about_sessions =
            |arg: &&String| arg.starts_with("--session-id") || arg.starts_with("--resume");
        let found: Vec<&String> = args.iter().filter(about_sessions).collect();
        assert_eq!(found, [expected]);
        assert!(args.contains(&"--permission-mode=default".to_owned()));
    }
}

#[test]
fn a_branch_leaves_the_other_session_alone() {
    let id = |text: &str| NativeId::parse(text).unwrap();
    let branch = Branch {
        id: &id("new"),
        of: &id("old"),
        until: "record",
    };
    let agent = ClaudeAgent::new("/bin/claude".into(), &settings(), &host());
    let args = agent.arguments(&request(), Start::Branch(branch), None);
    for expected in [
        "--resume=old",
        "--fork-session",
        "--resume-session-at=record",
        "--session-id=new",
    ] {
        assert!(args.contains(&OsString::from(expected)), "{args:?}");
    }
}

#[test]
fn what_is_asked_for_counts_before_what_is_configured() {
    let mut settings = settings();
    settings.model = Some("opus".to_owned());
    settings.mode = Some("plan".to_owned());
    settings.args = vec!["--add-dir".to_owned(), "/x".to_owned()];
    let mut request = request();
    let args = arguments(&settings, &request, false);
    assert!(args.contains(&"--model=opus".to_owned()));
    assert!(args.contains(&"--permission-mode=plan".to_owned()));
    assert!(args.ends_with(&["--add-dir".to_owned(), "/x".to_owned()]));
    request.model = Some("sonnet".to_owned());
    let args = arguments(&settings, &request, false);
    assert!(args.contains(&"--model=sonnet".to_owned()));
    assert!(!args.contains(&"--model=opus".to_owned()));
}

#[test]
fn tools_are_handed_over_and_only_our_own_are_allowed_and_in_sight() {
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let server = |name: &str| McpServer {
        name: name.to_owned(),
        reach: McpReach::Program {
            command: "/bin/tools".to_owned(),
            args: vec!["serve".to_owned()],
            env: pair("A", "b"),
        },
    };
    let http = McpServer {
        name: "web".to_owned(),
        reach: McpReach::Http {
            url: "http://127.0.0.1/mcp".to_owned(),
            headers: pair("X-Key", "y"),
        },
    };
    assert_eq!(
        mcp::config(&[server("lab"), server("segue"), http.clone()]),
        json!({"mcpServers": {
            "lab": {"type": "stdio", "command": "/bin/tools", "args": ["serve"], "env": {"A": "b"}},
            "segue": {"type": "stdio", "command": "/bin/tools", "args": ["serve"], "env": {"A": "b"}, "alwaysLoad": true},
            "web": {"type": "http", "url": "http://127.0.0.1/mcp", "headers": {"X-Key": "y"}},
        }})
    );
    for (servers, allowed) in [
        (vec![server("lab"), http], false),
        (vec![server("segue")], true),
    ] {
        let mut request = request();
        request.mcp = servers;
        let args = arguments(&settings(), &request, false);
        let own = "--allowedTools=mcp__segue".to_owned();
        assert_eq!(args.contains(&own), allowed);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept/tools.json");
    let handed = Handed::write(path.clone(), "secret").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(Handed::write(path.clone(), "again").is_err());
    drop(handed);
    assert!(!path.exists());
}

#[test]
fn the_ways_are_in_the_order_that_is_wanted() {
    let names = |settings: &Settings| -> Vec<&str> {
        let provider = claude(settings, &host());
        provider.ways().iter().map(|way| way.name).collect()
    };
    let mut settings = settings();
    assert_eq!(names(&settings), ["stream-json"]);
    settings.adapter = Some("/bin/adapter".into());
    assert_eq!(names(&settings), ["stream-json", "acp"]);
    settings.transports = vec!["acp".to_owned(), "nonsense".to_owned()];
    assert_eq!(names(&settings), ["acp"]);
    settings.transports.clear();
    settings.program = None;
    assert_eq!(names(&settings), ["acp"]);
}

#[test]
fn the_adapter_asks_and_takes_none_of_the_arguments() {
    let mut settings = settings();
    settings.args = vec!["--add-dir".to_owned()];
    let agent = adapted("/bin/adapter".into(), &settings, &host());
    assert_eq!(agent.mode.as_deref(), Some("default"));
    assert_eq!(agent.args, Vec::<OsString>::new());
    settings.mode = Some("plan".to_owned());
    let agent = adapted("/bin/adapter".into(), &settings, &host());
    assert_eq!(agent.mode.as_deref(), Some("plan"));
}

#[test]
fn a_role_is_denied_the_tools_that_it_may_not_use() {
    let role = |name: &str| RoleDescription::built_in(&RoleName::parse(name).unwrap());
    let asked = |mode: &str, role: Option<RoleDescription>| {
        let settings = Settings {
            mode: Some(mode.to_owned()),
            ..settings()
        };
        let request = OpenRequest { role, ..request() };
        let args = arguments(&settings, &request, false).into_iter();
        let about = |arg: &String| {
            arg.starts_with("--disallowedTools") || arg.starts_with("--permission-mode")
        };
        args.filter(about).collect::<Vec<_>>()
    };
    assert_eq!(
        asked("acceptEdits", None),
        ["--permission-mode=acceptEdits"]
    );
    assert_eq!(
        asked("acceptEdits", role("pm")),
        [
            "--permission-mode=default",
            "--disallowedTools=Bash,Edit,KillShell,Monitor,MultiEdit,NotebookEdit,WebFetch,WebSearch,Write"
        ]
    );
    assert_eq!(
        asked("plan", role("qa")),
        [
            "--permission-mode=plan",
            "--disallowedTools=Edit,MultiEdit,NotebookEdit,WebFetch,WebSearch,Write"
        ]
    );
    assert_eq!(
        asked("acceptEdits", role("dev")),
        [
            "--permission-mode=acceptEdits",
            "--disallowedTools=WebFetch,WebSearch"
        ]
    );
    let anything = role("pm").map(|role| RoleDescription {
        allowed_tools: None,
        ..role
    });
    assert_eq!(asked("plan", anything), ["--permission-mode=plan"]);
}
