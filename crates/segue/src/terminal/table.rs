//! Columns of text, as wide as they need to be; the last one takes what is left.

use std::fmt::Write;

use super::{Style, one_line, print};

/// A table that is printed as a whole.
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; what a terminal could be steered with is removed.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.rows
            .push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    pub(crate) fn print(&self) {
        let style = Style::stdout();
        let widths = self.widths();
        let head: Vec<String> = self.head.iter().map(|&name| name.to_owned()).collect();
        print(&style.dim(&self.line(&head, &widths)));
        for row in &self.rows {
            print(&self.line(row, &widths));
        }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.head.iter().enumerate();
        columns
            .map(|(column, name)| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells
                    .map(|cell| cell.chars().count())
                    .fold(name.len(), usize::max)
            })
            .collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let last = self.head.len() - 1;
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if column < last {
                let _ = write!(line, "{cell:<width$}  ");
            } else {
                let left =
                    super::width().map(|width| width.saturating_sub(line.chars().count()).max(20));
                line.push_str(&shorten(cell, left));
            }
        }
        line.trim_end().to_owned()
    }
}

fn shorten(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text.chars().count() > width => {
            let mut short: String = text.chars().take(width - 1).collect();
            short.push('…');
            short
        }
        Some(_) | None => text.to_owned(),
    }
}
