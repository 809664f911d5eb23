//! Input of the prompt: an argument, standard input, or both.

use std::io::{ErrorKind, IsTerminal, Read, Stdin, stdin};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use segue_core::brief::prompt_with_piped_input;
use segue_providers::busy::has_stdin_writer;

use crate::error::CliError;
use crate::terminal::{eprint_note, format_bytes};

/// Time without input after which segue ignores a pipe that has no known writer, because a program that starts segue
/// may leave a pipe open and never write to it. Claude Code waits equally long, Gemini CLI half a second.
const STDIN_WAIT_TIMEOUT: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

/// Maximum size of standard input: several times the largest context of a model.
const MAX_STDIN_BYTES: usize = 32_000_000;

/// Reads the prompt: the argument, followed by piped input. Only the piped input if the argument is `-` or missing.
pub(in crate::commands) fn read_prompt(argument: Option<&str>) -> Result<String, CliError> {
    let input = stdin();
    let text = match argument {
        Some(typed) if typed != "-" => {
            let prompt_text =
                require_non_empty(typed.to_owned(), "run `segue chat \"your prompt\"`")?;
            let has_input = !input.is_terminal() && wait_for_stdin(&input);
            let piped = if has_input {
                read_stdin(&input)?
            } else {
                String::new()
            };
            prompt_with_piped_input(&prompt_text, &piped)
        }
        None if input.is_terminal() => {
            return Err(
                CliError::usage("no prompt given").with_hint("run `segue chat \"your prompt\"`")
            );
        }
        Some(_) | None => require_non_empty(
            read_stdin(&input)?,
            "standard input was empty; pipe a prompt, or pass it as an argument",
        )?,
    };
    validate_prompt(&text)?;
    Ok(text)
}

fn require_non_empty(text: String, hint: &str) -> Result<String, CliError> {
    if text.trim().is_empty() {
        return Err(CliError::usage("the prompt is empty").with_hint(hint));
    }
    Ok(text)
}

/// Checks that agents accept the text.
pub(in crate::commands) fn validate_prompt(text: &str) -> Result<(), CliError> {
    if text.contains('\0') {
        return Err(CliError::usage(
            "the prompt contains a NUL character, which agents do not accept",
        ));
    }
    Ok(())
}

/// Waits until standard input has data or ends. Returns `false` if no data arrives and no process is known to write.
fn wait_for_stdin(input: &Stdin) -> bool {
    let mut is_announced = false;
    loop {
        match poll(
            &mut [PollFd::new(input, PollFlags::IN)],
            Some(&STDIN_WAIT_TIMEOUT),
        ) {
            Ok(0) if has_stdin_writer() => {
                if !is_announced {
                    eprint_note("waiting for standard input");
                }
                is_announced = true;
            }
            Ok(0) => {
                eprint_note(
                    "no data on standard input, sending only the prompt; use `</dev/null` to skip the wait",
                );
                return false;
            }
            Err(rustix::io::Errno::INTR) => {}
            // An error of the pipe is reported when it is read.
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Reads all of standard input.
fn read_stdin(input: &Stdin) -> Result<String, CliError> {
    let usage_error = |reason: &str| CliError::usage(format!("{reason}; nothing was sent"));
    let mut content = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match input.lock().read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => content.extend(chunk.iter().take(length)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The pipe is non-blocking if another process that shares it made it so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(input, PollFlags::IN)], None);
            }
            Err(error) => {
                return Err(CliError::usage("cannot read standard input").with_cause(&error));
            }
        }
        if content.len() > MAX_STDIN_BYTES {
            let limit = format_bytes(MAX_STDIN_BYTES as u64);
            return Err(
                usage_error(&format!("standard input is larger than {limit}"))
                    .with_hint("write it to a file and name the file in the prompt"),
            );
        }
    }
    String::from_utf8(content).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        usage_error(&format!(
            "standard input is not valid UTF-8 (at byte {offset})"
        ))
        .with_hint("convert it with `iconv -f LATIN1 -t UTF-8`, or name the file in the prompt")
    })
}
