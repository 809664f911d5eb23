//! Archiving, deleting and restoring sessions of the real CLIs, checked with the CLIs themselves.

mod retention;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use segue_catalog::{OpencodeReader, Reader};
use segue_testkit::model::{Reply, Script, ScriptedCall};
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};
use serde_json::Value;

use crate::real::harness::{AgentSetup, CliHarness};

const CLAUDE_SETUP: AgentSetup = AgentSetup {
    provider: "claude",
    transport: "stream-json",
};
const CODEX_SETUP: AgentSetup = AgentSetup {
    provider: "codex",
    transport: "app-server",
};
const GEMINI_SETUP: AgentSetup = AgentSetup {
    provider: "gemini",
    transport: "stream-json",
};
const OPENCODE_SETUP: AgentSetup = AgentSetup {
    provider: "acp:opencode",
    transport: "acp",
};

/// Returns the CLI and its arguments to resume a session.
fn cli_with_resume_args(setup: AgentSetup) -> (SandboxCli, &'static [&'static str]) {
    match setup.provider {
        "claude" => (SandboxCli::Claude, &["-p", "--resume"]),
        "codex" => (SandboxCli::Codex, &["exec", "resume"]),
        "gemini" => (SandboxCli::Gemini, &["-r"]),
        _ => (SandboxCli::Opencode, &["run", "--session"]),
    }
}

/// Returns the name of the program that stores the sessions.
fn storage_provider(setup: AgentSetup) -> &'static str {
    setup
        .provider
        .strip_prefix("acp:")
        .unwrap_or(setup.provider)
}

/// Returns the directory in which the CLI stores its sessions.
fn session_dir(harness: &CliHarness) -> std::path::PathBuf {
    harness.sandbox.home().join(match harness.setup.provider {
        "claude" => ".claude/projects",
        "codex" => ".codex/sessions",
        "gemini" => ".gemini/tmp",
        _ => ".local/share/opencode/storage",
    })
}

/// Resumes a session in the CLI itself.
fn resume_in_cli(harness: &CliHarness, id: &str, prompt: &str) -> CommandOutcome {
    let (cli, args) = cli_with_resume_args(harness.setup);
    let resume_args = args.iter().copied().chain([id]);
    let prompt_args: &[&str] = match harness.setup.provider {
        "gemini" => &["-p", prompt],
        _ => &[prompt],
    };
    harness
        .sandbox
        .run(cli, resume_args.chain(prompt_args.iter().copied()))
}

/// Runs segue, fails unless it succeeds, and returns the printed JSON.
fn run_json(harness: &CliHarness, args: &[&str]) -> Value {
    let outcome = harness.run_segue(args);
    assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:#?}");
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:#?}"))
}

/// Returns the native id of the only listed session.
fn find_only_session(harness: &CliHarness) -> String {
    let listed = run_json(harness, &["session", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    listed[0]["native_session_id"].as_str().unwrap().to_owned()
}

/// Returns all files below a directory with their contents and modification times.
fn read_files(directory: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut contents = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            contents.extend(read_files(&path));
        } else {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            let name = path.display().to_string();
            contents.insert(name, (fs::read(&path).unwrap(), modified));
        }
    }
    contents
}

/// Returns all paths below a directory whose names contain `id`.
fn paths_containing(directory: &Path, id: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().contains(id) {
            paths.push(path.display().to_string());
        }
        if path.is_dir() {
            paths.extend(paths_containing(&path, id));
        }
    }
    paths
}

fn assert_cli_resumes(harness: &CliHarness, id: &str) {
    let outcome = resume_in_cli(harness, id, "which colour was it?");
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    for text in ["teal", "which colour was it?"] {
        assert!(request.contains(text), "{:?}: {request:#?}", harness.setup);
    }
}

