//! Tests of the picker with 30,000 generated conversations, in a real terminal.

pub(super) mod local_source;
mod terminal;
