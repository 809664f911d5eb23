//! Command lines that start Claude Code.

use segue_core::agent::{McpEndpoint, PermissionPolicy, RoleDescription};
use segue_core::scope::RoleName;
use tokio::sync::watch;

use super::*;
use crate::provider::test_host;

fn settings() -> ProviderSettings {
    ProviderSettings {
        program: Some("/bin/claude".into()),
        ..ProviderSettings::default()
    }
}

fn request() -> OpenRequest {
    OpenRequest {
        cwd: "/".into(),
        native_id: None,
        branch_point: None,
        strict: false,
        permissions: PermissionPolicy::Ask,
        role: None,
        model: None,
        mcp: Vec::new(),
        timeout: Duration::from_secs(1),
        process_sender: watch::channel(None).0,
    }
}

fn build_args(settings: &ProviderSettings, request: &OpenRequest, is_resumed: bool) -> Vec<String> {
    let id = NativeId::parse("9302dd58-738b-4fd3-a52b-d0d6bad0873a").unwrap();
    let agent = ClaudeAgent::new(Path::new("/bin/claude"), settings, &test_host());
    let session_start = if is_resumed {
        ClaudeSessionStart::Resumed(&id)
    } else {
        ClaudeSessionStart::New(&id)
    };
    let args = agent.build_args(request, session_start, None).into_iter();
    args.map(|arg| arg.into_string().unwrap()).collect()
}

#[test]
fn a_session_is_started_or_resumed() {
    let cases = [
        (false, "--session-id=9302dd58-738b-4fd3-a52b-d0d6bad0873a"),
        (true, "--resume=9302dd58-738b-4fd3-a52b-d0d6bad0873a"),
    ];
    for (is_resumed, expected) in cases {
        let args = build_args(&settings(), &request(), is_resumed);
        let is_session_arg =
            |arg: &&String| arg.starts_with("--session-id") || arg.starts_with("--resume");
        let session_args: Vec<&String> = args.iter().filter(is_session_arg).collect();
        assert_eq!(session_args, [expected]);
        assert!(args.contains(&"--permission-mode=default".to_owned()));
    }
}

#[test]
fn a_branch_does_not_modify_the_source_session() {
    let id = |text: &str| NativeId::parse(text).unwrap();
    let branch = ClaudeBranch {
        id: &id("new"),
        source_id: &id("old"),
        last_record: "record",
    };
    let agent = ClaudeAgent::new(Path::new("/bin/claude"), &settings(), &test_host());
    let args = agent.build_args(&request(), ClaudeSessionStart::Branched(branch), None);
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
fn the_requested_model_overrides_the_configured_one() {
    let mut settings = settings();
    settings.model = Some("opus".to_owned());
    settings.mode = Some("plan".to_owned());
    settings.args = vec!["--add-dir".to_owned(), "/x".to_owned()];
    let mut request = request();
    let args = build_args(&settings, &request, false);
    assert!(args.contains(&"--model=opus".to_owned()));
    assert!(args.contains(&"--permission-mode=plan".to_owned()));
    assert!(args.ends_with(&["--add-dir".to_owned(), "/x".to_owned()]));
    request.model = Some("sonnet".to_owned());
    let args = build_args(&settings, &request, false);
    assert!(args.contains(&"--model=sonnet".to_owned()));
    assert!(!args.contains(&"--model=opus".to_owned()));
}

#[test]
fn mcp_servers_are_written_to_a_file_and_only_segues_own_is_allowed_and_always_loaded() {
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let server = |name: &str| McpServer {
        name: name.to_owned(),
        endpoint: McpEndpoint::Program {
            command: "/bin/tools".to_owned(),
            args: vec!["serve".to_owned()],
            env: pair("A", "b"),
        },
    };
    let http = McpServer {
        name: "web".to_owned(),
        endpoint: McpEndpoint::Http {
            url: "http://127.0.0.1/mcp".to_owned(),
            headers: pair("X-Key", "y"),
        },
    };
    assert_eq!(
        mcp_config::build_mcp_config(&[server("lab"), server("segue"), http.clone()]),
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
        let args = build_args(&settings(), &request, false);
        let own_tools_arg = "--allowedTools=mcp__segue".to_owned();
        assert_eq!(args.contains(&own_tools_arg), allowed);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agents/tools.json");
    let config_file = McpConfigFile::create(path.clone(), "secret").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(McpConfigFile::create(path.clone(), "secret").is_err());
    drop(config_file);
    assert!(!path.exists());
}

#[test]
fn transports_are_in_the_configured_order() {
    let names = |settings: &ProviderSettings| -> Vec<&str> {
        let provider = claude_provider(settings, &test_host());
        provider
            .transports()
            .iter()
            .map(|transport| transport.name)
            .collect()
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
fn the_adapter_asks_for_permission_and_ignores_the_configured_arguments() {
    let mut settings = settings();
    settings.args = vec!["--add-dir".to_owned()];
    let agent = build_acp_agent("/bin/adapter".into(), &settings, &test_host());
    assert_eq!(agent.mode.as_deref(), Some("default"));
    assert_eq!(agent.args, Vec::<OsString>::new());
    settings.mode = Some("plan".to_owned());
    let agent = build_acp_agent("/bin/adapter".into(), &settings, &test_host());
    assert_eq!(agent.mode.as_deref(), Some("plan"));
}

#[test]
fn a_role_is_denied_its_forbidden_tools() {
    let role = |name: &str| RoleDescription::find_built_in(&RoleName::parse(name).unwrap());
    let permission_args = |mode: &str, role: Option<RoleDescription>| {
        let settings = ProviderSettings {
            mode: Some(mode.to_owned()),
            ..settings()
        };
        let request = OpenRequest { role, ..request() };
        let args = build_args(&settings, &request, false).into_iter();
        let is_permission_arg = |arg: &String| {
            arg.starts_with("--disallowedTools") || arg.starts_with("--permission-mode")
        };
        args.filter(is_permission_arg).collect::<Vec<_>>()
    };
    assert_eq!(
        permission_args("acceptEdits", None),
        ["--permission-mode=acceptEdits"]
    );
    assert_eq!(
        permission_args("acceptEdits", role("pm")),
        [
            "--permission-mode=default",
            "--disallowedTools=Bash,Edit,KillShell,Monitor,MultiEdit,NotebookEdit,WebFetch,WebSearch,Write"
        ]
    );
    assert_eq!(
        permission_args("plan", role("qa")),
        [
            "--permission-mode=plan",
            "--disallowedTools=Edit,MultiEdit,NotebookEdit,WebFetch,WebSearch,Write"
        ]
    );
    assert_eq!(
        permission_args("acceptEdits", role("dev")),
        [
            "--permission-mode=acceptEdits",
            "--disallowedTools=WebFetch,WebSearch"
        ]
    );
    let unrestricted = role("pm").map(|role| RoleDescription {
        allowed_tools: None,
        ..role
    });
    assert_eq!(
        permission_args("plan", unrestricted),
        ["--permission-mode=plan"]
    );
}
