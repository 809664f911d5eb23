//! A turn of the rehearsal agent.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as acp;
use agent_client_protocol::{Client, Error};
use segue_core::brief::{FirstPrompt, prompt_after_brief};
use segue_core::checkpoint::is_summariser_prompt;
use segue_core::scope::TaggedPrompt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::script::{self, ScriptStep};
use super::sessions::{RehearsalSession, RehearsalSessions};

/// Output for stdout: messages, and malformed output if a script requires it.
pub(super) enum OutputItem {
    Bytes(Vec<u8>),
    /// Ends the output, although the process stays alive.
    EndOfOutput,
    /// Writes no output, but signals that all earlier output is written.
    FlushMarker(oneshot::Sender<()>),
}

impl OutputItem {
    fn from_line(mut line: String) -> Self {
        line.push('\n');
        Self::Bytes(line.into_bytes())
    }
}

/// The only writer to stdout.
#[derive(Clone)]
pub(super) struct StdoutWriter(mpsc::Sender<OutputItem>);

impl StdoutWriter {
    /// Creates the writer and its task, which writes until all clones of the writer are dropped.
    pub(super) fn spawn() -> (Self, JoinHandle<()>) {
        let (sender, mut receiver) = mpsc::channel(64);
        let task = tokio::spawn(async move {
            let mut stdout = Some(tokio::io::stdout());
            while let Some(item) = receiver.recv().await {
                let Some(open_stdout) = &mut stdout else {
                    continue;
                };
                let result = match item {
                    OutputItem::Bytes(bytes) => write_and_flush(open_stdout, &bytes).await,
                    OutputItem::EndOfOutput => Err(io::ErrorKind::BrokenPipe.into()),
                    OutputItem::FlushMarker(sender) => {
                        let _ = sender.send(());
                        Ok(())
                    }
                };
                if result.is_err() {
                    stdout = None;
                    close_stdout();
                }
            }
        });
        (Self(sender), task)
    }

    pub(super) fn line_sink(
        &self,
    ) -> impl futures::Sink<String, Error = io::Error> + Send + 'static {
        let sender = self.0.clone();
        futures::sink::unfold(sender, |sender, line| async move {
            sender
                .send(OutputItem::from_line(line))
                .await
                .map_err(io::Error::other)?;
            Ok(sender)
        })
    }

    /// Waits until everything that was sent is written.
    async fn flush(&self) {
        let (sender, flushed) = oneshot::channel();
        self.send(OutputItem::FlushMarker(sender)).await;
        let _ = flushed.await;
    }

    async fn send(&self, item: OutputItem) {
        // Sending cannot fail: the task runs until all senders are dropped.
        let _ = self.0.send(item).await;
    }
}

async fn write_and_flush(stdout: &mut tokio::io::Stdout, bytes: &[u8]) -> io::Result<()> {
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
pub(super) struct TurnPlayer<'a> {
    sessions: &'a RehearsalSessions,
    session: RehearsalSession,
    connection: ConnectionTo<Client>,
    output: &'a StdoutWriter,
    answer: String,
    word_delay: Duration,
    call_count: usize,
}

impl<'a> TurnPlayer<'a> {
    pub(super) fn new(
        sessions: &'a RehearsalSessions,
        session: RehearsalSession,
        connection: ConnectionTo<Client>,
        output: &'a StdoutWriter,
    ) -> Self {
        Self {
            sessions,
            session,
            connection,
            output,
            answer: String::new(),
            word_delay: Duration::ZERO,
            call_count: 0,
        }
    }

    /// Runs the turn to its end.
    pub(super) async fn run(mut self, prompt: &str) -> Result<acp::PromptResponse, Error> {
        self.sessions
            .append_user_message(&self.session.id, prompt)
            .map_err(super::internal_error)?;
        match script::parse_script(TaggedPrompt::strip_tags(prompt)) {
            Ok(Some(steps)) => {
                for step in steps {
                    self.run_step(step).await?;
                }
            }
            Ok(None) => {
                let answer = self.compose_answer(prompt);
                self.stream_answer(&answer).await;
            }
            Err(error) => {
                return Err(Error::invalid_params().data(json!({ "details": error.to_string() })));
            }
        }
        self.sessions
            .append_agent_message(&self.session.id, &self.answer)
            .map_err(super::internal_error)?;
        let (input, output) = (self.count_input_words(prompt), count_words(&self.answer));
        let context = acp::UsageUpdate::new(input + output, 200_000);
        self.send_update(acp::SessionUpdate::UsageUpdate(context))
            .await;
        let usage = acp::Usage::new(input + output, input, output);
        Ok(acp::PromptResponse::new(acp::StopReason::EndTurn).usage(usage))
    }

