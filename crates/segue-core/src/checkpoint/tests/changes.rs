//! Tests of how a checkpoint follows changes of mind and progress of the work, on complete conversations.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::brief::ToldTurn;
use crate::json::Json;
use crate::session::{Message, Part, Role};

pub(super) fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Creates a turn: the prompt, tool calls with their results, and the answer.
fn turn(n: u32, prompt: &str, calls: &[(&str, Value, Value)], answer: &str) -> ToldTurn {
    let at = Timestamp::UNIX_EPOCH;
    let mut messages = vec![Message::text(Role::User, prompt, at)];
    for (nth, (name, args, response)) in calls.iter().enumerate() {
        let id = format!("{n}.{nth}");
        let call = Part::FunctionCall {
            id: id.clone(),
            name: (*name).into(),
            args: Json::from(args.clone()),
        };
        let answer = Part::FunctionResponse {
            call_id: id,
            name: (*name).into(),
            response: Json::from(response.clone()),
            is_error: response["exit_code"].as_i64().is_some_and(|code| code != 0),
        };
        messages.push(Message::new(Role::Assistant, vec![call], at));
        messages.push(Message::new(Role::Tool, vec![answer], at));
    }
    messages.push(Message::text(Role::Assistant, answer, at));
    ToldTurn { n, messages }
}

pub(super) fn said(n: u32, prompt: &str, answer: &str) -> ToldTurn {
    turn(n, prompt, &[], answer)
}

fn ran(command: &str, code: i64) -> (&'static str, Value, Value) {
    let answer = json!({ "output": "", "exit_code": code });
    ("Bash", json!({ "command": command }), answer)
}

fn edited(path: &str) -> (&'static str, Value, Value) {
    ("Edit", json!({ "file_path": path }), json!("ok"))
}

/// Compacts turns first all at once and then one by one, and runs `check` on both checkpoints.
pub(super) fn summed_up(turns: &[ToldTurn], check: impl Fn(&Checkpoint)) {
    for at_once in [turns.len(), 1] {
        let mut checkpoint = Checkpoint::default();
        for some in turns.chunks(at_once) {
            let found = extract(some, "/w", &words);
            checkpoint = merge(&checkpoint, found, 10_000, &words);
        }
        check(&checkpoint);
    }
}

pub(super) fn texts(checkpoint: &Checkpoint, kind: ItemKind) -> Vec<&str> {
    checkpoint.of(kind).map(|item| item.text.as_str()).collect()
}

#[test]
fn each_rule_counts_by_itself_until_it_is_taken_back() {
    let turns = [
        said(1, "Fix the panic in the uploader.", "I look."),
        said(
            2,
            "Don't touch src/legacy.rs, that is owned by team Heron. And always run clippy before you say so.",
            "Fine.",
        ),
        said(
            3,
            "We may touch src/legacy.rs after all, so forget that rule of team Heron.",
            "Fine.",
        ),
    ];
    summed_up(&turns, |checkpoint| {
        assert_eq!(
            texts(checkpoint, ItemKind::Directive),
            [
                "Don't touch src/legacy.rs, that is owned by team Heron. (taken back in turn 3)",
                "And always run clippy before you say so.",
                "We may touch src/legacy.rs after all, so forget that rule of team Heron."
            ]
        );
    });
}

#[test]
fn what_was_pasted_is_no_rule() {
    let log = "here is the log of last night:\n\
               2026-11-02T10:14:03Z WARN pool: connections must not be reused\n\
               2026-11-02T10:14:03Z ERROR fetch: always failing\n\
               TRACE: TODO remove this line\n\
               does that fit?";
    let turns = [said(1, "Fix the panic.", "I look."), said(2, log, "Yes.")];
    summed_up(&turns, |checkpoint| {
        assert!(texts(checkpoint, ItemKind::Directive).is_empty());
        assert!(texts(checkpoint, ItemKind::Pending).is_empty());
        assert_eq!(texts(checkpoint, ItemKind::Request), ["does that fit?"]);
        assert_eq!(
            texts(checkpoint, ItemKind::Note),
            ["2026-11-02T10:14:03Z ERROR fetch: always failing"]
        );
    });
}

