//! Measurements of two checkouts in turn, so that the load of the machine affects both alike.
//!
//! A measurement is a number in the table of a benchmark program, or the time of a complete process. Each checkout is
//! built in its own target directory and fills its own homes, because their stores may have different formats.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::suite::cargo;

/// Number of rounds if the arguments set none.
const DEFAULT_ROUNDS: usize = 21;

/// Number of runs of a process in one round. The value of the round is their median.
const PROCESS_RUNS_PER_ROUND: usize = 5;

/// Number of native sessions that a search covers.
const NATIVE_SESSIONS: &str = "3000";

/// Arguments of `cargo xtask compare`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompareArgs<'a> {
    base: &'a Path,
    rounds: usize,
    words: Vec<&'a str>,
}

impl<'a> CompareArgs<'a> {
    pub(crate) fn parse(args: &[&'a str]) -> Result<Self> {
        let (base, options) = args.split_first().context("no base checkout given")?;
        let mut parsed = Self {
            base: Path::new(*base),
            rounds: DEFAULT_ROUNDS,
            words: Vec::new(),
        };
        let mut options = options.iter().copied();
        while let Some(option) = options.next() {
            match option {
                "--rounds" => {
                    let value = options.next().context("`--rounds` needs a value")?;
                    parsed.rounds = crate::parse_number("--rounds", value)?;
                }
                _ if option.starts_with('-') => bail!("unknown option `{option}`"),
                word => parsed.words.push(word),
            }
        }
        Ok(parsed)
    }
}

/// A value that is measured in every round. A lower value is better.
struct Measurement {
    name: &'static str,
    unit: &'static str,
    /// Program with its arguments.
    command: &'static str,
    source: ValueSource,
}

enum ValueSource {
    /// First number in a cell of the table that a benchmark program prints: row and column.
    TableCell(&'static str, &'static str),
    /// Time of a `segue` process in the home of this name.
    ProcessTime(&'static str),
}

const MEASUREMENTS: [Measurement; 6] = [
    Measurement {
        name: "warm turn, added time",
        unit: "ms",
        command: "turns added",
        source: ValueSource::TableCell("rehearsal, segue", "added, in ms"),
    },
    Measurement {
        name: "append, 1 writer",
        unit: "µs",
        command: "store appends --rounds 3",
        source: ValueSource::TableCell("store, 1 writer", "time each"),
    },
    Measurement {
        name: "append, 8 writers",
        unit: "µs",
        command: "store appends --rounds 3",
        source: ValueSource::TableCell("store, 8 writers", "time each"),
    },
    Measurement {
        name: "list of 20,000 sessions",
        unit: "ms",
        command: "segue session list --all --limit 20",
        source: ValueSource::ProcessTime("sessions"),
    },
    Measurement {
        name: "search in 3,000 native sessions, with refresh",
        unit: "ms",
        command: "segue session search function --limit 20",
        source: ValueSource::ProcessTime("natives"),
    },
    Measurement {
        name: "chat with the built-in agent",
        unit: "ms",
        command: "segue chat hello",
        source: ValueSource::ProcessTime("chats"),
    },
];

/// A built checkout with its homes.
struct BuiltCheckout {
    root: PathBuf,
    /// Programs, by target name.
    programs: HashMap<String, PathBuf>,
    homes: PathBuf,
}

/// Measures the checkout `root` and the base in turn, and prints a table.
pub(crate) fn compare_checkouts(root: &Path, target: &Path, args: &CompareArgs<'_>) -> Result<()> {
    let directory = target.join("compare");
    let _ = fs::remove_dir_all(&directory);
    let base_root = args
        .base
        .canonicalize()
        .with_context(|| format!("cannot find {}", args.base.display()))?;
    let base = BuiltCheckout::build(&base_root, directory.join("base"))?;
    let new = BuiltCheckout::build(root, directory.join("new"))?;
    let natives = directory.join("natives");
    run_checked(
        Command::new(new.program("corpus")?)
            .arg(&natives)
            .args(["--sessions", NATIVE_SESSIONS]),
    )?;
    base.prepare_homes(&natives)?;
    new.prepare_homes(&natives)?;
    println!("| | base | new | new / base |\n| --- | ---: | ---: | ---: |");
    for measurement in &MEASUREMENTS {
        let name = measurement.name;
        if args.words.is_empty() || args.words.iter().any(|word| name.contains(word)) {
            println!("{}", compare_rounds(&base, &new, measurement, args.rounds)?);
        }
    }
    fs::remove_dir_all(&directory).context("cannot remove the homes of the comparison")
}

/// Measures both checkouts in each round, and returns the row of the table.
fn compare_rounds(
    base: &BuiltCheckout,
    new: &BuiltCheckout,
    measurement: &Measurement,
    rounds: usize,
) -> Result<String> {
    let (mut base_values, mut new_values) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // The order alternates, so that neither checkout always runs after the other.
        if round % 2 == 0 {
            base_values.push(base.measure(measurement)?);
            new_values.push(new.measure(measurement)?);
        } else {
            new_values.push(new.measure(measurement)?);
            base_values.push(base.measure(measurement)?);
        }
    }
    let pairs = base_values.iter().zip(&new_values);
    let ratios: Vec<f64> = pairs.map(|(base, new)| new / base).collect();
    let Measurement { name, unit, .. } = measurement;
    let [base_median, new_median] = [base_values, new_values].map(|values| quantile(&values, 50));
    let [low, median, high] = [10, 50, 90].map(|percent| quantile(&ratios, percent));
    Ok(format!(
        "| {name} | {base_median:.2} {unit} | {new_median:.2} {unit} | {median:.2} ({low:.2} to {high:.2}) |"
    ))
}

impl BuiltCheckout {
    /// Builds the programs of a checkout in release mode.
    fn build(root: &Path, homes: PathBuf) -> Result<Self> {
        println!("building {}", root.display());
        let output = cargo()
            .args(["build", "--release", "--workspace"])
            .args(["--bin", "segue", "--bin", "corpus"])
            .args(["--bench", "turns", "--bench", "process", "--bench", "store"])
            .args(["--quiet", "--message-format=json-render-diagnostics"])
            .current_dir(root)
            .env_remove("CARGO_TARGET_DIR")
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        ensure!(
            output.status.success(),
            "the build of {} failed",
            root.display()
        );
        let messages = String::from_utf8(output.stdout)?;
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let programs = messages.filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        });
        Ok(Self {
            root: root.to_owned(),
            programs: programs.collect(),
            homes,
        })
    }

    fn program(&self, name: &str) -> Result<&Path> {
        let program = self.programs.get(name).map(PathBuf::as_path);
        program.with_context(|| format!("the build of {} has no `{name}`", self.root.display()))
    }

    /// Creates a store with many sessions, an index of the native sessions, and an empty home.
    fn prepare_homes(&self, natives: &Path) -> Result<()> {
        for home in ["sessions", "natives", "chats"] {
            fs::create_dir_all(self.homes.join(home))?;
        }
        let sessions = self.homes.join("sessions");
        run_checked(self.command("process --bench --fill")?.arg(&sessions))?;
        ensure!(
            sessions.join("segue.db").exists(),
            "the benchmark `process` of {} has no `--fill`: copy `crates/segue-bench` from this \
             checkout",
            self.root.display()
        );
        for agent in [".claude", ".codex", ".gemini"] {
            symlink(natives.join(agent), self.homes.join("natives").join(agent))?;
        }
        // The first run of each process adds the sessions to the index, or creates the store.
        for measurement in &MEASUREMENTS {
            if let ValueSource::ProcessTime(_) = measurement.source {
                self.measure(measurement)?;
            }
        }
        Ok(())
    }

    /// Returns a command for one of the programs, with its arguments.
    fn command(&self, words: &str) -> Result<Command> {
        let (name, args) = words.split_once(' ').unwrap_or((words, ""));
        let mut command = Command::new(self.program(name)?);
        command.args(args.split_whitespace());
        Ok(command)
    }

    /// Returns the value of one round.
    fn measure(&self, measurement: &Measurement) -> Result<f64> {
        match measurement.source {
            ValueSource::TableCell(row, column) => {
                let mut command = self.command(measurement.command)?;
                let output = command.arg("--bench").output()?;
                ensure!(output.status.success(), "{command:?} failed");
                let tables = String::from_utf8(output.stdout)?;
                find_number(&tables, row, column)
                    .with_context(|| format!("no row `{row}` with `{column}` in:\n{tables}"))
            }
            ValueSource::ProcessTime(home) => {
                let home = self.homes.join(home);
                let mut times = Vec::new();
                for _ in 0..PROCESS_RUNS_PER_ROUND {
                    let mut command = self.command(measurement.command)?;
                    command.env_clear().env("HOME", &home);
                    command.env("SEGUE_HOME", &home).current_dir(&home);
                    let start = Instant::now();
                    run_checked(&mut command)?;
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                }
                Ok(quantile(&times, 50))
            }
        }
    }
}

