//! Recording of a running turn.
//!
//! A finished message or tool call is on disk before it is reported. Text that is still being streamed is saved as a
//! draft at least every second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use segue_core::id::TurnId;
use segue_core::json::Json;
use segue_core::session::{Diff, Message, Part, Role, ToolCall, ToolStatus, close_open_calls};
use segue_store::{Draft, DraftKind, Lease, Store, StoreError, TurnEntry};
use tokio::time::Instant;

use crate::token_count::count_message_tokens_if_ready;
use crate::turn::message_chunks::{BoundedText, MAX_CHUNK_BYTES};

/// Maximum time that streamed text exists only in memory. segue promises one second, and the difference is for the
/// disk.
const DRAFT_INTERVAL: Duration = Duration::from_millis(700);

/// Recorder of one running turn.
pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    lease: Lease,
    turn: TurnId,
    next_seq: u32,
    streaming: Option<StreamingMessage>,
    calls: HashMap<String, RecordedToolCall>,
    /// Tokens of each written message, by number. `None` if the count is unknown.
    message_tokens: HashMap<u32, Option<u64>>,
    /// Whether the agent compacted its own context, so that the size of that context is unknown.
    is_token_count_lost: bool,
    /// Text of the answer, up to the size that the report may contain.
    pub(crate) text: BoundedText,
}

/// A message that is being streamed, or the newest chunk of a long one.
struct StreamingMessage {
    seq: u32,
    /// Number under which the message is reported: that of its first chunk.
    reported_seq: u32,
    kind: DraftKind,
    text: String,
    /// Number of bytes that are saved as a draft.
    drafted_bytes: usize,
    /// Deadline for saving the remaining text. `None` if all text is saved.
    draft_deadline: Option<Instant>,
}

impl StreamingMessage {
    fn new(seq: u32, kind: DraftKind) -> Self {
        Self {
            seq,
            reported_seq: seq,
            kind,
            text: String::new(),
            drafted_bytes: 0,
            draft_deadline: None,
        }
    }

    fn into_message(self, at: Timestamp) -> (u32, Message) {
        let part = match self.kind {
            DraftKind::Text => Part::Text(self.text),
            DraftKind::Thought => Part::Thought(self.text),
        };
        (self.seq, Message::new(Role::Assistant, vec![part], at))
    }
}

/// A recorded tool call.
struct RecordedToolCall {
    latest: ToolCall,
    /// Number of the message that announces the call.
    call_seq: u32,
    /// Number of the message with the result. `None` until the call has one.
    result_seq: Option<u32>,
}

