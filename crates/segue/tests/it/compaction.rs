//! `segue session compact` and `segue session checkpoint`, compaction by itself, and compaction that is killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use segue_testkit::{Output, World};
use serde_json::Value;

use crate::world;

fn chat(world: &World, args: &[&str]) -> String {
    let said = world.json([&["chat", "--json"], args].concat());
    said["session_id"].as_str().unwrap().to_owned()
}

/// A world whose native sessions hold little.
fn small() -> World {
    let world = world();
    fs::write(world.project().join("segue.toml"), "budget = 4000\n").unwrap();
    world
}

/// A session with something to sum up.
fn talked(world: &World) -> String {
    let id = chat(world, &["Never push to main. Please build the login form."]);
    let more =
        "rehearse: say I decided to use tokens, because cookies leak. Still to do: the docs.";
    chat(world, &["--resume", &id, more])
}

/// Runs `edit` with an editor that does this to its file.
fn edit(world: &World, id: &str, script: &str) -> Output {
    let editor = world.path().join("editor");
    fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = world.command(["session", "checkpoint", id, "edit"]);
    command.env("EDITOR", &editor);
    Output::from(&command.output().unwrap(), world)
}

/// The texts of a checkpoint.
fn texts(checkpoint: &Value) -> Vec<&str> {
    let items = checkpoint["items"].as_array().unwrap();
    let texts = items.iter().map(|item| item["text"].as_str().unwrap());
    texts.collect()
}

