//! `segue session compact` and `segue session checkpoint`, automatic compaction, and kills during a compaction.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};
use serde_json::Value;

use crate::new_test_home;

fn run_chat(home: &TestHome, args: &[&str]) -> String {
    let turn = home.run_segue_json([&["chat", "--json"], args].concat());
    turn["session_id"].as_str().unwrap().to_owned()
}

/// Creates a home with a small token budget.
fn home_with_small_budget() -> TestHome {
    let home = new_test_home();
    fs::write(home.project().join("segue.toml"), "budget = 4000\n").unwrap();
    home
}

/// Creates a session with content for a checkpoint.
fn create_compactable_session(home: &TestHome) -> String {
    let id = run_chat(home, &["Never push to main. Please build the login form."]);
    let more =
        "rehearse: say I decided to use tokens, because cookies leak. Still to do: the docs.";
    run_chat(home, &["--resume", &id, more])
}

/// Runs `segue session checkpoint edit` with a shell script as the editor.
fn edit_checkpoint(home: &TestHome, id: &str, script: &str) -> ProgramOutput {
    let editor = home.path().join("editor");
    fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = home.segue_command(["session", "checkpoint", id, "edit"]);
    command.env("EDITOR", &editor);
    ProgramOutput::from_std(&command.output().unwrap(), home)
}

/// Returns the texts of the items of a checkpoint.
fn item_texts(checkpoint: &Value) -> Vec<&str> {
    let items = checkpoint["items"].as_array().unwrap();
    let texts = items.iter().map(|item| item["text"].as_str().unwrap());
    texts.collect()
}

