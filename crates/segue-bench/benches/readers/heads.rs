//! Benchmark of the heads of many sessions, as a list reads them.

use segue_bench::create_temp_dir;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

use segue_bench::corpus::{CorpusTexts, splitmix64};
use segue_bench::measurement::{
    BenchmarkComparison, BenchmarkMode, Contestant, format_verdict, measure_rounds, print_table,
};
use segue_catalog::{Catalog, IdHint, NativeSessionKind, Reader, SessionLocation};

use crate::format::{BenchFormat, SessionLayout};
use crate::opencode;

/// Target time in milliseconds for the heads of `SESSION_COUNT` sessions.
const TARGET_LIST_MILLIS: f64 = 50.0;
const SESSION_COUNT: u64 = 3000;

/// Number of bytes of each end of a file that the baseline reads.
const END_READ_BYTES: usize = 4 << 10;

pub(crate) fn compare_heads(extent: BenchmarkMode, formats: &[&BenchFormat]) {
    let (sessions, rounds) = extent.pick((SESSION_COUNT, 21), (20, 2));
    let rows: Vec<_> = formats
        .iter()
        .map(|format| measure_row(format, sessions, rounds))
        .collect();
    print_table(
        &format!("Heads of {sessions} sessions, {rounds} rounds"),
        [
            "",
            "MB",
            "open and read",
            "find",
            "find and heads",
            "a head",
            "ratio to open and read",
            "as a list, on all cores",
            "aim of the list",
        ],
        &rows,
    );
}

fn measure_row(format: &BenchFormat, sessions: u64, rounds: usize) -> [String; 9] {
    let home = create_temp_dir();
    let texts = CorpusTexts::default();
    for session in 0..sessions {
        // Most sessions are short, some are long.
        let bytes = splitmix64(session) % (400 << 10);
        (format.write_session)(home.path(), session, bytes, &texts);
    }
    let reader = (format.new_reader)(home.path());
    let locations = reader.scan_sessions().locations;
    assert_eq!(locations.len() as u64, sessions);
    let catalog = Catalog::new(vec![(format.new_reader)(home.path()).into()]);
    let mut contestants = [
        Contestant::new("open", || time_millis(|| open_and_read(format, &locations))),
        Contestant::new("find", || time_millis(|| drop(reader.scan_sessions()))),
        Contestant::new("heads", || {
            time_millis(|| read_heads(reader.as_ref(), sessions))
        }),
        Contestant::new("list", || time_millis(|| list_sessions(&catalog, sessions))),
    ];
    measure_rounds(&mut contestants, rounds);
    let [open, find, heads, list] = &contestants;
    let ratio = BenchmarkComparison::from_rounds(heads, open, |heads, open| heads / open);
    let format_median_ms = |contestant: &Contestant<'_>| format!("{:.1} ms", contestant.median());
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let micros_per_head = heads.median() * 1e3 / sessions as f64;
    [
        format.name.to_owned(),
        (disk_size(home.path()) >> 20).to_string(),
        format_median_ms(open),
        format_median_ms(find),
        format_median_ms(heads),
        format!("{micros_per_head:.1} µs"),
        ratio.format_cell(),
        format_median_ms(list),
        format_verdict(
            &format!("at most {TARGET_LIST_MILLIS} ms"),
            list.median() <= TARGET_LIST_MILLIS,
        ),
    ]
}

fn time_millis(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

fn read_heads(reader: &dyn Reader, sessions: u64) {
    let mut conversations = 0;
    for location in reader.scan_sessions().locations {
        let head = reader.read_head(&location).unwrap();
        assert!(
            head.first_prompt.is_some()
                && head.cwd.is_some()
                && head.kind == NativeSessionKind::Conversation
        );
        conversations += 1;
    }
    assert_eq!(conversations, sessions);
}

/// Lists the sessions as a command does.
fn list_sessions(catalog: &Catalog, sessions: u64) {
    let natives = catalog.list_sessions(None, None);
    assert_eq!(natives.sessions.len() as u64, sessions);
}

/// Does the minimum work for the heads: reads both ends of each file, or a row of the database.
fn open_and_read(format: &BenchFormat, locations: &[SessionLocation]) {
    match format.layout {
        SessionLayout::Lines | SessionLayout::Document => locations.iter().for_each(read_both_ends),
        SessionLayout::Rows => {
            let connection = opencode::open_database(&locations[0].path);
            let query = "SELECT directory, title, version FROM session WHERE id = ?1";
            let mut query = connection.prepare(query).unwrap();
            for location in locations {
                let IdHint::Complete(id) = &location.id_hint else {
                    panic!("{location:?}");
                };
                let title = query.query_row([id], |row| row.get::<_, String>(1));
                assert!(!title.unwrap().is_empty());
            }
        }
    }
}

fn read_both_ends(location: &SessionLocation) {
    let mut buffer = [0; END_READ_BYTES];
    let mut file = File::open(&location.path).unwrap();
    file.read_exact(&mut buffer).unwrap();
    let end = SeekFrom::End(-i64::try_from(END_READ_BYTES).unwrap());
    file.seek(end).unwrap();
    file.read_exact(&mut buffer).unwrap();
}

fn disk_size(path: &Path) -> u64 {
    let metadata = path.metadata().unwrap();
    if metadata.is_file() {
        return metadata.len();
    }
    let entries = path.read_dir().unwrap();
    entries.map(|entry| disk_size(&entry.unwrap().path())).sum()
}
