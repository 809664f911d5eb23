//! Tests of how a checkpoint follows changes of mind and progress of the work, on complete conversations.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::brief::BriefTurn;
use crate::json::Json;
use crate::session::{Message, Part, Role};

pub(super) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Creates a turn: the prompt, tool calls with their results, and the answer.
fn turn(n: u32, prompt: &str, calls: &[(&str, Value, Value)], answer: &str) -> BriefTurn {
    let at = Timestamp::UNIX_EPOCH;
    let mut messages = vec![Message::from_text(Role::User, prompt, at)];
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
    messages.push(Message::from_text(Role::Assistant, answer, at));
    BriefTurn { n, messages }
}

pub(super) fn text_turn(n: u32, prompt: &str, answer: &str) -> BriefTurn {
    turn(n, prompt, &[], answer)
}

fn bash_call(command: &str, code: i64) -> (&'static str, Value, Value) {
    let answer = json!({ "output": "", "exit_code": code });
    ("Bash", json!({ "command": command }), answer)
}

fn edit_call(path: &str) -> (&'static str, Value, Value) {
    ("Edit", json!({ "file_path": path }), json!("ok"))
}

/// Compacts turns first all at once and then one by one, and runs `check` on both checkpoints.
pub(super) fn check_compaction(turns: &[BriefTurn], check: impl Fn(&Checkpoint)) {
    for chunk_size in [turns.len(), 1] {
        let mut checkpoint = Checkpoint::default();
        for chunk in turns.chunks(chunk_size) {
            let items = extract(chunk, "/w", &count_words);
            checkpoint = merge(&checkpoint, items, 10_000, &count_words);
        }
        check(&checkpoint);
    }
}

pub(super) fn item_texts(checkpoint: &Checkpoint, kind: ItemKind) -> Vec<&str> {
    checkpoint
        .items_of_kind(kind)
        .map(|item| item.text.as_str())
        .collect()
}

#[test]
fn each_rule_applies_until_the_user_retracts_it() {
    let turns = [
        text_turn(1, "Fix the panic in the uploader.", "I look."),
        text_turn(
            2,
            "Don't touch src/legacy.rs, that is owned by team Heron. And always run clippy before you say so.",
            "Fine.",
        ),
        text_turn(
            3,
            "We may touch src/legacy.rs after all, so forget that rule of team Heron.",
            "Fine.",
        ),
    ];
    check_compaction(&turns, |checkpoint| {
        assert_eq!(
            item_texts(checkpoint, ItemKind::Directive),
            [
                "Don't touch src/legacy.rs, that is owned by team Heron. (taken back in turn 3)",
                "And always run clippy before you say so.",
                "We may touch src/legacy.rs after all, so forget that rule of team Heron."
            ]
        );
    });
}

#[test]
fn pasted_text_is_not_a_rule() {
    let log = "here is the log of last night:\n\
               2026-11-02T10:14:03Z WARN pool: connections must not be reused\n\
               2026-11-02T10:14:03Z ERROR fetch: always failing\n\
               TRACE: TODO remove this line\n\
               does that fit?";
    let turns = [
        text_turn(1, "Fix the panic.", "I look."),
        text_turn(2, log, "Yes."),
    ];
    check_compaction(&turns, |checkpoint| {
        assert!(item_texts(checkpoint, ItemKind::Directive).is_empty());
        assert!(item_texts(checkpoint, ItemKind::Pending).is_empty());
        assert_eq!(
            item_texts(checkpoint, ItemKind::Request),
            ["does that fit?"]
        );
        assert_eq!(
            item_texts(checkpoint, ItemKind::Note),
            ["2026-11-02T10:14:03Z ERROR fetch: always failing"]
        );
    });
}

#[test]
fn text_by_others_is_not_a_rule_of_the_user() {
    let rule = "Never restart the pods of Lisbon.";
    for foreign_text in [
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
        for prompt in [
            format!("{foreign_text}\n\n{rule}"),
            format!("{rule}\n\n{foreign_text}"),
        ] {
            let turns = [
                text_turn(1, "Fix the panic.", "I look."),
                text_turn(2, &prompt, "Ok."),
            ];
            check_compaction(&turns, |checkpoint| {
                let rendered = render_checkpoint(checkpoint);
                assert_eq!(
                    item_texts(checkpoint, ItemKind::Directive),
                    [rule],
                    "{rendered}"
                );
                for kind in [ItemKind::Pending, ItemKind::Decision, ItemKind::Attempt] {
                    assert_eq!(checkpoint.items_of_kind(kind).count(), 0, "{rendered}");
                }
                assert_eq!(
                    checkpoint.items_of_kind(ItemKind::Goal).count(),
                    1,
                    "{rendered}"
                );
            });
        }
    }
}

#[test]
fn the_last_request_is_not_the_goal_and_next_steps_expire() {
    let turns = [
        text_turn(
            1,
            "Fix the uploader.",
            "Next I'll evict closed sockets of the Lisbon pool.",
        ),
        text_turn(2, "go on", "The pool of Lisbon has 3 sockets."),
        text_turn(3, "yes", "They are open."),
        text_turn(4, "do that, then tag a release candidate", "v4 is tagged."),
    ];
    check_compaction(&turns, |checkpoint| {
        assert_eq!(
            item_texts(checkpoint, ItemKind::Goal),
            ["Fix the uploader."]
        );
        assert!(item_texts(checkpoint, ItemKind::NextStep).is_empty());
        assert_eq!(
            item_texts(checkpoint, ItemKind::Request),
            ["do that, then tag a release candidate"]
        );
    });
}

