//! Input of the prompt: an argument, standard input, or both.

use std::io::{ErrorKind, IsTerminal, Read, Stdin, stdin};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use segue_agents::busy::is_piped_to;
use segue_core::brief::with_piped;

use crate::error::CliError;
use crate::terminal::{Style, bytes, say};

/// Time without input after which segue ignores a pipe that has no known writer, because a program that starts segue
/// may leave a pipe open and never write to it. Claude Code waits equally long, Gemini CLI half a second.
const PATIENCE: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

/// Maximum size of standard input: several times the largest context of a model.
const MOST: usize = 32_000_000;

/// Reads the prompt: the argument, followed by piped input. Only the piped input if the argument is `-` or missing.
pub(in crate::commands) fn prompt(argument: Option<&str>) -> Result<String, CliError> {
    let input = stdin();
    let text = match argument {
        Some(said) if said != "-" => {
            let said = not_empty(said.to_owned(), "write in it what you want to say")?;
            let comes = !input.is_terminal() && something_comes(&input);
            let piped = if comes { read(&input)? } else { String::new() };
            with_piped(&said, &piped)
        }
        None if input.is_terminal() => {
            return Err(
                CliError::usage("there is no prompt").hint("segue chat \"what you want to say\"")
            );
        }
        Some(_) | None => not_empty(
            read(&input)?,
            "standard input held nothing; pipe the prompt, or write it as an argument",
        )?,
    };
    sendable(&text)?;
    Ok(text)
}

fn not_empty(text: String, hint: &str) -> Result<String, CliError> {
    if text.trim().is_empty() {
        return Err(CliError::usage("the prompt is empty").hint(hint));
    }
    Ok(text)
}

/// Checks that agents accept the text.
pub(in crate::commands) fn sendable(text: &str) -> Result<(), CliError> {
    if text.contains('\0') {
        return Err(CliError::usage(
            "the prompt contains a NUL character, which no agent can take",
        ));
    }
    Ok(())
}

/// Waits until standard input has data or ends. Returns `false` if no data arrives and no process is known to write.
fn something_comes(input: &Stdin) -> bool {
    let mark = Style::stderr().yellow("segue:");
    let mut waits = false;
    loop {
        match poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(0) if is_piped_to() => {
                if !waits {
                    say(&format!("{mark} waiting for what is piped here"));
                }
                waits = true;
            }
            Ok(0) => {
                say(&format!(
                    "{mark} nothing came from standard input, so only the prompt is sent; </dev/null says that nothing will"
                ));
                return false;
            }
            Err(rustix::io::Errno::INTR) => {}
            // An error of the pipe is reported when it is read.
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Reads all of standard input.
fn read(input: &Stdin) -> Result<String, CliError> {
    let refused = |what: &str| CliError::usage(format!("{what}; nothing was sent"));
    let mut all = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match input.lock().read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => all.extend(chunk.iter().take(length)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The pipe is non-blocking if another process that shares it made it so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(input, PollFlags::IN)], None);
            }
            Err(error) => {
                return Err(CliError::usage("cannot read standard input").because(&error));
            }
        }
        if all.len() > MOST {
            let most = bytes(MOST as u64);
            return Err(refused(&format!(
                "standard input holds more than {most}, which no agent can take"
            ))
            .hint("write it to a file, and name that in the prompt"));
        }
    }
    String::from_utf8(all).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refused(&format!("standard input is not valid UTF-8 (at byte {at})"))
            .hint("`iconv -f LATIN1 -t UTF-8` makes it so; or name the file in the prompt")
    })
}
