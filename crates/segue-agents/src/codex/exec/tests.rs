//! Command lines of `codex exec`.

use std::path::PathBuf;

use segue_core::agent::{McpReach, McpServer, RoleDescription};
use segue_core::scope::RoleName;
use tokio::sync::watch;

use super::*;
use crate::{Host, Leash, Settings};

const ID: &str = "01a1e269-7de6-7563-bd31-b0fa3ef1a5f9";

fn codex(settings: &Settings) -> Codex {
    let host = Host {
        leash: Leash {
            program: PathBuf::from("/bin/leash"),
            args: Vec::new(),
        },
        version: "0",
        kept: PathBuf::new(),
        path: OsString::new(),
        outside: crate::provider::OUTSIDE,
    };
    Codex::new(PathBuf::from("/bin/codex"), settings, &host)
}

fn request(permissions: PermissionPolicy) -> OpenRequest {
    OpenRequest {
        cwd: PathBuf::from("/p"),
        native_id: None,
        from: None,
        strict: false,
        permissions,
        role: None,
        model: None,
        mcp: Vec::new(),
        timeout: Duration::from_secs(1),
        started: watch::channel(None).0,
    }
}

fn words(args: &[OsString]) -> String {
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    words.join(" ")
}

#[test]
fn the_policy_chooses_the_sandbox() {
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
        let args = arguments(&codex(&Settings::default()), &request(policy), None, config);
        let expected = format!("exec --json --sandbox {sandbox} -c approval_policy=\"never\" -");
        assert_eq!(words(&args), expected, "{policy:?}");
    }
}

#[test]
fn all_that_was_asked_for_is_passed_on() {
    let settings = Settings {
        args: vec!["--search".into()],
        model: Some("usual".into()),
        mode: Some("workspace-write".into()),
        ..Settings::default()
    };
    let mut request = request(PermissionPolicy::Ask);
    request.model = Some("special".into());
    request.mcp = vec![McpServer {
        name: "segue".into(),
        reach: McpReach::Program {
            command: "/bin/segue".into(),
            args: vec!["mcp".into()],
            env: Vec::new(),
        },
    }];
    let thread = NativeId::parse(ID).unwrap();
    let args = arguments(&codex(&settings), &request, Some(&thread), "");
    let text = words(&args);
    for part in [
        "--search exec --json --sandbox workspace-write ",
        " --model special ",
        " -c mcp_servers.segue={",
        r#""command" = "/bin/segue""#,
        r#""default_tools_approval_mode" = "approve""#,
        r#" -c projects={"/p" = {"trust_level" = "untrusted"}} "#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.ends_with(&format!(" resume {ID} -")), "{text}");
}

#[test]
fn a_folder_is_never_declared_safe() {
    for policy in [PermissionPolicy::Ask, PermissionPolicy::AllowAll] {
        let args = arguments(&codex(&Settings::default()), &request(policy), None, "");
        let text = words(&args);
        assert!(!text.contains("--skip-git-repo-check"), "{text}");
    }
}

#[test]
fn a_mode_that_does_more_than_the_role_is_not_used() {
    let settings = Settings {
        mode: Some("workspace-write".into()),
        ..Settings::default()
    };
    let role = |name: &str| RoleDescription::built_in(&RoleName::parse(name).unwrap());
    for (role, sandbox) in [
        (None, "workspace-write"),
        (role("dev"), "workspace-write"),
        (role("qa"), "read-only"),
        (role("pm"), "read-only"),
    ] {
        let mut request = request(PermissionPolicy::AllowReads);
        request.role = role;
        let text = words(&arguments(&codex(&settings), &request, None, ""));
        assert!(text.contains(&format!("--sandbox {sandbox} ")), "{text}");
    }
}
