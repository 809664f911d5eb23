//! A turn of Gemini CLI without its user interface: a process from its start to its end.

use std::collections::VecDeque;
use std::time::Duration;

use segue_core::id::NativeId;
use segue_core::session::{FailureClass, StopReason, TurnEnd, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Format, Headless};
use crate::classify::Refusal;
use crate::gemini::answer::{self, Answer};
use crate::gemini::refusal;
use crate::gemini::stream::{Heard, Stream};
use crate::leash::CANNOT_START;
use crate::process::{AgentProcess, Exit, Program};
use crate::wire::Wire;
use crate::{AgentError, OpenRequest, Step};

/// Name of the request in errors.
const DOING: &str = "the prompt";

/// Maximum size in bytes of an answer in one object.
const LONGEST_ANSWER: u64 = 512 * 1024 * 1024;

/// Time in which the process may exit after its answer; it writes its session in this time.
const FAREWELL: Duration = Duration::from_secs(10);

/// Interval in which the end of the error output is polled.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// A running turn.
pub(super) struct Turn {
    output: Output,
    id: NativeId,
    program: String,
    /// Events that `next` has not returned yet.
    steps: VecDeque<Step>,
    /// End of the turn, once the process has reported it.
    end: Option<End>,
    /// Time by which the process must have exited.
    deadline: Option<Instant>,
    cancelled: bool,
}

enum Output {
    Lines(Wire, Stream),
    Whole(AgentProcess, oneshot::Receiver<Vec<u8>>),
}

/// Last report of the process.
#[derive(Clone)]
enum End {
    Finished(TurnEnd),
    Failed(String),
    Refused(Refusal),
    /// The output ended without a report.
    Silent,
}

impl Turn {
    pub(super) fn start(
        agent: &Headless,
        program: &Program<'_>,
        request: &OpenRequest,
        id: &NativeId,
        input: Vec<u8>,
    ) -> Result<Self, AgentError> {
        let output =
            match agent.format {
                Format::Lines => {
                    let mut wire = Wire::start(&agent.leash, program, request)?;
                    wire.send_bytes(input);
                    wire.close_input();
                    Output::Lines(wire, Stream::new(id.clone()))
                }
                Format::Whole => {
                    if !program.cwd.is_dir() {
                        return Err(AgentError::NoDirectory(program.cwd.to_owned()));
                    }
                    let (process, stdin, stdout) = AgentProcess::start(&agent.leash, program)
                        .map_err(|source| AgentError::NotStarted {
                            program: program.path.display().to_string(),
                            source,
                        })?;
                    request.started.send_replace(process.mark());
                    tokio::spawn(write(stdin, input));
                    let (answer, answered) = oneshot::channel();
                    tokio::spawn(read(stdout, answer));
                    Output::Whole(process, answered)
                }
            };
        Ok(Self {
            output,
            id: id.clone(),
            program: program.path.display().to_string(),
            steps: VecDeque::new(),
            end: None,
            deadline: None,
            cancelled: false,
        })
    }

    pub(super) fn process(&self) -> &AgentProcess {
        match &self.output {
            Output::Lines(wire, _) => wire.process(),
            Output::Whole(process, _) => process,
        }
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        self.process().terminate();
    }

    pub(super) async fn stop(self) {
        match self.output {
            Output::Lines(wire, _) => wire.stop().await,
            Output::Whole(process, _) => process.stop().await,
        }
    }

