//! Benchmark of the heads of many sessions, as a list reads them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

use segue_catalog::{Catalog, SessionLocation, IdHint, NativeSessionKind, Reader};
use segue_testkit::benchmark::{BenchmarkComparison, Contestant, BenchmarkMode, print_table, measure_rounds, format_verdict};
use segue_testkit::corpus::{CorpusTexts, splitmix64};

use crate::format::{Format, Shape};
use crate::{directory, opencode};

/// Target time in milliseconds for the heads of `SESSIONS` sessions.
const AIM: f64 = 50.0;
const SESSIONS: u64 = 3000;

/// Number of bytes of each end of a file that the baseline reads.
const LOOK: usize = 4 << 10;

pub(crate) fn compare(extent: BenchmarkMode, formats: &[&Format]) {
    let (sessions, rounds) = extent.pick((SESSIONS, 21), (20, 2));
    let rows: Vec<_> = formats
        .iter()
        .map(|format| row(format, sessions, rounds))
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

fn row(format: &Format, sessions: u64, rounds: usize) -> [String; 9] {
    let home = directory();
    let texts = CorpusTexts::default();
    for session in 0..sessions {
        // Most sessions are short, some are long.
        let bytes = splitmix64(session) % (400 << 10);
        (format.write)(home.path(), session, bytes, &texts);
    }
    let reader = (format.reader)(home.path());
    let found = reader.scan_sessions().locations;
    assert_eq!(found.len() as u64, sessions);
    let catalog = Catalog::new(vec![(format.reader)(home.path()).into()]);
    let mut contestants = [
        Contestant::new("open", || timed(|| open_and_read(format, &found))),
        Contestant::new("find", || timed(|| drop(reader.scan_sessions()))),
        Contestant::new("heads", || timed(|| heads(reader.as_ref(), sessions))),
        Contestant::new("list", || timed(|| list(&catalog, sessions))),
    ];
    measure_rounds(&mut contestants, rounds);
    let [open, find, heads, list] = &contestants;
    let ratio = BenchmarkComparison::from_rounds(heads, open, |heads, open| heads / open);
    let ms = |contestant: &Contestant<'_>| format!("{:.1} ms", contestant.median());
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let each = heads.median() * 1e3 / sessions as f64;
    [
        format.name.to_owned(),
        (size(home.path()) >> 20).to_string(),
        ms(open),
        ms(find),
        ms(heads),
        format!("{each:.1} µs"),
        ratio.format_cell(),
        ms(list),
        format_verdict(&format!("at most {AIM} ms"), list.median() <= AIM),
    ]
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

fn heads(reader: &dyn Reader, sessions: u64) {
    let mut conversations = 0;
    for found in reader.scan_sessions().locations {
        let head = reader.read_head(&found).unwrap();
        assert!(
            head.first_prompt.is_some() && head.cwd.is_some() && head.kind == NativeSessionKind::Conversation
        );
        conversations += 1;
    }
    assert_eq!(conversations, sessions);
}

/// Lists the sessions as a command does.
fn list(catalog: &Catalog, sessions: u64) {
    let natives = catalog.list_sessions(None, None);
    assert_eq!(natives.sessions.len() as u64, sessions);
}

/// Does the minimum work for the heads: reads both ends of each file, or a row of the database.
fn open_and_read(format: &Format, found: &[SessionLocation]) {
    match format.shape {
        Shape::Lines | Shape::Document => found.iter().for_each(read_both_ends),
        Shape::Rows => {
            let connection = opencode::open(&found[0].path);
            let query = "SELECT directory, title, version FROM session WHERE id = ?1";
            let mut query = connection.prepare(query).unwrap();
            for found in found {
                let IdHint::Complete(id) = &found.id_hint else {
                    panic!("{found:?}");
                };
                let title = query.query_row([id], |row| row.get::<_, String>(1));
                assert!(!title.unwrap().is_empty());
            }
        }
    }
}

fn read_both_ends(found: &SessionLocation) {
    let mut room = [0; LOOK];
    let mut file = File::open(&found.path).unwrap();
    file.read_exact(&mut room).unwrap();
    let end = SeekFrom::End(-i64::try_from(LOOK).unwrap());
    file.seek(end).unwrap();
    file.read_exact(&mut room).unwrap();
}

fn size(path: &Path) -> u64 {
    let data = path.metadata().unwrap();
    if data.is_file() {
        return data.len();
    }
    let entries = path.read_dir().unwrap();
    entries.map(|entry| size(&entry.unwrap().path())).sum()
}
