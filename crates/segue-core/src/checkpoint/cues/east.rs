//! Rules in Chinese and Japanese, which put no blanks between words.

/// What goes on to hold.
const RULES: [&str; 20] = [
    "必须",
    "必須",
    "不要",
    "禁止",
    "请勿",
    "請勿",
    "切勿",
    "始终",
    "始終",
    "务必",
    "務必",
    "不得",
    "不准",
    "不许",
    "必ず",
    "しないで",
    "ないでください",
    "てはいけない",
    "てはならない",
    "常に",
];

/// What has one of those in it and says something else: whether, unneeded, it doesn't matter, not necessarily.
const OTHERS: [&str; 13] = [
    "要不要",
    "不要紧",
    "不要担心",
    "不要客气",
    "不要的",
    "不要な",
    "不要です",
    "不得不",
    "是不是必须",
    "必ずしも",
    "始终无法",
    "始终失败",
    "始终不",
];

/// What a question ends with.
const ASKED: [char; 5] = ['？', '?', '吗', '呢', 'か'];

/// Whether a sentence is a rule.
pub(super) fn is_rule(text: &str) -> bool {
    if text.is_ascii() || text.trim_end_matches('。').ends_with(ASKED) {
        return false;
    }
    let has = |text: &str| RULES.iter().any(|rule| text.contains(rule));
    has(text) && has(&without_others(text))
}

fn without_others(text: &str) -> String {
    let without = |text: String, other: &&str| text.replace(other, " ");
    OTHERS.iter().fold(text.to_owned(), without)
}

/// Whether a sentence asks for a piece of work.
pub(super) fn asks(text: &str) -> bool {
    let politely = text.trim_end_matches('。').ends_with("ください");
    text.starts_with(['请', '請', '帮', '幫']) || politely
}

/// How many words a text is about: most of them have two letters.
pub(super) fn words(text: &str) -> usize {
    let is_east = |c: &char| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}');
    text.chars().filter(is_east).count() / 2
}
