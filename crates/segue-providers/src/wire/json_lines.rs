//! A program that exchanges JSON values, one per line, over its standard input and output.
//!
//! Reading and writing run in separate tasks, so that neither side can block the other. The number of unread lines is
//! limited. Output that is not JSON is returned as noise and never stops the reading.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;

use crate::process::leash::CANNOT_START_EXIT_CODE;
use crate::process::{AgentProcess, Exit, LeashCommand, ProgramSpec};
use crate::wire::json_scan;
use crate::{AgentError, OpenRequest};

/// Maximum number of unread lines, after which the program has to wait.
const MAX_UNREAD_LINES: usize = 256;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: u64 = 512 * 1024 * 1024;

/// A line of a program.
#[derive(Debug)]
pub(crate) enum OutputLine {
    /// A JSON value.
    Json(Value),
    /// An excerpt of output that is not JSON.
    Noise(String),
}

/// A running program that exchanges JSON lines.
pub(crate) struct JsonLineProcess {
    program: PathBuf,
    process: AgentProcess,
    input: Option<mpsc::UnboundedSender<Vec<u8>>>,
    lines: mpsc::Receiver<OutputLine>,
    /// Whether its output has ended.
    output_ended: bool,
}

/// Sender to a program's input that outlives a borrow of the [`JsonLineProcess`]. It does not prevent the input from
/// closing.
#[derive(Clone)]
pub(crate) struct JsonLineSender(mpsc::WeakUnboundedSender<Vec<u8>>);

impl JsonLineSender {
    /// Sends a value as a line, if the input is still open.
    pub(crate) fn send(&self, value: &Value) {
        if let Some(input) = self.0.upgrade() {
            let _ = input.send(encode_line(value));
        }
    }
}

impl JsonLineProcess {
    /// Starts a program. Sends the process identity to `request.process_sender` as soon as the process runs.
    pub(crate) fn start(
        leash: &LeashCommand,
        program: &ProgramSpec<'_>,
        request: &OpenRequest,
    ) -> Result<Self, AgentError> {
        if !program.cwd.is_dir() {
            return Err(AgentError::DirectoryMissing(program.cwd.to_owned()));
        }
        let (process, stdin, stdout) = AgentProcess::start(leash, program)
            .map_err(|source| AgentError::not_started(program.path, source))?;
        request.process_sender.send_replace(process.identity());
        let (input, write_queue) = mpsc::unbounded_channel();
        tokio::spawn(write_input(stdin, write_queue));
        let (line_sender, lines) = mpsc::channel(MAX_UNREAD_LINES);
        tokio::spawn(read_output(stdout, line_sender));
        Ok(Self {
            program: program.path.to_owned(),
            process,
            input: Some(input),
            lines,
            output_ended: false,
        })
    }

    /// Sends a value as a line. If the program has exited, [`JsonLineProcess::next_line`] returns `None`.
    pub(crate) fn send(&self, value: &Value) {
        self.send_bytes(encode_line(value));
    }

    /// Returns a sender to the input; `None` once the input is closed.
    pub(crate) fn sender(&self) -> Option<JsonLineSender> {
        self.input
            .as_ref()
            .map(|input| JsonLineSender(input.downgrade()))
    }

    /// Sends bytes unchanged.
    pub(crate) fn send_bytes(&self, bytes: Vec<u8>) {
        if let Some(input) = &self.input {
            let _ = input.send(bytes);
        }
    }

    /// Closes the program's input once all data is written.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Returns the next line; `None` once the output has ended. Dropping the future loses no line; the caller can call
    /// this method again.
    pub(crate) async fn next_line(&mut self) -> Option<OutputLine> {
        if self.output_ended {
            return None;
        }
        let line = tokio::select! {
            biased;
            line = self.lines.recv() => line,
            // Without its leash the agent could outlive segue, so the output ends.
            () = self.process.wait_for_leash_kill() => None,
        };
        self.output_ended = line.is_none();
        line
    }

    /// Returns the next line, or an error if none arrives within `timeout` or the output has ended.
    pub(crate) async fn next_line_within(
        &mut self,
        timeout: Duration,
        operation: &'static str,
    ) -> Result<OutputLine, AgentError> {
        match tokio::time::timeout(timeout, self.next_line()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(self.exit_error(operation).await),
            Err(_) => Err(AgentError::TimedOut {
                operation,
                after: timeout,
                stderr: self.process.stderr(),
            }),
        }
    }

    /// Returns the error for a program whose output has ended.
    pub(crate) async fn exit_error(&mut self, operation: &'static str) -> AgentError {
        let exit = self.process.wait_for_exit().await;
        let stderr = self.process.stderr();
        if exit == Exit::Code(CANNOT_START_EXIT_CODE) {
            return AgentError::not_started(&self.program, std::io::Error::other(stderr));
        }
        AgentError::Crashed {
            operation,
            exit,
            stderr,
        }
    }

    /// Returns `true` if the program can still receive and send lines.
    pub(crate) fn is_alive(&mut self) -> bool {
        !self.output_ended && !self.process.has_ended()
    }

    pub(crate) fn process(&self) -> &AgentProcess {
        &self.process
    }

    /// Closes the input, ends the program, and waits until no process of it is left.
    pub(crate) async fn stop(mut self) {
        self.close_input();
        self.process.stop().await;
    }
}

/// Converts a path to text, for protocols that accept only text.
pub(crate) fn path_to_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn encode_line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

async fn write_input(mut stdin: ChildStdin, mut write_queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = write_queue.recv().await {
        if stdin.write_all(&bytes).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_output(stdout: ChildStdout, line_sender: mpsc::Sender<OutputLine>) {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        for parsed_line in json_scan::parse_line(&line) {
            if line_sender.send(parsed_line).await.is_err() {
                return;
            }
        }
        // A very long line must not occupy its memory until the connection closes.
        line.shrink_to(64 * 1024);
    }
}
