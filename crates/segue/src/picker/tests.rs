//! A shelf of 30,000 made-up conversations, and the picker over it in a real terminal.

mod pty;
mod shelf;
mod terminal;

pub(super) use shelf::{FakeShelf, row};
