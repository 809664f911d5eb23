//! The picker in a real terminal: a process of its own, on a pseudo-terminal whose screen is looked at.

use std::process::Command;

use jiff::Timestamp;

use super::pty::Pty;
use super::shelf::FakeShelf;
use crate::picker::screen::Screen;
use crate::picker::{self, Options, Order, Place};

/// Says that this process is the one at the terminal, and what it does there.
const HOST: &str = "SEGUE_PICKER_HOST";

/// Not a test by itself: the other tests start it at a terminal, in a process of its own.
#[test]
fn host() {
    let Some(what) = std::env::var_os(HOST) else {
        return;
    };
    if what == "panics" {
        let _screen = Screen::take().unwrap();
        panic!("a bug in the picker");
    }
    let now = Timestamp::now();
    let all = if what == "empty" { 0 } else { 30_000 };
    let options = Options {
        place: Place::Everywhere,
        order: Order::Newest,
        typed: String::new(),
        agents: ["claude", "codex", "gemini"].map(str::to_owned).into(),
        colour: crate::terminal::Style::stdout().has_colour(),
    };
    let outcome = picker::run(move || Ok(FakeShelf { now, all }), options);
    let told = match outcome {
        Ok(None) => "left".to_owned(),
        Ok(Some(chosen)) => format!("chose {} to {:?}", chosen.row.id, chosen.next),
        Err(error) => format!("failed: {}", error.message),
    };
    println!("{told}");
}
