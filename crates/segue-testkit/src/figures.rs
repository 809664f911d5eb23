//! Figures that are measured side by side, and the table they are printed in.
//!
//! A machine is never equally busy twice. So the things to be compared take turns, round by round, and what
//! counts is the median over the rounds of the ratio within each round. All benchmarks use it.

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Enough for figures that mean something.
    Whole,
    /// Just enough to see that the benchmark still runs.
    Glance,
}

impl Extent {
    /// Whole under `cargo bench`, which passes `--bench`; a glance under `cargo test`, or with `--test`.
    pub fn from_args() -> Self {
        let given = |flag: &str| std::env::args().any(|arg| arg == flag);
        if given("--bench") && !given("--test") {
            Self::Whole
        } else {
            Self::Glance
        }
    }

    /// Warns a reader of the tables that follow a glance.
    pub fn announce(self) {
        if self == Self::Glance {
            println!("a glance only: these figures mean nothing");
        }
    }

    /// One of two numbers.
    pub fn pick<T>(self, whole: T, glance: T) -> T {
        match self {
            Self::Whole => whole,
            Self::Glance => glance,
        }
    }
}

/// One of several things that are measured in turns.
pub struct Contestant<'a> {
    /// What it is called in the table.
    pub name: String,
    measure: Box<dyn FnMut() -> f64 + 'a>,
    /// One figure a round.
    pub figures: Vec<f64>,
}

impl<'a> Contestant<'a> {
    /// `measure` is called once a round and returns that round's figure.
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> f64 + 'a) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
            figures: Vec::new(),
        }
    }

    /// The median over the rounds.
    pub fn median(&self) -> f64 {
        quantile(&self.figures, 0.5)
    }
}

/// Measures each contestant once a round. Who begins changes, so that nobody always runs in another's wake.
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

/// Two contestants compared round by round: the median, and how far the middle eight of ten rounds spread.
pub struct Compared {
    /// The median over the rounds.
    pub median: f64,
    low: f64,
    high: f64,
}

impl Compared {
    /// How `one` relates to `other`, by a function of the two figures of one round.
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

    /// The median with its spread, as a cell.
    pub fn cell(&self) -> String {
        let Self { median, low, high } = self;
        format!("{median:.2} ({low:.2} to {high:.2})")
    }
}

/// The value that a share of the figures does not exceed.
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

/// An aim beside what was reached.
pub fn verdict(aim: &str, reached: bool) -> String {
    format!("{aim}: {}", if reached { "reached" } else { "missed" })
}

/// Prints rows as a Markdown table: the first column to the left, figures to the right.
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