/// Checks that the CLI does not find a deleted session and that no file of it exists.
fn assert_missing_in_cli(harness: &CliHarness, id: &str) {
    let request_count = harness.sandbox.model().turn_requests().len();
    let outcome = resume_in_cli(harness, id, "still there?");
    assert!(outcome.code.is_some_and(|code| code != 0), "{outcome:#?}");
    let expected = match harness.setup.provider {
        "claude" => "No conversation found with session ID",
        "codex" => "no rollout found for thread id",
        "gemini" => "Error resuming session",
        _ => "Session not found",
    };
    assert!(outcome.stderr.contains(expected), "{outcome:#?}");
    assert_eq!(
        harness.sandbox.model().turn_requests().len(),
        request_count,
        "a request was sent to the model"
    );
    if harness.setup.provider == "acp:opencode" {
        let reader = OpencodeReader::new(harness.sandbox.home().join(".local/share/opencode"));
        let locations = reader.scan_sessions().locations;
        let mut ids = locations
            .iter()
            .map(|location| reader.read_head(location).unwrap().id);
        assert!(ids.all(|session_id| session_id.as_str() != id), "{id}");
    } else {
        let id = if harness.setup.provider == "gemini" {
            &id[..8]
        } else {
            id
        };
        let remaining = paths_containing(&session_dir(harness), id);
        assert_eq!(remaining, Vec::<String>::new());
    }
}

/// Creates a session in the CLI, with additional files if the CLI writes them.
fn create_cli_session(harness: &CliHarness) -> String {
    let (cli, args): (_, &[&str]) = match harness.setup.provider {
        "claude" => (
            SandboxCli::Claude,
            &["-p", "--permission-mode", "bypassPermissions"],
        ),
        "codex" => (SandboxCli::Codex, &["exec"]),
        "gemini" => (SandboxCli::Gemini, &["-y", "-p"]),
        _ => (SandboxCli::Opencode, &["run"]),
    };
    let mut command = harness.sandbox.cli_command(cli);
    command
        .args(args)
        .arg("look around: my favourite colour is teal");
    // Without this variable, Claude Code refuses to skip permission requests for root.
    command.env("IS_SANDBOX", "1");
    let outcome = CommandOutcome::run(command, Duration::from_mins(2));
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    find_only_session(harness)
}

