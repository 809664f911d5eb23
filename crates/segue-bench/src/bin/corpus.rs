//! Program that writes synthetic native sessions for the benchmarks: `corpus DIRECTORY [--sessions N] [--seed N]`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use segue_bench::corpus::Corpus;

const USAGE: &str = "\
usage: corpus DIRECTORY [--sessions N] [--seed N]

  DIRECTORY      new or empty directory for .claude, .codex and .gemini
  --sessions N   number of sessions [default: 3000, about 200 MB]
  --seed N       seed for the content of the sessions [default: 1]";

fn main() -> ExitCode {
    let (directory, corpus) = match parse_args() {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("error: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for (home, counts) in corpus.write(&directory) {
        println!(
            "{home}: {} sessions, {} turns, {} messages, {} MB",
            counts.sessions,
            counts.turns,
            counts.messages,
            counts.bytes / 1_000_000
        );
    }
    ExitCode::SUCCESS
}

fn parse_args() -> Result<(PathBuf, Corpus), String> {
    let mut corpus = Corpus {
        sessions: 3000,
        seed: 1,
    };
    let mut directory = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let setting = match arg.as_str() {
            "--sessions" => &mut corpus.sessions,
            "--seed" => &mut corpus.seed,
            _ if arg.starts_with('-') => return Err(format!("unknown option `{arg}`")),
            _ => {
                directory = Some(PathBuf::from(arg));
                continue;
            }
        };
        let value = args.next().ok_or(format!("`{arg}` needs a number"))?;
        *setting = value
            .parse()
            .map_err(|error| format!("`{value}` is not a number: {error}"))?;
    }
    let directory = directory.ok_or("no directory given")?;
    let is_empty = directory
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_none());
    if directory.exists() && !is_empty {
        return Err(format!("{} is not an empty directory", directory.display()));
    }
    Ok((directory, corpus))
}
