//! Tests of checkpoints that are made from single prompts and from the first prompts of a conversation.

use std::cell::Cell;

use jiff::Timestamp;

use super::changes::{said, texts, words};
use super::*;
use crate::brief::ToldTurn;
use crate::session::{Message, Role};

/// Compacts prompts, each with the answer `Ok.`, and runs `check` on the checkpoints.
fn summed_up(prompts: &[&str], check: impl Fn(&Checkpoint)) {
    let turns = (1..).zip(prompts).map(|(n, prompt)| said(n, prompt, "Ok."));
    let turns: Vec<ToldTurn> = turns.collect();
    super::changes::summed_up(&turns, check);
}

#[test]
fn no_rule_is_lost_for_standing_in_a_long_prompt() {
    let rule = |n| format!("Module number{n} must always be reviewed by reviewer{n}.");
    let rules: Vec<String> = (0..300).map(rule).collect();
    let listed = format!("Review it all.\n\n- {}", rules.join("\n- "));
    let in_prose = format!(
        "Review it all.\n\n{}",
        rules.join(" It is told once, and at length. ")
    );
    for prompt in [listed, in_prose] {
        summed_up(&[&prompt], |checkpoint| {
            let told = texts(checkpoint, ItemKind::Directive).join("\n");
            for rule in &rules {
                assert!(told.contains(rule), "{rule} is lost");
            }
        });
    }
}

#[test]
fn what_is_long_beyond_typing_is_not_looked_at_sentence_by_sentence() {
    let pasted = "The word must is in all of these, and so on. ".repeat(10_000);
    let prompt = Message::text(Role::User, pasted.as_str(), Timestamp::UNIX_EPOCH);
    let turn = ToldTurn {
        n: 1,
        messages: vec![prompt],
    };
    let counted = Cell::new(0);
    let count = |text: &str| {
        counted.set(counted.get() + 1);
        words(text)
    };
    let found = extract(&[turn], "/w", &count);
    assert!(!found.is_empty());
    assert!(counted.get() <= 2_000, "{}", counted.get());
}

/// Prompts, the expected goals, and the expected rules.
type Case = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn the_first_request_is_the_goal_and_a_rule_a_rule() {
    let cases: [Case; 14] = [
        (
            &["Build the widget. Never touch vendor/."],
            &["Build the widget."],
            &["Never touch vendor/."],
        ),
        (
            &["Never touch vendor/. Build the widget for the billing page of Lisbon."],
            &["Build the widget for the billing page of Lisbon."],
            &["Never touch vendor/."],
        ),
        (&["hi", "Build the widget."], &["Build the widget."], &[]),
        (
            &["hello there", "hey!", "Fix the bug."],
            &["Fix the bug."],
            &[],
        ),
        (
            &["Never touch vendor/.", "Build the widget."],
            &["Build the widget."],
            &["Never touch vendor/."],
        ),
        (
            &["Hi, build the widget.", "Now build the lamp."],
            &["Hi, build the widget."],
            &[],
        ),
        // The reason for a rule is part of its item.
        (
            &[
                "Port it.",
                "Never touch the kiosk lamps of Lisbon. They belong to team Heron.",
            ],
            &["Port it."],
            &["Never touch the kiosk lamps of Lisbon. They belong to team Heron."],
        ),
        (
            &["永远不要修改 vendor 目录。请添加登录页面。"],
            &["请添加登录页面。"],
            &["永远不要修改 vendor 目录。"],
        ),
        (
            &["Port it.", "所有接口必须有测试。不要使用全局变量。"],
            &["Port it."],
            &["所有接口必须有测试。", "不要使用全局变量。"],
        ),
        (&["你好", "请添加登录页面。"], &["请添加登录页面。"], &[]),
        (
            &["Fix the build. docker says:\nfailed to solve: you must specify a base image"],
            &["Fix the build."],
            &[],
        ),
        (&["Fix this:\n```\nlet x = 1;\n```"], &["Fix this:"], &[]),
        (&["Why is it slow?"], &["Why is it slow?"], &[]),
        (&["hi", "yes", "ok", "Build the widget."], &[], &[]),
    ];
    for (prompts, goals, rules) in cases {
        summed_up(prompts, |checkpoint| {
            assert_eq!(texts(checkpoint, ItemKind::Goal), goals, "{prompts:?}");
            assert_eq!(texts(checkpoint, ItemKind::Directive), rules, "{prompts:?}");
        });
    }
}
