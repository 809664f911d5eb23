//! The table of the statistics: drops columns that do not fit, the least important first.

use segue_core::spend::{By, Group, Key, Paid, Spending, Sum};
use unicode_segmentation::UnicodeSegmentation;

use super::format::{self, bar, figure, percent, short};
use crate::terminal::one_line;
use crate::terminal::text::{fitting, pad, width as length};

/// Bar length for which a column is dropped. On a very narrow terminal the bar may be shorter.
const BAR: usize = 10;
const SHORTEST_BAR: usize = 5;
const LONGEST_BAR: usize = 40;
/// Width of most terminals.
const USUAL: usize = 80;
/// Minimum width of names before a column is dropped.
const NAME: usize = 24;
const SHORTEST_NAME: usize = 8;
const BETWEEN: usize = 2;

/// Layout of a table.
pub(super) struct Sheet {
    /// Width of the output. `None` if lines may have any length.
    pub(super) width: Option<usize>,
    pub(super) unicode: bool,
    pub(super) bars: bool,
    /// Home directory of the user, which is printed as `~`.
    pub(super) home: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Turns,
    Input,
    Cached,
    Output,
    Total,
    Share,
    Cost,
}

/// Columns in the order in which they are dropped if the width is too small.
const SPARE: [&[Column]; 4] = [
    &[Column::Cached],
    &[Column::Input, Column::Output],
    &[Column::Share],
    &[Column::Turns],
];

/// A line before it is cut to the available width.
struct Row {
    name: String,
    cells: Vec<String>,
    tokens: u64,
}

impl Sheet {
    /// Returns the header, a line for each group and its subgroups, and the total.
    pub(super) fn lines(&self, spending: &Spending, by: &[By]) -> Vec<String> {
        let mut groups = Vec::new();
        self.gather(&spending.groups, by, 0, &mut groups);
        let named = groups.iter().map(|(name, _)| length(name)).max();
        let widest = named.unwrap_or(0).max(length(&heading(by)));
        let mut columns = columns(spending, by);
        let bar = |wide: usize| if self.bars { BETWEEN + wide } else { 0 };
        let mut spare = SPARE.iter();
        let (rows, widths, name) = loop {
            let rows = self.rows(spending, by, &groups, &columns);
            let widths = widths(&rows, columns.len());
            let taken: usize = widths.iter().map(|width| width + BETWEEN).sum();
            let Some(width) = self.width else {
                break (rows, widths, widest);
            };
            let room = width.saturating_sub(taken + bar(BAR));
            if room >= widest.min(NAME) {
                break (rows, widths, widest.min(room));
            }
            let Some(spared) = spare.next() else {
                let room = width.saturating_sub(taken + bar(SHORTEST_BAR));
                break (rows, widths, widest.min(room.max(SHORTEST_NAME)));
            };
            columns.retain(|column| !spared.contains(column));
        };
        let taken = name + widths.iter().map(|width| width + BETWEEN).sum::<usize>();
        // In a pipe, lines may have any length, but bars are limited.
        let room = match self.width {
            Some(width) => width.saturating_sub(taken + BETWEEN),
            None => USUAL.saturating_sub(taken + BETWEEN).max(BAR),
        };
        let room = room.min(LONGEST_BAR);
        let largest = groups.iter().filter_map(|(_, sum)| sum.tokens()).max();
        let by_path = by.contains(&By::Project);
        let line = |row: &Row| {
            let mut line = pad(&cut(&row.name, name, by_path), name);
            for (cell, width) in row.cells.iter().zip(&widths) {
                let blanks = width.saturating_sub(length(cell)) + BETWEEN;
                line.push_str(&" ".repeat(blanks));
                line.push_str(cell);
            }
            if self.bars {
                line.push_str("  ");
                line.push_str(&bar_of(row, largest.unwrap_or(0), room, self.unicode));
            }
            format::plain(line.trim_end(), self.unicode)
        };
        rows.iter().map(line).collect()
    }

    fn gather<'a>(
        &self,
        groups: &'a [Group],
        by: &[By],
        depth: usize,
        into: &mut Vec<(String, &'a Sum)>,
    ) {
        let Some((first, rest)) = by.split_first() else {
            return;
        };
        for group in groups {
            let name = one_line(&self.name(&group.key, *first));
            into.push((format!("{}{name}", " ".repeat(2 * depth)), &group.sum));
            self.gather(&group.parts, rest, depth + 1, into);
        }
    }

