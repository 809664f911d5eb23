//! The same questions for all indexes: the newest twenty hits, and the best twenty.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use rusqlite::Connection;
use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::{Index, Order, Searcher};

use crate::documents::{KINDS, Questions};
use crate::index::{Make, named};
use crate::tantivy_index::{COLUMNS, TIME};
use crate::{fts, place};

/// How often each question is asked.
const RUNS: usize = 41;

pub const HEAD: [&str; 6] = ["absent, ms: newest / best", "rare", "common", "and", "phrase", "prefix"];

pub fn ask(name: &str, scratch: &Path) -> Result<()> {
    let questions = Questions::read(scratch)?;
    let place = place(scratch, name);
    let mut cells = Vec::new();
    match &named(name)?.make {
        Make::Fts(fts) => {
            let open = |file| Connection::open(fts::path(&place, file));
            let dbs = (0..fts.files).map(open).collect::<Result<Vec<_>, _>>()?;
            for db in &dbs {
                db.execute_batch("PRAGMA query_only = 1; PRAGMA mmap_size = 1073741824; PRAGMA cache_size = -16000")?;
            }
            for kind in KINDS {
                cells.push(fts_cell(&dbs, kind, questions.words(kind)?));
            }
        }
        Make::Tantivy { .. } => {
            let index = Index::open_in_dir(&place)?;
            let searcher = index.reader()?.searcher();
            for kind in KINDS {
                cells.push(tantivy_cell(&index, &searcher, kind, questions.words(kind)?)?);
            }
        }
    }
    println!("{}", cells.join(" | "));
    Ok(())
}

/// The questions, and in how many turns their answer is.
pub fn hits(name: &str, scratch: &Path) -> Result<String> {
    let questions = Questions::read(scratch)?;
    let db = Connection::open(fts::path(&place(scratch, name), 0))?;
    let mut told = Vec::new();
    for kind in KINDS {
        let matched = expression(kind, questions.words(kind)?);
        let count = "SELECT count(*) FROM text WHERE text MATCH ?1";
        let hits: i64 = db.query_row(count, [&matched], |row| row.get(0))?;
        told.push(format!("- {kind}: `{matched}`, {hits} turns"));
    }
    Ok(told.join("\n"))
}

/// A question in the words of FTS5.
fn expression(kind: &str, words: &[String]) -> String {
    match kind {
        "phrase" => format!("\"{}\"", words.join(" ")),
        "prefix" => format!("{}*", words.join(" ")),
        _ => words.join(" "),
    }
}

/// Some makes can't answer some questions.
fn fts_cell(dbs: &[Connection], kind: &str, words: &[String]) -> String {
    let matched = expression(kind, words);
    let all = |sql: &str| {
        let mut found = 0;
        for db in dbs {
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([&matched])?;
            while rows.next()?.is_some() {
                found += 1;
            }
        }
        anyhow::Ok(found)
    };
    let orders = ["rowid DESC", "rank"].map(|order| {
        let sql = format!("SELECT rowid FROM text WHERE text MATCH ?1 ORDER BY {order} LIMIT 20");
        median(|| all(&sql)).map_or_else(|_| "–".to_owned(), |ms| format!("{ms:.2}"))
    });
    orders.join(" / ")
}

fn tantivy_cell(index: &Index, searcher: &Searcher, kind: &str, words: &[String]) -> Result<String> {
    let fields = COLUMNS.iter().map(|name| index.schema().get_field(name));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let mut parser = QueryParser::for_index(index, fields);
    parser.set_conjunction_by_default();
    let text = match kind {
        "phrase" => format!("\"{}\"", words.join(" ")),
        // A prefix of one word has no way of its own in the language of questions.
        "prefix" => return prefix_cell(index, searcher, &words.join(" ")),
        _ => words.join(" "),
    };
    let newest = median(|| {
        let query = parser.parse_query(&text)?;
        let top = TopDocs::with_limit(20).order_by_fast_field::<i64>(TIME, Order::Desc);
        Ok(searcher.search(&query, &top)?.len())
    })?;
    let best = median(|| {
        let query = parser.parse_query(&text)?;
        Ok(searcher
            .search(&query, &TopDocs::with_limit(20).order_by_score())?
            .len())
    })?;
    Ok(format!("{newest:.2} / {best:.2}"))
}

fn prefix_cell(index: &Index, searcher: &Searcher, prefix: &str) -> Result<String> {
    use tantivy::query::{BooleanQuery, Occur, Query, RegexQuery};
    let query = || {
        let of_column = |name: &&str| -> Result<(Occur, Box<dyn Query>)> {
            let field = index.schema().get_field(name)?;
            let query = RegexQuery::from_pattern(&format!("{prefix}.*"), field)?;
            Ok((Occur::Should, Box::new(query)))
        };
        anyhow::Ok(BooleanQuery::new(COLUMNS.iter().map(of_column).collect::<Result<_>>()?))
    };
    let newest = median(|| {
        let top = TopDocs::with_limit(20).order_by_fast_field::<i64>(TIME, Order::Desc);
        Ok(searcher.search(&query()?, &top)?.len())
    })?;
    let best = median(|| {
        Ok(searcher
            .search(&query()?, &TopDocs::with_limit(20).order_by_score())?
            .len())
    })?;
    Ok(format!("{newest:.2} / {best:.2}"))
}

/// Milliseconds, in the median.
fn median(mut question: impl FnMut() -> Result<usize>) -> Result<f64> {
    let found = question()?;
    let mut took = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        if question()? != found {
            bail!("another answer to the same question");
        }
        took.push(start.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    Ok(took[RUNS / 2])
}