#[expect(clippy::too_many_lines, reason = "one scenario with many checks")]
fn assert_archived_deleted_and_restored(setup: AgentSetup) {
    let replies = [
        Reply::from_call(ScriptedCall::shell("cat long.txt")),
        Reply::from_text("I see."),
    ];
    let slow =
        Reply::from_text("one two three four five six seven").with_pace(Duration::from_secs(20));
    let script = Script::new()
        .with_rule("look around", replies)
        .with_rule("count", [slow]);
    let harness = CliHarness::new(setup, script);
    // The output is so long that some CLIs store it in a separate file.
    let long = "all work and no play makes Jack a dull boy\n".repeat(4000);
    fs::write(harness.sandbox.project().join("long.txt"), long).unwrap();
    let id = create_cli_session(&harness);
    let session_ref = format!("{}:{id}", storage_provider(setup));
    let before = read_files(&session_dir(&harness));
    let expected_counts = match setup.provider {
        // The tool output is in a separate file.
        "claude" | "gemini" => 2..9,
        "codex" => 1..2,
        // The session is in a database.
        _ => 0..1,
    };
    assert!(
        expected_counts.contains(&before.len()),
        "{:?}",
        before.keys()
    );

    let archived = run_json(&harness, &["session", "archive", "--json", &session_ref]);
    assert_eq!(archived[0]["outcome"], "archived", "{archived:#}");
    assert_eq!(archived[0]["turns"], 1, "{archived:#}");
    let second = run_json(&harness, &["session", "archive", "--json", &session_ref]);
    assert_eq!(second[0]["outcome"], "already", "{second:#}");
    assert_eq!(
        read_files(&session_dir(&harness)),
        before,
        "archiving changed the native session"
    );

    let plan = run_json(
        &harness,
        &["session", "delete", "--dry-run", "--json", &session_ref],
    );
    assert_eq!(plan["dry_run"], true, "{plan:#}");
    assert_eq!(
        read_files(&session_dir(&harness)),
        before,
        "a dry run changed the native session"
    );
    let deleted = run_json(
        &harness,
        &["session", "delete", "--yes", "--json", &session_ref],
    );
    let expected_method = if ["codex", "opencode"].contains(&storage_provider(setup)) {
        "agent"
    } else {
        "files"
    };
    assert_eq!(deleted["native"][0]["by"], expected_method, "{deleted:#}");
    assert_missing_in_cli(&harness, &id);

    // The archived copy is still listed and shown.
    let listed = run_json(&harness, &["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "archived", "{listed:#}");
    let transcript = run_json(&harness, &["session", "show", "--json", &session_ref]);
    assert_eq!(
        transcript["turns"].as_array().unwrap().len(),
        1,
        "{transcript:#}"
    );
    assert!(transcript.to_string().contains("teal"), "{transcript:#}");
    assert!(
        transcript.to_string().contains("dull boy"),
        "{transcript:#}"
    );

    // The leftovers of a killed restore do not block a restore.
    let leftover = harness
        .segue_home()
        .join(format!("tmp/{}-{id}", storage_provider(setup)));
    fs::create_dir_all(&leftover).unwrap();
    fs::write(leftover.join(format!("{id}.json")), "incomplete").unwrap();
    let restored = run_json(&harness, &["session", "restore", "--json", &session_ref]);
    assert_eq!(restored["from"], "trash", "{restored:#}");
    assert!(!leftover.exists());
    let after = read_files(&session_dir(&harness));
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(after, before, "{setup:?}");
    assert_cli_resumes(&harness, &id);
    assert_refused_while_in_use(&harness, &id);

    // A purge also removes all copies.
    let outcome = harness.run_segue(&[
        "session",
        "delete",
        "--yes",
        "--purge",
        "--native",
        &session_ref,
    ]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert_missing_in_cli(&harness, &id);
    let copies = run_json(&harness, &["session", "archive", "--list", "--json"]);
    assert_eq!(copies, serde_json::json!([]));
    harness.assert_no_processes();
}

/// Checks that a session that its provider deleted is resumed from the archive, in segue and in the CLI.
fn assert_archived_session_survives_cleanup(setup: AgentSetup) {
    let harness = CliHarness::new(setup, Script::new());
    harness.start_native_session("my favourite colour is teal");
    let id = find_only_session(&harness);
    let session_ref = format!("{}:{id}", storage_provider(setup));
    let outcome = harness.run_segue(&["session", "archive", "--all", "--older-than", "1m"]);
    assert!(
        outcome.stderr.contains("no sessions to archive"),
        "{outcome:#?}"
    );
    let outcome =
        harness.run_segue(&["session", "archive", "--all", "-p", storage_provider(setup)]);
    assert!(
        outcome.stdout.contains("1 archived, 0 unchanged."),
        "{outcome:#?}"
    );
    harness.delete_native_session(&id);
    let listed = run_json(&harness, &["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "archived", "{listed:#}");

    let adopted = harness.run_finished_turn(&["--resume", &session_ref, "which colour was it?"]);
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        request.contains("teal"),
        "{setup:?} {adopted:#}: {request:#?}"
    );
    assert_ne!(adopted["opened"], "fresh", "{adopted:#}");
    // Skipped for opencode, which takes seconds to start: a restore from the trash runs the same command.
    if setup != OPENCODE_SETUP {
        let outcome = harness.run_segue(&["session", "restore", &session_ref]);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        assert_cli_resumes(&harness, &id);
    }
    harness.assert_no_processes();
}

/// Checks that deleting a session of segue also deletes its native sessions, and no other data.
fn assert_deleted_with_segue_session(setup: AgentSetup) {
    let harness = CliHarness::new(setup, Script::new());
    let result = harness.run_finished_turn(&["my favourite colour is teal"]);
    let session = result["session_id"].as_str().unwrap();
    let id = result["native_session_id"].as_str().unwrap();
    harness.assert_no_processes();
    let fork = run_json(&harness, &["session", "fork", "--json", session]);
    let fork_id = fork["id"].as_str().unwrap();

    let deleted = run_json(&harness, &["session", "delete", "--yes", "--json", session]);
    assert_eq!(deleted["deleted"], session, "{deleted:#}");
    assert_eq!(deleted["native"][0]["native_session_id"], id, "{deleted:#}");
    assert_missing_in_cli(&harness, id);
    // The turns that the fork shares with it are still in the store.
    let transcript = run_json(&harness, &["session", "show", "--json", fork_id]);
    assert!(transcript.to_string().contains("teal"), "{transcript:#}");
    // Skipped for opencode, which takes seconds to start: `assert_archived_deleted_and_restored` restores its session.
    if setup != OPENCODE_SETUP {
        let restored = run_json(&harness, &["session", "restore", "--json", id]);
        assert_eq!(restored["from"], "trash", "{restored:#}");
        let listed = run_json(&harness, &["session", "list", "--json"]);
        assert!(listed.to_string().contains(id), "{listed:#}");
    }
    harness.assert_no_processes();
}

/// Resumes a session in the CLI with a prompt that is answered slowly.
fn start_slow_turn(harness: &CliHarness, id: &str) -> Child {
    let (cli, args) = cli_with_resume_args(harness.setup);
    let mut command = harness.sandbox.cli_command(cli);
    command.args(args).arg(id);
    if harness.setup.provider == "gemini" {
        command.arg("-p");
    }
    command.arg("count slowly");
    let request_count = harness.sandbox.model().turn_requests().len();
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let model = harness.sandbox.model();
    assert!(model.wait_for_turn_requests(request_count + 1, Duration::from_mins(1)));
    child
}

/// Checks that the session `id` is neither deleted nor resumed while its CLI is using it.
fn assert_refused_while_in_use(harness: &CliHarness, id: &str) {
    let setup = harness.setup;
    let mut child = start_slow_turn(harness, id);
    let session_ref = format!("{}:{id}", storage_provider(setup));
    let outcome = harness.run_segue(&["session", "delete", "--yes", &session_ref]);
    assert_eq!(outcome.code, Some(1), "{setup:?}: {outcome:#?}");
    assert!(
        outcome.stderr.contains("is in use by process"),
        "{setup:?}: {outcome:#?}"
    );
    let plan = run_json(
        harness,
        &["session", "delete", "--dry-run", "--json", &session_ref],
    );
    assert!(plan["native"][0]["in_use_by"].is_u64(), "{plan:#}");
    // segue does not resume it either.
    let request_count = harness.sandbox.model().turn_requests().len();
    let refusals: [(&[&str], &str); 4] = [
        (
            &["session", "resume", &session_ref, "more"],
            "is in use by process",
        ),
        (
            &["chat", "--resume", &session_ref, "more"],
            "is in use by process",
        ),
        (
            &["session", "resume", "--exec", &session_ref],
            "is using it",
        ),
        (
            &["session", "resume", "--print", &session_ref],
            "is using it",
        ),
    ];
    for (args, expected) in refusals {
        let outcome = harness.run_segue(args);
        assert_eq!(outcome.code, Some(1), "{setup:?}: {outcome:#?}");
        assert!(outcome.stderr.contains(expected), "{setup:?}: {outcome:#?}");
    }
    assert_eq!(
        harness.sandbox.model().turn_requests().len(),
        request_count,
        "{setup:?}"
    );
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    harness.assert_no_processes();
}

/// Generates a module for each CLI with one test per check.
macro_rules! scenes {
    ($($name:ident: $setup:ident,)+) => {
        $(mod $name {
            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn a_session_is_archived_deleted_and_restored() {
                super::assert_archived_deleted_and_restored(super::$setup);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn an_archived_session_survives_a_cleanup() {
                super::assert_archived_session_survives_cleanup(super::$setup);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn a_native_session_is_deleted_with_its_segue_session() {
                super::assert_deleted_with_segue_session(super::$setup);
            }
        })+
    };
}

scenes! {
    claude: CLAUDE_SETUP,
    codex: CODEX_SETUP,
    gemini: GEMINI_SETUP,
    opencode: OPENCODE_SETUP,
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_opencode_copy_equals_its_own_export() {
    let replies = [
        Reply::from_call(ScriptedCall::shell("echo hello")),
        Reply::from_text("done"),
    ];
    let sandbox = Sandbox::new(Script::new().with_rule("run", replies));
    let outcome = sandbox.run(SandboxCli::Opencode, ["run", "run it"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let reader = OpencodeReader::new(sandbox.home().join(".local/share/opencode"));
    let location = reader.scan_sessions().locations.remove(0);
    let id = reader.read_head(&location).unwrap().id;
    let mut copy_bytes = Vec::new();
    let storage = reader.storage().unwrap();
    storage
        .export_session(&location, id.as_str(), &mut copy_bytes)
        .unwrap();
    let outcome = sandbox.run(SandboxCli::Opencode, ["export", id.as_str()]);
    let mut copy: Value = serde_json::from_slice(&copy_bytes).unwrap();
    let mut export: Value = serde_json::from_str(&outcome.stdout).unwrap();
    // `0` and `0.0` are the same cost.
    for value in [&mut copy, &mut export] {
        let cost = value["info"]["cost"].as_f64().unwrap();
        value["info"]["cost"] = cost.into();
    }
    assert_eq!(copy, export);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_codex_fork_is_archived_with_its_parent() {
    let harness = CliHarness::new(CODEX_SETUP, Script::new());
    harness.start_native_session("my favourite colour is teal");
    let parent = find_only_session(&harness);
    let outcome = harness.sandbox.run(
        SandboxCli::Codex,
        ["exec", "fork", &parent, "and my name is Ada"],
    );
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let listed = run_json(&harness, &["session", "list", "--json"]);
    let ids = listed.as_array().unwrap().iter();
    let mut ids = ids.map(|row| row["native_session_id"].as_str().unwrap().to_owned());
    let fork = ids.find(|id| *id != parent).unwrap();
    let before = read_files(&session_dir(&harness));
    assert_eq!(before.len(), 2);

    // Codex refuses to delete the parent of a fork, and the attempt changes no file.
    let outcome = harness.run_segue(&["session", "delete", "--yes", &parent]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(
        outcome.stderr.contains("failed to delete session"),
        "{outcome:#?}"
    );
    assert_eq!(read_files(&session_dir(&harness)), before);

    let archived = run_json(&harness, &["session", "archive", "--json", &fork]);
    assert_eq!(
        archived[0]["files"].as_array().unwrap().len(),
        2,
        "{archived:#}"
    );
    for id in [&fork, &parent] {
        let outcome = harness.run_segue(&["session", "delete", "--yes", id]);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        assert_missing_in_cli(&harness, id);
    }
    assert_eq!(read_files(&session_dir(&harness)).len(), 0);
    let transcript = run_json(&harness, &["session", "show", "--json", &fork]);
    assert_eq!(
        transcript["turns"].as_array().unwrap().len(),
        2,
        "{transcript:#}"
    );
    let restored = run_json(&harness, &["session", "restore", "--json", &fork]);
    assert_eq!(
        restored["files"].as_array().unwrap().len(),
        2,
        "{restored:#}"
    );
    assert_cli_resumes(&harness, &fork);
    harness.assert_no_processes();
}
