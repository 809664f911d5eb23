//! The table of the statistics: drops columns that do not fit, the least important first.

use segue_core::spend::{
    CostEstimate, SpendGroup, SpendGroupKey, SpendGrouping, SpendTotal, Spending,
};
use unicode_segmentation::UnicodeSegmentation;

use super::format::{self, draw_bar, format_optional_number, format_percent, format_short_number};
use crate::commands::session::abbreviate_home;
use crate::terminal::text::{display_width, fitting_prefix, pad_right};
use crate::terminal::to_single_line;

/// Bar length for which a column is dropped. On a very narrow terminal the bar may be shorter.
const PREFERRED_BAR_WIDTH: usize = 10;
const MIN_BAR_WIDTH: usize = 5;
const MAX_BAR_WIDTH: usize = 40;
/// Width of most terminals.
const DEFAULT_TERMINAL_WIDTH: usize = 80;
/// Minimum width of names before a column is dropped.
const PREFERRED_NAME_WIDTH: usize = 24;
const MIN_NAME_WIDTH: usize = 8;
const COLUMN_GAP_WIDTH: usize = 2;

/// Layout of a table.
pub(super) struct SpendTable {
    /// Width of the output. `None` if lines may have any length.
    pub(super) width: Option<usize>,
    pub(super) unicode: bool,
    pub(super) bars: bool,
    /// Home directory of the user, which is printed as `~`.
    pub(super) home: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpendColumn {
    Turns,
    Input,
    Cached,
    Output,
    Total,
    Share,
    Cost,
}

/// Columns in the order in which they are dropped if the width is too small.
const COLUMN_DROP_ORDER: [&[SpendColumn]; 4] = [
    &[SpendColumn::Cached],
    &[SpendColumn::Input, SpendColumn::Output],
    &[SpendColumn::Share],
    &[SpendColumn::Turns],
];

/// A line before it is cut to the available width.
struct SpendRow {
    name: String,
    cells: Vec<String>,
    tokens: u64,
}

impl SpendTable {
    /// Returns the header, a line for each group and its subgroups, and the total.
    pub(super) fn format_lines(
        &self,
        spending: &Spending,
        groupings: &[SpendGrouping],
    ) -> Vec<String> {
        let mut groups = Vec::new();
        self.collect_groups(&spending.groups, groupings, 0, &mut groups);
        let mut columns = select_columns(spending, groupings);
        let bar_space = |bar_width: usize| {
            if self.bars {
                COLUMN_GAP_WIDTH + bar_width
            } else {
                0
            }
        };
        let mut droppable = COLUMN_DROP_ORDER.iter();
        let (rows, widths, name_width, cells_width) = loop {
            let rows = self.build_rows(spending, groupings, &groups, &columns);
            let widths = column_widths(&rows, columns.len());
            let cells_width: usize = widths.iter().map(|width| width + COLUMN_GAP_WIDTH).sum();
            let name_widths = rows.iter().map(|row| display_width(&row.name));
            let full_name_width = name_widths.max().unwrap_or(0);
            let Some(width) = self.width else {
                break (rows, widths, full_name_width, cells_width);
            };
            let available = width.saturating_sub(cells_width + bar_space(PREFERRED_BAR_WIDTH));
            if available >= full_name_width.min(PREFERRED_NAME_WIDTH) {
                break (rows, widths, full_name_width.min(available), cells_width);
            }
            let Some(dropped) = droppable.next() else {
                let available = width.saturating_sub(cells_width + bar_space(MIN_BAR_WIDTH));
                let name_width = full_name_width.min(available.max(MIN_NAME_WIDTH));
                break (rows, widths, name_width, cells_width);
            };
            columns.retain(|column| !dropped.contains(column));
        };
        let used_width = name_width + cells_width + COLUMN_GAP_WIDTH;
        // In a pipe, lines may have any length, but bars are limited.
        let max_bar_width = match self.width {
            Some(width) => width.saturating_sub(used_width),
            None => DEFAULT_TERMINAL_WIDTH
                .saturating_sub(used_width)
                .max(PREFERRED_BAR_WIDTH),
        };
        let max_bar_width = max_bar_width.min(MAX_BAR_WIDTH);
        let largest = rows.iter().map(|row| row.tokens).max().unwrap_or(0);
        let has_paths = groupings.contains(&SpendGrouping::Project);
        let format_row = |row: &SpendRow| {
            let mut line = pad_right(&truncate_name(&row.name, name_width, has_paths), name_width);
            for (cell, width) in row.cells.iter().zip(&widths) {
                let padding = width.saturating_sub(display_width(cell)) + COLUMN_GAP_WIDTH;
                line.push_str(&" ".repeat(padding));
                line.push_str(cell);
            }
            if self.bars {
                line.push_str("  ");
                let bar = draw_bar(row.tokens, largest, max_bar_width, self.unicode);
                line.push_str(&bar);
            }
            format::replace_unsupported_symbols(line.trim_end(), self.unicode)
        };
        rows.iter().map(format_row).collect()
    }

    fn collect_groups<'a>(
        &self,
        groups: &'a [SpendGroup],
        groupings: &[SpendGrouping],
        depth: usize,
        into: &mut Vec<(String, &'a SpendTotal)>,
    ) {
        let Some((grouping, nested_groupings)) = groupings.split_first() else {
            return;
        };
        for group in groups {
            let name = to_single_line(&self.format_key(&group.key, *grouping));
            into.push((format!("{}{name}", " ".repeat(2 * depth)), &group.total));
            self.collect_groups(&group.subgroups, nested_groupings, depth + 1, into);
        }
    }

