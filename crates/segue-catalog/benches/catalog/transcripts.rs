//! Benchmark of complete transcripts, compared with the minimum work on their bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use segue_catalog::{SessionLocation, Reader, ReadStart, read_outline};
use segue_testkit::benchmark::{BenchmarkComparison, Contestant, BenchmarkMode, print_table, measure_rounds, format_verdict};

use crate::format::{Format, Shape};
use crate::opencode;

/// Target throughput in MB per second.
const AIM: f64 = 300.0;

pub(crate) fn compare(extent: BenchmarkMode, formats: &[&Format], megabytes: Option<u64>) {
    let (default, rounds) = extent.pick((256, 7), (2, 2));
    let megabytes = megabytes.unwrap_or(default);
    let rows: Vec<_> = formats
        .iter()
        .map(|format| row(format, megabytes << 20, rounds))
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

fn row(format: &Format, bytes: u64, rounds: usize) -> [String; 8] {
    let home = format.large(bytes);
    let (reader, found) = format.only(home.path());
    #[allow(clippy::cast_precision_loss, reason = "a file")]
    let megabytes = found.path.metadata().unwrap().len() as f64 / 1e6;
    let rate = |work: &dyn Fn() -> u64| {
        let start = Instant::now();
        assert!(work() > 0);
        megabytes / start.elapsed().as_secs_f64()
    };
    let mut contestants = [
        Contestant::new("lines", || rate(&|| lines(&found.path, |_| 1))),
        Contestant::new("values", || rate(&|| values(format.shape, &found.path))),
        Contestant::new("records", || rate(&|| records(reader.as_ref(), &found))),
        Contestant::new("outline", || rate(&|| turns(reader.as_ref(), &found))),
    ];
    measure_rounds(&mut contestants, rounds);
    let [lines, values, records, outline] = &contestants;
    let to = |other| BenchmarkComparison::from_rounds(records, other, |records, other| records / other).format_cell();
    let cell = |contestant: &Contestant<'_>| format!("{:.0}", contestant.median());
    let slower = records.median().min(outline.median());
    [
        format.name.to_owned(),
        cell(lines),
        cell(values),
        cell(records),
        cell(outline),
        to(lines),
        to(values),
        format_verdict(&format!("at least {AIM}"), slower >= AIM),
    ]
}

/// Reads a file and applies `each` to its lines. Returns the sum of the results.
fn lines(path: &Path, each: fn(&[u8]) -> u64) -> u64 {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; 256 << 10];
    let (mut done, mut filled) = (0, 0);
    loop {
        let read = file.read(&mut buffer[filled..]).unwrap();
        if read == 0 {
            return done;
        }
        filled += read;
        let mut from = 0;
        while let Some(length) = memchr::memchr(b'\n', &buffer[from..filled]) {
            done += each(&buffer[from..from + length]);
            from += length + 1;
        }
        buffer.copy_within(from..filled, 0);
        filled -= from;
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
    }
}

/// Parses each JSON object into memory, without a schema.
fn values(shape: Shape, path: &Path) -> u64 {
    match shape {
        Shape::Lines => lines(path, value),
        Shape::Document => value(&std::fs::read(path).unwrap()),
        Shape::Rows => {
            let connection = opencode::open(path);
            let rows = ["message", "part"].map(|table| {
                let query = format!("SELECT data FROM {table}");
                let mut query = connection.prepare(&query).unwrap();
                let mut rows = query.query([]).unwrap();
                let mut read = 0;
                while let Some(row) = rows.next().unwrap() {
                    read += value(row.get_ref(0).unwrap().as_bytes().unwrap());
                }
                read
            });
            rows.iter().sum()
        }
    }
}

fn value(line: &[u8]) -> u64 {
    let value: serde_json::Value = serde_json::from_slice(line).unwrap();
    u64::from(value.is_object())
}

pub(crate) fn records(reader: &dyn Reader, found: &SessionLocation) -> u64 {
    let mut records = reader.open_records(found, &ReadStart::Beginning).unwrap();
    let mut read = 0;
    while let Some(record) = records.next().unwrap() {
        read += u64::from(!record.events.is_empty());
    }
    assert!(records.skipped().is_empty(), "{:?}", records.skipped());
    read
}

pub(crate) fn turns(reader: &dyn Reader, found: &SessionLocation) -> u64 {
    let mut records = reader.open_records(found, &ReadStart::Beginning).unwrap();
    let fold = read_outline(records.as_mut()).unwrap();
    fold.turns().len() as u64
}