    /// Composes the answer to a prompt without a script: it repeats the prompt, and describes the conversation before
    /// it.
    fn compose_answer(&self, prompt: &str) -> String {
        if is_summariser_prompt(prompt) {
            return compose_summary(prompt);
        }
        let first_prompt = FirstPrompt::parse(prompt);
        let (has_history, prompt) = match prompt_after_brief(prompt) {
            // A brief with only a role and project context contains no conversation.
            Some(prompt) => (
                first_prompt.brief.is_empty() || first_prompt.has_history(),
                prompt,
            ),
            None => (false, TaggedPrompt::strip_tags(prompt)),
        };
        let history_sentence = match self.session.prompts().next_back() {
            None if has_history => "I received a brief of our conversation.".to_owned(),
            None => "This is where our conversation begins.".to_owned(),
            Some(previous_prompt) => {
                let previous_prompt = prompt_after_brief(previous_prompt)
                    .unwrap_or_else(|| TaggedPrompt::strip_tags(previous_prompt));
                format!(
                    "This is turn {} of our conversation; before this you said: {}",
                    self.session.prompts().count() + 1,
                    first_line(previous_prompt)
                )
            }
        };
        format!("You said: {}\n{history_sentence}\n", first_line(prompt))
    }

    fn count_input_words(&self, prompt: &str) -> u64 {
        let history_words: u64 = self
            .session
            .messages
            .iter()
            .map(|(_, text)| count_words(text))
            .sum();
        history_words + count_words(prompt)
    }

    async fn run_step(&mut self, step: ScriptStep) -> Result<(), Error> {
        match step {
            ScriptStep::Text(text) => self.stream_answer(&text).await,
            ScriptStep::Thought(text) => {
                self.stream_words(&text, acp::SessionUpdate::AgentThoughtChunk)
                    .await;
            }
            ScriptStep::WordDelay(delay) => self.word_delay = delay,
            ScriptStep::Delay(delay) => tokio::time::sleep(delay).await,
            ScriptStep::ToolCall => {
                let call = self
                    .announce_tool_call("Read notes.txt", acp::ToolKind::Read)
                    .await;
                let notes = "three lines of notes";
                self.finish_tool_call(&call, acp::ToolCallStatus::Completed, notes)
                    .await;
            }
            ScriptStep::UnfinishedToolCall => {
                self.announce_tool_call("Read notes.txt", acp::ToolKind::Read)
                    .await;
            }
            ScriptStep::PermissionRequest => self.request_permission().await?,
            ScriptStep::Title(title) => {
                let info = acp::SessionInfoUpdate::new().title(title);
                self.send_update(acp::SessionUpdate::SessionInfoUpdate(info))
                    .await;
            }
            ScriptStep::LargeChunk(size) => self.send_answer_chunk("x".repeat(size)).await,
            ScriptStep::ChunkStream(size) => self.stream_numbered_chunks(size).await,
            ScriptStep::Failure(message) => return Err(super::internal_error(message)),
            ScriptStep::Hang => std::future::pending().await,
            ScriptStep::UnknownUpdate
            | ScriptStep::Garbage
            | ScriptStep::BadUtf8
            | ScriptStep::HalfLine => {
                self.write_malformed_output(&step).await;
            }
            ScriptStep::Crash => {
                // All earlier output is written first. The end is then like a crash: no unwinding, no final message.
                self.output.flush().await;
                std::process::abort()
            }
            ScriptStep::Grandchild => start_grandchild().map_err(super::internal_error)?,
        }
        Ok(())
    }

    async fn stream_words(&self, text: &str, kind: fn(acp::ContentChunk) -> acp::SessionUpdate) {
        for word in text.split_inclusive(char::is_whitespace) {
            if !self.word_delay.is_zero() {
                tokio::time::sleep(self.word_delay).await;
            }
            self.send_update(kind(text_chunk(word.to_owned()))).await;
        }
    }

    async fn stream_answer(&mut self, text: &str) {
        self.answer.push_str(text);
        self.stream_words(text, acp::SessionUpdate::AgentMessageChunk)
            .await;
    }

    async fn send_answer_chunk(&mut self, text: String) {
        self.answer.push_str(&text);
        self.send_update(acp::SessionUpdate::AgentMessageChunk(text_chunk(text)))
            .await;
    }

    /// Streams `size` bytes of numbered chunks, so that a lost or misplaced chunk is visible.
    async fn stream_numbered_chunks(&mut self, size: usize) {
        let mut sent_bytes = 0;
        for number in 1_u32.. {
            let mut chunk = format!("{number:>9} ").repeat(100);
            chunk.truncate(size - sent_bytes);
            if chunk.is_empty() {
                return;
            }
            sent_bytes += chunk.len();
            self.send_answer_chunk(chunk).await;
        }
    }

