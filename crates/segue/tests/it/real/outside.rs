//! Turns that were made in the agents' own programs, answers that only their records have, and sessions that were lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use segue_testkit::model::{ScriptedCall, ModelRequest, Reply, Script};
use segue_testkit::sandbox::SandboxCli;
use serde_json::Value;

use crate::real::stage::{Stage, Way};

/// segue is killed after the agent has written its answer down, and before it has heard it.
fn an_answer_is_taken_from_the_native_record(way: Way) {
    let slow = Reply::from_text("the answer is forty-two").with_delay(Duration::from_secs(3));
    let look = Reply::from_call(ScriptedCall::shell("echo a look around"));
    let stage = Stage::new(way, Script::new().with_rule("slowly", [look, slow]));
    let first = stage.says(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    let before = stage.sandbox.model().turn_requests().len();

    let mut turn = stage.follow(&["--permissions", "allow-all", "--resume", id, "slowly"]);
    let opened = turn.until("opened");
    let asked = |count| {
        let model = stage.sandbox.model();
        assert!(model.wait_for_turn_requests(count, Duration::from_mins(1)));
    };
    asked(before + 2);
    turn.signal(Signal::STOP);
    let native = opened["native_session_id"].as_str().unwrap();
    wait_for(&stage, native, "the answer is forty-two");
    turn.signal(Signal::KILL);
    turn.wait();
    stage.assert_nothing_runs();

    let last = stage.says(&["--resume", id, "and now?"]);
    let decided = last["decisions"].to_string();
    let said = format!("its answer is taken from {}'s own record", way.provider);
    assert!(decided.contains(&said), "{way:?}: {last:#}");
    let turns = shown(&stage, id);
    assert_eq!(turns.len(), 3, "{way:?}: {turns:#?}");
    assert_eq!(turns[1]["state"], "finished", "{way:?}: {turns:#?}");
    assert_eq!(turns[1]["outside"], false, "{way:?}");
    let text = turns[1]["messages"].to_string();
    assert_eq!(text.matches("the answer is forty-two").count(), 1, "{text}");
    for part in ["function_call", "function_response"] {
        let count = text.matches(&format!("\"type\":\"{part}\"")).count();
        assert_eq!(count, 1, "{way:?}: {:#}", turns[1]["messages"]);
    }
    assert!(turns[1]["usage"]["output_tokens"].is_u64(), "{turns:#?}");

    let seen = stage.sandbox.model().turn_requests();
    // Asked once, and told once what the tool said.
    let prompts = seen.iter().map(ModelRequest::prompts);
    let asked =
        prompts.filter(|prompts| prompts.last().is_some_and(|last| last.ends_with("slowly")));
    assert_eq!(asked.count(), 2, "{way:?}: nothing was sent twice");
    let last = seen.last().unwrap();
    assert!(
        last.contains("the answer is forty-two"),
        "{way:?}: {last:#?}"
    );
    stage.assert_nothing_left();
}

/// Two turns made by hand are known to the next one, and on record as what they are.
fn turns_made_by_hand_are_taken_in(way: Way) {
    let stage = Stage::new(way, Script::new());
    let first = stage.says(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    let native = first["native_session_id"].as_str().unwrap();
    // Gemini CLI leaves a second file when it resumes a session in a later minute.
    stage.age_gemini_sessions();
    by_hand(&stage, native, "my name is Ada");
    by_hand(&stage, native, "I live in Graz");

    // Whoever looks sees them.
    let turns = shown(&stage, id);
    assert_eq!(outside(&turns), [false, true, true], "{way:?}: {turns:#?}");
    let told = turns[2]["messages"].to_string();
    assert!(told.contains("You said: I live in Graz"), "{way:?}: {told}");
    assert!(turns[1]["usage"]["total_tokens"].is_u64(), "{turns:#?}");

    let last = stage.says(&["--resume", id, "what do you know of me?"]);
    assert_eq!(last["turn"], 4, "{way:?}: {last:#}");
    assert_eq!(last["native_session_id"], native, "{way:?}: {last:#}");
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    for told in ["teal", "my name is Ada", "I live in Graz"] {
        assert!(
            seen.contains(told),
            "{way:?}: {told} in {:#?}",
            seen.prompts()
        );
    }
    // Nothing is taken in twice, and the next ones are.
    assert_eq!(outside(&shown(&stage, id)), [false, true, true, false]);
    by_hand(&stage, native, "good bye");
    let end = stage.says(&["--resume", id, "the end"]);
    assert!(
        end["decisions"]
            .to_string()
            .contains("took in a turn that was made in"),
        "{way:?}: {end:#}"
    );
    let turns = shown(&stage, id);
    let expected = [false, true, true, false, true, false];
    assert_eq!(outside(&turns), expected, "{way:?}: {turns:#?}");
    stage.assert_nothing_left();
}

/// A native session that was cut, or is gone, is noticed before it is gone on with.
fn what_is_lost_is_noticed(way: Way) {
    let stage = Stage::new(way, Script::new());
    let first = stage.says(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    stage.age_gemini_sessions();
    let second = stage.says(&["--resume", id, "my name is Ada"]);
    let native = second["native_session_id"].as_str().unwrap();
    let _ = fs::remove_dir_all(stage.home().join("kept"));
    cut(&stage, native, "my name is Ada");

    let said = |turn: &Value, what: &str| {
        assert!(turn["decisions"].to_string().contains(what), "{turn:#}");
        assert_eq!(turn["opened"], "briefed", "{way:?}: {turn:#}");
        let seen = stage.sandbox.model().turn_requests().pop().unwrap();
        for told in ["teal", "my name is Ada"] {
            assert!(seen.contains(told), "{way:?}: {told} in {seen:#?}");
        }
    };
    let third = stage.says(&["--resume", id, "what do you know of me?"]);
    said(&third, "does not have all of its own session any more");
    stage.lose(third["native_session_id"].as_str().unwrap());
    let fourth = stage.says(&["--resume", id, "still?"]);
    said(
        &fourth,
        match way.provider {
            // It may be put back, so its agent is asked.
            "gemini" => "told it the story so far",
            _ => "does not have its own session any more",
        },
    );
    stage.assert_nothing_left();
}

/// Goes on with a native session in the agent's own program.
fn by_hand(stage: &Stage, native: &str, prompt: &str) {
    let (cli, args): (_, &[&str]) = match stage.way.provider {
        "claude" => (SandboxCli::Claude, &["--resume", native, "-p", prompt]),
        "codex" => (SandboxCli::Codex, &["exec", "resume", native, prompt]),
        _ => (SandboxCli::Gemini, &["--resume", native, "-p", prompt]),
    };
    let ran = stage.sandbox.run(cli, args.iter().copied());
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

/// The turns of a session as they are shown.
fn shown(stage: &Stage, id: &str) -> Vec<Value> {
    let ran = stage.run(&["session", "show", "--json", id]);
    let shown: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    shown["turns"].as_array().unwrap().clone()
}

fn outside(turns: &[Value]) -> Vec<bool> {
    turns
        .iter()
        .map(|turn| turn["outside"].as_bool().unwrap())
        .collect()
}

/// Waits until a native session tells an answer, and that it is one.
fn wait_for(stage: &Stage, native: &str, text: &str) {
    for _ in 0..600 {
        let ends = match stage.way.provider {
            "codex" => "task_complete",
            _ => "",
        };
        let told = |path: &PathBuf| {
            let told = fs::read_to_string(path).unwrap_or_default();
            told.split_once(text)
                .is_some_and(|(_, rest)| rest.contains(ends))
        };
        if files(stage, native).iter().any(told) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?} never wrote {text:?}", stage.way);
}

/// Cuts a native session off right after a text.
fn cut(stage: &Stage, native: &str, text: &str) {
    let mut cut = 0;
    for path in files(stage, native) {
        let told = fs::read_to_string(&path).unwrap();
        if let Some(at) = told.find(text) {
            fs::write(&path, &told[..at + text.len()]).unwrap();
            cut += 1;
        }
    }
    assert!(cut > 0, "{:?} has no {text:?}", stage.way);
}

/// The files of a native session.
fn files(stage: &Stage, native: &str) -> Vec<PathBuf> {
    let home = stage.sandbox.home();
    let (directory, part) = match stage.way.provider {
        "claude" => (".claude/projects", native),
        "codex" => (".codex/sessions", native),
        _ => (".gemini/tmp", &native[..8]),
    };
    let mut found = Vec::new();
    find(&home.join(directory), part, &mut found);
    found
}

fn find(directory: &Path, part: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, part, found);
        } else if path.to_string_lossy().contains(part) {
            found.push(path);
        }
    }
}

/// Makes a module for each agent, with a test for each scene.
macro_rules! scenes {
    ($($name:ident: $provider:literal $transport:literal,)+) => {
        $(mod $name {
            use super::Way;

            const WAY: Way = Way { provider: $provider, transport: $transport };

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn an_answer_is_taken_from_the_native_record() {
                super::an_answer_is_taken_from_the_native_record(WAY);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn turns_made_by_hand_are_taken_in() {
                super::turns_made_by_hand_are_taken_in(WAY);
            }

            #[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn what_is_lost_is_noticed() {
                super::what_is_lost_is_noticed(WAY);
            }
        })+
    };
}

scenes! {
    claude: "claude" "stream-json",
    codex: "codex" "app-server",
    gemini: "gemini" "acp",
}
