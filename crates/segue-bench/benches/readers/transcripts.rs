//! Benchmark of complete transcripts, compared with the minimum work on their bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
};
use segue_catalog::{ReadStart, Reader, SessionLocation, read_outline};

use crate::format::{BenchFormat, SessionLayout};
use crate::opencode;

/// Target throughput in MB per second.
const TARGET_MEGABYTES_PER_SECOND: f64 = 300.0;

pub(crate) fn compare_transcripts(
    extent: BenchmarkMode,
    formats: &[&BenchFormat],
    megabytes: Option<u64>,
) {
    let (default, rounds) = extent.pick((256, 7), (2, 2));
    let megabytes = megabytes.unwrap_or(default);
    let rows: Vec<_> = formats
        .iter()
        .map(|format| measure_row(format, megabytes << 20, rounds))
        .collect();
    print_table(
        &format!("Transcripts of {megabytes} MB, {rounds} rounds, in MB a second"),
        [
            "",
            "lines",
            "JSON values",
            "records",
            "outline",
            "records to lines",
            "records to values",
            "aim",
        ],
        &rows,
    );
}

fn measure_row(format: &BenchFormat, bytes: u64, rounds: usize) -> [String; 8] {
    let home = format.create_large_home(bytes);
    let (reader, location) = format.find_only_session(home.path());
    #[allow(clippy::cast_precision_loss, reason = "a file")]
    let megabytes = location.path.metadata().unwrap().len() as f64 / 1e6;
    let rate = |work: &dyn Fn() -> u64| {
        let start = Instant::now();
        assert!(work() > 0);
        megabytes / start.elapsed().as_secs_f64()
    };
    let mut contestants = [
        Contestant::new("lines", || rate(&|| sum_over_lines(&location.path, |_| 1))),
        Contestant::new("values", || {
            rate(&|| parse_values(format.layout, &location.path))
        }),
        Contestant::new("records", || {
            rate(&|| count_records(reader.as_ref(), &location))
        }),
        Contestant::new("outline", || {
            rate(&|| count_turns(reader.as_ref(), &location))
        }),
    ];
    measure_rounds(&mut contestants, rounds);
    let [lines, values, records, outline] = &contestants;
    let ratio_to = |baseline| {
        BenchmarkComparison::from_rounds(records, baseline, |records, other| records / other)
            .format_cell()
    };
    let format_median = |contestant: &Contestant<'_>| format!("{:.0}", contestant.median());
    let slower_rate = records.median().min(outline.median());
    [
        format.name.to_owned(),
        format_median(lines),
        format_median(values),
        format_median(records),
        format_median(outline),
        ratio_to(lines),
        ratio_to(values),
        format_verdict(
            &format!("at least {TARGET_MEGABYTES_PER_SECOND}"),
            slower_rate >= TARGET_MEGABYTES_PER_SECOND,
        ),
    ]
}

/// Reads a file and applies `count_line` to its lines. Returns the sum of the results.
fn sum_over_lines(path: &Path, count_line: fn(&[u8]) -> u64) -> u64 {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; 256 << 10];
    let (mut total, mut filled) = (0, 0);
    loop {
        let bytes_read = file.read(&mut buffer[filled..]).unwrap();
        if bytes_read == 0 {
            return total;
        }
        filled += bytes_read;
        let mut line_start = 0;
        while let Some(length) = memchr::memchr(b'\n', &buffer[line_start..filled]) {
            total += count_line(&buffer[line_start..line_start + length]);
            line_start += length + 1;
        }
        buffer.copy_within(line_start..filled, 0);
        filled -= line_start;
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
    }
}

/// Parses each JSON object into memory, without a schema.
fn parse_values(layout: SessionLayout, path: &Path) -> u64 {
    match layout {
        SessionLayout::Lines => sum_over_lines(path, parse_value),
        SessionLayout::Document => parse_value(&std::fs::read(path).unwrap()),
        SessionLayout::Rows => {
            let connection = opencode::open_database(path);
            let rows = ["message", "part"].map(|table| {
                let query = format!("SELECT data FROM {table}");
                let mut query = connection.prepare(&query).unwrap();
                let mut rows = query.query([]).unwrap();
                let mut count = 0;
                while let Some(row) = rows.next().unwrap() {
                    count += parse_value(row.get_ref(0).unwrap().as_bytes().unwrap());
                }
                count
            });
            rows.iter().sum()
        }
    }
}

fn parse_value(line: &[u8]) -> u64 {
    let value: serde_json::Value = serde_json::from_slice(line).unwrap();
    u64::from(value.is_object())
}

pub(crate) fn count_records(reader: &dyn Reader, location: &SessionLocation) -> u64 {
    let mut records = reader
        .open_records(location, &ReadStart::Beginning)
        .unwrap();
    let mut count = 0;
    while let Some(record) = records.next().unwrap() {
        count += u64::from(!record.events.is_empty());
    }
    assert!(records.skipped().is_empty(), "{:?}", records.skipped());
    count
}

pub(crate) fn count_turns(reader: &dyn Reader, location: &SessionLocation) -> u64 {
    let mut records = reader
        .open_records(location, &ReadStart::Beginning)
        .unwrap();
    let turn_builder = read_outline(records.as_mut()).unwrap();
    turn_builder.turns().len() as u64
}