#[test]
fn a_compaction_does_what_its_dry_run_showed() {
    let home = new_test_home();
    let id = create_compactable_session(&home);
    let before = home.run_segue_json(["session", "info", "--json", &id]);
    let plan = home.run_segue_json(["session", "compact", &id, "--dry-run", "--json"]);
    assert_eq!(plan["dry_run"], true);
    assert_eq!(
        (&plan["version"], &plan["turns"]),
        (&Value::Null, &2.into())
    );
    assert_eq!(
        home.run_segue_json(["session", "info", "--json", &id]),
        before
    );

    let outcome = home.run_segue_json(["session", "compact", "--json"]);
    assert_eq!(
        (&outcome["version"], &outcome["covers"]),
        (&1.into(), &2.into())
    );
    assert_eq!(
        outcome["items"], plan["items"],
        "the compaction differs from its dry run"
    );
    assert_snapshot!(home.run_segue(["session", "compact", &id]), @"
    [SESSION]: no new turns since the last compaction, no changes made
    --- exit 0
    ");
    let info = home.run_segue_json(["session", "info", "--json", &id]);
    assert_eq!(info["legs"][0]["ended_why"], "compacted", "{info:#}");
    let next = home.run_segue_json(["chat", "--json", "--resume", &id, "go on"]);
    assert_eq!(next["opened"], "briefed", "{next:#}");
}

/// Editor script that writes a fixed checkpoint.
const CHECKPOINT_EDITOR_SCRIPT: &str = "printf '%s\\n' 'Goal:' '- ship the login form' 'Rules of the user:' \
    '- [pinned] never push to main' 'Decided:' '- tokens, because cookies leak' 'Done:' '- the form' \
    'Still to do:' '- docs' '- tests' 'Files:' '- src/login.rs: created' 'In the way:' '- the CI is down' > \"$1\"";

#[test]
fn a_checkpoint_is_shown_with_its_items_grouped_by_kind() {
    let home = new_test_home();
    let id = create_compactable_session(&home);
    assert_snapshot!(home.run_segue(["session", "checkpoint", &id]), @"
    --- stderr
    error: session [SESSION] has no checkpoint yet
    hint: run `segue session compact [SESSION]` to create one
    --- exit 1
    ");
    assert_snapshot!(home.run_segue(["session", "checkpoint", &id, "list"]), @"
    [SESSION] has no checkpoint yet; create one with `segue session compact [SESSION]`
    --- exit 0
    ");
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    assert_eq!(
        edit_checkpoint(&home, &id, CHECKPOINT_EDITOR_SCRIPT).code,
        Some(0)
    );
    let text = home.run_segue(["session", "checkpoint", &id]).to_string();
    let newest = home.run_segue(["session", "checkpoint"]).to_string();
    assert_eq!(
        newest, text,
        "without an id, the command does not use the newest session"
    );
    // The item numbers depend on the items that were extracted before.
    let unnumbered = text.lines().map(|line| match line.split_at_checked(4) {
        Some((number, remainder)) if number.starts_with("  ") => format!("   N{remainder}\n"),
        _ => format!("{line}\n"),
    });
    assert_snapshot!(unnumbered.collect::<String>(), @"
    checkpoint 2 of [SESSION]: Never push to main. Please build the login form.
    created just now (edited)
    summarises turns 1 to 2 in 88 tokens; the session has 2 turns
    ▏···················  250 of 100,000 tokens in the next brief; 0 saved in total

    1 done, 2 open, 1 decided, 1 blocking

    Goal
       N  ship the login form  (turn 2, by you)

    Still to do
       N  docs  (turn 2, by you)
       N  tests  (turn 2, by you)

    In the way
       N  the CI is down  (turn 2, by you)

    Done
       N  the form  (turn 2, by you)

    Decided
       N  tokens, because cookies leak  (turn 2, by you)

    Rules of the user
       N* never push to main  (turn 2, by you, pinned)

    Files
       N  src/login.rs: created  (turn 2, by you)
    --- exit 0
    ");
    let earlier = home.run_segue(["session", "checkpoint", &id, "show", "1"]);
    assert!(
        earlier
            .stdout
            .contains("\nnot current: a later checkpoint replaced it\n"),
        "{earlier}"
    );
}

#[test]
fn items_are_pinned_and_versions_compared_and_restored() {
    let home = new_test_home();
    let id = create_compactable_session(&home);
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    assert_eq!(
        edit_checkpoint(&home, &id, CHECKPOINT_EDITOR_SCRIPT).code,
        Some(0)
    );
    let run_checkpoint =
        |args: &[&str]| home.run_segue([&["session", "checkpoint", &id], args].concat());
    let checkpoint_json = || home.run_segue_json(["session", "checkpoint", &id, "--json"]);
    let items = checkpoint_json()["items"].as_array().unwrap().clone();
    let docs = items.iter().find(|item| item["text"] == "docs").unwrap();
    let docs = docs["id"].to_string();
    let pinned = || {
        let items = checkpoint_json()["items"].as_array().unwrap().clone();
        let pinned = items.into_iter().filter(|item| item["pinned"] == true);
        pinned.map(|item| item["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(run_checkpoint(&["pin", &docs]).code, Some(0));
    assert_eq!(pinned(), ["never push to main", "docs"]);
    let diff = home.run_segue_json(["session", "checkpoint", &id, "diff", "2", "3", "--json"]);
    assert_eq!(
        (diff["gone"].as_array(), diff["added"].as_array()),
        (Some(&vec![]), Some(&vec![]))
    );
    assert_eq!(diff["changed"][0]["after"]["text"], "docs");
    assert!(
        run_checkpoint(&["diff", "2", "3"]).stdout.starts_with(
            "from checkpoint 2 to 3: 0 removed, 1 changed, 0 added\n- Still to do: docs"
        )
    );
    assert_eq!(run_checkpoint(&["unpin", &docs]).code, Some(0));
    assert_eq!(pinned(), ["never push to main"]);
    assert_eq!(run_checkpoint(&["restore", "3"]).code, Some(0));
    assert_eq!(pinned(), ["never push to main", "docs"]);
    let list = home.run_segue_json(["session", "checkpoint", &id, "list", "--json"]);
    let list: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["version"].as_u64().unwrap(),
                row["why"].as_str().unwrap().to_owned(),
                row["place"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let row = |n, reason: &str, status: &str| (n, reason.to_owned(), status.to_owned());
    assert_eq!(
        list,
        [
            row(1, "asked", "earlier"),
            row(2, "edited", "earlier"),
            row(3, "pinned", "earlier"),
            row(4, "pinned", "earlier"),
            row(5, "restored", "in_force"),
        ]
    );
    let listed = run_checkpoint(&["list"]);
    assert_eq!(listed.stdout.lines().count(), 7, "{listed}");
    assert!(listed.stdout.contains("\n*  5        1-2 "), "{listed}");
    assert_snapshot!(run_checkpoint(&["pin", "999"]), @"
    --- stderr
    error: checkpoint 5 has no item 999
    hint: run `segue session checkpoint [SESSION] show --all` to list the item numbers; nothing was changed
    --- exit 2
    ");
    assert_snapshot!(run_checkpoint(&["restore", "9"]), @"
    --- stderr
    error: session [SESSION] has no checkpoint 9
    hint: run `segue session checkpoint [SESSION] list` to list all checkpoints
    --- exit 2
    ");
    assert_eq!(checkpoint_json()["version"], 5);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one scenario with many checks")]
fn a_checkpoint_is_edited_and_an_invalid_edit_saves_only_the_draft() {
    let home = new_test_home();
    let id = create_compactable_session(&home);
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    let checkpoint_json = || home.run_segue_json(["session", "checkpoint", &id, "--json"]);
    let before = checkpoint_json();
    let edited = edit_checkpoint(&home, &id, "printf 'Still to do:\\n- ask Ada\\n' >> \"$1\"");
    assert_eq!(edited.code, Some(0), "{edited}");
    let after = checkpoint_json();
    assert_eq!(
        (&after["version"], &after["why"]),
        (&2.into(), &"edited".into())
    );
    assert_eq!(item_texts(&after).len(), item_texts(&before).len() + 1);
    assert!(item_texts(&after).contains(&"ask Ada"), "{after:#}");
    assert_snapshot!(edit_checkpoint(&home, &id, ":"), @"
    no changes made; checkpoint 2 is still current
    --- exit 0
    ");

    let invalid = edit_checkpoint(&home, &id, "printf 'Goals:\\n- [77] what\\n' >> \"$1\"");
    assert_eq!(invalid.code, Some(2), "{invalid}");
    assert!(
        invalid.stderr.contains("\"Goals:\" is neither"),
        "{invalid}"
    );
    assert!(
        invalid.stderr.contains("item 77 does not exist"),
        "{invalid}"
    );
    assert_eq!(checkpoint_json(), after);
    // The rejected text is saved as a draft.
    let draft = home.segue_home().join(format!("edit-{id}-2.txt"));
    let mode = fs::metadata(&draft).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "other users can read the draft");
    let corrected_script =
        "while read -r line; do case \"$line\" in Goals:*) found=1;; esac; done < \"$1\"
         [ \"$found\" ] || exit 9
         printf 'Goal:\\n- ship\\n' > \"$1\"";
    let second_edit = edit_checkpoint(&home, &id, corrected_script);
    assert_eq!(second_edit.code, Some(0), "{second_edit}");
    assert!(
        second_edit.stderr.contains("resuming your draft in"),
        "{second_edit}"
    );
    assert!(!draft.exists());
    assert_eq!(item_texts(&checkpoint_json()), ["ship"]);

    let draft = home.segue_home().join(format!("edit-{id}-3.txt"));
    let failed = edit_checkpoint(&home, &id, "echo '- more' >> \"$1\"; exit 3");
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(
        failed.stderr.contains("continue with your draft in"),
        "{failed}"
    );
    assert!(draft.exists());
    let _ = fs::remove_file(&draft);
    // The editor changed nothing, so there is no draft.
    let failed = edit_checkpoint(&home, &id, "exit 3");
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(
        failed.stderr.ends_with("hint: nothing was changed\n"),
        "{failed}"
    );
    assert!(!draft.exists());
    // Some editors truncate the file when they fail: the next edit starts with the checkpoint, not with an empty file.
    let emptied = edit_checkpoint(&home, &id, ": > \"$1\"");
    assert_snapshot!(emptied, @"
    --- stderr
    error: the edited checkpoint is empty
    hint: nothing was changed; run `edit` again to start over
    --- exit 2
    ");
    assert!(!draft.exists());
    let garbled = edit_checkpoint(&home, &id, "printf 'Goal:\\n- sh\\377p\\n' > \"$1\"");
    assert_eq!(garbled.code, Some(1), "{garbled}");
    assert!(
        garbled.stderr.contains("continue with your draft in"),
        "{garbled}"
    );
    let _ = fs::remove_file(&draft);
    let mut command = home.segue_command(["session", "checkpoint", &id, "edit"]);
    command.env("EDITOR", "/nonexistent/editor --wait");
    let without_editor = ProgramOutput::from_std(&command.output().unwrap(), &home);
    assert!(
        without_editor
            .stderr
            .contains("set $VISUAL or $EDITOR to an installed editor"),
        "{without_editor}"
    );
    assert!(!draft.exists());
}

#[test]
fn a_draft_of_an_earlier_version_removes_no_item_of_a_later_one() {
    let home = new_test_home();
    let id = create_compactable_session(&home);
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    let script = "printf 'Still to do:\\n- ask Ada\\n' >> \"$1\"";
    let failed = edit_checkpoint(&home, &id, &format!("{script}; exit 3"));
    assert_eq!(failed.code, Some(1), "{failed}");
    run_chat(&home, &["--resume", &id, "Never use tabs in src/form.rs."]);
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    let checkpoint_json = || home.run_segue_json(["session", "checkpoint", &id, "--json"]);
    let before = checkpoint_json();
    let edited = edit_checkpoint(&home, &id, ":");
    assert_eq!(edited.code, Some(0), "{edited}");
    assert!(
        edited.stderr.contains("changes in checkpoint 2 remain"),
        "{edited}"
    );
    let after = checkpoint_json();
    assert!(item_texts(&after).contains(&"ask Ada"), "{after:#}");
    for text in item_texts(&before) {
        assert!(item_texts(&after).contains(&text), "{text}: {after:#}");
    }
}

/// Returns `count` words, which are about as many tokens.
fn filler_text(count: usize) -> String {
    "word ".repeat(count)
}

#[test]
fn an_exceeded_budget_compacts_automatically_and_prints_one_line() {
    let home = home_with_small_budget();
    let id = run_chat(&home, &["Never push to main. Please build the login form."]);
    let long = format!("rehearse: say {}", filler_text(1_800));
    let output = home.run_segue(["chat", "--resume", &id, &long]);
    let compaction_lines = output
        .stderr
        .lines()
        .filter(|line| line.contains("compacted"));
    let compaction_lines: Vec<&str> = compaction_lines.collect();
    assert_eq!(compaction_lines.len(), 1, "{output}");
    assert!(
        compaction_lines[0].starts_with("segue: compacted 2 turns ("),
        "{compaction_lines:?}"
    );
    let next = home.run_segue_json(["chat", "--json", "--resume", &id, "go on"]);
    assert_eq!(next["opened"], "briefed", "{next:#}");
    let checkpoint = home.run_segue_json(["session", "checkpoint", &id, "--json"]);
    assert_eq!(
        (&checkpoint["covers"], &checkpoint["why"]),
        (&2.into(), &"budget".into())
    );
    assert!(
        checkpoint["total_saved"].as_u64().unwrap() > 1_000,
        "{checkpoint:#}"
    );
    assert!(checkpoint["held_tokens"].as_u64() < checkpoint["budget"].as_u64());

    let manual_home = home;
    fs::write(
        manual_home.project().join("segue.toml"),
        "budget = 4000\n[compaction]\nauto = false\n",
    )
    .unwrap();
    let id = run_chat(&manual_home, &[&long]);
    let list = manual_home.run_segue_json(["session", "checkpoint", &id, "list", "--json"]);
    assert_eq!(list, serde_json::json!([]));
}

#[test]
fn a_repl_conversation_is_compacted_by_a_command() {
    let home = new_test_home();
    let typed = b"hello\n/compact\n/compact\n/checkpoint\nand now?\n/compact\n";
    let output = home.run_segue_with_input(["repl"], typed);
    assert_eq!(output.code, Some(0), "{output}");
    let report_count = output.stdout.matches(" into checkpoint 1 (").count();
    assert_eq!(report_count, 1, "{output}");
    assert!(
        output
            .stdout
            .contains("no new turns since the last compaction"),
        "{output}"
    );
    // The suggested action is a command of the REPL.
    assert!(
        output.stdout.contains("\nShow it with: /checkpoint\n")
            && !output.stdout.contains("segue session checkpoint"),
        "{output}"
    );
    assert!(
        output.stdout.contains("\nsummarises turn 1 in ")
            && output
                .stdout
                .contains(" of 100,000 tokens in the next brief; "),
        "{output}"
    );
    // The reported tokens include the turn and the earlier checkpoint.
    assert!(
        output
            .stdout
            .contains(": compacted 1 turn and the previous checkpoint ("),
        "{output}"
    );
    let info = home.run_segue_json(["session", "info", "--json", "latest"]);
    assert_eq!(info["legs"][0]["ended_why"], "compacted", "{info:#}");
    assert_eq!(info["legs"][1]["turns"]["first"], 2, "{info:#}");
}

/// Returns the number of checkpoint versions of a session and the number of legs that a compaction ended.
fn count_compactions(home: &TestHome, id: &str) -> (usize, usize) {
    let versions = home.run_segue_json(["session", "checkpoint", id, "list", "--json"]);
    let info = home.run_segue_json(["session", "info", "--json", id]);
    let legs = info["legs"].as_array().unwrap().iter();
    let ended = legs.filter(|leg| leg["ended_why"] == "compacted").count();
    (versions.as_array().unwrap().len(), ended)
}

/// Number of kills for automatic and for manual compaction.
const KILL_ROUNDS: u32 = 3;

/// Checks that a killed compaction is complete or absent, and that the session can be resumed within the budget, with
/// its facts.
#[test]
fn a_killed_compaction_is_complete_or_absent() {
    let (mut done, mut undone) = (0, 0);
    let check = |home: &TestHome, id: &str| {
        let (versions, ended) = count_compactions(home, id);
        assert_eq!(
            versions, ended,
            "a checkpoint version without the end of its leg, or the reverse"
        );
        let next = home.run_segue_json(["chat", "--json", "--resume", id, "go on"]);
        assert_eq!(next["stop"], "finished", "{next:#}");
        assert_ne!(next["opened"], "fresh", "{next:#}");
        let preview = home.run_segue_json(["session", "preview", "--json", id]);
        assert_eq!(preview["over_budget"], false);
        let brief = preview["system_prompt"].as_str().unwrap();
        assert!(brief.contains("Never push to main"), "{brief}");
        let (versions, ended) = count_compactions(home, id);
        assert_eq!(versions, ended);
        versions
    };
    let home = home_with_small_budget();
    let long = format!("rehearse: say {}", filler_text(1_800));
    let steps: [fn(&Value) -> bool; 3] = [
        |event| event["event"] == "text",
        |event| event["event"] == "decision" && event["kind"] == "compacted",
        |event| event["event"] == "ended",
    ];
    // Measure a complete compaction, so that the kills are distributed over its duration.
    let id = create_compactable_session(&home);
    let start = Instant::now();
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    let compaction_time = start.elapsed();
    for round in 0..KILL_ROUNDS {
        let id = run_chat(&home, &["Never push to main. Please build the login form."]);
        let mut events = home.start_chat(["--resume", &id, &long]);
        let is_reached = steps[round as usize % steps.len()];
        while let Some(event) = events.next_event() {
            if is_reached(&event) {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(u64::from(round) * 2));
        let _ = events.kill();
        // The next prompt completes the compaction.
        assert_eq!(check(&home, &id), 1, "round {round}");

        // The same check for a manual compaction.
        let mut child = home
            .segue_command(["session", "compact", &id])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(compaction_time * (round + 1) / KILL_ROUNDS);
        // The process may have exited.
        let _ = child.kill();
        child.wait().unwrap();
        match count_compactions(&home, &id).0 {
            1 => undone += 1,
            _ => done += 1,
        }
        check(&home, &id);
    }
    crate::print_to_stderr(&format!(
        "killed during a compaction: {done} complete, {undone} absent\n"
    ));
    home.assert_no_processes();
}