#[test]
fn what_it_would_come_to_is_shown_and_then_done() {
    let world = world();
    let id = talked(&world);
    let before = world.json(["session", "info", "--json", &id]);
    let plan = world.json(["session", "compact", &id, "--dry-run", "--json"]);
    assert_eq!(plan["dry_run"], true);
    assert_eq!(
        (&plan["version"], &plan["turns"]),
        (&Value::Null, &2.into())
    );
    assert_eq!(world.json(["session", "info", "--json", &id]), before);

    let done = world.json(["session", "compact", "--json"]);
    assert_eq!((&done["version"], &done["covers"]), (&1.into(), &2.into()));
    assert_eq!(
        done["items"], plan["items"],
        "what was shown is what is done"
    );
    assert_snapshot!(world.segue(["session", "compact", &id]), @"
    [SESSION]: nothing was said since it was summed up last, no changes made
    --- exit 0
    ");
    let info = world.json(["session", "info", "--json", &id]);
    assert_eq!(info["legs"][0]["ended_why"], "compacted", "{info:#}");
    let next = world.json(["chat", "--json", "--resume", &id, "go on"]);
    assert_eq!(next["opened"], "briefed", "{next:#}");
}

/// What a person writes, so that it is known what it says.
const WRITTEN: &str = "printf '%s\\n' 'Goal:' '- ship the login form' 'Rules of the user:' \
    '- [pinned] never push to main' 'Decided:' '- tokens, because cookies leak' 'Done:' '- the form' \
    'Still to do:' '- docs' '- tests' 'Files:' '- src/login.rs: created' 'In the way:' '- the CI is down' > \"$1\"";

#[test]
fn a_checkpoint_is_readable_at_a_glance() {
    let world = world();
    let id = talked(&world);
    assert_snapshot!(world.segue(["session", "checkpoint", &id]), @"
    --- stderr
    error: session [SESSION] has no checkpoint yet
    hint: `segue session compact [SESSION]` makes one
    --- exit 1
    ");
    assert_snapshot!(world.segue(["session", "checkpoint", &id, "list"]), @"
    [SESSION] has no checkpoint yet; `segue session compact [SESSION]` makes one
    --- exit 0
    ");
    let _ = world.json(["session", "compact", &id, "--json"]);
    assert_eq!(edit(&world, &id, WRITTEN).code, Some(0));
    let shown = world.segue(["session", "checkpoint", &id]).to_string();
    let newest = world.segue(["session", "checkpoint"]).to_string();
    assert_eq!(
        newest, shown,
        "the newest session is meant if none is named"
    );
    // Which numbers are free depends on what was found in the record.
    let unnumbered = shown.lines().map(|line| match line.split_at_checked(4) {
        Some((number, rest)) if number.starts_with("  ") => format!("   N{rest}\n"),
        _ => format!("{line}\n"),
    });
    assert_snapshot!(unnumbered.collect::<String>(), @"
    checkpoint 2 of [SESSION]: Never push to main. Please build the login form.
    made just now: it was edited
    sums up turns 1 to 2 in 88 tokens; the session has 2 turn(s)
    ▏···················  256 of 100,000 tokens to be told next; 0 saved in all

    1 done, 2 open, 1 decided, 1 in the way

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
    let earlier = world.segue(["session", "checkpoint", &id, "show", "1"]);
    assert!(
        earlier
            .stdout
            .contains("\nnot in force: a later one took its place\n"),
        "{earlier}"
    );
}

#[test]
fn versions_are_pinned_compared_and_restored() {
    let world = world();
    let id = talked(&world);
    let _ = world.json(["session", "compact", &id, "--json"]);
    assert_eq!(edit(&world, &id, WRITTEN).code, Some(0));
    let checkpoint = |args: &[&str]| world.segue([&["session", "checkpoint", &id], args].concat());
    let shown = || world.json(["session", "checkpoint", &id, "--json"]);
    let items = shown()["items"].as_array().unwrap().clone();
    let docs = items.iter().find(|item| item["text"] == "docs").unwrap();
    let docs = docs["id"].to_string();
    let pinned = || {
        let items = shown()["items"].as_array().unwrap().clone();
        let pinned = items.into_iter().filter(|item| item["pinned"] == true);
        pinned.map(|item| item["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(checkpoint(&["pin", &docs]).code, Some(0));
    assert_eq!(pinned(), ["never push to main", "docs"]);
    let diff = world.json(["session", "checkpoint", &id, "diff", "2", "3", "--json"]);
    assert_eq!(
        (diff["gone"].as_array(), diff["added"].as_array()),
        (Some(&vec![]), Some(&vec![]))
    );
    assert_eq!(diff["changed"][0]["after"]["text"], "docs");
    assert!(
        checkpoint(&["diff", "2", "3"])
            .stdout
            .starts_with("from checkpoint 2 to 3: 0 gone, 1 changed, 0 added\n- Still to do: docs")
    );
    assert_eq!(checkpoint(&["unpin", &docs]).code, Some(0));
    assert_eq!(pinned(), ["never push to main"]);
    assert_eq!(checkpoint(&["restore", "3"]).code, Some(0));
    assert_eq!(pinned(), ["never push to main", "docs"]);
    let list = world.json(["session", "checkpoint", &id, "list", "--json"]);
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
    let row = |n, why: &str, place: &str| (n, why.to_owned(), place.to_owned());
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
    let listed = checkpoint(&["list"]);
    assert_eq!(listed.stdout.lines().count(), 7, "{listed}");
    assert!(listed.stdout.contains("\n*  5  1-2 "), "{listed}");
    assert_snapshot!(checkpoint(&["pin", "999"]), @"
    --- stderr
    error: checkpoint 5 has no item 999
    hint: nothing was changed; `segue session checkpoint [SESSION] show --all` lists all items with their numbers
    --- exit 2
    ");
    assert_snapshot!(checkpoint(&["restore", "9"]), @"
    --- stderr
    error: session [SESSION] has no checkpoint 9
    hint: `segue session checkpoint [SESSION] list` shows them
    --- exit 2
    ");
    assert_eq!(shown()["version"], 5);
}

#[test]
fn a_checkpoint_is_edited_and_what_is_wrong_changes_nothing() {
    let world = world();
    let id = talked(&world);
    let _ = world.json(["session", "compact", &id, "--json"]);
    let shown = || world.json(["session", "checkpoint", &id, "--json"]);
    let before = shown();
    let edited = edit(
        &world,
        &id,
        "printf 'Still to do:\\n- ask Ada\\n' >> \"$1\"",
    );
    assert_eq!(edited.code, Some(0), "{edited}");
    let after = shown();
    assert_eq!(
        (&after["version"], &after["why"]),
        (&2.into(), &"edited".into())
    );
    assert_eq!(texts(&after).len(), texts(&before).len() + 1);
    assert!(texts(&after).contains(&"ask Ada"), "{after:#}");
    assert_snapshot!(edit(&world, &id, ":"), @"
    that is so already, no changes made; checkpoint 2 is in force
    --- exit 0
    ");

    let wrong = edit(&world, &id, "printf 'Goals:\\n- [77] what\\n' >> \"$1\"");
    assert_eq!(wrong.code, Some(2), "{wrong}");
    assert!(wrong.stderr.contains("\"Goals:\" is neither"), "{wrong}");
    assert!(wrong.stderr.contains("there is no item 77"), "{wrong}");
    assert_eq!(shown(), after);
    // What was written is not lost by it.
    let left = world.home().join(format!("edit-{id}-2.txt"));
    let mode = fs::metadata(&left).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is for nobody else's eyes");
    let mended = "while read -r line; do case \"$line\" in Goals:*) found=1;; esac; done < \"$1\"
         [ \"$found\" ] || exit 9
         printf 'Goal:\\n- ship\\n' > \"$1\"";
    let again = edit(&world, &id, mended);
    assert_eq!(again.code, Some(0), "{again}");
    assert!(
        again.stderr.contains("going on with what was left in"),
        "{again}"
    );
    assert!(!left.exists());
    assert_eq!(texts(&shown()), ["ship"]);

    let left = world.home().join(format!("edit-{id}-3.txt"));
    let failed = edit(&world, &id, "echo '- more' >> \"$1\"; exit 3");
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(failed.stderr.contains("what you wrote is in"), "{failed}");
    assert!(left.exists());
    let _ = fs::remove_file(&left);
    // Nobody wrote anything: there is nothing to go on with.
    let failed = edit(&world, &id, "exit 3");
    assert_eq!(failed.code, Some(1), "{failed}");
    assert!(
        failed.stderr.ends_with("hint: nothing was changed\n"),
        "{failed}"
    );
    assert!(!left.exists());
    // Some editors empty a file by failing: the next one is offered the checkpoint, and not nothing.
    let emptied = edit(&world, &id, ": > \"$1\"");
    assert_snapshot!(emptied, @"
    --- stderr
    error: nothing is left of it
    hint: nothing was changed; the next `edit` begins anew
    --- exit 2
    ");
    assert!(!left.exists());
    let garbled = edit(&world, &id, "printf 'Goal:\\n- sh\\377p\\n' > \"$1\"");
    assert_eq!(garbled.code, Some(1), "{garbled}");
    assert!(garbled.stderr.contains("what you wrote is in"), "{garbled}");
    let _ = fs::remove_file(&left);
    let mut command = world.command(["session", "checkpoint", &id, "edit"]);
    command.env("EDITOR", "/nowhere/editor --wait");
    let nobody = Output::from(&command.output().unwrap(), &world);
    assert!(
        nobody
            .stderr
            .contains("set $VISUAL or $EDITOR to an editor"),
        "{nobody}"
    );
    assert!(!left.exists());
}

#[test]
fn a_draft_of_an_earlier_version_takes_nothing_from_a_later_one() {
    let world = world();
    let id = talked(&world);
    let _ = world.json(["session", "compact", &id, "--json"]);
    let written = "printf 'Still to do:\\n- ask Ada\\n' >> \"$1\"";
    let left = edit(&world, &id, &format!("{written}; exit 3"));
    assert_eq!(left.code, Some(1), "{left}");
    chat(&world, &["--resume", &id, "Never use tabs in src/form.rs."]);
    let _ = world.json(["session", "compact", &id, "--json"]);
    let shown = || world.json(["session", "checkpoint", &id, "--json"]);
    let before = shown();
    let edited = edit(&world, &id, ":");
    assert_eq!(edited.code, Some(0), "{edited}");
    assert!(
        edited.stderr.contains("what is new in checkpoint 2 stays"),
        "{edited}"
    );
    let after = shown();
    assert!(texts(&after).contains(&"ask Ada"), "{after:#}");
    for text in texts(&before) {
        assert!(texts(&after).contains(&text), "{text}: {after:#}");
    }
}

/// Some words, of about as many tokens.
fn words(count: usize) -> String {
    "word ".repeat(count)
}

#[test]
fn a_budget_is_kept_by_itself_and_one_line_says_so() {
    let world = small();
    let id = chat(
        &world,
        &["Never push to main. Please build the login form."],
    );
    let long = format!("rehearse: say {}", words(1_800));
    let output = world.segue(["chat", "--resume", &id, &long]);
    let told = output
        .stderr
        .lines()
        .filter(|line| line.contains("summed up"));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), 1, "{output}");
    assert!(told[0].starts_with("segue: 2 turn(s) of "), "{told:?}");
    let next = world.json(["chat", "--json", "--resume", &id, "go on"]);
    assert_eq!(next["opened"], "briefed", "{next:#}");
    let shown = world.json(["session", "checkpoint", &id, "--json"]);
    assert_eq!(
        (&shown["covers"], &shown["why"]),
        (&2.into(), &"budget".into())
    );
    assert!(shown["total_saved"].as_u64().unwrap() > 1_000, "{shown:#}");
    assert!(shown["held_tokens"].as_u64() < shown["budget"].as_u64());

    let off = world;
    fs::write(
        off.project().join("segue.toml"),
        "budget = 4000\n[compaction]\nauto = false\n",
    )
    .unwrap();
    let id = chat(&off, &[&long]);
    let list = off.json(["session", "checkpoint", &id, "list", "--json"]);
    assert_eq!(list, serde_json::json!([]));
}

#[test]
fn a_conversation_is_compacted_on_the_way() {
    let world = world();
    let typed = b"hello\n/compact\n/compact\n/checkpoint\nand now?\n/compact\n";
    let output = world.segue_with_input(["repl"], typed);
    assert_eq!(output.code, Some(0), "{output}");
    let told = output
        .stdout
        .matches("are summed up in checkpoint 1")
        .count();
    assert_eq!(told, 1, "{output}");
    assert!(output.stdout.contains("nothing was said since"), "{output}");
    // What can be done next is said as it is done here.
    assert!(
        output.stdout.contains("\nLook at it with: /checkpoint\n")
            && !output.stdout.contains("segue session checkpoint"),
        "{output}"
    );
    assert!(
        output.stdout.contains("\nsums up turn 1 in ")
            && output
                .stdout
                .contains(" of 100,000 tokens to be told next; "),
        "{output}"
    );
    // The tokens are those of both.
    assert!(
        output
            .stdout
            .contains(": 1 turn(s) and the checkpoint before, "),
        "{output}"
    );
    let info = world.json(["session", "info", "--json", "latest"]);
    assert_eq!(info["legs"][0]["ended_why"], "compacted", "{info:#}");
    assert_eq!(info["legs"][1]["turns"]["first"], 2, "{info:#}");
}

/// What is on record of a session's compactions: its versions, and how many legs ended by one.
fn on_record(world: &World, id: &str) -> (usize, usize) {
    let versions = world.json(["session", "checkpoint", id, "list", "--json"]);
    let info = world.json(["session", "info", "--json", id]);
    let legs = info["legs"].as_array().unwrap().iter();
    let ended = legs.filter(|leg| leg["ended_why"] == "compacted").count();
    (versions.as_array().unwrap().len(), ended)
}

/// How often it is killed, in each way.
const ROUNDS: u32 = 3;

/// Killed at whatever step, a compaction has happened whole or not at all; the session goes on, within the budget and
/// with what matters.
#[test]
fn a_compaction_that_is_killed_happened_whole_or_not_at_all() {
    let (mut done, mut undone) = (0, 0);
    let check = |world: &World, id: &str| {
        let (versions, ended) = on_record(world, id);
        assert_eq!(
            versions, ended,
            "a version and the end of its leg are one thing"
        );
        let next = world.json(["chat", "--json", "--resume", id, "go on"]);
        assert_eq!(next["stop"], "finished", "{next:#}");
        assert_ne!(next["opened"], "fresh", "{next:#}");
        let preview = world.json(["session", "preview", "--json", id]);
        assert_eq!(preview["over_budget"], false);
        let told = preview["system_prompt"].as_str().unwrap();
        assert!(told.contains("Never push to main"), "{told}");
        let (versions, ended) = on_record(world, id);
        assert_eq!(versions, ended);
        versions
    };
    let world = small();
    let long = format!("rehearse: say {}", words(1_800));
    let steps: [fn(&Value) -> bool; 3] = [
        |event| event["event"] == "text",
        |event| event["event"] == "decision" && event["kind"] == "compacted",
        |event| event["event"] == "ended",
    ];
    // How long a whole one takes here, so that kills are spread over it.
    let id = talked(&world);
    let start = Instant::now();
    let _ = world.json(["session", "compact", &id, "--json"]);
    let whole = start.elapsed();
    for round in 0..ROUNDS {
        let id = chat(
            &world,
            &["Never push to main. Please build the login form."],
        );
        let mut events = world.events(["--resume", &id, &long]);
        let reached = steps[round as usize % steps.len()];
        while let Some(event) = events.next_event() {
            if reached(&event) {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(u64::from(round) * 2));
        let _ = events.kill();
        // Whatever the kill left undone, the next prompt does.
        assert_eq!(check(&world, &id), 1, "round {round}");

        // The same of one that is asked for.
        let mut child = world
            .command(["session", "compact", &id])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(whole * (round + 1) / ROUNDS);
        // It may be over by now.
        let _ = child.kill();
        child.wait().unwrap();
        match on_record(&world, &id).0 {
            1 => undone += 1,
            _ => done += 1,
        }
        check(&world, &id);
    }
    crate::say(&format!(
        "killed while compacting: {done} done, {undone} not\n"
    ));
    world.assert_nothing_runs();
}
