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

use documents::Questions;
use index::INDEXES;

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
    println!("{}", Questions::read(scratch)?);
    println!(
        "| | text MB/s | CPU s | size, % of transcripts | peak MB | {} |",
        ask::HEAD.join(" | ")
    );
    println!("|---|{}", "---:|".repeat(4 + ask::HEAD.len()));
    for index in INDEXES {
        if !names.is_empty() && !names.contains(&index.name) {
            continue;
        }
        let built = child("--build", index.name, scratch);
        let row = built.and_then(|built| Ok(format!("{built} | {}", child("--ask", index.name, scratch)?)));
        match row {
            Ok(row) => println!("| {} | {row} |", index.name),
            Err(error) => println!("| {} | {error:#} |", index.name),
        }
        std::fs::remove_dir_all(place(scratch, index.name))?;
    }
    Ok(())
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
