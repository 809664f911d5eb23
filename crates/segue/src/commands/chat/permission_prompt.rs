//! Permission prompt on the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use segue_core::agent::{PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest};
use tokio::sync::oneshot;

use crate::terminal::{Style, eprint_line, to_single_line};

/// Interval at which the prompt checks whether the answer is still needed.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

static IS_PROMPT_OPEN: AtomicBool = AtomicBool::new(false);

/// Returns `true` if a question waits for its answer.
pub(super) fn is_open() -> bool {
    IS_PROMPT_OPEN.load(Ordering::Relaxed)
}

/// Asks the user, if a terminal is available. Otherwise drops the request, which rejects it.
pub(super) fn ask_user(request: PermissionRequest, reply: oneshot::Sender<PermissionAnswer>) {
    let has_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !has_terminal || request.options.is_empty() {
        return;
    }
    IS_PROMPT_OPEN.store(true, Ordering::Relaxed);
    // Reading a line blocks, and Ctrl-C must work during that time.
    std::thread::spawn(move || {
        let answer = read_answer(&request, &reply);
        IS_PROMPT_OPEN.store(false, Ordering::Relaxed);
        if let Some(answer) = answer {
            let _ = reply.send(answer);
        }
    });
}

fn read_answer(
    request: &PermissionRequest,
    reply: &oneshot::Sender<PermissionAnswer>,
) -> Option<PermissionAnswer> {
    let style = Style::stderr();
    let args = to_single_line(request.call.args.as_str());
    eprint_line(&format!(
        "{} {} {}",
        style.bold("Allow this tool call?"),
        to_single_line(&request.call.name),
        style.dim(if args == "{}" { "" } else { &args })
    ));
    let sorted_options = sort_options(&request.options);
    for (number, option) in (1..).zip(&sorted_options) {
        eprint_line(&format!("  {number}  {}", to_single_line(&option.name)));
    }
    // Input that the user typed before the question appeared is not an answer to it.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    loop {
        let _ = write!(
            std::io::stderr().lock(),
            "Your choice (1-{}, y or n): ",
            sorted_options.len()
        );
        if !wait_for_input(reply) {
            return None;
        }
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => {
                eprint_line("");
                return None;
            }
            Ok(_) => {}
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Some(request.allow_answer()),
            "n" | "no" => return Some(request.reject_answer()),
            input => {
                let number = input.parse::<usize>().ok();
                let option = number.and_then(|number| sorted_options.get(number.checked_sub(1)?));
                if let Some(option) = option {
                    return Some(PermissionAnswer::Selected(option.id.clone()));
                }
            }
        }
    }
}

/// Sorts the answers in one order for all agents: allow before reject, and once before always.
fn sort_options(options: &[PermissionOption]) -> Vec<&PermissionOption> {
    let mut sorted: Vec<_> = options.iter().collect();
    sorted.sort_by_key(|option| match option.kind {
        PermissionKind::AllowOnce => 0,
        PermissionKind::AllowAlways => 1,
        PermissionKind::RejectOnce => 2,
        PermissionKind::RejectAlways => 3,
    });
    sorted
}

/// Waits until the user typed a line. Returns `false` if the answer is no longer needed, and leaves later input to the
/// next reader.
fn wait_for_input(reply: &oneshot::Sender<PermissionAnswer>) -> bool {
    loop {
        let stdin = std::io::stdin();
        let ready = poll(
            &mut [PollFd::new(&stdin, PollFlags::IN)],
            Some(&POLL_INTERVAL),
        );
        if reply.is_closed() {
            return false;
        }
        // An error of standard input is reported when it is read.
        match ready {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}
