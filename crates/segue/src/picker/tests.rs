//! A shelf of 30,000 made-up conversations, and the picker over it in a real terminal.

mod pty;
pub(super) mod shelf;
mod terminal;
