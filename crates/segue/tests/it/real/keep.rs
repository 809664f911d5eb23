//! Sessions of the real CLIs archived, deleted and restored: gone for the CLI, and back for it.

mod retention;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use segue_catalog::{OpencodeReader, Reader};
use segue_testkit::model::{ScriptedCall, Reply, Script};
use segue_testkit::sandbox::{SandboxCli, CommandOutcome, Sandbox};
use serde_json::Value;

use crate::real::stage::{Stage, Way};

const CLAUDE: Way = Way {
    provider: "claude",
    transport: "stream-json",
};
const CODEX: Way = Way {
    provider: "codex",
    transport: "app-server",
};
const GEMINI: Way = Way {
    provider: "gemini",
    transport: "stream-json",
};
const OPENCODE: Way = Way {
    provider: "acp:opencode",
    transport: "acp",
};

/// The CLI, and how it goes on with a session.
fn cli(way: Way) -> (SandboxCli, &'static [&'static str]) {
    match way.provider {
        "claude" => (SandboxCli::Claude, &["-p", "--resume"]),
        "codex" => (SandboxCli::Codex, &["exec", "resume"]),
        "gemini" => (SandboxCli::Gemini, &["-r"]),
        _ => (SandboxCli::Opencode, &["run", "--session"]),
    }
}

/// Who keeps the sessions.
fn keeper(way: Way) -> &'static str {
    way.provider.strip_prefix("acp:").unwrap_or(way.provider)
}

/// Where the CLI keeps them.
fn home(stage: &Stage) -> std::path::PathBuf {
    stage.sandbox.home().join(match stage.way.provider {
        "claude" => ".claude/projects",
        "codex" => ".codex/sessions",
        "gemini" => ".gemini/tmp",
        _ => ".local/share/opencode/storage",
    })
}

/// Has the CLI itself go on with a session.
fn resume(stage: &Stage, id: &str, prompt: &str) -> CommandOutcome {
    let (cli, args) = cli(stage.way);
    let words = args.iter().copied().chain([id]);
    let prompt: &[&str] = match stage.way.provider {
        "gemini" => &["-p", prompt],
        _ => &[prompt],
    };
    stage.sandbox.run(cli, words.chain(prompt.iter().copied()))
}

/// segue's answer in JSON to a command that must do well.
fn json(stage: &Stage, args: &[&str]) -> Value {
    let ran = stage.run(args);
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:#?}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

/// The one session that the CLI has.
fn only_session(stage: &Stage) -> String {
    let listed = json(stage, &["session", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    listed[0]["native_session_id"].as_str().unwrap().to_owned()
}

/// All files of a directory, with what is in them and when they were written.
fn files(directory: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let written = fs::metadata(&path).unwrap().modified().unwrap();
            let name = path.display().to_string();
            all.insert(name, (fs::read(&path).unwrap(), written));
        }
    }
    all
}

/// Everything below a directory whose name has a part of this id in it.
fn named(directory: &Path, id: &str) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().contains(id) {
            all.push(path.display().to_string());
        }
        if path.is_dir() {
            all.extend(named(&path, id));
        }
    }
    all
}

fn assert_goes_on(stage: &Stage, id: &str) {
    let ran = resume(stage, id, "which colour was it?");
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    for told in ["teal", "which colour was it?"] {
        assert!(seen.contains(told), "{:?}: {seen:#?}", stage.way);
    }
}

/// What the CLI itself says of a session that is gone.
fn assert_gone(stage: &Stage, id: &str) {
    let asked = stage.sandbox.model().turn_requests().len();
    let ran = resume(stage, id, "still there?");
    assert!(ran.code.is_some_and(|code| code != 0), "{ran:#?}");
    let words = match stage.way.provider {
        "claude" => "No conversation found with session ID",
        "codex" => "no rollout found for thread id",
        "gemini" => "Error resuming session",
        _ => "Session not found",
    };
    assert!(ran.stderr.contains(words), "{ran:#?}");
    assert_eq!(
        stage.sandbox.model().turn_requests().len(),
        asked,
        "nothing was asked"
    );
    if stage.way.provider == "acp:opencode" {
        let reader = OpencodeReader::new(stage.sandbox.home().join(".local/share/opencode"));
        let found = reader.scan_sessions().locations;
        let mut ids = found.iter().map(|found| reader.read_head(found).unwrap().id);
        assert!(ids.all(|found| found.as_str() != id), "{id}");
    } else {
        let id = if stage.way.provider == "gemini" {
            &id[..8]
        } else {
            id
        };
        let left = named(&home(stage), id);
        assert_eq!(left, Vec::<String>::new());
    }
}

