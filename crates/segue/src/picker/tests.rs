//! Tests of the picker with 30,000 generated conversations, in a real terminal.

mod pty;
pub(super) mod shelf;
mod terminal;