#[test]
fn what_others_wrote_is_no_rule_of_the_user() {
    let rule = "Never restart the pods of Lisbon.";
    for theirs in [
        "warning: unused variable: `x`\n --> src/main.rs:2:9\n  |\n2 |     let x = 5;\n  |         ^ help: if this is \
         intentional, prefix it with an underscore: `_x`\n  |\n  = note: the lint must be on by default",
        "failed to solve: you must specify a base image",
        "Plan: 1 to add, 0 to change, 1 to destroy.\n\nNote: You didn't use the -out option, you must.",
        "Mia says:\n\"You must always use async here.\"",
        "slack thread: bob 10:14 AM we should never ship on fridays imo alice 10:15 AM must not",
        "slack thread:\nbob 10:14 AM\nwe should never ship on fridays imo\nalice 10:16 AM\nthe goal is to ship",
        "Plan: 1 to add, 0 to change, 1 to destroy\nNote: You didn't use the -out option",
        "$ kubectl get pods\nNAME READY STATUS\nweb-0 0/1 must not run\nTODO: raise the limit",
        "{\"level\":\"error\",\"msg\":\"connection must be closed\"}",
        "> You must deliver by Friday.\n> Forget that rule on the pods of Lisbon.\n> TODO: call Mia. We decided on Go.",
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    raise ValueError(\"must never be \
         empty\")\nValueError: must never be empty",
        "FAIL src/a.test.js\n  ✕ must never be empty (3 ms)\n  ● suite › must be shown",
        "npm warn deprecated left-pad@1: must not be used\nTODO: replace it\nnpm warn never again",
    ] {
        for prompt in [format!("{theirs}\n\n{rule}"), format!("{rule}\n\n{theirs}")] {
            let turns = [
                said(1, "Fix the panic.", "I look."),
                said(2, &prompt, "Ok."),
            ];
            summed_up(&turns, |checkpoint| {
                let told = written(checkpoint);
                assert_eq!(texts(checkpoint, ItemKind::Directive), [rule], "{told}");
                for kind in [ItemKind::Pending, ItemKind::Decision, ItemKind::Attempt] {
                    assert_eq!(checkpoint.of(kind).count(), 0, "{told}");
                }
                assert_eq!(checkpoint.of(ItemKind::Goal).count(), 1, "{told}");
            });
        }
    }
}

#[test]
fn what_was_asked_last_is_no_goal_and_what_was_next_does_not_stay_so() {
    let turns = [
        said(
            1,
            "Fix the uploader.",
            "Next I'll evict closed sockets of the Lisbon pool.",
        ),
        said(2, "go on", "The pool of Lisbon has 3 sockets."),
        said(3, "yes", "They are open."),
        said(4, "do that, then tag a release candidate", "v4 is tagged."),
    ];
    summed_up(&turns, |checkpoint| {
        assert_eq!(texts(checkpoint, ItemKind::Goal), ["Fix the uploader."]);
        assert!(texts(checkpoint, ItemKind::NextStep).is_empty());
        assert_eq!(
            texts(checkpoint, ItemKind::Request),
            ["do that, then tag a release candidate"]
        );
    });
}

#[test]
fn what_is_done_piece_by_piece_is_not_open() {
    let turns = [
        said(
            1,
            "Finish the retries.",
            "The changelog entry is still to be written, and the metrics for evictions are missing.\n\n- [ ] docs",
        ),
        turn(
            2,
            "go on",
            &[edited("/w/CHANGELOG.md")],
            "I added the changelog entry.",
        ),
        turn(
            3,
            "go on",
            &[edited("/w/src/metrics.rs")],
            "I added src/metrics.rs, so the metrics for evictions are done.\n\n- [x] docs",
        ),
    ];
    summed_up(&turns, |checkpoint| {
        assert!(
            texts(checkpoint, ItemKind::Pending).is_empty(),
            "{}",
            written(checkpoint)
        );
    });
}

#[test]
fn what_was_in_the_way_is_gone_once_the_person_says_so() {
    let blocked = said(
        1,
        "Write the changelog.",
        "The failure on Windows is blocked until Priya sends the logs.",
    );
    summed_up(std::slice::from_ref(&blocked), |checkpoint| {
        assert_eq!(checkpoint.of(ItemKind::Blocker).count(), 1);
    });
    let turns = [
        blocked,
        said(2, "Priya sent them, and I fixed it myself.", "Good."),
    ];
    summed_up(&turns, |checkpoint| {
        assert_eq!(checkpoint.of(ItemKind::Blocker).count(), 0);
    });
}

#[test]
fn what_is_plainly_done_is_not_open_however_short_it_is() {
    let first = "Types still missing.\n\n- [ ] rename `handler`\n\nI am blocked: I have no AWS credentials.";
    for (prompt, answer, open) in [
        (
            "creds are in 1password now, you have access",
            "Added types to all functions. The rename is done.",
            0,
        ),
        (
            "do you have access to the credentials?",
            "Added types to the parser. The rename is half done.",
            3,
        ),
        (
            "you don't have access to the credentials yet",
            "Removed the parser.",
            3,
        ),
    ] {
        let turns = [said(1, "Go on.", first), said(2, prompt, answer)];
        summed_up(&turns, |checkpoint| {
            let kinds = [ItemKind::Pending, ItemKind::Blocker];
            let found = checkpoint
                .items
                .iter()
                .filter(|item| kinds.contains(&item.kind) && item.turn == 1);
            assert_eq!(found.count(), open, "{}", written(checkpoint));
        });
    }
}

#[test]
fn a_file_goes_by_the_name_that_it_has_now() {
    let turns = [
        turn(1, "Split it.", &[edited("/w/billing.py")], "Done."),
        turn(
            2,
            "Rename it.",
            &[
                edited("/w/billing.py"),
                ran("git mv billing.py billing/core.py", 0),
                ran("mv old.py new.py", 1),
            ],
            "Done.",
        ),
        turn(3, "And again.", &[edited("/w/billing/core.py")], "Done."),
    ];
    summed_up(&turns, |checkpoint| {
        let files = checkpoint.of(ItemKind::File);
        let files: Vec<_> = files
            .map(|item| (item.subject.as_deref().unwrap(), item.text.as_str()))
            .collect();
        assert_eq!(
            files,
            [
                ("billing.py", "deleted: it is billing/core.py now"),
                ("billing/core.py", "created: it was billing.py")
            ]
        );
    });
}

#[test]
fn a_check_of_all_outruns_one_of_a_part() {
    let turns = [
        turn(
            1,
            "Test it.",
            &[ran("cargo test dates", 101), ran("cargo test-dates", 1)],
            "No.",
        ),
        turn(2, "Test all.", &[ran("cargo test", 0)], "Yes."),
    ];
    summed_up(&turns, |checkpoint| {
        let checks = checkpoint.of(ItemKind::Check);
        let checks: Vec<_> = checks.filter_map(|item| item.subject.as_deref()).collect();
        assert_eq!(checks, ["cargo test-dates", "cargo test"]);
    });
}

#[test]
fn a_task_is_ticked_off_by_its_number() {
    let made = |n: u32, subject: &str| {
        let answer = json!(format!("Task #{n} created successfully: {subject}"));
        (
            "TaskCreate",
            json!({ "subject": subject, "description": "x" }),
            answer,
        )
    };
    let is = |n: &str, status: &str| {
        let args = json!({ "taskId": n, "status": status });
        (
            "TaskUpdate",
            args,
            json!(format!("Updated task #{n} status")),
        )
    };
    let turns = [
        turn(
            1,
            "Plan.",
            &[
                made(1, "read dates"),
                made(2, "write dates"),
                made(3, "print dates"),
            ],
            "Good.",
        ),
        turn(
            2,
            "Begin.",
            &[is("1", "completed"), is("2", "in_progress")],
            "Good.",
        ),
    ];
    let found = extract(&turns, "/w", &words);
    let checkpoint = merge(&Checkpoint::default(), found, 10_000, &words);
    assert_eq!(texts(&checkpoint, ItemKind::Done), ["read dates"]);
    assert_eq!(texts(&checkpoint, ItemKind::Focus), ["write dates"]);
    assert_eq!(texts(&checkpoint, ItemKind::Pending), ["print dates"]);
}
