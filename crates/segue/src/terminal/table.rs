//! Tables with columns as wide as their content; the last column gets the remaining width. If that is too little, other
//! columns are dropped.

use super::{Style, print_line, to_single_line};
use crate::terminal::text;

/// A table that is printed once all rows are known.
pub(crate) struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    droppable_columns: Vec<&'static str>,
}

/// Minimum width of the last column before other columns are dropped.
const MIN_LAST_COLUMN_WIDTH: usize = 16;

impl Table {
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Self {
            headers: headers.to_vec(),
            rows: Vec::new(),
            droppable_columns: Vec::new(),
        }
    }

    /// Sets the columns to drop, in this order, until the last column has enough width.
    pub(crate) fn with_droppable_columns(mut self, columns: &[&'static str]) -> Self {
        self.droppable_columns = columns.to_vec();
        self
    }

    /// Returns `true` if no column needs to be dropped.
    pub(crate) fn has_room_for_all_columns(&self) -> bool {
        let widths = self.column_widths();
        let all: Vec<usize> = (0..self.headers.len()).collect();
        super::terminal_width().is_none_or(|width| has_room(&widths, &all, width))
    }

    /// Adds a row. Removes control characters from its cells.
    pub(crate) fn add_row(&mut self, cells: &[String]) {
        self.rows
            .push(cells.iter().map(|cell| to_single_line(cell)).collect());
    }

    pub(crate) fn print(&self) {
        let style = Style::stdout();
        let width = super::terminal_width();
        let widths = self.column_widths();
        let columns = self.visible_columns(&widths, width);
        let headers: Vec<String> = self.headers.iter().map(|&name| name.to_owned()).collect();
        print_line(&style.dim(&format_row(&headers, &widths, &columns, width)));
        for row in &self.rows {
            print_line(&format_row(row, &widths, &columns, width));
        }
    }

    /// Returns the columns that are printed.
    fn visible_columns(&self, widths: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut columns: Vec<usize> = (0..self.headers.len()).collect();
        for droppable in &self.droppable_columns {
            if width.is_none_or(|width| has_room(widths, &columns, width)) {
                break;
            }
            columns.retain(|&column| self.headers.get(column) != Some(droppable));
        }
        columns
    }

    fn column_widths(&self) -> Vec<usize> {
        let columns = self.headers.iter().enumerate();
        columns
            .map(|(column, name)| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells
                    .map(|cell| text::display_width(cell))
                    .fold(name.len(), usize::max)
            })
            .collect()
    }
}

/// Returns `true` if the last of these columns has enough width next to the others.
fn has_room(widths: &[usize], columns: &[usize], width: usize) -> bool {
    let column_width = |column: &usize| widths.get(*column).copied().unwrap_or(0);
    let Some((last, before)) = columns.split_last() else {
        return true;
    };
    let used: usize = before
        .iter()
        .map(|column| column_width(column) + COLUMN_GAP.len())
        .sum();
    used + column_width(last).min(MIN_LAST_COLUMN_WIDTH) <= width
}

/// Separator between two columns.
const COLUMN_GAP: &str = "  ";

fn format_row(
    cells: &[String],
    widths: &[usize],
    columns: &[usize],
    width: Option<usize>,
) -> String {
    let mut line = String::new();
    let last = columns.last();
    for column in columns {
        let cell = cells.get(*column).map_or("", String::as_str);
        if Some(column) == last {
            let remaining =
                width.map(|width| width.saturating_sub(text::display_width(&line)).max(8));
            line.push_str(&shorten_to_width(cell, remaining));
        } else {
            let column_width = widths.get(*column).copied().unwrap_or(0);
            line.push_str(&text::pad_right(cell, column_width));
            line.push_str(COLUMN_GAP);
        }
    }
    line.trim_end().to_owned()
}

/// Cuts a text to `width` columns and marks the cut with `…`.
pub(crate) fn shorten_to_width(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text::display_width(text) > width => {
            let mut shortened = text::fitting_prefix(text, width.saturating_sub(1));
            shortened.push('…');
            shortened
        }
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_room_are_dropped_in_order() {
        let mut table = Table::new(&["ID", "AGENT", "TURNS", "TITLE"])
            .with_droppable_columns(&["TURNS", "AGENT"]);
        let cells = ["k3f9", "rehearsal", "12", "a title that is long"];
        table.add_row(&cells.map(str::to_owned));
        let cases = [
            (None, "k3f9  rehearsal  12     a title that is long"),
            (Some(60), "k3f9  rehearsal  12     a title that is long"),
            (Some(40), "k3f9  rehearsal  12     a title that is…"),
            (Some(39), "k3f9  rehearsal  a title that is long"),
            (Some(32), "k3f9  a title that is long"),
            (Some(20), "k3f9  a title that …"),
        ];
        for (width, expected) in cases {
            let widths = table.column_widths();
            let columns = table.visible_columns(&widths, width);
            let row = format_row(&table.rows[0], &widths, &columns, width);
            assert_eq!(row, expected, "{width:?}");
        }
    }

    #[test]
    fn column_widths_are_display_widths() {
        let mut table = Table::new(&["TAGS", "TITLE"]);
        for tag in ["pay", "日本", "cafe\u{301}"] {
            table.add_row(&[tag, "支払いテストを直して"].map(str::to_owned));
        }
        let widths = table.column_widths();
        let lines = |width| {
            let rows = table.rows.iter();
            let lines = rows.map(|row| format_row(row, &widths, &[0, 1], width));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(
            lines(None),
            [
                "pay   支払いテストを直して",
                "日本  支払いテストを直して",
                "cafe\u{301}  支払いテストを直して",
            ]
        );
        // A wide character that only half fits is dropped.
        for width in [17, 18] {
            let cut = lines(Some(width));
            assert_eq!(cut[1], "日本  支払いテス…", "{width}");
        }
    }
}