#[test]
fn work_completed_step_by_step_is_not_open() {
    let turns = [
        text_turn(
            1,
            "Finish the retries.",
            "The changelog entry is still to be written, and the metrics for evictions are missing.\n\n- [ ] docs",
        ),
        turn(
            2,
            "go on",
            &[edit_call("/w/CHANGELOG.md")],
            "I added the changelog entry.",
        ),
        turn(
            3,
            "go on",
            &[edit_call("/w/src/metrics.rs")],
            "I added src/metrics.rs, so the metrics for evictions are done.\n\n- [x] docs",
        ),
    ];
    check_compaction(&turns, |checkpoint| {
        assert!(
            item_texts(checkpoint, ItemKind::Pending).is_empty(),
            "{}",
            render_checkpoint(checkpoint)
        );
    });
}

#[test]
fn a_blocker_is_dropped_once_the_user_resolves_it() {
    let blocked = text_turn(
        1,
        "Write the changelog.",
        "The failure on Windows is blocked until Priya sends the logs.",
    );
    check_compaction(std::slice::from_ref(&blocked), |checkpoint| {
        assert_eq!(checkpoint.items_of_kind(ItemKind::Blocker).count(), 1);
    });
    let turns = [
        blocked,
        text_turn(2, "Priya sent them, and I fixed it myself.", "Good."),
    ];
    check_compaction(&turns, |checkpoint| {
        assert_eq!(checkpoint.items_of_kind(ItemKind::Blocker).count(), 0);
    });
}

#[test]
fn clearly_completed_work_is_not_open_even_if_its_text_is_short() {
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
        let turns = [text_turn(1, "Go on.", first), text_turn(2, prompt, answer)];
        check_compaction(&turns, |checkpoint| {
            let kinds = [ItemKind::Pending, ItemKind::Blocker];
            let open_items = checkpoint
                .items
                .iter()
                .filter(|item| kinds.contains(&item.kind) && item.turn == 1);
            assert_eq!(
                open_items.count(),
                open,
                "{}",
                render_checkpoint(checkpoint)
            );
        });
    }
}

#[test]
fn a_moved_file_is_listed_by_its_new_name() {
    let turns = [
        turn(1, "Split it.", &[edit_call("/w/billing.py")], "Done."),
        turn(
            2,
            "Rename it.",
            &[
                edit_call("/w/billing.py"),
                bash_call("git mv billing.py billing/core.py", 0),
                bash_call("mv old.py new.py", 1),
            ],
            "Done.",
        ),
        turn(3, "And again.", &[edit_call("/w/billing/core.py")], "Done."),
    ];
    check_compaction(&turns, |checkpoint| {
        let files = checkpoint.items_of_kind(ItemKind::File);
        let files: Vec<_> = files
            .map(|item| (item.subject.as_deref().unwrap(), item.text.as_str()))
            .collect();
        assert_eq!(
            files,
            [
                ("billing.py", "deleted: moved to billing/core.py"),
                ("billing/core.py", "created: moved from billing.py")
            ]
        );
    });
}

#[test]
fn a_complete_check_replaces_a_partial_one() {
    let turns = [
        turn(
            1,
            "Test it.",
            &[
                bash_call("cargo test dates", 101),
                bash_call("cargo test-dates", 1),
            ],
            "No.",
        ),
        turn(2, "Test all.", &[bash_call("cargo test", 0)], "Yes."),
    ];
    check_compaction(&turns, |checkpoint| {
        let checks = checkpoint.items_of_kind(ItemKind::Check);
        let checks: Vec<_> = checks.filter_map(|item| item.subject.as_deref()).collect();
        assert_eq!(checks, ["cargo test-dates", "cargo test"]);
    });
}

#[test]
fn a_task_is_completed_by_its_number() {
    let create_task = |n: u32, subject: &str| {
        let answer = json!(format!("Task #{n} created successfully: {subject}"));
        (
            "TaskCreate",
            json!({ "subject": subject, "description": "x" }),
            answer,
        )
    };
    let update_task = |n: &str, status: &str| {
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
                create_task(1, "read dates"),
                create_task(2, "write dates"),
                create_task(3, "print dates"),
            ],
            "Good.",
        ),
        turn(
            2,
            "Begin.",
            &[
                update_task("1", "completed"),
                update_task("2", "in_progress"),
            ],
            "Good.",
        ),
    ];
    let items = extract(&turns, "/w", &count_words);
    let checkpoint = merge(&Checkpoint::default(), items, 10_000, &count_words);
    assert_eq!(item_texts(&checkpoint, ItemKind::Done), ["read dates"]);
    assert_eq!(item_texts(&checkpoint, ItemKind::Focus), ["write dates"]);
    assert_eq!(item_texts(&checkpoint, ItemKind::Pending), ["print dates"]);
}
