//! Tests of checkpoints that are made from single prompts and from the first prompts of a conversation.

use std::cell::Cell;

use jiff::Timestamp;

use super::changes::{count_words, item_texts, text_turn};
use super::*;
use crate::brief::BriefTurn;
use crate::session::{Message, Role};

/// Compacts prompts, each with the answer `Ok.`, and runs `check` on the checkpoints.
fn check_prompts(prompts: &[&str], check: impl Fn(&Checkpoint)) {
    let turns = (1..)
        .zip(prompts)
        .map(|(n, prompt)| text_turn(n, prompt, "Ok."));
    let turns: Vec<BriefTurn> = turns.collect();
    super::changes::check_compaction(&turns, check);
}

#[test]
fn every_rule_in_a_long_prompt_is_extracted() {
    let rule = |n| format!("Module number{n} must always be reviewed by reviewer{n}.");
    let rules: Vec<String> = (0..300).map(rule).collect();
    let listed = format!("Review it all.\n\n- {}", rules.join("\n- "));
    let in_prose = format!(
        "Review it all.\n\n{}",
        rules.join(" It is told once, and at length. ")
    );
    for prompt in [listed, in_prose] {
        check_prompts(&[&prompt], |checkpoint| {
            let extracted_rules = item_texts(checkpoint, ItemKind::Directive).join("\n");
            for rule in &rules {
                assert!(extracted_rules.contains(rule), "{rule} is lost");
            }
        });
    }
}

#[test]
fn a_prompt_too_long_to_be_typed_is_not_scored_by_sentence() {
    let pasted = "The word must is in all of these, and so on. ".repeat(10_000);
    let prompt = Message::from_text(Role::User, pasted.as_str(), Timestamp::UNIX_EPOCH);
    let turn = BriefTurn {
        n: 1,
        messages: vec![prompt],
    };
    let count_calls = Cell::new(0);
    let count = |text: &str| {
        count_calls.set(count_calls.get() + 1);
        count_words(text)
    };
    let items = extract(&[turn], "/w", &count);
    assert!(!items.is_empty());
    assert!(count_calls.get() <= 2_000, "{}", count_calls.get());
}

/// Prompts, the expected goals, and the expected rules.
type Case = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn the_first_request_is_the_goal_and_rules_stay_rules() {
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
        check_prompts(prompts, |checkpoint| {
            assert_eq!(item_texts(checkpoint, ItemKind::Goal), goals, "{prompts:?}");
            assert_eq!(
                item_texts(checkpoint, ItemKind::Directive),
                rules,
                "{prompts:?}"
            );
        });
    }
}
