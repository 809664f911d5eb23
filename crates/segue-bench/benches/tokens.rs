//! Speed of token counting, compared with the implementation that the tests use as an oracle.
//!
//! `cargo bench -p segue-bench --bench tokens`; docs/benchmarks.md explains the table.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark speaks on standard output and stops at the first surprise"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, measure_rounds, print_table,
};
use tiktoken_rs::o200k_base_singleton;

/// Length of a message in bytes, about that of a long answer.
const MESSAGE_BYTES: usize = 4096;

fn main() {
    let extent = BenchmarkMode::from_args();
    extent.print_smoke_warning();
    let start = Instant::now();
    black_box(segue_tokens::count("load it"));
    println!(
        "loaded in {:.0} ms; messages of {MESSAGE_BYTES} bytes",
        start.elapsed().as_secs_f64() * 1e3
    );
    let total = extent.pick(4 << 20, 64 << 10);
    let rounds = extent.pick(9, 1);
    let rows: Vec<_> = [
        ("prose", build_messages(total, push_prose)),
        ("code", build_messages(total, push_code)),
        ("JSON", build_messages(total, push_json)),
        (
            "Chinese",
            build_messages(total, |text, _| {
                text.push_str("这是一个没有空格的句子,后面还有一个。");
            }),
        ),
        (
            "one character",
            vec!["=".repeat(extent.pick(1 << 20, 64 << 10))],
        ),
    ]
    .iter()
    .map(|(name, texts)| measure_row(name, texts, rounds))
    .collect();
    print_table(
        "MB/s",
        ["text", "segue-tokens", "oracle", "times as fast"],
        &rows,
    );
}

fn measure_row(name: &str, texts: &[String], rounds: usize) -> [String; 4] {
    let oracle = o200k_base_singleton();
    let mut contestants = [
        Contestant::new("segue-tokens", || measure_speed(texts, segue_tokens::count)),
        Contestant::new("oracle", || {
            measure_speed(texts, |text| {
                u64::try_from(oracle.count_ordinary(text)).unwrap()
            })
        }),
    ];
    measure_rounds(&mut contestants, rounds);
    let [own_runs, oracle_runs] = contestants;
    let times =
        BenchmarkComparison::from_rounds(&own_runs, &oracle_runs, |own_speed, oracle_speed| {
            own_speed / oracle_speed
        });
    [
        name.to_owned(),
        format!("{:.1}", own_runs.median()),
        format!("{:.1}", oracle_runs.median()),
        times.format_cell(),
    ]
}

fn measure_speed(texts: &[String], count: impl Fn(&str) -> u64) -> f64 {
    let bytes: usize = texts.iter().map(String::len).sum();
    let start = Instant::now();
    let tokens: u64 = texts.iter().map(|text| count(text)).sum();
    black_box(tokens);
    bytes as f64 / 1e6 / start.elapsed().as_secs_f64()
}

fn build_messages(total: usize, add: impl Fn(&mut String, usize)) -> Vec<String> {
    let mut n = 0;
    let message = || {
        let mut text = String::with_capacity(MESSAGE_BYTES + 256);
        while text.len() < MESSAGE_BYTES {
            add(&mut text, n);
            n += 1;
        }
        text
    };
    std::iter::repeat_with(message)
        .take(total / MESSAGE_BYTES)
        .collect()
}

fn push_prose(text: &mut String, n: usize) {
    const PROSE_WORDS: [&str; 12] = [
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
    let _ = write!(
        text,
        "{} {}, ",
        PROSE_WORDS[n % 12],
        PROSE_WORDS[(n * 7 + n / 12) % 12]
    );
}

fn push_code(text: &mut String, n: usize) {
    let _ = writeln!(
        text,
        "    let value_{n} = self.table.get(&key_{n}).copied().unwrap_or({});",
        n * 37
    );
}

fn push_json(text: &mut String, n: usize) {
    let _ = write!(
        text,
        "{{\"id\":{n},\"name\":\"tool_{}\",\"ok\":{},\"path\":\"/src/app/module_{n}.rs\"}},",
        n % 9,
        n.is_multiple_of(2)
    );
}
