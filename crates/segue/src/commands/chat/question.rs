//! Asking the person on the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use segue_core::{PermissionAnswer, PermissionRequest};
use tokio::sync::oneshot;

use crate::terminal::{Style, one_line, say};

static OPEN: AtomicBool = AtomicBool::new(false);

/// Whether a question waits for its answer.
pub(super) fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed)
}

/// Asks, if there is a terminal to ask on; else the request is let go, which refuses it.
pub(super) fn ask(request: PermissionRequest, reply: oneshot::Sender<PermissionAnswer>) {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !terminal || request.options.is_empty() {
        return;
    }
    OPEN.store(true, Ordering::Relaxed);
    // Reading a line blocks; Ctrl-C must still be heard meanwhile.
    std::thread::spawn(move || {
        let answer = read_answer(&request);
        OPEN.store(false, Ordering::Relaxed);
        if let Some(answer) = answer {
            let _ = reply.send(answer);
        }
    });
}

fn read_answer(request: &PermissionRequest) -> Option<PermissionAnswer> {
    let style = Style::stderr();
    say(&format!(
        "{} {} {}",
        style.bold("May the agent do this?"),
        one_line(&request.call.name),
        style.dim(&one_line(request.call.args.as_str()))
    ));
    for (number, option) in (1..).zip(&request.options) {
        say(&format!("  {number}  {}", one_line(&option.name)));
    }
    loop {
        let _ = write!(
            std::io::stderr().lock(),
            "Your choice, 1 to {}: ",
            request.options.len()
        );
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => {
                say("");
                return None;
            }
            Ok(_) => {}
        }
        let number = line.trim().parse::<usize>().ok();
        let option = number.and_then(|number| request.options.get(number.checked_sub(1)?));
        if let Some(option) = option {
            return Some(PermissionAnswer::Choose(option.id.clone()));
        }
    }
}