    fn format_key(&self, key: &SpendGroupKey, grouping: SpendGrouping) -> String {
        match key {
            SpendGroupKey::Time(day) if grouping == SpendGrouping::Month => {
                day.strftime("%Y-%m").to_string()
            }
            SpendGroupKey::Time(day) => day.to_string(),
            SpendGroupKey::Name(None) => "(unknown)".to_owned(),
            SpendGroupKey::Name(Some(path)) if grouping == SpendGrouping::Project => {
                self.format_project(path)
            }
            SpendGroupKey::Name(Some(name)) => name.clone(),
        }
    }

    /// Returns the directory of a project, without `.git`, because users know a project by its directory.
    fn format_project(&self, key: &str) -> String {
        abbreviate_home(key.strip_suffix("/.git").unwrap_or(key), &self.home)
    }

    fn build_rows(
        &self,
        spending: &Spending,
        groupings: &[SpendGrouping],
        groups: &[(String, &SpendTotal)],
        columns: &[SpendColumn],
    ) -> Vec<SpendRow> {
        let header = SpendRow {
            name: group_heading(groupings),
            cells: columns
                .iter()
                .map(|&column| column_heading(column))
                .collect(),
            tokens: 0,
        };
        let format_cell = |column: &SpendColumn, total: &SpendTotal| {
            let cell = format_cell(*column, spending, total);
            format::replace_unsupported_symbols(&cell, self.unicode)
        };
        let build_row = |name: &str, total: &SpendTotal, tokens| SpendRow {
            name: name.to_owned(),
            cells: columns
                .iter()
                .map(|column| format_cell(column, total))
                .collect(),
            tokens,
        };
        let mut rows = vec![header];
        let groups = groups.iter();
        rows.extend(
            groups.map(|(name, total)| build_row(name, total, total.tokens().unwrap_or(0))),
        );
        // The total has no bar, because it would make all other bars look small.
        rows.push(build_row("total", &spending.total, 0));
        rows
    }
}

fn select_columns(spending: &Spending, groupings: &[SpendGrouping]) -> Vec<SpendColumn> {
    use SpendColumn::{Cached, Cost, Input, Output, Share, Total, Turns};
    let mut columns = vec![Turns, Input, Cached, Output, Total];
    if groupings.iter().any(|grouping| !grouping.is_period()) {
        columns.push(Share);
    }
    if spending.total.cost.estimate() != CostEstimate::Unknown {
        columns.push(Cost);
    }
    columns
}

fn column_heading(column: SpendColumn) -> String {
    let name = match column {
        SpendColumn::Turns => "TURNS",
        SpendColumn::Input => "INPUT",
        SpendColumn::Cached => "CACHED",
        SpendColumn::Output => "OUTPUT",
        SpendColumn::Total => "TOTAL",
        SpendColumn::Share => "SHARE",
        SpendColumn::Cost => "COST",
    };
    name.to_owned()
}

fn format_cell(column: SpendColumn, spending: &Spending, total: &SpendTotal) -> String {
    match column {
        SpendColumn::Turns => format_short_number(total.turns),
        SpendColumn::Input => format_optional_number(total.usage.input_tokens),
        SpendColumn::Cached => format_optional_number(total.usage.cached_tokens),
        SpendColumn::Output => format_optional_number(total.usage.output_tokens),
        SpendColumn::Total => format_optional_number(total.tokens()),
        SpendColumn::Share => {
            format_percent(total.tokens().and_then(|_| spending.token_fraction(total)))
        }
        SpendColumn::Cost => {
            format::format_cost(total.cost.estimate(), spending.total.cost.estimate())
        }
    }
}

fn group_heading(groupings: &[SpendGrouping]) -> String {
    let name = |grouping: &SpendGrouping| match grouping {
        SpendGrouping::Day => "DAY",
        SpendGrouping::Week => "WEEK OF",
        SpendGrouping::Month => "MONTH",
        SpendGrouping::Provider => "AGENT",
        SpendGrouping::Model => "MODEL",
        SpendGrouping::Project => "PROJECT",
    };
    groupings.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn column_widths(rows: &[SpendRow], columns: usize) -> Vec<usize> {
    let max_cell_width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column));
        cells.map(|cell| display_width(cell)).max().unwrap_or(0)
    };
    (0..columns).map(max_cell_width).collect()
}

/// Cuts a text to the width. A path loses its beginning, because its end is more significant; its indentation remains.
fn truncate_name(text: &str, width: usize, is_path: bool) -> String {
    let text_width = display_width(text);
    if text_width <= width {
        return text.to_owned();
    }
    let max_width = width.saturating_sub(1);
    let content = text.trim_start();
    let indent = text_width - display_width(content);
    if is_path && content.contains('/') && max_width > indent {
        let end = longest_suffix(content, max_width - indent);
        return format!("{}…{end}", " ".repeat(indent));
    }
    format!("{}…", fitting_prefix(text, max_width))
}

/// Returns the longest end of a text that fits into `width` columns.
fn longest_suffix(text: &str, width: usize) -> &str {
    let starts = text.grapheme_indices(true).map(|(at, _)| at);
    let mut suffixes = starts.filter_map(|at| text.get(at..));
    let fits = |suffix: &&str| display_width(suffix) <= width;
    suffixes.find(fits).unwrap_or_default()
}

#[cfg(test)]
mod tests;