impl Recorder {
    /// Creates a recorder for a turn of which only the prompt is recorded.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        lease: Lease,
        turn: TurnId,
        text: BoundedText,
    ) -> Self {
        Self {
            store,
            lease,
            turn,
            next_seq: 1,
            streaming: None,
            calls: HashMap::new(),
            message_tokens: HashMap::new(),
            is_token_count_lost: false,
            text,
        }
    }

    /// Returns the deadline for saving streamed text. `None` if all text is saved.
    pub(crate) fn draft_deadline(&self) -> Option<Instant> {
        self.streaming.as_ref()?.draft_deadline
    }

    /// Appends streamed text. Returns the number of its message, and that of the message that it ended.
    pub(crate) async fn append_text(
        &mut self,
        kind: DraftKind,
        text: &str,
        at: Timestamp,
    ) -> Result<(u32, Option<u32>), StoreError> {
        let mut ended_seq = None;
        match &self.streaming {
            Some(streaming) if streaming.kind != kind => ended_seq = self.end_message(at).await?,
            Some(streaming) if streaming.text.len() >= MAX_CHUNK_BYTES => {
                self.end_chunk(at).await?;
            }
            Some(_) | None => {}
        }
        let streaming = match self.streaming.take() {
            Some(streaming) => streaming,
            None => StreamingMessage::new(self.allocate_seq(), kind),
        };
        let streaming = self.streaming.insert(streaming);
        let message = streaming.reported_seq;
        if kind == DraftKind::Text {
            let starts_message =
                streaming.text.is_empty() && streaming.seq == streaming.reported_seq;
            self.text.append(text, starts_message);
        }
        streaming.text.push_str(text);
        let deadline = *streaming
            .draft_deadline
            .get_or_insert_with(|| Instant::now() + DRAFT_INTERVAL);
        if deadline <= Instant::now() {
            self.save_draft(at).await?;
        }
        Ok((message, ended_seq))
    }

    /// Saves the text that was streamed since the last draft.
    pub(crate) async fn save_draft(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let Some(streaming) = &mut self.streaming else {
            return Ok(());
        };
        let (_, undrafted) = streaming.text.split_at(streaming.drafted_bytes);
        let draft = TurnEntry::Draft(Draft {
            seq: streaming.seq,
            kind: streaming.kind,
            text: undrafted.to_owned(),
            at,
        });
        let store = &self.store;
        store.append_entry(&self.lease, self.turn, draft).await?;
        streaming.drafted_bytes = streaming.text.len();
        streaming.draft_deadline = None;
        Ok(())
    }

    /// Writes the current chunk of a streamed message as incomplete, and begins the next chunk.
    async fn end_chunk(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let Some(streaming) = self.streaming.take() else {
            return Ok(());
        };
        let (reported_seq, kind) = (streaming.reported_seq, streaming.kind);
        let (seq, mut message) = streaming.into_message(at);
        message.complete = false;
        self.write_message(seq, message).await?;
        let next = StreamingMessage::new(self.allocate_seq(), kind);
        self.streaming = Some(StreamingMessage {
            reported_seq,
            ..next
        });
        Ok(())
    }

    /// Writes the streamed message as complete and returns its number. `None` if no message is being streamed.
    async fn end_message(&mut self, at: Timestamp) -> Result<Option<u32>, StoreError> {
        let Some(streaming) = self.streaming.take() else {
            return Ok(None);
        };
        let (seq, message) = streaming.into_message(at);
        self.write_message(seq, message).await?;
        Ok(Some(seq))
    }

    /// Records a tool call that was announced, changed or concluded. Returns the number of the message that was
    /// written.
    pub(crate) async fn record_tool_call(
        &mut self,
        call: &ToolCall,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        self.end_message(at).await?;
        let existing = self.calls.remove(&call.id);
        let latest = existing.as_ref().map(|existing| &existing.latest);
        let needs_announcement =
            latest.is_none_or(|latest| latest.args != call.args || latest.name != call.name);
        let has_new_result =
            latest.is_none_or(|latest| latest.output != call.output || latest.diffs != call.diffs);
        let (call_seq, mut result_seq) = match &existing {
            Some(existing) => (existing.call_seq, existing.result_seq),
            None => (self.allocate_seq(), None),
        };
        if needs_announcement {
            let message = Message::new(Role::Assistant, vec![call_part(call)], at);
            self.write_message(call_seq, message).await?;
        }
        if call.status.has_ended() && (result_seq.is_none() || has_new_result) {
            let seq = result_seq.unwrap_or_else(|| self.allocate_seq());
            let message = Message::new(Role::Tool, vec![result_part(call)], at);
            self.write_message(seq, message).await?;
            result_seq = Some(seq);
        }
        let recorded = RecordedToolCall {
            latest: call.clone(),
            call_seq,
            result_seq,
        };
        self.calls.insert(call.id.clone(), recorded);
        Ok(result_seq.unwrap_or(call_seq))
    }

    /// Records a part that arrives complete, without changes. Returns its number.
    pub(crate) async fn record_part(
        &mut self,
        part: Part,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        self.end_message(at).await?;
        let seq = self.allocate_seq();
        self.write_message(seq, Message::new(Role::Assistant, vec![part], at))
            .await?;
        Ok(seq)
    }

    /// Returns the messages to write at the end of the turn: the message that was being streamed, complete or
    /// interrupted, and results for the tool calls that have none.
    pub(crate) fn take_final_messages(
        &mut self,
        complete: bool,
        at: Timestamp,
    ) -> Vec<(u32, Message)> {
        let mut final_messages: Vec<(u32, Message)> = Vec::new();
        if let Some(streaming) = self.streaming.take() {
            let (seq, mut message) = streaming.into_message(at);
            message.complete = complete;
            final_messages.push((seq, message));
        }
        let calls = self.calls.values();
        let mut open_calls: Vec<_> = calls.filter(|call| call.result_seq.is_none()).collect();
        open_calls.sort_by_key(|call| call.call_seq);
        let call_parts = open_calls.iter().map(|call| call_part(&call.latest));
        let call_parts = call_parts.collect();
        let unanswered = [Message::new(Role::Assistant, call_parts, at)];
        final_messages.extend((self.next_seq..).zip(close_open_calls(&unanswered, at)));
        for (seq, message) in &mut final_messages {
            self.count_tokens(*seq, message);
        }
        final_messages
    }

    /// Returns the tokens of all messages written in the turn. `None` if a count is unknown or if the agent compacted
    /// its context.
    pub(crate) fn total_tokens(&self) -> Option<u64> {
        let total = self.message_tokens.values().copied().sum::<Option<u64>>();
        total.filter(|_| !self.is_token_count_lost)
    }

    /// Marks the token count as unknown, because the agent compacted its own context.
    pub(crate) fn invalidate_token_count(&mut self) {
        self.is_token_count_lost = true;
    }

    fn count_tokens(&mut self, seq: u32, message: &mut Message) {
        count_message_tokens_if_ready(message);
        self.message_tokens.insert(seq, message.tokens);
    }

    fn allocate_seq(&mut self) -> u32 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    async fn write_message(&mut self, seq: u32, mut message: Message) -> Result<(), StoreError> {
        self.count_tokens(seq, &mut message);
        let entry = TurnEntry::Message { seq, message };
        self.store.append_entry(&self.lease, self.turn, entry).await
    }
}

fn call_part(call: &ToolCall) -> Part {
    Part::FunctionCall {
        id: call.id.clone(),
        name: call.name.clone(),
        args: call.args.clone(),
    }
}

fn result_part(call: &ToolCall) -> Part {
    Part::FunctionResponse {
        call_id: call.id.clone(),
        name: call.name.clone(),
        response: response_json(call),
        is_error: call.status == ToolStatus::Failed,
    }
}

/// Returns the output of a tool call, with its file changes if it has any.
fn response_json(call: &ToolCall) -> Json {
    let output = call.output.clone().unwrap_or_else(Json::empty_object);
    if call.diffs.is_empty() {
        return output;
    }
    let to_json = |diff: &Diff| serde_json::json!({ "path": diff.path, "patch": diff.patch });
    let diffs: Vec<_> = call.diffs.iter().map(to_json).collect();
    Json::from(serde_json::json!({ "output": call.output, "diffs": diffs }))
}