/// A session with files of its own beside it, where the CLI makes any.
fn begin(stage: &Stage) -> String {
    let (cli, args): (_, &[&str]) = match stage.way.provider {
        "claude" => (
            SandboxCli::Claude,
            &["-p", "--permission-mode", "bypassPermissions"],
        ),
        "codex" => (SandboxCli::Codex, &["exec"]),
        "gemini" => (SandboxCli::Gemini, &["-y", "-p"]),
        _ => (SandboxCli::Opencode, &["run"]),
    };
    let mut command = stage.sandbox.cli_command(cli);
    command
        .args(args)
        .arg("look around: my favourite colour is teal");
    // Or Claude Code refuses to work without asking for somebody who may do everything.
    command.env("IS_SANDBOX", "1");
    let ran = CommandOutcome::run(command, Duration::from_mins(2));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    only_session(stage)
}

fn is_archived_deleted_and_restored(way: Way) {
    let steps = [
        Reply::from_call(ScriptedCall::shell("cat long.txt")),
        Reply::from_text("I see."),
    ];
    let slow = Reply::from_text("one two three four five six seven").with_pace(Duration::from_secs(20));
    let script = Script::new().with_rule("look around", steps).with_rule("count", [slow]);
    let stage = Stage::new(way, script);
    // So much that some CLIs put it into a file of its own.
    let long = "all work and no play makes Jack a dull boy\n".repeat(4000);
    fs::write(stage.sandbox.project().join("long.txt"), long).unwrap();
    let id = begin(&stage);
    let name = format!("{}:{id}", keeper(way));
    let before = files(&home(&stage));
    let own_files = match way.provider {
        // What the tool said is in a file of its own.
        "claude" | "gemini" => 2..9,
        "codex" => 1..2,
        // All of it is in a database.
        _ => 0..1,
    };
    assert!(own_files.contains(&before.len()), "{:?}", before.keys());

    let archived = json(&stage, &["session", "archive", "--json", &name]);
    assert_eq!(archived[0]["outcome"], "archived", "{archived:#}");
    assert_eq!(archived[0]["turns"], 1, "{archived:#}");
    let again = json(&stage, &["session", "archive", "--json", &name]);
    assert_eq!(again[0]["outcome"], "already", "{again:#}");
    assert_eq!(files(&home(&stage)), before, "a copy changes nothing");

    let dry = json(&stage, &["session", "delete", "--dry-run", "--json", &name]);
    assert_eq!(dry["dry_run"], true, "{dry:#}");
    assert_eq!(files(&home(&stage)), before, "a dry run changes nothing");
    let deleted = json(&stage, &["session", "delete", "--yes", "--json", &name]);
    let by = if ["codex", "opencode"].contains(&keeper(way)) {
        "agent"
    } else {
        "files"
    };
    assert_eq!(deleted["native"][0]["by"], by, "{deleted:#}");
    assert_gone(&stage, &id);

    // The archive has it still, so it is listed and read.
    let listed = json(&stage, &["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "archived", "{listed:#}");
    let shown = json(&stage, &["session", "show", "--json", &name]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 1, "{shown:#}");
    assert!(shown.to_string().contains("teal"), "{shown:#}");
    assert!(shown.to_string().contains("dull boy"), "{shown:#}");

    // What a restore left that was killed is in nobody's way.
    let left = stage.home().join(format!("tmp/{}-{id}", keeper(way)));
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join(format!("{id}.json")), "half").unwrap();
    let restored = json(&stage, &["session", "restore", "--json", &name]);
    assert_eq!(restored["from"], "trash", "{restored:#}");
    assert!(!left.exists());
    let after = files(&home(&stage));
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(after, before, "{way:?}");
    assert_goes_on(&stage, &id);
    leave_alone_while_in_use(&stage, &id);

    // Purged, it is gone with all its copies.
    let ran = stage.run(&["session", "delete", "--yes", "--purge", "--native", &name]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_gone(&stage, &id);
    let copies = json(&stage, &["session", "archive", "--list", "--json"]);
    assert_eq!(copies, serde_json::json!([]));
    stage.assert_nothing_runs();
}

/// What the provider cleaned up goes on from the archive, in segue and in the CLI.
fn survives_a_clean_up(way: Way) {
    let stage = Stage::new(way, Script::new());
    stage.begin_elsewhere("my favourite colour is teal");
    let id = only_session(&stage);
    let name = format!("{}:{id}", keeper(way));
    let ran = stage.run(&["session", "archive", "--all", "--older-than", "1m"]);
    assert!(ran.stderr.contains("nothing to archive"), "{ran:#?}");
    let ran = stage.run(&["session", "archive", "--all", "-p", keeper(way)]);
    assert!(ran.stdout.contains("1 archived, 0 as before."), "{ran:#?}");
    stage.lose(&id);
    let listed = json(&stage, &["session", "list", "--json"]);
    assert_eq!(listed[0]["status"], "archived", "{listed:#}");

    let adopted = stage.says(&["--resume", &name, "which colour was it?"]);
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(seen.contains("teal"), "{way:?} {adopted:#}: {seen:#?}");
    assert_ne!(adopted["opened"], "fresh", "{adopted:#}");
    // opencode takes seconds for each start, and restores from the archive and from the trash by the same command.
    if way != OPENCODE {
        let ran = stage.run(&["session", "restore", &name]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert_goes_on(&stage, &id);
    }
    stage.assert_nothing_runs();
}

/// A session of segue's goes with the native sessions that it ran on, and only those.
fn goes_with_segues_own(way: Way) {
    let stage = Stage::new(way, Script::new());
    let result = stage.says(&["my favourite colour is teal"]);
    let session = result["session_id"].as_str().unwrap();
    let id = result["native_session_id"].as_str().unwrap();
    stage.assert_nothing_runs();
    let forked = json(&stage, &["session", "fork", "--json", session]);
    let forked = forked["id"].as_str().unwrap();

    let deleted = json(&stage, &["session", "delete", "--yes", "--json", session]);
    assert_eq!(deleted["deleted"], session, "{deleted:#}");
    assert_eq!(deleted["native"][0]["native_session_id"], id, "{deleted:#}");
    assert_gone(&stage, id);
    // What the fork shares with it is in segue's own store.
    let shown = json(&stage, &["session", "show", "--json", forked]);
    assert!(shown.to_string().contains("teal"), "{shown:#}");
    // Each start of opencode takes seconds, and `is_archived_deleted_and_restored` restores its session from the trash.
    if way != OPENCODE {
        let restored = json(&stage, &["session", "restore", "--json", id]);
        assert_eq!(restored["from"], "trash", "{restored:#}");
        let listed = json(&stage, &["session", "list", "--json"]);
        assert!(listed.to_string().contains(id), "{listed:#}");
    }
    stage.assert_nothing_runs();
}

/// Starts the CLI on a session, with an answer that takes long.
fn at_work(stage: &Stage, id: &str) -> Child {
    let (cli, args) = cli(stage.way);
    let mut command = stage.sandbox.cli_command(cli);
    command.args(args).arg(id);
    if stage.way.provider == "gemini" {
        command.arg("-p");
    }
    command.arg("count slowly");
    let asked = stage.sandbox.model().turn_requests().len();
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let model = stage.sandbox.model();
    assert!(model.wait_for_turn_requests(asked + 1, Duration::from_mins(1)));
    child
}

/// Leaves the session `id` alone while its CLI is at work in it.
fn leave_alone_while_in_use(stage: &Stage, id: &str) {
    let way = stage.way;
    let mut child = at_work(stage, id);
    let name = format!("{}:{id}", keeper(way));
    let ran = stage.run(&["session", "delete", "--yes", &name]);
    assert_eq!(ran.code, Some(1), "{way:?}: {ran:#?}");
    assert!(
        ran.stderr.contains("is in use by process"),
        "{way:?}: {ran:#?}"
    );
    let dry = json(stage, &["session", "delete", "--dry-run", "--json", &name]);
    assert!(dry["native"][0]["in_use_by"].is_u64(), "{dry:#}");
    // Nor does anybody else go on with it meanwhile.
    let asked = stage.sandbox.model().turn_requests().len();
    let refusals: [(&[&str], &str); 4] = [
        (
            &["session", "resume", &name, "more"],
            "is in use by process",
        ),
        (&["chat", "--resume", &name, "more"], "is in use by process"),
        (&["session", "resume", "--exec", &name], "is at work in it"),
        (&["session", "resume", "--print", &name], "is at work in it"),
    ];
    for (args, why) in refusals {
        let ran = stage.run(args);
        assert_eq!(ran.code, Some(1), "{way:?}: {ran:#?}");
        assert!(ran.stderr.contains(why), "{way:?}: {ran:#?}");
    }
    assert_eq!(stage.sandbox.model().turn_requests().len(), asked, "{way:?}");
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    stage.assert_nothing_runs();
}

/// Makes a module for each CLI, with a test for each scene.
macro_rules! scenes {
    ($($name:ident: $way:ident,)+) => {
        $(mod $name {
            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn is_archived_deleted_and_restored() {
                super::is_archived_deleted_and_restored(super::$way);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn survives_a_clean_up() {
                super::survives_a_clean_up(super::$way);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn goes_with_segues_own() {
                super::goes_with_segues_own(super::$way);
            }
        })+
    };
}

scenes! {
    claude: CLAUDE,
    codex: CODEX,
    gemini: GEMINI,
    opencode: OPENCODE,
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn opencode_is_copied_in_its_own_words() {
    let steps = [
        Reply::from_call(ScriptedCall::shell("echo hello")),
        Reply::from_text("done"),
    ];
    let sandbox = Sandbox::new(Script::new().with_rule("run", steps));
    let ran = sandbox.run(SandboxCli::Opencode, ["run", "run it"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let reader = OpencodeReader::new(sandbox.home().join(".local/share/opencode"));
    let found = reader.scan_sessions().locations.remove(0);
    let id = reader.read_head(&found).unwrap().id;
    let mut ours = Vec::new();
    let keeping = reader.storage().unwrap();
    keeping.export_session(&found, id.as_str(), &mut ours).unwrap();
    let ran = sandbox.run(SandboxCli::Opencode, ["export", id.as_str()]);
    let mut ours: Value = serde_json::from_slice(&ours).unwrap();
    let mut theirs: Value = serde_json::from_str(&ran.stdout).unwrap();
    // A number with a point in it is the same number.
    for value in [&mut ours, &mut theirs] {
        let cost = value["info"]["cost"].as_f64().unwrap();
        value["info"]["cost"] = cost.into();
    }
    assert_eq!(ours, theirs);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_fork_of_codex_brings_along_what_it_goes_on_from() {
    let stage = Stage::new(CODEX, Script::new());
    stage.begin_elsewhere("my favourite colour is teal");
    let parent = only_session(&stage);
    let ran = stage
        .sandbox
        .run(SandboxCli::Codex, ["exec", "fork", &parent, "and my name is Ada"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let listed = json(&stage, &["session", "list", "--json"]);
    let ids = listed.as_array().unwrap().iter();
    let mut ids = ids.map(|row| row["native_session_id"].as_str().unwrap().to_owned());
    let fork = ids.find(|id| *id != parent).unwrap();
    let before = files(&home(&stage));
    assert_eq!(before.len(), 2);

    // Codex does not delete what a fork goes on from; nothing is lost by having tried.
    let ran = stage.run(&["session", "delete", "--yes", &parent]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("failed to delete session"), "{ran:#?}");
    assert_eq!(files(&home(&stage)), before);

    let archived = json(&stage, &["session", "archive", "--json", &fork]);
    assert_eq!(
        archived[0]["files"].as_array().unwrap().len(),
        2,
        "{archived:#}"
    );
    for id in [&fork, &parent] {
        let ran = stage.run(&["session", "delete", "--yes", id]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert_gone(&stage, id);
    }
    assert_eq!(files(&home(&stage)).len(), 0);
    let shown = json(&stage, &["session", "show", "--json", &fork]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 2, "{shown:#}");
    let restored = json(&stage, &["session", "restore", "--json", &fork]);
    assert_eq!(
        restored["files"].as_array().unwrap().len(),
        2,
        "{restored:#}"
    );
    assert_goes_on(&stage, &fork);
    stage.assert_nothing_runs();
}
