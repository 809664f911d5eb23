//! Tables with columns as wide as their content; the last column gets the remaining width. If that is too little, other
//! columns are dropped.

use super::{Style, one_line, print};
use crate::terminal::text;

/// A table that is printed once all rows are known.
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    shed: Vec<&'static str>,
}

/// Minimum width of the last column before other columns are dropped.
const ROOM: usize = 16;

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.to_vec(),
            rows: Vec::new(),
            shed: Vec::new(),
        }
    }

    /// Sets the columns to drop, in this order, until the last column has enough width.
    pub(crate) fn shedding(mut self, columns: &[&'static str]) -> Self {
        self.shed = columns.to_vec();
        self
    }

    /// Returns `true` if no column needs to be dropped.
    pub(crate) fn fits(&self) -> bool {
        let widths = self.widths();
        let all: Vec<usize> = (0..self.head.len()).collect();
        super::width().is_none_or(|width| has_room(&widths, &all, width))
    }

    /// Adds a row. Removes control characters from its cells.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.rows
            .push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    pub(crate) fn print(&self) {
        let style = Style::stdout();
        let width = super::width();
        let widths = self.widths();
        let columns = self.columns(&widths, width);
        let head: Vec<String> = self.head.iter().map(|&name| name.to_owned()).collect();
        print(&style.dim(&line(&head, &widths, &columns, width)));
        for row in &self.rows {
            print(&line(row, &widths, &columns, width));
        }
    }

    /// Returns the columns that are printed.
    fn columns(&self, widths: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut columns: Vec<usize> = (0..self.head.len()).collect();
        for shed in &self.shed {
            if width.is_none_or(|width| has_room(widths, &columns, width)) {
                break;
            }
            columns.retain(|&column| self.head.get(column) != Some(shed));
        }
        columns
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.head.iter().enumerate();
        columns
            .map(|(column, name)| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells
                    .map(|cell| text::width(cell))
                    .fold(name.len(), usize::max)
            })
            .collect()
    }
}

/// Returns `true` if the last of these columns has enough width next to the others.
fn has_room(widths: &[usize], columns: &[usize], width: usize) -> bool {
    let wide = |column: &usize| widths.get(*column).copied().unwrap_or(0);
    let Some((last, before)) = columns.split_last() else {
        return true;
    };
    let taken: usize = before.iter().map(|column| wide(column) + GAP.len()).sum();
    taken + wide(last).min(ROOM) <= width
}

/// Separator between two columns.
const GAP: &str = "  ";

fn line(cells: &[String], widths: &[usize], columns: &[usize], width: Option<usize>) -> String {
    let mut line = String::new();
    let last = columns.last();
    for column in columns {
        let cell = cells.get(*column).map_or("", String::as_str);
        if Some(column) == last {
            let left = width.map(|width| width.saturating_sub(text::width(&line)).max(8));
            line.push_str(&shorten(cell, left));
        } else {
            let wide = widths.get(*column).copied().unwrap_or(0);
            line.push_str(&text::pad(cell, wide));
            line.push_str(GAP);
        }
    }
    line.trim_end().to_owned()
}

/// Cuts a text to `width` columns and marks the cut with `…`.
pub(crate) fn shorten(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text::width(text) > width => {
            let mut short = text::fitting(text, width.saturating_sub(1));
            short.push('…');
            short
        }
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_left_out_in_order() {
        let mut table =
            Table::new(&["ID", "AGENT", "TURNS", "TITLE"]).shedding(&["TURNS", "AGENT"]);
        let cells = ["k3f9", "rehearsal", "12", "a title that is long"];
        table.row(&cells.map(str::to_owned));
        let cases = [
            (None, "k3f9  rehearsal  12     a title that is long"),
            (Some(60), "k3f9  rehearsal  12     a title that is long"),
            (Some(40), "k3f9  rehearsal  12     a title that is…"),
            (Some(39), "k3f9  rehearsal  a title that is long"),
            (Some(32), "k3f9  a title that is long"),
            (Some(20), "k3f9  a title that …"),
        ];
        for (width, expected) in cases {
            let widths = table.widths();
            let columns = table.columns(&widths, width);
            let row = line(&table.rows[0], &widths, &columns, width);
            assert_eq!(row, expected, "{width:?}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_look() {
        let mut table = Table::new(&["TAGS", "TITLE"]);
        for tag in ["pay", "日本", "cafe\u{301}"] {
            table.row(&[tag, "支払いテストを直して"].map(str::to_owned));
        }
        let widths = table.widths();
        let lines = |width| {
            let rows = table.rows.iter();
            let lines = rows.map(|row| line(row, &widths, &[0, 1], width));
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
