//! Speed of token counting, compared with the implementation that the tests use as an oracle.
//!
//! `cargo bench -p segue-tokens`; docs/benchmarks.md explains the table.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use segue_testkit::benchmark::{Compared, Contestant, Extent, print_table, take_turns};
use tiktoken_rs::o200k_base_singleton;

/// Length of a message in bytes, about that of a long answer.
const MESSAGE: usize = 4096;

fn main() {
    let extent = Extent::from_args();
    extent.announce();
    let begun = Instant::now();
    black_box(segue_tokens::count("load it"));
    println!(
        "loaded in {:.0} ms; messages of {MESSAGE} bytes",
        begun.elapsed().as_secs_f64() * 1e3
    );
    let total = extent.pick(4 << 20, 64 << 10);
    let rounds = extent.pick(9, 1);
    let rows: Vec<_> = [
        ("prose", messages(total, prose)),
        ("code", messages(total, code)),
        ("JSON", messages(total, json)),
        (
            "Chinese",
            messages(total, |text, _| {
                text.push_str("这是一个没有空格的句子,后面还有一个。");
            }),
        ),
        (
            "one character",
            vec!["=".repeat(extent.pick(1 << 20, 64 << 10))],
        ),
    ]
    .iter()
    .map(|(name, texts)| row(name, texts, rounds))
    .collect();
    print_table(
        "MB/s",
        ["text", "segue-tokens", "oracle", "times as fast"],
        &rows,
    );
}

fn row(name: &str, texts: &[String], rounds: usize) -> [String; 4] {
    let oracle = o200k_base_singleton();
    let mut both = [
        Contestant::new("segue-tokens", || speed(texts, segue_tokens::count)),
        Contestant::new("oracle", || {
            speed(texts, |text| {
                u64::try_from(oracle.count_ordinary(text)).unwrap()
            })
        }),
    ];
    take_turns(&mut both, rounds);
    let [ours, theirs] = both;
    let times = Compared::by_round(&ours, &theirs, |ours, theirs| ours / theirs);
    [
        name.to_owned(),
        format!("{:.1}", ours.median()),
        format!("{:.1}", theirs.median()),
        times.cell(),
    ]
}

fn speed(texts: &[String], count: impl Fn(&str) -> u64) -> f64 {
    let bytes: usize = texts.iter().map(String::len).sum();
    let begun = Instant::now();
    let tokens: u64 = texts.iter().map(|text| count(text)).sum();
    black_box(tokens);
    bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

fn messages(total: usize, add: impl Fn(&mut String, usize)) -> Vec<String> {
    let mut n = 0;
    let message = || {
        let mut text = String::with_capacity(MESSAGE + 256);
        while text.len() < MESSAGE {
            add(&mut text, n);
            n += 1;
        }
        text
    };
    std::iter::repeat_with(message)
        .take(total / MESSAGE)
        .collect()
}

fn prose(text: &mut String, n: usize) {
    const WORDS: [&str; 12] = [
        "session",
        "the",
        "of",
        "agent",
        "remembers",
        "what",
        "was",
        "said",
        "before",
        "and",
        "goes",
        "on",
    ];
    let _ = write!(text, "{} {}, ", WORDS[n % 12], WORDS[(n * 7 + n / 12) % 12]);
}

fn code(text: &mut String, n: usize) {
    let _ = writeln!(
        text,
        "    let value_{n} = self.table.get(&key_{n}).copied().unwrap_or({});",
        n * 37
    );
}

fn json(text: &mut String, n: usize) {
    let _ = write!(
        text,
        "{{\"id\":{n},\"name\":\"tool_{}\",\"ok\":{},\"path\":\"/src/app/module_{n}.rs\"}},",
        n % 9,
        n.is_multiple_of(2)
    );
}
