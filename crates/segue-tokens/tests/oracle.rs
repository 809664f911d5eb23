//! Token counts, compared with another implementation of the same vocabulary.

#![allow(clippy::unwrap_used, reason = "tests: a panic is how they speak")]

use proptest::prelude::*;
use tiktoken_rs::o200k_base_singleton;

fn assert_same_count(text: &str) {
    let oracle = o200k_base_singleton().count_ordinary(text);
    let excerpt: String = text.chars().take(80).collect();
    assert_eq!(
        segue_tokens::count(text),
        u64::try_from(oracle).unwrap(),
        "{excerpt:?}"
    );
}

const SAMPLE_TEXTS: &[&str] = &[
    "",
    " ",
    "\n",
    "The quick brown fox jumps over the lazy dog, doesn't it? IT'S 12:30, and 1,234,567.89 more to go.",
    "Grüße aus Köln — „Anführungszeichen“ und ein Gedankenstrich …",
    "fn main() {\n    let total: u64 = items.iter().map(|item| item.price * 2).sum();\n\tprintln!(\"{total:>8}\");\n}\n\n\n",
    "{\"id\":\"toolu_01\",\"args\":{\"path\":\"/src/app/main.rs\",\"lines\":[1,22,333,4444]},\"ok\":true,\"note\":\"a\\nb\\u00e9\"}",
    "これは日本語の文章です。漢字とかなと記号、それに１２３も。",
    "这是一个没有空格的中文句子,后面还有一个。 한국어 문장도 있습니다.",
    "مرحبا بالعالم، كيف حالك؟ שלום עולם",
    "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪 ✈️ e\u{301}\u{302} \u{200b}\u{feff}",
    "\r\n\r\n \t \u{a0}\u{2003}\u{2028}x\u{85}y\u{0}z",
    "<|endoftext|> is a text like any other, and so is <|fim_prefix|>",
    "https://example.org/a/b?c=d&e=%20f#g 0123456789abcdef0123456789ABCDEF deadbeef==",
];

#[test]
fn sample_texts_count_like_the_oracle() {
    for text in SAMPLE_TEXTS {
        assert_same_count(text);
    }
    // Files of this workspace: prose and code.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for file in [
        "ARCHITECTURE.md",
        "README.md",
        "Cargo.toml",
        "crates/segue-tokens/src/lib.rs",
    ] {
        assert_same_count(&std::fs::read_to_string(format!("{root}/{file}")).unwrap());
    }
}

#[test]
fn runs_of_one_character_count_like_the_oracle() {
    for c in ["a", " ", "=", "\n", "\t", "0", "é", "漢", "👍", "\u{301}"] {
        for length in [1, 2, 3, 15, 16, 17, 127, 1000] {
            assert_same_count(&c.repeat(length));
        }
    }
}

/// Checks long runs of one character, on which quadratic work would not end.
#[test]
fn counting_long_runs_terminates() {
    for c in ["a", " ", "=", "漢"] {
        let tokens = segue_tokens::count(&c.repeat(1 << 20));
        assert!(tokens > 0, "{c:?}");
    }
}

#[test]
fn a_warm_up_makes_counts_ready() {
    segue_tokens::warm_up();
    segue_tokens::warm_up();
    let blocking_count = segue_tokens::count("ready or not");
    assert_eq!(
        segue_tokens::count_if_ready("ready or not"),
        Some(blocking_count)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_counts_like_the_oracle(text in "\\PC{0,200}") {
        assert_same_count(&text);
    }

    #[test]
    fn any_characters_count_like_the_oracle(text in proptest::collection::vec(any::<char>(), 0..200)) {
        assert_same_count(&text.into_iter().collect::<String>());
    }
}
