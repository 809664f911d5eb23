//! A turn of the rehearsal agent.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as acp;
use agent_client_protocol::{Client, Error};
use segue_core::brief::{Sent, prompt_after_brief};
use segue_core::checkpoint::is_summariser;
use segue_core::scope::Tagged;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::script::{self, Step};
use super::sessions::{Conversation, Sessions};

/// Output for stdout: messages, and malformed output if a script requires it.
pub(super) enum Out {
    Line(String),
    Raw(Vec<u8>),
    /// Ends the output, although the process stays alive.
    Close,
    /// Writes no output, but signals that all earlier output is written.
    Mark(oneshot::Sender<()>),
}

/// The only writer to stdout.
#[derive(Clone)]
pub(super) struct Output(mpsc::Sender<Out>);

impl Output {
    /// Creates the writer and its task, which writes until all clones of the writer are dropped.
    pub(super) fn to_stdout() -> (Self, JoinHandle<()>) {
        let (sender, mut receiver) = mpsc::channel(64);
        let task = tokio::spawn(async move {
            let mut stdout = Some(tokio::io::stdout());
            while let Some(out) = receiver.recv().await {
                let Some(open) = &mut stdout else { continue };
                let written = match out {
                    Out::Line(mut line) => {
                        line.push('\n');
                        write(open, line.as_bytes()).await
                    }
                    Out::Raw(bytes) => write(open, &bytes).await,
                    Out::Close => Err(io::ErrorKind::BrokenPipe.into()),
                    Out::Mark(sender) => {
                        let _ = sender.send(());
                        Ok(())
                    }
                };
                if written.is_err() {
                    stdout = None;
                    close_stdout();
                }
            }
        });
        (Self(sender), task)
    }

    pub(super) fn sink(&self) -> impl futures::Sink<String, Error = io::Error> + Send + 'static {
        let sender = self.0.clone();
        futures::sink::unfold(sender, |sender, line| async move {
            sender
                .send(Out::Line(line))
                .await
                .map_err(io::Error::other)?;
            Ok(sender)
        })
    }

    /// Waits until everything that was sent is written.
    async fn written(&self) {
        let (sender, mark) = oneshot::channel();
        self.send(Out::Mark(sender)).await;
        let _ = mark.await;
    }

    async fn send(&self, out: Out) {
        // Sending cannot fail: the task runs until all senders are dropped.
        let _ = self.0.send(out).await;
    }
}

async fn write(stdout: &mut tokio::io::Stdout, bytes: &[u8]) -> io::Result<()> {
    stdout.write_all(bytes).await?;
    stdout.flush().await
}

