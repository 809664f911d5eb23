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
use segue_core::session::{Message, Part, Role, ToolCall, ToolStatus, close_open_calls};
use segue_store::{Draft, DraftKind, Entry, Lease, Store, StoreError};
use tokio::time::Instant;

use crate::counted::count_if_ready;
use crate::pieces::{PIECE, Text};

/// Maximum time that streamed text exists only in memory. segue promises one second, and the difference is for the
/// disk.
const DRAFT_EVERY: Duration = Duration::from_millis(700);

/// Recorder of one running turn.
pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    lease: Lease,
    turn: TurnId,
    next_seq: u32,
    speech: Option<Speech>,
    calls: HashMap<String, Call>,
    /// Tokens of each written message, by number. `None` if the count is unknown.
    tokens: HashMap<u32, Option<u64>>,
    /// Whether the agent compacted its own context, so that the size of that context is unknown.
    count_is_lost: bool,
    /// Text of the answer, up to the size that the report may contain.
    pub(crate) text: Text,
}

/// A message that is being streamed, or the newest chunk of a long one.
struct Speech {
    seq: u32,
    /// Number under which the message is reported: that of its first chunk.
    told: u32,
    kind: DraftKind,
    words: String,
    /// Number of bytes that are saved as a draft.
    drafted: usize,
    /// Deadline for saving the remaining text. `None` if all text is saved.
    due: Option<Instant>,
}

impl Speech {
    fn new(seq: u32, kind: DraftKind) -> Self {
        Self {
            seq,
            told: seq,
            kind,
            words: String::new(),
            drafted: 0,
            due: None,
        }
    }

    fn message(self, at: Timestamp) -> (u32, Message) {
        let part = match self.kind {
            DraftKind::Text => Part::Text(self.words),
            DraftKind::Thought => Part::Thought(self.words),
        };
        (self.seq, Message::new(Role::Assistant, vec![part], at))
    }
}

/// A recorded tool call.
struct Call {
    latest: ToolCall,
    /// Number of the message that announces the call.
    announced: u32,
    /// Number of the message with the result. `None` until the call has one.
    concluded: Option<u32>,
}

impl Recorder {
    /// Creates a recorder for a turn of which only the prompt is recorded.
    pub(crate) fn new(store: Arc<dyn Store>, lease: Lease, turn: TurnId, text: Text) -> Self {
        Self {
            store,
            lease,
            turn,
            next_seq: 1,
            speech: None,
            calls: HashMap::new(),
            tokens: HashMap::new(),
            count_is_lost: false,
            text,
        }
    }

