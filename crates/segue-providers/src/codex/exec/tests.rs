//! Command lines of `codex exec`.

use std::path::{Path, PathBuf};

use segue_core::agent::{McpEndpoint, McpServer, RoleDescription};
use segue_core::scope::RoleName;
use tokio::sync::watch;

use super::*;
use crate::ProviderSettings;

const THREAD_ID: &str = "01a1e269-7de6-7563-bd31-b0fa3ef1a5f9";

fn codex_program(settings: &ProviderSettings) -> AgentProgram {
    let host = crate::provider::test_host();
    AgentProgram::new(
        &crate::codex::CODEX_PROVIDER,
        Path::new("/bin/codex"),
        settings,
        &host,
    )
}

fn request(permissions: PermissionPolicy) -> OpenRequest {
    OpenRequest {
        cwd: PathBuf::from("/p"),
        native_id: None,
        branch_point: None,
        strict: false,
        permissions,
        role: None,
        model: None,
        mcp: Vec::new(),
        timeout: Duration::from_secs(1),
        process_sender: watch::channel(None).0,
    }
}

fn join_args(args: &[OsString]) -> String {
    let texts: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    texts.join(" ")
}

#[test]
fn the_policy_determines_the_sandbox() {
    use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
    let config = "[projects.\"/p\"]\ntrust_level = \"trusted\"\n";
    let cases = [
        (Ask, "read-only"),
        (AllowReads, "read-only"),
        (Deny, "read-only"),
        (AllowEdits, "workspace-write"),
        (AllowAll, "danger-full-access"),
    ];
    for (policy, sandbox) in cases {
        let args = build_args(
            &codex_program(&ProviderSettings::default()),
            &request(policy),
            None,
            config,
        );
        let expected = format!("exec --json --sandbox {sandbox} -c approval_policy=\"never\" -");
        assert_eq!(join_args(&args), expected, "{policy:?}");
    }
}

#[test]
fn the_requested_options_are_passed_to_codex() {
    let settings = ProviderSettings {
        args: vec!["--search".into()],
        model: Some("configured".into()),
        mode: Some("workspace-write".into()),
        ..ProviderSettings::default()
    };
    let mut request = request(PermissionPolicy::Ask);
    request.model = Some("requested".into());
    request.mcp = vec![McpServer {
        name: "segue".into(),
        endpoint: McpEndpoint::Program {
            command: "/bin/segue".into(),
            args: vec!["mcp".into()],
            env: Vec::new(),
        },
    }];
    let thread_id = NativeId::parse(THREAD_ID).unwrap();
    let args = build_args(&codex_program(&settings), &request, Some(&thread_id), "");
    let text = join_args(&args);
    for part in [
        "--search exec --json --sandbox workspace-write ",
        " --model requested ",
        " -c mcp_servers.segue={",
        r#""command" = "/bin/segue""#,
        r#""default_tools_approval_mode" = "approve""#,
        r#" -c projects={"/p" = {"trust_level" = "untrusted"}} "#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.ends_with(&format!(" resume {THREAD_ID} -")), "{text}");
}

#[test]
fn the_git_repository_check_is_never_skipped() {
    for policy in [PermissionPolicy::Ask, PermissionPolicy::AllowAll] {
        let args = build_args(
            &codex_program(&ProviderSettings::default()),
            &request(policy),
            None,
            "",
        );
        let text = join_args(&args);
        assert!(!text.contains("--skip-git-repo-check"), "{text}");
    }
}

#[test]
fn a_mode_that_exceeds_the_role_is_not_used() {
    let settings = ProviderSettings {
        mode: Some("workspace-write".into()),
        ..ProviderSettings::default()
    };
    let role = |name: &str| RoleDescription::find_built_in(&RoleName::parse(name).unwrap());
    for (role, sandbox) in [
        (None, "workspace-write"),
        (role("dev"), "workspace-write"),
        (role("qa"), "read-only"),
        (role("pm"), "read-only"),
    ] {
        let mut request = request(PermissionPolicy::AllowReads);
        request.role = role;
        let text = join_args(&build_args(&codex_program(&settings), &request, None, ""));
        assert!(text.contains(&format!("--sandbox {sandbox} ")), "{text}");
    }
}