    fn name(&self, key: &Key, by: By) -> String {
        match key {
            Key::Time(day) if by == By::Month => day.strftime("%Y-%m").to_string(),
            Key::Time(day) => day.to_string(),
            Key::Name(None) => "(unknown)".to_owned(),
            Key::Name(Some(path)) if by == By::Project => self.directory(path),
            Key::Name(Some(name)) => name.clone(),
        }
    }

    /// Returns the directory of a project, without `.git`, because users know a project by its directory.
    fn directory(&self, key: &str) -> String {
        let path = key.strip_suffix("/.git").unwrap_or(key);
        match path.strip_prefix(&self.home) {
            Some(rest) if !self.home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
                format!("~{rest}")
            }
            _ => path.to_owned(),
        }
    }

    fn rows(
        &self,
        spending: &Spending,
        by: &[By],
        groups: &[(String, &Sum)],
        columns: &[Column],
    ) -> Vec<Row> {
        let head = Row {
            name: heading(by),
            cells: columns.iter().map(|&column| name(column)).collect(),
            tokens: 0,
        };
        let row = |name: &str, sum: &Sum, tokens| Row {
            name: name.to_owned(),
            cells: columns
                .iter()
                .map(|&column| format::plain(&cell(column, spending, sum), self.unicode))
                .collect(),
            tokens,
        };
        let mut rows = vec![head];
        rows.extend(
            groups
                .iter()
                .map(|(name, sum)| row(name, sum, sum.tokens().unwrap_or(0))),
        );
        // The total has no bar, because it would make all other bars look small.
        rows.push(row("total", &spending.total, 0));
        rows
    }
}

fn columns(spending: &Spending, by: &[By]) -> Vec<Column> {
    use Column::{Cached, Cost, Input, Output, Share, Total, Turns};
    let mut columns = vec![Turns, Input, Cached, Output, Total];
    if by.iter().any(|by| !by.is_time()) {
        columns.push(Share);
    }
    if spending.total.cost.paid() != Paid::Unknown {
        columns.push(Cost);
    }
    columns
}

fn name(column: Column) -> String {
    let name = match column {
        Column::Turns => "TURNS",
        Column::Input => "INPUT",
        Column::Cached => "CACHED",
        Column::Output => "OUTPUT",
        Column::Total => "TOTAL",
        Column::Share => "SHARE",
        Column::Cost => "COST",
    };
    name.to_owned()
}

fn cell(column: Column, spending: &Spending, sum: &Sum) -> String {
    match column {
        Column::Turns => short(sum.turns),
        Column::Input => figure(sum.usage.input_tokens),
        Column::Cached => figure(sum.usage.cached_tokens),
        Column::Output => figure(sum.usage.output_tokens),
        Column::Total => figure(sum.tokens()),
        Column::Share => percent(sum.tokens().and_then(|_| spending.share(sum))),
        Column::Cost => format::cost(sum.cost.paid(), spending.total.cost.paid()),
    }
}

fn heading(by: &[By]) -> String {
    let name = |by: &By| match by {
        By::Day => "DAY",
        By::Week => "WEEK OF",
        By::Month => "MONTH",
        By::Provider => "AGENT",
        By::Model => "MODEL",
        By::Project => "PROJECT",
    };
    by.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn widths(rows: &[Row], columns: usize) -> Vec<usize> {
    let of = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column));
        cells.map(|cell| length(cell)).max().unwrap_or(0)
    };
    (0..columns).map(of).collect()
}

fn bar_of(row: &Row, largest: u64, room: usize, unicode: bool) -> String {
    bar(row.tokens, largest, room, unicode)
}

/// Cuts a text to the width. A path loses its beginning, because its end is more significant; its indentation remains.
fn cut(text: &str, width: usize, is_path: bool) -> String {
    let all = length(text);
    if all <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let words = text.trim_start();
    let blanks = all - length(words);
    if is_path && words.contains('/') && kept > blanks {
        let end = ending(words, kept - blanks);
        return format!("{}…{end}", " ".repeat(blanks));
    }
    format!("{}…", fitting(text, kept))
}

/// Returns the longest end of a text that fits into `width` columns.
fn ending(text: &str, width: usize) -> &str {
    let starts = text.grapheme_indices(true).map(|(at, _)| at);
    let mut endings = starts.filter_map(|at| text.get(at..));
    let fits = |ending: &&str| length(ending) <= width;
    endings.find(fits).unwrap_or_default()
}

#[cfg(test)]
mod tests;
