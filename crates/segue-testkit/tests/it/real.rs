//! The real CLIs on the stub: that each of them runs a turn, and fails when it is told to.

mod acp;
mod headless;
mod sandbox;
