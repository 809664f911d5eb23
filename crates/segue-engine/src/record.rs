//! Writing down what an agent says and does, as it does.
//!
//! A finished message or tool call is on the disk before it is reported; words that are still being streamed
//! are drafted at least every second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use segue_core::{Json, Message, Part, Role, ToolCall, ToolStatus, TurnId, close_open_calls};
use segue_store::{Draft, DraftKind, Entry, Lease, Store, StoreError};
use tokio::time::Instant;

/// How long streamed words may be in memory only. A second is promised; this leaves time for the disk.
const DRAFT_EVERY: Duration = Duration::from_millis(700);

/// The record of one turn that is under way.
pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    lease: Lease,
    turn: TurnId,
    next_seq: u32,
    speech: Option<Speech>,
    calls: HashMap<String, Call>,
    /// All the words of the answer so far.
    pub(crate) text: String,
}

/// A message that is being streamed.
struct Speech {
    seq: u32,
    kind: DraftKind,
    words: String,
    /// How many bytes of it are drafted.
    drafted: usize,
    /// When the rest must be drafted.
    due: Option<Instant>,
}

/// A tool call on record.
struct Call {
    seq: u32,
    call: ToolCall,
}

impl Recorder {
    /// A record that so far holds only the prompt.
    pub(crate) fn new(store: Arc<dyn Store>, lease: Lease, turn: TurnId) -> Self {
        Self {
            store,
            lease,
            turn,
            next_seq: 1,
            speech: None,
            calls: HashMap::new(),
            text: String::new(),
        }
    }

    /// When streamed words must be drafted.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.speech.as_ref()?.due
    }

    /// Some words were streamed. Returns the number of the message they belong to, and of the one they ended.
    pub(crate) async fn hear(
        &mut self,
        kind: DraftKind,
        words: &str,
        at: Timestamp,
    ) -> Result<(u32, Option<u32>), StoreError> {
        let mut ended = None;
        if self
            .speech
            .as_ref()
            .is_some_and(|speech| speech.kind != kind)
        {
            ended = self.end_speech(at).await?;
        }
        let next_seq = &mut self.next_seq;
        let speech = self.speech.get_or_insert_with(|| {
            *next_seq += 1;
            Speech {
                seq: *next_seq - 1,
                kind,
                words: String::new(),
                drafted: 0,
                due: None,
            }
        });
        let message = speech.seq;
        if kind == DraftKind::Text {
            // The answer as a whole has each of its messages on lines of its own.
            let between =
                speech.words.is_empty() && !self.text.is_empty() && !self.text.ends_with('\n');
            self.text.push_str(if between { "\n" } else { "" });
            self.text.push_str(words);
        }
        speech.words.push_str(words);
        if *speech
            .due
            .get_or_insert_with(|| Instant::now() + DRAFT_EVERY)
            <= Instant::now()
        {
            self.draft(at).await?;
        }
        Ok((message, ended))
    }

    /// Drafts what has been streamed since the last draft.
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

    /// Writes the streamed message down as whole, and returns its number.
    pub(crate) async fn end_speech(&mut self, at: Timestamp) -> Result<Option<u32>, StoreError> {
        let Some(speech) = self.speech.take() else {
            return Ok(None);
        };
        let part = match speech.kind {
            DraftKind::Text => Part::Text(speech.words),
            DraftKind::Thought => Part::Thought(speech.words),
        };
        self.write(speech.seq, Role::Assistant, part, at).await?;
        Ok(Some(speech.seq))
    }

    /// A tool call was announced, changed or concluded. Returns the number of what is on the disk now.
    pub(crate) async fn tool(&mut self, call: &ToolCall, at: Timestamp) -> Result<u32, StoreError> {
        self.end_speech(at).await?;
        let known = self.calls.get(&call.id);
        let concluded = known.is_some_and(|known| known.call.status.is_over());
        let restated =
            known.is_none_or(|known| known.call.args != call.args || known.call.name != call.name);
        let mut seq = known.map_or(self.next_seq, |known| known.seq);
        if known.is_none() {
            self.next_seq += 1;
        }
        if restated {
            self.write(seq, Role::Assistant, announcement(call), at)
                .await?;
        }
        let entry = Call {
            seq,
            call: call.clone(),
        };
        self.calls.insert(call.id.clone(), entry);
        if call.status.is_over() && !concluded {
            seq = self.next_seq;
            self.next_seq += 1;
            self.write(seq, Role::Tool, conclusion(call), at).await?;
        }
        Ok(seq)
    }

    /// Something that can't be interpreted, kept as it came.
    pub(crate) async fn keep(&mut self, part: Part, at: Timestamp) -> Result<u32, StoreError> {
        self.end_speech(at).await?;
        let seq = self.next_seq;
        self.next_seq += 1;
        self.write(seq, Role::Assistant, part, at).await?;
        Ok(seq)
    }

    /// The messages that close the tool calls which the turn's end left open, with their numbers.
    pub(crate) fn closing(&self, at: Timestamp) -> Vec<(u32, Message)> {
        let mut open: Vec<&Call> = self
            .calls
            .values()
            .filter(|call| !call.call.status.is_over())
            .collect();
        open.sort_by_key(|call| call.seq);
        let calls = open
            .into_iter()
            .map(|call| announcement(&call.call))
            .collect();
        let unanswered = [Message::new(Role::Assistant, calls, at)];
        (self.next_seq..)
            .zip(close_open_calls(&unanswered, at))
            .collect()
    }

    async fn write(
        &self,
        seq: u32,
        role: Role,
        part: Part,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let message = Message::new(role, vec![part], at);
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
        response: call.output.clone().unwrap_or_else(Json::empty_object),
        is_error: call.status == ToolStatus::Failed,
    }
}
