//! Side-by-side measurements for all benchmarks, and the tables of their results.
//!
//! The load of a machine is never the same twice. So the contestants are measured in turn, round by round, and the
//! result is the median over all rounds of the ratio within each round.

/// Extent of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Enough for meaningful results.
    Whole,
    /// Just enough to check that the benchmark runs.
    Glance,
}

impl Extent {
    /// Returns `Whole` under `cargo bench`, which passes `--bench`, and `Glance` under `cargo test` or with `--test`.
    pub fn from_args() -> Self {
        let given = |flag: &str| std::env::args().any(|arg| arg == flag);
        if given("--bench") && !given("--test") {
            Self::Whole
        } else {
            Self::Glance
        }
    }

    /// Prints a warning before the tables of a glance.
    pub fn announce(self) {
        if self == Self::Glance {
            println!("a glance only: these figures mean nothing");
        }
    }

    /// Returns the first value for `Whole`, the second for `Glance`.
    pub fn pick<T>(self, whole: T, glance: T) -> T {
        match self {
            Self::Whole => whole,
            Self::Glance => glance,
        }
    }
}

/// Side of a comparison, which is measured once per round.
pub struct Contestant<'a> {
    /// Name in the table.
    pub name: String,
    measure: Box<dyn FnMut() -> f64 + 'a>,
    /// Measured values, one per round.
    pub figures: Vec<f64>,
}

impl<'a> Contestant<'a> {
    /// Creates a contestant. [`take_turns`] calls `measure` once per round, and `measure` returns the value of that
    /// round.
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> f64 + 'a) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
            figures: Vec::new(),
        }
    }

    /// Returns the median over the rounds.
    pub fn median(&self) -> f64 {
        quantile(&self.figures, 0.5)
    }
}

/// Measures each contestant once per round. The order rotates, so that no contestant always runs after the same other
/// one.
pub fn take_turns(contestants: &mut [Contestant<'_>], rounds: usize) {
    for round in 0..rounds {
        let first = round.checked_rem(contestants.len()).unwrap_or(0);
        contestants.rotate_left(first);
        for contestant in contestants.iter_mut() {
            let figure = (contestant.measure)();
            contestant.figures.push(figure);
        }
        contestants.rotate_right(first);
    }
}

/// Result of comparing two contestants round by round: the median, and the range of the middle 80 % of the rounds.
pub struct Compared {
    /// Median over the rounds.
    pub median: f64,
    low: f64,
    high: f64,
}

impl Compared {
    /// Compares two contestants. `relate` computes the result of a round from the value of `one` and the value of
    /// `other`.
    pub fn by_round(
        one: &Contestant<'_>,
        other: &Contestant<'_>,
        relate: fn(f64, f64) -> f64,
    ) -> Self {
        let pairs = one.figures.iter().zip(&other.figures);
        let related: Vec<f64> = pairs.map(|(one, other)| relate(*one, *other)).collect();
        Self {
            median: quantile(&related, 0.5),
            low: quantile(&related, 0.1),
            high: quantile(&related, 0.9),
        }
    }

    /// Formats the median and its range as a table cell.
    pub fn cell(&self) -> String {
        let Self { median, low, high } = self;
        format!("{median:.2} ({low:.2} to {high:.2})")
    }
}

/// Returns the value that the given share of the figures does not exceed. `NaN` if there are no figures.
pub fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index into a few hundred figures"
    )]
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Formats an aim together with its result, `reached` or `missed`.
pub fn verdict(aim: &str, reached: bool) -> String {
    format!("{aim}: {}", if reached { "reached" } else { "missed" })
}

/// Prints rows as a Markdown table, with the first column left-aligned and all others right-aligned.
pub fn print_table<const N: usize>(title: &str, head: [&str; N], rows: &[[String; N]]) {
    let head = head.map(str::to_owned);
    let lines = || std::iter::once(&head).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|n| lines().map(|row| row[n].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| {
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
    println!("\n{title}\n\n{}", line(&head));
    println!("| {} |", rule.collect::<Vec<_>>().join(" | "));
    for row in rows {
        println!("{}", line(row));
    }
}
