//! Sessions outlive Gemini CLI's own clean-up.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use segue_agents::Agent;
use segue_core::id::NativeId;
use segue_core::session::OpenMode;
use segue_testkit::model::{StubFailure, Reply, Script};
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use serde_json::Value;

use super::direct::{agent, request, run, turn};
use super::{ACP, LINES, files_of, last_prompts, with_retention};
use crate::real::stage::{Stage, Way};

/// The minute of the clock, as in the names of session files.
fn minute() -> String {
    Timestamp::now().to_string()[..16].replace(':', "-")
}

fn second() -> i64 {
    Timestamp::now().as_second().rem_euclid(60)
}

/// Waits for the beginning of a minute, unless it is near.
fn begin_a_minute() {
    while second() > 15 {
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn sandbox() -> Sandbox {
    with_retention(Sandbox::new(Script::new()))
}

/// A session that the raw CLI made.
fn made(sandbox: &Sandbox) -> String {
    let ran = sandbox.run(SandboxCli::Gemini, ["-o", "json", "first"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    answer["session_id"].as_str().unwrap().to_owned()
}

fn started_otherwise(sandbox: &Sandbox) {
    let ran = sandbox.run(SandboxCli::Gemini, ["-o", "json", "something else"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

/// A session over ACP and a second go at it in the minute it was made: it is left as it was. Returns it.
fn left_alone_in_its_minute(sandbox: &Sandbox) -> NativeId {
    let agent = agent(sandbox, "acp");
    for _ in 0..3 {
        begin_a_minute();
        let id = run(async {
            let opening = agent.open(&request(sandbox, None, false)).await.unwrap();
            let mut conversation = opening.connection;
            turn(conversation.as_mut(), "first").await.1.unwrap();
            let id = conversation.native_id().unwrap().clone();
            conversation.close().await;
            id
        });
        let [file] = files_of(sandbox, id.as_str()).try_into().unwrap();
        let before = fs::read(&file).unwrap();
        let strict = run(agent.open(&request(sandbox, Some(&id), true)));
        let opened = run(async {
            let opening = agent
                .open(&request(sandbox, Some(&id), false))
                .await
                .unwrap();
            let (opened, why_not) = (opening.open_mode, opening.fallback_reason);
            opening.connection.close().await;
            (opened, why_not)
        });
        if !file.to_str().unwrap().contains(&minute()) {
            // Too slow: the minute is over.
            continue;
        }
        let error = strict.err().unwrap().to_string();
        assert!(error.contains("in the minute it was made"), "{error}");
        assert_eq!(opened.0, OpenMode::Fresh);
        assert!(opened.1.unwrap().contains("in the minute it was made"));
        assert_eq!(fs::read(&file).unwrap(), before);
        return id;
    }
    panic!("the machine is too slow for two starts within a minute");
}

/// A stage with a session of one turn, by segue: its id, its native id and its file.
fn staged(way: Way) -> (Stage, [String; 2], PathBuf) {
    let stage = Stage::of(way, sandbox());
    let result = stage.says(&["first"]);
    let ids =
        ["session_id", "native_session_id"].map(|key| result[key].as_str().unwrap().to_owned());
    let [file] = files_of(&stage.sandbox, &ids[1]).try_into().unwrap();
    (stage, ids, file)
}

/// A stage whose session went on in its minute, in another native session: its id and its first native id.
fn left_in_its_minute() -> (Stage, [String; 2]) {
    for _ in 0..3 {
        let (stage, [session, id], _) = staged(ACP);
        let second = stage.says(&["--resume", &session, "second"]);
        if second["opened"] == "loaded" {
            // Too slow: the minute is over.
            continue;
        }
        let why = second["opened_why"].as_str().unwrap();
        assert!(
            why.contains("could not go on with its own session yet"),
            "{why}"
        );
        let info = stage.run(&["session", "info", &session, "--json"]);
        let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        assert_eq!(info["legs"][0]["ended_why"], "not_now", "{info:#}");
        return (stage, [session, id]);
    }
    panic!("the machine is too slow for two turns within a minute");
}

/// One test for all that needs the next minute, since it waits for it.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn sessions_survive_the_clean_up() {
    let alone = sandbox();
    let loaded = left_alone_in_its_minute(&alone);
    let control = sandbox();
    let lost = made(&control);
    let stages = [LINES, ACP].map(staged);
    let (left, [session, id]) = left_in_its_minute();
    let here = minute();
    while minute() == here {
        std::thread::sleep(Duration::from_millis(200));
    }

    // Without segue: a resume, another start, and the session is gone.
    let ran = control.run(SandboxCli::Gemini, ["-o", "json", "-r", &lost, "second"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(files_of(&control, &lost).len(), 2, "no twin was made");
    started_otherwise(&control);
    assert!(
        files_of(&control, &lost).is_empty(),
        "Gemini CLI has changed its ways"
    );

    // What could not go on in its minute can now.
    let reverted = left.run(&["session", "revert", &session, "--to", "1"]);
    assert_eq!(reverted.code, Some(0), "{reverted:#?}");
    let result = left.says(&["--resume", &session, "another second"]);
    assert_eq!(
        (&result["opened"], &result["native_session_id"]),
        (&"loaded".into(), &id.as_str().into()),
        "{result:#}"
    );

    // With segue: it goes on as if nothing had happened.
    for (stage, [session, id], file) in &stages {
        let way = stage.way;
        let opened = if way == ACP { "loaded" } else { "resumed" };
        let result = stage.says(&["--resume", session, "second"]);
        assert_eq!(result["opened"], opened, "{way:?}: {result:#}");
        assert_eq!(
            files_of(&stage.sandbox, id),
            std::slice::from_ref(file),
            "{way:?}: a twin is left"
        );
        started_otherwise(&stage.sandbox);
        started_otherwise(&stage.sandbox);
        let result = stage.says(&["--resume", session, "third"]);
        assert_eq!(result["opened"], opened, "{way:?}: {result:#}");
        assert_eq!(result["native_session_id"], id.as_str(), "{way:?}");
        assert_eq!(
            last_prompts(&stage.sandbox),
            ["first", "second", "third"],
            "{way:?}"
        );
    }

    // What was left alone in its minute can be loaded in the next.
    run(async {
        let agent = agent(&alone, "acp");
        let opening = agent
            .open(&request(&alone, Some(&loaded), true))
            .await
            .unwrap();
        assert_eq!(opening.open_mode, OpenMode::Loaded);
        assert_eq!(opening.guard_actions.len(), 1, "{:?}", opening.guard_actions);
        assert!(opening.guard_actions[0].starts_with("removed an empty twin"));
        let mut conversation = opening.connection;
        turn(conversation.as_mut(), "second").await.1.unwrap();
        assert_eq!(conversation.close().await, Vec::<String>::new());
    });
    assert_eq!(last_prompts(&alone), ["first", "second"]);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_deleted_behind_our_back_is_put_back() {
    let (stage, [session, id], file) = staged(LINES);
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let result = stage.says(&["--resume", &session, "second"]);
    assert_eq!(result["opened"], "resumed", "{result:#}");
    assert_eq!(result["native_session_id"], id.as_str());
    assert!(fs::read_to_string(&file).unwrap().starts_with(&text));
    assert_eq!(last_prompts(&stage.sandbox), ["first", "second"]);

    // Over ACP a reset is what happens; it is undone at the next opening.
    let whole = fs::read_to_string(&file).unwrap();
    let beginning: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(&file, format!("{whole}{beginning}")).unwrap();
    let result = stage.says(&["--resume", &session, "third"]);
    assert_eq!(result["opened"], "resumed", "{result:#}");
    assert_eq!(last_prompts(&stage.sandbox), ["first", "second", "third"]);
}

/// Has a session be of an earlier minute, so that to go on with it makes a twin.
fn aged(sandbox: &Sandbox, id: &str) -> PathBuf {
    let [file] = files_of(sandbox, id).try_into().unwrap();
    let older = file.with_file_name(format!("session-2026-01-01T00-00-{}.jsonl", &id[..8]));
    fs::rename(file, &older).unwrap();
    older
}

/// Waits for something to become so, for a minute or more.
fn until(so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it never did");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_opening_that_is_given_up_leaves_no_twin() {
    let sandbox = sandbox();
    let id = made(&sandbox);
    let whole = [aged(&sandbox, &id)];
    let native = NativeId::parse(&id).unwrap();
    let agent = agent(&sandbox, "acp");
    let request = request(&sandbox, Some(&native), true);
    run(async {
        let twin = async {
            while files_of(&sandbox, &id).len() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            () = twin => {}
            _ = agent.open(&request) => panic!("it opened first"),
        }
    });
    let endangered = sandbox.path().join("kept/gemini/.endangered");
    until(|| fs::read_dir(&endangered).unwrap().count() == 0);
    assert_eq!(sandbox.processes(), Vec::<String>::new());
    assert_eq!(files_of(&sandbox, &id), whole);
    started_otherwise(&sandbox);
    assert_eq!(files_of(&sandbox, &id), whole);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_a_killed_segue_leaves_is_settled_by_the_next() {
    for way in [ACP, LINES] {
        let stall = Reply::from_text("some words").with_failure(StubFailure::Stall);
        let script = Script::new().with_rule("stall", [stall]);
        let stage = Stage::of(way, with_retention(Sandbox::new(script)));
        let result = stage.says(&["first"]);
        let [session, id] =
            ["session_id", "native_session_id"].map(|key| result[key].as_str().unwrap());
        let whole = [aged(&stage.sandbox, id)];
        let following = stage.follow(&["--resume", session, "stall"]);
        until(|| files_of(&stage.sandbox, id).len() == 2);
        following.signal(Signal::KILL);
        following.wait();
        stage.assert_nothing_runs();
        // Whatever it is that segue does next.
        let result = stage.says(&["something else"]);
        assert_ne!(result["session_id"], session, "{way:?}");
        let decisions = result["decisions"].to_string();
        assert!(decisions.contains("removed an empty twin"), "{decisions}");
        assert!(!decisions.contains("put back"), "{decisions}");
        assert_eq!(files_of(&stage.sandbox, id), whole, "{way:?}");
        started_otherwise(&stage.sandbox);
        assert_eq!(files_of(&stage.sandbox, id), whole, "{way:?}");
    }
}

/// What Gemini CLI itself did with the terminal from segue, and then to the session, is undone by whoever looks next.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_that_was_handed_over_with_the_terminal_survives() {
    let stage = Stage::of(LINES, sandbox());
    let id = made(&stage.sandbox);
    let whole = [aged(&stage.sandbox, &id)];
    let ran = crate::real::exec::in_gemini(&stage, &id);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let kept = format!("kept a copy of Gemini session {}", &id[..8]);
    assert!(ran.stderr.contains(&kept), "{ran:#?}");
    assert_eq!(files_of(&stage.sandbox, &id).len(), 2, "no twin was made");
    started_otherwise(&stage.sandbox);
    assert!(
        files_of(&stage.sandbox, &id).is_empty(),
        "Gemini CLI has changed its ways"
    );

    let listed = stage.run(&["session", "list"]);
    let put_back = format!("segue: put back Gemini session {}", &id[..8]);
    assert!(listed.stderr.contains(&put_back), "{listed:#?}");
    assert!(listed.stdout.contains(&id[..8]), "{listed:#?}");
    assert_eq!(files_of(&stage.sandbox, &id), whole);
    started_otherwise(&stage.sandbox);
    let result = stage.says(&["--resume", &format!("gemini:{id}"), "third"]);
    assert_eq!(result["native_session_id"], id.as_str(), "{result:#}");
    assert_eq!(
        last_prompts(&stage.sandbox),
        ["first", "what was it?", "third"]
    );
}