/// Runs a command without output, and fails if it fails.
fn run_checked(command: &mut Command) -> Result<()> {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = silent.stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// Returns the first number in a cell of a Markdown table. `None` if there is no such cell.
fn find_number(tables: &str, row: &str, column: &str) -> Option<f64> {
    let mut column_index = None;
    for line in tables.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let Some(index) = cells.iter().position(|cell| *cell == column) {
            column_index = Some(index);
        }
        if cells.get(1) == Some(&row) {
            let words = cells.get(column_index?)?.split_whitespace();
            return words.into_iter().find_map(|word| word.parse().ok());
        }
    }
    None
}

/// Returns the value that the given percentage of the values does not exceed. `NaN` if there are no values.
fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len().saturating_sub(1) * percent + 50) / 100;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_row_and_column() {
        let tables = "
| | turns | added, in ms | aim |
| --- | ---: | ---: | ---: |
| rehearsal, bare client | 50 | | |
| rehearsal, segue | 50 | 1.85 (1.50 to 2.20) | at most 2 ms: reached |

| | time each |
| --- | ---: |
| store, 1 writer | 288 µs |";
        let find = |row, column| find_number(tables, row, column);
        assert_eq!(find("rehearsal, segue", "added, in ms"), Some(1.85));
        assert_eq!(find("store, 1 writer", "time each"), Some(288.0));
        assert_eq!(find("rehearsal, bare client", "added, in ms"), None);
        assert_eq!(find("codex, segue", "added, in ms"), None);
    }
}