    /// Returns the next event. Dropping the future loses no event; the caller can call this method again.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            if !self.heard_all().await {
                continue;
            }
            let exit = self.exit().await;
            return Step::Done(self.outcome(exit).await);
        }
    }

    /// Reads more output. Returns `true` if no more follows.
    async fn heard_all(&mut self) -> bool {
        match &mut self.output {
            Output::Lines(wire, stream) => {
                let line = match self.deadline {
                    Some(deadline) => tokio::time::timeout_at(deadline, wire.next())
                        .await
                        .unwrap_or(None),
                    None => wire.next().await,
                };
                match line {
                    Some(line) => {
                        let heard = stream.hear(line);
                        self.take(heard);
                        false
                    }
                    None => true,
                }
            }
            Output::Whole(process, answered) => {
                if self.end.is_some() {
                    return true;
                }
                let stdout = tokio::select! {
                    biased;
                    stdout = answered => stdout.unwrap_or_default(),
                    // Without its leash the program could outlive segue, so the output ends.
                    () = process.leash_is_killed() => Vec::new(),
                };
                self.end = Some(match answer::read(&stdout, &self.id) {
                    Answer::Given(events, end) => {
                        self.steps.extend(events.into_iter().map(Step::Event));
                        End::Finished(end)
                    }
                    Answer::Failed(message) => End::Failed(message),
                    Answer::Odd(refusal) => End::Refused(refusal),
                    Answer::NotUnderstood(refusal) => self.not_understood(refusal),
                    Answer::Nothing => End::Silent,
                });
                false
            }
        }
    }

    fn take(&mut self, heard: Heard) {
        let end = match heard {
            Heard::Nothing => return,
            Heard::Begun => return self.steps.push_back(Step::Named(self.id.clone())),
            Heard::Event(event) => return self.steps.push_back(Step::Event(event)),
            Heard::Finished(end) => End::Finished(end),
            Heard::Failed(message) => End::Failed(message),
            Heard::Odd(refusal) => {
                self.process().terminate();
                End::Refused(refusal)
            }
        };
        // The first report counts: no later output turns an error into an answer.
        self.end.get_or_insert(end);
        self.deadline.get_or_insert(Instant::now() + FAREWELL);
    }

    /// Returns the end for output without an answer. If segue cancelled the turn, the exit status is more informative
    /// than truncated output.
    fn not_understood(&self, refusal: Refusal) -> End {
        if self.cancelled {
            End::Silent
        } else {
            End::Refused(refusal)
        }
    }

    async fn exit(&mut self) -> Exit {
        match &mut self.output {
            Output::Lines(wire, _) => match wire.gone(DOING).await {
                AgentError::Crashed { exit, .. } => exit,
                _ => Exit::Code(CANNOT_START),
            },
            Output::Whole(process, _) => process.exit().await,
        }
    }

    /// Returns the outcome of the turn.
    async fn outcome(&mut self, exit: Exit) -> Result<TurnEnd, AgentError> {
        let end = self.end.clone().unwrap_or(End::Silent);
        if self.cancelled && !matches!(end, End::Finished(_)) {
            return Ok(TurnEnd {
                reason: StopReason::Cancelled,
                usage: Usage::default(),
            });
        }
        let stderr = match &end {
            End::Finished(end) => return Ok(*end),
            End::Failed(_) | End::Refused(_) | End::Silent => self.last_words().await,
        };
        let refused = |refusal| AgentError::Refused {
            doing: DOING,
            refusal,
            stderr: stderr.clone(),
        };
        Err(match end {
            End::Failed(message) => refused(refusal::of_message(&message, exit)),
            End::Refused(_) if refusal::is_deliberate(exit, &stderr) => {
                refused(refusal::of_stderr(&stderr, exit))
            }
            End::Refused(refusal) => refused(refusal),
            End::Finished(_) | End::Silent => self.silent(exit, stderr),
        })
    }

    /// Returns the error for a process that exited without an answer.
    fn silent(&self, exit: Exit, stderr: String) -> AgentError {
        let told = refusal::of_stderr(&stderr, exit);
        match exit {
            Exit::Code(CANNOT_START) => AgentError::NotStarted {
                program: self.program.clone(),
                source: std::io::Error::other(stderr),
            },
            Exit::Code(0) => AgentError::Refused {
                doing: DOING,
                refusal: Refusal {
                    class: FailureClass::NotUnderstood,
                    message: format!("it ended without an answer: {}", told.message),
                    retry_after: None,
                },
                stderr,
            },
            exit if refusal::is_deliberate(exit, &stderr) || told.class != FailureClass::Agent => {
                AgentError::Refused {
                    doing: DOING,
                    refusal: told,
                    stderr,
                }
            }
            exit => AgentError::Crashed {
                doing: DOING,
                exit,
                stderr,
            },
        }
    }

    /// Returns the error output once no more of it arrives. Polls, because a separate task reads the pipe.
    async fn last_words(&mut self) -> String {
        let mut words = self.process().stderr();
        for _ in 0..10 {
            tokio::time::sleep(LAST_WORDS).await;
            let more = self.process().stderr();
            if more == words && !words.is_empty() {
                break;
            }
            words = more;
        }
        words
    }
}

async fn write(mut stdin: ChildStdin, input: Vec<u8>) {
    // A program that has exited is detected by its output.
    let _ = stdin.write_all(&input).await;
    let _ = stdin.shutdown().await;
}

async fn read(stdout: ChildStdout, answer: oneshot::Sender<Vec<u8>>) {
    let mut bytes = Vec::new();
    let _ = stdout.take(LONGEST_ANSWER).read_to_end(&mut bytes).await;
    let _ = answer.send(bytes);
}