    /// Sends an update directly, without the protocol library, so that it stays in order with malformed output.
    async fn send_update(&self, update: acp::SessionUpdate) {
        let params = acp::SessionNotification::new(self.session.id.to_string(), update);
        self.output
            .send(OutputItem::from_line(update_message(&params)))
            .await;
    }

    async fn announce_tool_call(&mut self, title: &str, kind: acp::ToolKind) -> acp::ToolCall {
        self.call_count += 1;
        let call = acp::ToolCall::new(format!("call-{}", self.call_count), title)
            .kind(kind)
            .status(acp::ToolCallStatus::InProgress)
            .raw_input(json!({ "path": "notes.txt" }));
        self.send_update(acp::SessionUpdate::ToolCall(call.clone()))
            .await;
        call
    }

    async fn finish_tool_call(
        &self,
        call: &acp::ToolCall,
        status: acp::ToolCallStatus,
        output: &str,
    ) {
        let fields = acp::ToolCallUpdateFields::new()
            .status(status)
            .raw_output(json!({ "output": output }));
        let call_update = acp::ToolCallUpdate::new(call.tool_call_id.clone(), fields);
        self.send_update(acp::SessionUpdate::ToolCallUpdate(call_update))
            .await;
    }

    async fn request_permission(&mut self) -> Result<(), Error> {
        let call = self
            .announce_tool_call("Edit notes.txt", acp::ToolKind::Edit)
            .await;
        let options = vec![
            acp::PermissionOption::new("allow", "Allow", acp::PermissionOptionKind::AllowOnce),
            acp::PermissionOption::new("reject", "Reject", acp::PermissionOptionKind::RejectOnce),
        ];
        let call_update =
            acp::ToolCallUpdate::new(call.tool_call_id.clone(), acp::ToolCallUpdateFields::new());
        let request =
            acp::RequestPermissionRequest::new(self.session.id.to_string(), call_update, options);
        let answer = self.connection.send_request(request).block_task().await?;
        let allowed = matches!(
            answer.outcome,
            acp::RequestPermissionOutcome::Selected(selected) if &*selected.option_id.0 == "allow"
        );
        let (status, output, sentence) = if allowed {
            (
                acp::ToolCallStatus::Completed,
                "edited",
                "I edited the notes. ",
            )
        } else {
            let sentence = "I was not allowed to edit the notes. ";
            (acp::ToolCallStatus::Failed, "not allowed", sentence)
        };
        self.finish_tool_call(&call, status, output).await;
        self.stream_answer(sentence).await;
        Ok(())
    }

    /// Writes malformed output directly, because the protocol library would never write it.
    async fn write_malformed_output(&mut self, step: &ScriptStep) {
        let id = self.session.id.as_str();
        let update = |update: Value| update_message(&json!({ "sessionId": id, "update": update }));
        let text = update(json!({
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": "before X after" }
        }));
        match step {
            ScriptStep::Garbage => {
                let line = OutputItem::from_line("this is not a message".to_owned());
                self.output.send(line).await;
            }
            ScriptStep::BadUtf8 => {
                let mut bytes = text.into_bytes();
                if let Some(byte) = bytes.iter_mut().find(|byte| **byte == b'X') {
                    *byte = 0xff;
                }
                bytes.push(b'\n');
                self.output.send(OutputItem::Bytes(bytes)).await;
            }
            ScriptStep::HalfLine => {
                let mut bytes = text.into_bytes();
                bytes.truncate(bytes.len() / 2);
                self.output.send(OutputItem::Bytes(bytes)).await;
                self.output.send(OutputItem::EndOfOutput).await;
                std::future::pending::<()>().await;
            }
            _ => {
                let line = update(json!({ "sessionUpdate": "hologram", "depth": 3 }));
                self.output.send(OutputItem::from_line(line)).await;
            }
        }
    }
}

pub(super) fn text_chunk(text: String) -> acp::ContentChunk {
    acp::ContentChunk::new(acp::ContentBlock::Text(acp::TextContent::new(text)))
}

/// Returns a message that contains an update.
fn update_message(params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string()
}

/// Counts words, as a substitute for tokens that a reader can verify by hand.
fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Composes the answer to a summariser prompt: the last prompt in the record, as the focus.
fn compose_summary(prompt: &str) -> String {
    let last_prompt = prompt.rsplit_once("\nuser:\n> ");
    let last_prompt = last_prompt.map_or("", |(_, record)| first_line(record));
    json!({ "focus": [last_prompt] }).to_string()
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
