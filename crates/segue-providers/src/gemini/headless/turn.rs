//! A turn of Gemini CLI without its user interface: a process from its start to its end.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use segue_core::id::NativeId;
use segue_core::session::{FailureClass, StopReason, TurnEnd, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{GeminiOutputFormat, HeadlessAgent};
use crate::error_class::AgentRefusal;
use crate::gemini::failure;
use crate::gemini::json_output::{self, GeminiAnswer};
use crate::gemini::stream_json::{GeminiEvent, GeminiStream};
use crate::process::leash::CANNOT_START_EXIT_CODE;
use crate::process::{AgentProcess, Exit, ProgramSpec};
use crate::wire::json_lines::JsonLineProcess;
use crate::{AgentError, ConnectionEvent, OpenRequest};

/// Name of the request in errors.
const PROMPT_OPERATION: &str = "the prompt";

/// Maximum size in bytes of an answer in one object.
const MAX_ANSWER_BYTES: u64 = 512 * 1024 * 1024;

/// Time in which the process may exit after its answer; it writes its session in this time.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Interval in which the end of the error output is polled.
const STDERR_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running turn.
pub(super) struct GeminiTurn {
    output: GeminiTurnOutput,
    native_id: NativeId,
    program: PathBuf,
    /// Events that `next_event` has not returned yet.
    pending_events: VecDeque<ConnectionEvent>,
    /// End of the turn, once the process has reported it.
    reported_end: Option<GeminiTurnEnd>,
    /// Time by which the process must have exited.
    deadline: Option<Instant>,
    cancelled: bool,
}

enum GeminiTurnOutput {
    JsonLines(JsonLineProcess, GeminiStream),
    SingleObject(AgentProcess, oneshot::Receiver<Vec<u8>>),
}

/// Last report of the process.
#[derive(Clone)]
enum GeminiTurnEnd {
    Finished(TurnEnd),
    Failed(String),
    Refused(AgentRefusal),
    /// The output ended without a report.
    Unreported,
}

impl GeminiTurn {
    pub(super) fn start(
        agent: &HeadlessAgent,
        program: &ProgramSpec<'_>,
        request: &OpenRequest,
        id: &NativeId,
        input: Vec<u8>,
    ) -> Result<Self, AgentError> {
        let output = match agent.format {
            GeminiOutputFormat::JsonLines => {
                let mut wire = JsonLineProcess::start(&agent.program.leash, program, request)?;
                wire.send_bytes(input);
                wire.close_input();
                GeminiTurnOutput::JsonLines(wire, GeminiStream::new(id.clone()))
            }
            GeminiOutputFormat::SingleObject => {
                if !program.cwd.is_dir() {
                    return Err(AgentError::DirectoryMissing(program.cwd.to_owned()));
                }
                let (process, stdin, stdout) =
                    AgentProcess::start(&agent.program.leash, program)
                        .map_err(|source| AgentError::not_started(program.path, source))?;
                request.process_sender.send_replace(process.identity());
                tokio::spawn(write_input(stdin, input));
                let (answer_sender, answer_receiver) = oneshot::channel();
                tokio::spawn(read_answer(stdout, answer_sender));
                GeminiTurnOutput::SingleObject(process, answer_receiver)
            }
        };
        Ok(Self {
            output,
            native_id: id.clone(),
            program: program.path.to_owned(),
            pending_events: VecDeque::new(),
            reported_end: None,
            deadline: None,
            cancelled: false,
        })
    }

    pub(super) fn process(&self) -> &AgentProcess {
        match &self.output {
            GeminiTurnOutput::JsonLines(wire, _) => wire.process(),
            GeminiTurnOutput::SingleObject(process, _) => process,
        }
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        self.process().terminate();
    }

    pub(super) async fn stop(self) {
        match self.output {
            GeminiTurnOutput::JsonLines(wire, _) => wire.stop().await,
            GeminiTurnOutput::SingleObject(process, _) => process.stop().await,
        }
    }

    /// Returns the next event. Dropping the future loses no event; the caller can call this method again.
    pub(super) async fn next_event(&mut self) -> ConnectionEvent {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return event;
            }
            if !self.read_output().await {
                continue;
            }
            let exit = self.wait_for_exit().await;
            return ConnectionEvent::TurnEnded(self.outcome(exit).await);
        }
    }

    /// Reads more output. Returns `true` if no more follows.
    async fn read_output(&mut self) -> bool {
        match &mut self.output {
            GeminiTurnOutput::JsonLines(wire, stream) => {
                let line = match self.deadline {
                    Some(deadline) => tokio::time::timeout_at(deadline, wire.next_line())
                        .await
                        .unwrap_or(None),
                    None => wire.next_line().await,
                };
                match line {
                    Some(line) => {
                        let gemini_event = stream.convert_line(line);
                        self.handle_event(gemini_event);
                        false
                    }
                    None => true,
                }
            }
            GeminiTurnOutput::SingleObject(process, answer_receiver) => {
                if self.reported_end.is_some() {
                    return true;
                }
                let stdout = tokio::select! {
                    biased;
                    stdout = answer_receiver => stdout.unwrap_or_default(),
                    // Without its leash the program could outlive segue, so the output ends.
                    () = process.wait_for_leash_kill() => Vec::new(),
                };
                self.reported_end =
                    Some(match json_output::parse_answer(&stdout, &self.native_id) {
                        GeminiAnswer::Finished(events, end) => {
                            self.pending_events
                                .extend(events.into_iter().map(ConnectionEvent::Event));
                            GeminiTurnEnd::Finished(end)
                        }
                        GeminiAnswer::Failed(message) => GeminiTurnEnd::Failed(message),
                        GeminiAnswer::Mismatched(refusal) => GeminiTurnEnd::Refused(refusal),
                        GeminiAnswer::Unparsable(refusal) => self.unparsable_end(refusal),
                        GeminiAnswer::Empty => GeminiTurnEnd::Unreported,
                    });
                false
            }
        }
    }

    fn handle_event(&mut self, gemini_event: GeminiEvent) {
        let end = match gemini_event {
            GeminiEvent::Ignored => return,
            GeminiEvent::SessionOpened => {
                return self
                    .pending_events
                    .push_back(ConnectionEvent::NativeIdReported(self.native_id.clone()));
            }
            GeminiEvent::Event(event) => {
                return self.pending_events.push_back(ConnectionEvent::Event(event));
            }
            GeminiEvent::Finished(end) => GeminiTurnEnd::Finished(end),
            GeminiEvent::Failed(message) => GeminiTurnEnd::Failed(message),
            GeminiEvent::Mismatched(refusal) => {
                self.process().terminate();
                GeminiTurnEnd::Refused(refusal)
            }
        };
        // The first report counts: no later output turns an error into an answer.
        self.reported_end.get_or_insert(end);
        self.deadline
            .get_or_insert(Instant::now() + EXIT_GRACE_PERIOD);
    }

    /// Returns the end for output without an answer. If segue cancelled the turn, the exit status is more informative
    /// than truncated output.
    fn unparsable_end(&self, refusal: AgentRefusal) -> GeminiTurnEnd {
        if self.cancelled {
            GeminiTurnEnd::Unreported
        } else {
            GeminiTurnEnd::Refused(refusal)
        }
    }

    async fn wait_for_exit(&mut self) -> Exit {
        match &mut self.output {
            GeminiTurnOutput::JsonLines(wire, _) => match wire.exit_error(PROMPT_OPERATION).await {
                AgentError::Crashed { exit, .. } => exit,
                _ => Exit::Code(CANNOT_START_EXIT_CODE),
            },
            GeminiTurnOutput::SingleObject(process, _) => process.wait_for_exit().await,
        }
    }

    /// Returns the outcome of the turn.
    async fn outcome(&mut self, exit: Exit) -> Result<TurnEnd, AgentError> {
        let end = self
            .reported_end
            .clone()
            .unwrap_or(GeminiTurnEnd::Unreported);
        if self.cancelled && !matches!(end, GeminiTurnEnd::Finished(_)) {
            return Ok(TurnEnd {
                reason: StopReason::Cancelled,
                usage: Usage::default(),
            });
        }
        let stderr = match &end {
            GeminiTurnEnd::Finished(end) => return Ok(*end),
            GeminiTurnEnd::Failed(_) | GeminiTurnEnd::Refused(_) | GeminiTurnEnd::Unreported => {
                self.wait_for_stderr().await
            }
        };
        let refused_error = |refusal| AgentError::Refused {
            operation: PROMPT_OPERATION,
            refusal,
            stderr: stderr.clone(),
        };
        Err(match end {
            GeminiTurnEnd::Failed(message) => {
                refused_error(failure::classify_message(&message, exit))
            }
            GeminiTurnEnd::Refused(_) if failure::is_deliberate(exit, &stderr) => {
                refused_error(failure::classify_stderr(&stderr, exit))
            }
            GeminiTurnEnd::Refused(refusal) => refused_error(refusal),
            GeminiTurnEnd::Finished(_) | GeminiTurnEnd::Unreported => {
                self.no_answer_error(exit, stderr)
            }
        })
    }

    /// Returns the error for a process that exited without an answer.
    fn no_answer_error(&self, exit: Exit, stderr: String) -> AgentError {
        let stderr_refusal = failure::classify_stderr(&stderr, exit);
        match exit {
            Exit::Code(CANNOT_START_EXIT_CODE) => {
                AgentError::not_started(&self.program, std::io::Error::other(stderr))
            }
            Exit::Code(0) => AgentError::Refused {
                operation: PROMPT_OPERATION,
                refusal: AgentRefusal {
                    class: FailureClass::UnparsableOutput,
                    message: format!(
                        "Gemini CLI ended without an answer: {}",
                        stderr_refusal.message
                    ),
                    retry_after: None,
                },
                stderr,
            },
            exit if failure::is_deliberate(exit, &stderr)
                || stderr_refusal.class != FailureClass::Agent =>
            {
                AgentError::Refused {
                    operation: PROMPT_OPERATION,
                    refusal: stderr_refusal,
                    stderr,
                }
            }
            exit => AgentError::Crashed {
                operation: PROMPT_OPERATION,
                exit,
                stderr,
            },
        }
    }

    /// Returns the error output once no more of it arrives. Polls, because a separate task reads the pipe.
    async fn wait_for_stderr(&mut self) -> String {
        let mut text = self.process().stderr();
        for _ in 0..10 {
            tokio::time::sleep(STDERR_POLL_INTERVAL).await;
            let newer = self.process().stderr();
            if newer == text && !text.is_empty() {
                break;
            }
            text = newer;
        }
        text
    }
}

async fn write_input(mut stdin: ChildStdin, input: Vec<u8>) {
    // A program that has exited is detected by its output.
    let _ = stdin.write_all(&input).await;
    let _ = stdin.shutdown().await;
}

async fn read_answer(stdout: ChildStdout, answer_sender: oneshot::Sender<Vec<u8>>) {
    let mut bytes = Vec::new();
    let _ = stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes).await;
    let _ = answer_sender.send(bytes);
}