/// Closes stdout for the reader by replacing it with `/dev/null`.
fn close_stdout() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        // If this fails, the client waits, as for an agent that hangs.
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// State of a turn.
pub(super) struct Stage<'a> {
    sessions: &'a Sessions,
    conversation: Conversation,
    connection: ConnectionTo<Client>,
    output: &'a Output,
    said: String,
    pause: Duration,
    calls: usize,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        sessions: &'a Sessions,
        conversation: Conversation,
        connection: ConnectionTo<Client>,
        output: &'a Output,
    ) -> Self {
        Self {
            sessions,
            conversation,
            connection,
            output,
            said: String::new(),
            pause: Duration::ZERO,
            calls: 0,
        }
    }

    /// Runs the turn to its end.
    pub(super) async fn play(mut self, prompt: &str) -> Result<acp::PromptResponse, Error> {
        self.sessions
            .user_said(&self.conversation.id, prompt)
            .map_err(super::failed)?;
        match script::parse(Tagged::strip(prompt)) {
            Ok(Some(steps)) => {
                for step in steps {
                    self.step(step).await?;
                }
            }
            Ok(None) => {
                let answer = self.answer(prompt);
                self.speak(&answer).await;
            }
            Err(error) => {
                return Err(Error::invalid_params().data(json!({ "details": error.to_string() })));
            }
        }
        self.sessions
            .agent_said(&self.conversation.id, &self.said)
            .map_err(super::failed)?;
        let (input, output) = (self.words_so_far(prompt), words(&self.said));
        let context = acp::UsageUpdate::new(input + output, 200_000);
        self.update(acp::SessionUpdate::UsageUpdate(context)).await;
        let usage = acp::Usage::new(input + output, input, output);
        Ok(acp::PromptResponse::new(acp::StopReason::EndTurn).usage(usage))
    }

    /// Composes the answer to a prompt without a script: it repeats the prompt, and describes the conversation before
    /// it.
    fn answer(&self, prompt: &str) -> String {
        if is_summariser(prompt) {
            return summed_up(prompt);
        }
        let sent = Sent::read(prompt);
        let (told, prompt) = match prompt_after_brief(prompt) {
            // A brief with only a role and project context contains no conversation.
            Some(prompt) => (sent.brief.is_empty() || sent.tells_of_more(), prompt),
            None => (false, Tagged::strip(prompt)),
        };
        let before = match self.conversation.prompts().next_back() {
            None if told => "I was told what was said before.".to_owned(),
            None => "This is where our conversation begins.".to_owned(),
            Some(last) => {
                let last = prompt_after_brief(last).unwrap_or_else(|| Tagged::strip(last));
                format!(
                    "This is turn {} of our conversation; before this you said: {}",
                    self.conversation.prompts().count() + 1,
                    first_line(last)
                )
            }
        };
        format!("You said: {}\n{before}\n", first_line(prompt))
    }

    fn words_so_far(&self, prompt: &str) -> u64 {
        let before: u64 = self
            .conversation
            .messages
            .iter()
            .map(|(_, text)| words(text))
            .sum();
        before + words(prompt)
    }

    async fn step(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Say(text) => self.speak(&text).await,
            Step::Think(text) => {
                self.stream(&text, acp::SessionUpdate::AgentThoughtChunk)
                    .await;
            }
            Step::Slow(pause) => self.pause = pause,
            Step::Wait(pause) => tokio::time::sleep(pause).await,
            Step::Tool => {
                let call = self.announce("Read notes.txt", acp::ToolKind::Read).await;
                let notes = "three lines of notes";
                self.conclude(&call, acp::ToolCallStatus::Completed, notes)
                    .await;
            }
            Step::OpenTool => {
                self.announce("Read notes.txt", acp::ToolKind::Read).await;
            }
            Step::Ask => self.ask().await?,
            Step::Title(title) => {
                let info = acp::SessionInfoUpdate::new().title(title);
                self.update(acp::SessionUpdate::SessionInfoUpdate(info))
                    .await;
            }
            Step::Big(size) => self.say("x".repeat(size)).await,
            Step::Stream(size) => self.flow(size).await,
            Step::Fail(why) => return Err(super::failed(why)),
            Step::Hang => std::future::pending().await,
            Step::Unknown | Step::Garbage | Step::BadUtf8 | Step::HalfLine => {
                self.misprint(&step).await;
            }
            Step::Die => {
                // All earlier output is written first. The end is then like a crash: no unwinding, no final message.
                self.output.written().await;
                std::process::abort()
            }
            Step::Grandchild => start_grandchild().map_err(super::failed)?,
        }
        Ok(())
    }

    async fn stream(&self, text: &str, kind: fn(acp::ContentChunk) -> acp::SessionUpdate) {
        for word in text.split_inclusive(char::is_whitespace) {
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            self.update(kind(chunk(word.to_owned()))).await;
        }
    }

    async fn speak(&mut self, text: &str) {
        self.said.push_str(text);
        self.stream(text, acp::SessionUpdate::AgentMessageChunk)
            .await;
    }

    async fn say(&mut self, text: String) {
        self.said.push_str(&text);
        self.update(acp::SessionUpdate::AgentMessageChunk(chunk(text)))
            .await;
    }

    /// Streams `size` bytes of numbered chunks, so that a lost or misplaced chunk is visible.
    async fn flow(&mut self, size: usize) {
        let mut said = 0;
        for number in 1_u32.. {
            let mut piece = format!("{number:>9} ").repeat(100);
            piece.truncate(size - said);
            if piece.is_empty() {
                return;
            }
            said += piece.len();
            self.say(piece).await;
        }
    }

    /// Sends an update directly, without the protocol library, so that it stays in order with malformed output.
    async fn update(&self, update: acp::SessionUpdate) {
        let params = acp::SessionNotification::new(self.conversation.id.to_string(), update);
        let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        self.output.send(Out::Line(line.to_string())).await;
    }

    async fn announce(&mut self, title: &str, kind: acp::ToolKind) -> acp::ToolCall {
        self.calls += 1;
        let call = acp::ToolCall::new(format!("call-{}", self.calls), title)
            .kind(kind)
            .status(acp::ToolCallStatus::InProgress)
            .raw_input(json!({ "path": "notes.txt" }));
        self.update(acp::SessionUpdate::ToolCall(call.clone()))
            .await;
        call
    }

    async fn conclude(&self, call: &acp::ToolCall, status: acp::ToolCallStatus, output: &str) {
        let fields = acp::ToolCallUpdateFields::new()
            .status(status)
            .raw_output(json!({ "output": output }));
        let change = acp::ToolCallUpdate::new(call.tool_call_id.clone(), fields);
        self.update(acp::SessionUpdate::ToolCallUpdate(change))
            .await;
    }

    async fn ask(&mut self) -> Result<(), Error> {
        let call = self.announce("Edit notes.txt", acp::ToolKind::Edit).await;
        let options = vec![
            acp::PermissionOption::new("allow", "Allow", acp::PermissionOptionKind::AllowOnce),
            acp::PermissionOption::new("reject", "Reject", acp::PermissionOptionKind::RejectOnce),
        ];
        let question =
            acp::ToolCallUpdate::new(call.tool_call_id.clone(), acp::ToolCallUpdateFields::new());
        let request =
            acp::RequestPermissionRequest::new(self.conversation.id.to_string(), question, options);
        let answer = self.connection.send_request(request).block_task().await?;
        let allowed = matches!(
            answer.outcome,
            acp::RequestPermissionOutcome::Selected(chosen) if &*chosen.option_id.0 == "allow"
        );
        let (status, output, words) = if allowed {
            (
                acp::ToolCallStatus::Completed,
                "edited",
                "I edited the notes. ",
            )
        } else {
            let words = "I was not allowed to edit the notes. ";
            (acp::ToolCallStatus::Failed, "not allowed", words)
        };
        self.conclude(&call, status, output).await;
        self.speak(words).await;
        Ok(())
    }

    /// Writes malformed output directly, because the protocol library would never write it.
    async fn misprint(&mut self, step: &Step) {
        let id = self.conversation.id.to_string();
        let update = |update: serde_json::Value| {
            json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": id, "update": update } })
                .to_string()
        };
        let text = update(json!({
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": "before X after" }
        }));
        match step {
            Step::Garbage => {
                self.output
                    .send(Out::Line("this is not a message".into()))
                    .await;
            }
            Step::BadUtf8 => {
                let mut bytes = text.into_bytes();
                if let Some(byte) = bytes.iter_mut().find(|byte| **byte == b'X') {
                    *byte = 0xff;
                }
                bytes.push(b'\n');
                self.output.send(Out::Raw(bytes)).await;
            }
            Step::HalfLine => {
                let half = text.len() / 2;
                self.output
                    .send(Out::Raw(text.into_bytes()[..half].to_vec()))
                    .await;
                self.output.send(Out::Close).await;
                std::future::pending::<()>().await;
            }
            _ => {
                let line = update(json!({ "sessionUpdate": "hologram", "depth": 3 }));
                self.output.send(Out::Line(line)).await;
            }
        }
    }
}

fn chunk(text: String) -> acp::ContentChunk {
    acp::ContentChunk::new(acp::ContentBlock::Text(acp::TextContent::new(text)))
}

/// Counts words, as a substitute for tokens that a reader can verify by hand.
fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Composes the answer to a summariser prompt: the last prompt in the record, as the focus.
fn summed_up(question: &str) -> String {
    let asked = question.rsplit_once("\nuser:\n> ");
    let asked = asked.map_or("", |(_, record)| first_line(record));
    json!({ "focus": [asked] }).to_string()
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or("")
}

/// Starts a process as agents really leave it running: in its own session, and ignoring the signals to end.
fn start_grandchild() -> io::Result<()> {
    Command::new("setsid")
        .args([
            "sh",
            "-c",
            "trap '' TERM HUP INT; while :; do sleep 1; done",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}
