//! Which full-text index suits the catalog: SQLite's FTS5 in several makes, or tantivy.
//!
//! `fulltext HOME [--scratch DIRECTORY] [NAME…]` reads the native sessions of a home (`corpus` of segue-testkit
//! writes one), keeps the words of each turn in one file, and has each index built of it and asked by a process of
//! its own. With names, only those indexes.

mod ask;
mod documents;
mod fts;
mod index;
mod tantivy_index;
mod usage;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use index::{INDEXES, Index};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--build", name, scratch] => index::build(name, Path::new(scratch)),
        ["--ask", name, scratch] => ask::ask(name, Path::new(scratch)),
        [home, "--scratch", scratch, ref names @ ..] => compare(Path::new(home), Path::new(scratch), names),
        [home, ref names @ ..] if !home.starts_with('-') => {
            let scratch = std::env::temp_dir().join(format!("fulltext-{}", std::process::id()));
            let outcome = compare(Path::new(home), &scratch, names);
            std::fs::remove_dir_all(&scratch)?;
            outcome
        }
        _ => bail!("usage: fulltext HOME [--scratch DIRECTORY] [NAME…]"),
    }
}

fn compare(home: &Path, scratch: &Path, names: &[&str]) -> Result<()> {
    std::fs::create_dir_all(scratch)?;
    let told = documents::write(home, scratch)?;
    println!("{told}\n");
    // Who finds how much is the same for all: the first one tells it.
    child("--build", INDEXES[0].name, scratch)?;
    println!("{}\n", ask::hits(INDEXES[0].name, scratch)?);
    println!(
        "| | text MB/s | CPU s | size, % of transcripts | peak MB | {} |",
        ask::HEAD.join(" | ")
    );
    println!("|---|{}", "---:|".repeat(4 + ask::HEAD.len()));
    let wanted = |index: &&Index| names.is_empty() || names.contains(&index.name);
    let mut rows: Vec<Row> = INDEXES.iter().filter(wanted).map(Row::new).collect();
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.measure(scratch)?;
        }
    }
    for row in rows {
        println!("| {} | {} | {} |", row.index.name, row.medians(), row.answers);
    }
    Ok(())
}

/// How often each index is built. They take turns, since the machine may be busy.
const ROUNDS: usize = 5;

struct Row {
    index: &'static Index,
    /// What building it took, round by round: see `index::build`.
    built: Vec<Vec<f64>>,
    /// How quick its answers are, in the last round.
    answers: String,
}

impl Row {
    fn new(index: &'static Index) -> Self {
        Self {
            index,
            built: Vec::new(),
            answers: String::new(),
        }
    }

    fn measure(&mut self, scratch: &Path) -> Result<()> {
        let name = self.index.name;
        let told = child("--build", name, scratch).with_context(|| format!("cannot build {name}"))?;
        let figures = told.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        self.built.push(figures);
        if self.built.len() == ROUNDS {
            self.answers = child("--ask", name, scratch)?;
        }
        Ok(std::fs::remove_dir_all(place(scratch, name))?)
    }

    fn medians(&self) -> String {
        let median = |n: usize| {
            let mut figures: Vec<f64> = self.built.iter().map(|round| round[n]).collect();
            figures.sort_by(f64::total_cmp);
            figures[ROUNDS / 2]
        };
        format!(
            "{:.1} | {:.2} | {:.1} | {:.0}",
            median(0),
            median(1),
            median(2),
            median(3)
        )
    }
}

/// Where an index is.
fn place(scratch: &Path, name: &str) -> PathBuf {
    scratch.join(name.replace([' ', ','], "-"))
}

/// Lets another process of this program do something; returns what it says.
fn child(what: &str, name: &str, scratch: &Path) -> Result<String> {
    let output = Command::new(std::env::current_exe()?)
        .args([what, name])
        .arg(scratch)
        .output()
        .context("cannot start")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", complaint.trim().replace('\n', " "));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
