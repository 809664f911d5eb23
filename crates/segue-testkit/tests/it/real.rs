//! The real CLIs with the stub: each runs a turn, and fails when the script requests it.

mod acp;
mod headless;
mod sandbox;