    /// Returns the deadline for saving streamed text. `None` if all text is saved.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.speech.as_ref()?.due
    }

    /// Appends streamed text. Returns the number of its message, and that of the message that it ended.
    pub(crate) async fn hear(
        &mut self,
        kind: DraftKind,
        words: &str,
        at: Timestamp,
    ) -> Result<(u32, Option<u32>), StoreError> {
        let mut ended = None;
        match &self.speech {
            Some(speech) if speech.kind != kind => ended = self.end_speech(at).await?,
            Some(speech) if speech.words.len() >= PIECE => self.end_piece(at).await?,
            Some(_) | None => {}
        }
        let speech = match self.speech.take() {
            Some(speech) => speech,
            None => Speech::new(self.take_number(), kind),
        };
        let speech = self.speech.insert(speech);
        let message = speech.told;
        if kind == DraftKind::Text {
            let begins = speech.words.is_empty() && speech.seq == speech.told;
            self.text.add(words, begins);
        }
        speech.words.push_str(words);
        let due = *speech
            .due
            .get_or_insert_with(|| Instant::now() + DRAFT_EVERY);
        if due <= Instant::now() {
            self.draft(at).await?;
        }
        Ok((message, ended))
    }

    /// Saves the text that was streamed since the last draft.
    pub(crate) async fn draft(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let Some(speech) = &mut self.speech else {
            return Ok(());
        };
        let entry = Entry::Draft(Draft {
            seq: speech.seq,
            kind: speech.kind,
            text: speech.words.split_at(speech.drafted).1.to_owned(),
            at,
        });
        self.store.append(&self.lease, self.turn, entry).await?;
        speech.drafted = speech.words.len();
        speech.due = None;
        Ok(())
    }

    /// Writes the current chunk of a streamed message as incomplete, and begins the next chunk.
    async fn end_piece(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let Some(speech) = self.speech.take() else {
            return Ok(());
        };
        let (told, kind) = (speech.told, speech.kind);
        let (seq, mut message) = speech.message(at);
        message.complete = false;
        self.write(seq, message).await?;
        let next = Speech::new(self.take_number(), kind);
        self.speech = Some(Speech { told, ..next });
        Ok(())
    }

    /// Writes the streamed message as complete and returns its number. `None` if no message is being streamed.
    async fn end_speech(&mut self, at: Timestamp) -> Result<Option<u32>, StoreError> {
        let Some(speech) = self.speech.take() else {
            return Ok(None);
        };
        let (seq, message) = speech.message(at);
        self.write(seq, message).await?;
        Ok(Some(seq))
    }

    /// Records a tool call that was announced, changed or concluded. Returns the number of the message that was
    /// written.
    pub(crate) async fn tool(&mut self, call: &ToolCall, at: Timestamp) -> Result<u32, StoreError> {
        self.end_speech(at).await?;
        let known = self.calls.remove(&call.id);
        let announced = match &known {
            Some(known) => known.announced,
            None => self.take_number(),
        };
        let restated = known
            .as_ref()
            .is_none_or(|known| known.latest.args != call.args || known.latest.name != call.name);
        if restated {
            let message = Message::new(Role::Assistant, vec![announcement(call)], at);
            self.write(announced, message).await?;
        }
        let mut concluded = known.as_ref().and_then(|known| known.concluded);
        let changed = known.is_none_or(|known| {
            known.latest.output != call.output || known.latest.diffs != call.diffs
        });
        if call.status.is_over() && (concluded.is_none() || changed) {
            let seq = concluded.unwrap_or_else(|| self.take_number());
            let message = Message::new(Role::Tool, vec![conclusion(call)], at);
            self.write(seq, message).await?;
            concluded = Some(seq);
        }
        let entry = Call {
            latest: call.clone(),
            announced,
            concluded,
        };
        self.calls.insert(call.id.clone(), entry);
        Ok(concluded.unwrap_or(announced))
    }

    /// Records a part that arrives complete, without changes. Returns its number.
    pub(crate) async fn keep(&mut self, part: Part, at: Timestamp) -> Result<u32, StoreError> {
        self.end_speech(at).await?;
        let seq = self.take_number();
        self.write(seq, Message::new(Role::Assistant, vec![part], at))
            .await?;
        Ok(seq)
    }

    /// Returns the messages to write at the end of the turn: the message that was being streamed, complete or
    /// interrupted, and results for the tool calls that have none.
    pub(crate) fn close(&mut self, complete: bool, at: Timestamp) -> Vec<(u32, Message)> {
        let mut last: Vec<(u32, Message)> = Vec::new();
        if let Some(speech) = self.speech.take() {
            let (seq, mut message) = speech.message(at);
            message.complete = complete;
            last.push((seq, message));
        }
        let mut open: Vec<&Call> = self
            .calls
            .values()
            .filter(|call| call.concluded.is_none())
            .collect();
        open.sort_by_key(|call| call.announced);
        let calls = open
            .into_iter()
            .map(|call| announcement(&call.latest))
            .collect();
        let unanswered = [Message::new(Role::Assistant, calls, at)];
        last.extend((self.next_seq..).zip(close_open_calls(&unanswered, at)));
        for (seq, message) in &mut last {
            self.count(*seq, message);
        }
        last
    }

    /// Returns the tokens of all messages written in the turn. `None` if a count is unknown or if the agent compacted
    /// its context.
    pub(crate) fn tokens(&self) -> Option<u64> {
        let known = self.tokens.values().copied().sum::<Option<u64>>();
        known.filter(|_| !self.count_is_lost)
    }

    /// Marks the token count as unknown, because the agent compacted its own context.
    pub(crate) fn lose_count(&mut self) {
        self.count_is_lost = true;
    }

    fn count(&mut self, seq: u32, message: &mut Message) {
        count_if_ready(message);
        self.tokens.insert(seq, message.tokens);
    }

    fn take_number(&mut self) -> u32 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    async fn write(&mut self, seq: u32, mut message: Message) -> Result<(), StoreError> {
        self.count(seq, &mut message);
        let entry = Entry::Message { seq, message };
        self.store.append(&self.lease, self.turn, entry).await
    }
}

fn announcement(call: &ToolCall) -> Part {
    Part::FunctionCall {
        id: call.id.clone(),
        name: call.name.clone(),
        args: call.args.clone(),
    }
}

fn conclusion(call: &ToolCall) -> Part {
    Part::FunctionResponse {
        call_id: call.id.clone(),
        name: call.name.clone(),
        response: response(call),
        is_error: call.status == ToolStatus::Failed,
    }
}

/// Returns the output of a tool call, with its file changes if it has any.
fn response(call: &ToolCall) -> Json {
    let output = call.output.clone().unwrap_or_else(Json::empty_object);
    if call.diffs.is_empty() {
        return output;
    }
    let diffs: Vec<_> = call
        .diffs
        .iter()
        .map(|diff| serde_json::json!({ "path": diff.path, "patch": diff.patch }))
        .collect();
    Json::from(serde_json::json!({ "output": call.output, "diffs": diffs }))
}
