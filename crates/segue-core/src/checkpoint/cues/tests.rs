//! What sentences are taken for.

use super::*;

#[test]
fn a_sentence_shows_what_it_is() {
    use ItemKind::{Attempt, Blocker, Decision, Directive, Done, Goal, Pending};
    for (role, text, kind) in [
        (
            Role::User,
            "Never touch the vendor directory.",
            Some(Directive),
        ),
        (Role::User, "From now on, use tabs.", Some(Directive)),
        (
            Role::User,
            "The goal is a parser that never panics on bad input.",
            Some(Directive),
        ),
        (Role::User, "The goal is a faster parser.", Some(Goal)),
        (Role::User, "hello", None),
        (
            Role::Assistant,
            "I decided on SQLite because it needs no server.",
            Some(Decision),
        ),
        (
            Role::Assistant,
            "Raising the timeout did nothing for the flaky test.",
            Some(Attempt),
        ),
        (
            Role::Assistant,
            "The migration script is still missing.",
            Some(Pending),
        ),
        (
            Role::Assistant,
            "I am waiting for access to the staging database.",
            Some(Blocker),
        ),
        (Role::Assistant, "All tests pass.", Some(Done)),
        // Put right at once, or only supposed to be.
        (
            Role::Assistant,
            "The header was missing, so I added it.",
            Some(Done),
        ),
        (
            Role::Assistant,
            "The header is missing until the parser is fixed.",
            Some(Pending),
        ),
        (
            Role::Assistant,
            "The header is missing, not yet done.",
            Some(Pending),
        ),
        (
            Role::Assistant,
            "The header will have to be rewritten.",
            Some(Pending),
        ),
        (
            Role::Assistant,
            "I'll open the header.",
            Some(ItemKind::NextStep),
        ),
        (
            Role::Assistant,
            "Let me look at the file.",
            Some(ItemKind::NextStep),
        ),
        (Role::Assistant, "The file has ten lines.", None),
        (Role::Tool, "never", None),
    ] {
        check(role, text, kind);
    }
}

#[test]
fn rules_are_known_without_blanks_between_words() {
    for (text, is_rule) in [
        ("所有接口必须有测试。", true),
        ("不要使用全局变量。", true),
        ("禁止直接推送到 main 分支。", true),
        ("永远不要修改 vendor 目录。", true),
        ("请勿提交密钥。", true),
        ("始终使用 UTF-8 编码。", true),
        ("テストを必ず実行してください。", true),
        ("mainに直接pushしないでください。", true),
        ("本番環境への接続は禁止。", true),
        ("请添加登录页面。", false),
        ("要不要加缓存", false),
        ("必须重启服务器吗？", false),
        ("删除不要的文件。", false),
        ("不要なファイルを削除してください。", false),
        ("必ずしもそうではない。", false),
        ("登录始终失败。", false),
        ("你好", false),
    ] {
        let kind = is_rule.then_some(ItemKind::Directive);
        check(Role::User, text, kind);
        check(Role::Assistant, text, None);
    }
}

#[test]
fn talk_is_told_from_rules_and_requests_from_failures() {
    use ItemKind::{Attempt, Directive, Pending, Request};
    for (role, text, kind) in [
        // Talk, and what only looks like it.
        (Role::User, "My dog never stops barking lol", None),
        (Role::User, "I don't know what happened there.", None),
        (Role::User, "You don't need to apologise.", None),
        (Role::User, "must have been slow before", None),
        (Role::User, "I always liked the way Django does it", None),
        (Role::User, "You're the best, never change :)", None),
        (Role::User, "It doesn't matter.", None),
        (
            Role::User,
            "No problem, that's exactly what I wanted!",
            None,
        ),
        (Role::User, "not now", None),
        (Role::User, "Sure, later.", None),
        (Role::Assistant, "Skipped them in tests/admin.", None),
        (Role::User, "Never change the names.", Some(Directive)),
        (
            Role::User,
            "I never commit generated files.",
            Some(Directive),
        ),
        (Role::User, "I don't want any ORM.", Some(Directive)),
        (Role::User, "Invoices must have a number.", Some(Directive)),
        (Role::User, "It always needs a review.", Some(Directive)),
        (Role::User, "Don't worry, and never push.", Some(Directive)),
        // Requests, and what is put off.
        (
            Role::User,
            "remove the dates, they are useless",
            Some(Request),
        ),
        (
            Role::User,
            "please revert the last commit on main",
            Some(Request),
        ),
        (Role::User, "skip the docs for invoices", Some(Request)),
        (Role::User, "Do the docs later.", Some(Pending)),
        (Role::User, "skip the docs for now", Some(Pending)),
        (Role::User, "The build still fails.", Some(Attempt)),
        (
            Role::Assistant,
            "I skipped the Windows tests.",
            Some(Pending),
        ),
    ] {
        check(role, text, kind);
    }
}

fn check(role: Role, text: &str, kind: Option<ItemKind>) {
    let found = sense(&TextUnit::new(text), role).map(|sense| sense.kind);
    assert_eq!(found, kind, "{text}");
}
