//! Side-by-side measurements for all benchmarks, and the tables of their results.
//!
//! The load of a machine is never the same twice. So the contestants are measured in turn, round by round, and the
//! result is the median over all rounds of the ratio within each round.

/// Extent of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchmarkMode {
    /// Enough for meaningful results.
    Full,
    /// Just enough to check that the benchmark runs.
    Smoke,
}

impl BenchmarkMode {
    /// Returns `Full` under `cargo bench`, which passes `--bench`, and `Smoke` under `cargo test` or with `--test`.
    pub fn from_args() -> Self {
        let has_flag = |flag: &str| std::env::args().any(|arg| arg == flag);
        if has_flag("--bench") && !has_flag("--test") {
            Self::Full
        } else {
            Self::Smoke
        }
    }

    /// Prints a warning before the tables of a smoke run.
    pub fn print_smoke_warning(self) {
        if self == Self::Smoke {
            println!("smoke run: the numbers are not valid measurements");
        }
    }

    /// Returns the first value for `Full`, the second for `Smoke`.
    pub fn pick<T>(self, full: T, smoke: T) -> T {
        match self {
            Self::Full => full,
            Self::Smoke => smoke,
        }
    }
}

/// Returns the number after `--rounds`, for `cargo xtask compare`, or `default` without that argument.
pub fn rounds_from_args(default: usize) -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != "--rounds");
    let rounds = args.nth(1).and_then(|rounds| rounds.parse().ok());
    rounds.unwrap_or(default)
}

/// Subject of a comparison, which is measured once per round.
pub struct Contestant<'a> {
    /// Name in the table.
    pub name: String,
    measure: Box<dyn FnMut() -> f64 + 'a>,
    /// Measured values, one per round.
    pub values: Vec<f64>,
}

impl<'a> Contestant<'a> {
    /// Creates a contestant. [`measure_rounds`] calls `measure` once per round, and `measure` returns the value of that
    /// round.
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> f64 + 'a) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
            values: Vec::new(),
        }
    }

    /// Returns the median over the rounds.
    pub fn median(&self) -> f64 {
        quantile(&self.values, 0.5)
    }
}

/// Measures each contestant once per round. The order rotates, so that no contestant always runs after the same other
/// one.
pub fn measure_rounds(contestants: &mut [Contestant<'_>], rounds: usize) {
    for round in 0..rounds {
        let first = round.checked_rem(contestants.len()).unwrap_or(0);
        contestants.rotate_left(first);
        for contestant in contestants.iter_mut() {
            let value = (contestant.measure)();
            contestant.values.push(value);
        }
        contestants.rotate_right(first);
    }
}

/// Result of comparing two contestants round by round: the median, and the range of the middle 80 % of the rounds.
pub struct BenchmarkComparison {
    /// Median over the rounds.
    pub median: f64,
    low: f64,
    high: f64,
}

impl BenchmarkComparison {
    /// Compares two contestants. `relate` computes the result of a round from the value of `first` and the value of
    /// `second`.
    pub fn from_rounds(
        first: &Contestant<'_>,
        second: &Contestant<'_>,
        relate: fn(f64, f64) -> f64,
    ) -> Self {
        let pairs = first.values.iter().zip(&second.values);
        let results: Vec<f64> = pairs
            .map(|(first_value, second_value)| relate(*first_value, *second_value))
            .collect();
        Self {
            median: quantile(&results, 0.5),
            low: quantile(&results, 0.1),
            high: quantile(&results, 0.9),
        }
    }

    /// Formats the median and its range as a table cell.
    pub fn format_cell(&self) -> String {
        let Self { median, low, high } = self;
        format!("{median:.2} ({low:.2} to {high:.2})")
    }
}

/// Returns the value that the given fraction of the values does not exceed. `NaN` if there are no values.
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last_index = sorted.len().saturating_sub(1);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index into a few hundred values"
    )]
    let index = (last_index as f64 * fraction).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Formats a target together with its result, `reached` or `missed`.
pub fn format_verdict(target: &str, reached: bool) -> String {
    format!("{target}: {}", if reached { "reached" } else { "missed" })
}

/// Prints rows as a Markdown table, with the first column left-aligned and all others right-aligned.
pub fn print_table<const N: usize>(title: &str, header: [&str; N], rows: &[[String; N]]) {
    let header = header.map(str::to_owned);
    let table_rows = || std::iter::once(&header).chain(rows);
    let widths: [usize; N] = std::array::from_fn(|n| {
        table_rows()
            .map(|row| row[n].chars().count())
            .max()
            .unwrap_or(0)
    });
    let format_row = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(n, (cell, width))| match n {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.map(|width| "-".repeat(width.saturating_sub(1)));
    let rule = rule.iter().enumerate().map(|(n, dashes)| match n {
        0 => format!("{dashes}-"),
        _ => format!("{dashes}:"),
    });
    println!("\n{title}\n\n{}", format_row(&header));
    println!("| {} |", rule.collect::<Vec<_>>().join(" | "));
    for row in rows {
        println!("{}", format_row(row));
    }
}
