//! Selection of the turns in a brief, and of the level of detail of each.
//!
//! The newest turns are preferred. A turn is shown with all its messages or not at all, unless it is the newest one and
//! too long. The newest turns use up to half of the tokens and are shown in full. The turns before them are shown with
//! shortened tool messages, so that the text messages reach further back. Older turns are omitted. Both boundaries move
//! in increments of an eighth to a quarter of the turns after them: if a conversation grows by a turn, the boundaries
//! usually stay, and with them every byte of the brief up to its end.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use super::BriefTurn;
use super::message_text::{
    is_tool_message, message_text, push_quoted_lines, shorten_to_bytes, shorten_to_tokens,
};
use crate::session::{Message, Part};

/// Bytes of a tool message that are shown in an older turn.
const SHORT_TOOL_MESSAGE_BYTES: usize = 600;

/// Divisors of the available tokens: the quotient is the maximum of a text message (`TEXT_MESSAGE_DIVISOR`) or of a
/// tool message (`TOOL_MESSAGE_DIVISOR`).
const TEXT_MESSAGE_DIVISOR: u64 = 4;
const TOOL_MESSAGE_DIVISOR: u64 = 16;

/// Tokens that a line costs beyond its text (`LINE_OVERHEAD_TOKENS`), and that a message or a turn costs
/// (`FRAME_OVERHEAD_TOKENS`).
const LINE_OVERHEAD_TOKENS: u64 = 2;
const FRAME_OVERHEAD_TOKENS: u64 = 8;

/// Returns the minimum number of tokens that a message needs in a brief of `budget` tokens. With it, a caller can load
/// only as many messages as fit.
#[must_use]
pub fn min_brief_tokens(message: &Message, budget: u64) -> u64 {
    let short_tool_tokens = u64::try_from(SHORT_TOOL_MESSAGE_BYTES / 2).unwrap_or(u64::MAX);
    let is_tool = is_tool_message(message);
    let estimate = || u64::try_from(message_text(message).len() / 4).unwrap_or(u64::MAX);
    let tokens = message.tokens.unwrap_or_else(estimate);
    if is_tool {
        tokens
            .min(short_tool_tokens)
            .min(budget / TOOL_MESSAGE_DIVISOR)
    } else {
        tokens.min(budget / TEXT_MESSAGE_DIVISOR)
    }
}

/// Omissions within the turns that a brief shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Omissions {
    /// Number of messages that are cut to their beginning and end: tool messages in older turns, and messages that
    /// exceed the maximum of a single message.
    pub shortened_messages: u32,
    /// Number of bytes by which those messages are shorter.
    pub cut_bytes: u64,
    /// Number of messages that are omitted from a turn that is too long to be shown completely.
    pub omitted_messages: u32,
}

impl Omissions {
    fn combine(self, other: Self) -> Self {
        Self {
            shortened_messages: self.shortened_messages + other.shortened_messages,
            cut_bytes: self.cut_bytes + other.cut_bytes,
            omitted_messages: self.omitted_messages + other.omitted_messages,
        }
    }
}

/// The turns that a brief shows.
pub(super) struct TurnSelection {
    /// Number of the first turn; `None` if no turn fits.
    pub(super) first_turn: Option<u32>,
    /// Omissions within the turns.
    pub(super) omissions: Omissions,
    /// Rendered text of all turns.
    pub(super) text: String,
}

/// Level of detail of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DetailLevel {
    Full,
    /// Tool messages are shortened.
    Short,
}

/// A rendered turn or message.
#[derive(Default)]
struct RenderedText {
    text: String,
    tokens: u64,
    omissions: Omissions,
}

struct TurnRenderer<'a> {
    room: u64,
    count: &'a dyn Fn(&str) -> u64,
}

/// Selects from consecutive turns, oldest first, those that fit into `room` tokens.
pub(super) fn select_turns(
    turns: &[BriefTurn],
    room: u64,
    count: &dyn Fn(&str) -> u64,
) -> TurnSelection {
    let renderer = TurnRenderer { room, count };
    let mut full = renderer.render_newest_turns(turns, DetailLevel::Full, room);
    let includes_first_turn = turns.first().is_none_or(|turn| turn.n == 1);
    if includes_first_turn && full.len() == turns.len() {
        return join_turns(turns, Vec::new(), full);
    }
    let half = full.iter().scan(0, |used, turn| {
        *used += turn.tokens;
        Some(*used <= room / 2)
    });
    let half = half.take_while(|fits| *fits).count();
    // The newest turn may use more than half, if it fits at all.
    full.truncate(round_turn_count(turns, half).max(1));
    let used: u64 = full.iter().map(|turn| turn.tokens).sum();
    let older = turns.get(..turns.len() - full.len()).unwrap_or_default();
    let mut short =
        renderer.render_newest_turns(older, DetailLevel::Short, room.saturating_sub(used));
    let shown_count = round_turn_count(turns, full.len() + short.len());
    short.truncate(shown_count.saturating_sub(full.len()));
    match turns.last() {
        // Even with shortened tool messages, the newest turn does not fit completely.
        Some(newest) if full.is_empty() && short.is_empty() && room > 0 => {
            let partial_turn = renderer.render_partial_turn(newest);
            join_turns(turns, Vec::new(), vec![partial_turn])
        }
        _ => join_turns(turns, short, full),
    }
}

/// Joins the selected turns; both lists are newest first.
fn join_turns(
    turns: &[BriefTurn],
    short: Vec<RenderedText>,
    full: Vec<RenderedText>,
) -> TurnSelection {
    let shown_count = short.len() + full.len();
    let first = turns
        .len()
        .checked_sub(shown_count)
        .and_then(|at| turns.get(at));
    let newest_first = full.into_iter().chain(short);
    let mut all: Vec<RenderedText> = newest_first.collect();
    all.reverse();
    TurnSelection {
        first_turn: first.map(|turn| turn.n),
        omissions: all.iter().fold(Omissions::default(), |total, turn| {
            total.combine(turn.omissions)
        }),
        text: all.iter().map(|turn| turn.text.as_str()).collect(),
    }
}

/// Reduces the number of newest turns to show, so that the first of them stays the same for several turns: its number
/// is one more than a multiple of a power of two, which is an eighth to a quarter of `count`.
fn round_turn_count(turns: &[BriefTurn], count: usize) -> usize {
    let Some(first) = turns.len().checked_sub(count).and_then(|at| turns.get(at)) else {
        return count;
    };
    let quarter = u32::try_from(count / 4).unwrap_or(u32::MAX);
    let Some(increment) = quarter.checked_ilog2().map(|power| 1_u32 << power) else {
        return count;
    };
    let before = first.n.saturating_sub(1);
    let skipped = before.next_multiple_of(increment) - before;
    count.saturating_sub(skipped as usize)
}

impl TurnRenderer<'_> {
    /// Renders the newest turns that fit into `room` tokens, newest first.
    fn render_newest_turns(
        &self,
        turns: &[BriefTurn],
        detail: DetailLevel,
        room: u64,
    ) -> Vec<RenderedText> {
        let mut used = 0;
        let rendered = turns
            .iter()
            .rev()
            .map(|turn| self.render_turn(turn, detail));
        let fits = |turn: &RenderedText| {
            used += turn.tokens;
            used <= room
        };
        rendered.take_while(fits).collect()
    }

    fn render_turn(&self, turn: &BriefTurn, detail: DetailLevel) -> RenderedText {
        let messages = turn.messages.iter();
        let rendered = messages.map(|message| self.render_message(message, detail));
        assemble_turn(turn.n, 0, rendered.collect())
    }

    /// Renders the prompt and the last messages of a turn that is too long to be shown completely. A tool result is
    /// shown only with its call.
    fn render_partial_turn(&self, turn: &BriefTurn) -> RenderedText {
        let Some((prompt, later_messages)) = turn.messages.split_first() else {
            return RenderedText::default();
        };
        let prompt = self.render_message(prompt, DetailLevel::Short);
        let mut used = prompt.tokens + 2 * FRAME_OVERHEAD_TOKENS;
        let fits = |rendered: &RenderedText| {
            used += rendered.tokens;
            used <= self.room
        };
        let newest_first = later_messages
            .iter()
            .rev()
            .map(|later_message| self.render_message(later_message, DetailLevel::Short));
        let mut last_messages: Vec<RenderedText> = newest_first.take_while(fits).collect();
        last_messages.reverse();
        let shown_messages = later_messages
            .get(later_messages.len() - last_messages.len()..)
            .unwrap_or_default();
        let calls: HashSet<&str> = shown_messages.iter().flat_map(call_ids).collect();
        let has_call =
            |message: &Message| answered_call_ids(message).all(|call| calls.contains(call));
        let retained: Vec<RenderedText> = last_messages
            .into_iter()
            .zip(shown_messages)
            .filter(|(_, message)| has_call(message))
            .map(|(rendered_message, _)| rendered_message)
            .collect();
        let omitted = u32::try_from(later_messages.len() - retained.len()).unwrap_or(u32::MAX);
        let mut rendered_messages = vec![prompt];
        rendered_messages.extend(retained);
        assemble_turn(turn.n, omitted, rendered_messages)
    }

    fn render_message(&self, message: &Message, detail: DetailLevel) -> RenderedText {
        let text = message_text(message);
        let text = text.trim_end_matches('\n');
        if text.trim().is_empty() {
            return RenderedText::default();
        }
        let tokens = message.tokens.unwrap_or_else(|| (self.count)(text));
        let is_tool = is_tool_message(message);
        let divisor = if is_tool {
            TOOL_MESSAGE_DIVISOR
        } else {
            TEXT_MESSAGE_DIVISOR
        };
        let shown_text =
            if is_tool && detail == DetailLevel::Short && text.len() > 2 * SHORT_TOOL_MESSAGE_BYTES
            {
                shorten_to_bytes(text, SHORT_TOOL_MESSAGE_BYTES).into()
            } else {
                shorten_to_tokens(text, tokens, self.room / divisor)
            };
        let mut omissions = Omissions::default();
        let mut tokens = tokens;
        if let Cow::Owned(cut) = &shown_text {
            tokens = (self.count)(cut);
            omissions.shortened_messages = 1;
            let bytes = text.len().saturating_sub(cut.len());
            omissions.cut_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        }
        let incomplete_mark = if message.complete { "" } else { " (cut off)" };
        let mut out = format!("{}{incomplete_mark}:\n", message.role.as_str());
        push_quoted_lines(&shown_text, &mut out);
        out.push('\n');
        let lines = u64::try_from(shown_text.lines().count()).unwrap_or(u64::MAX);
        RenderedText {
            text: out,
            tokens: tokens + LINE_OVERHEAD_TOKENS * lines + FRAME_OVERHEAD_TOKENS,
            omissions,
        }
    }
}

/// Renders a turn of these messages. If `omitted` messages are omitted, a note after the prompt states it.
fn assemble_turn(n: u32, omitted: u32, messages: Vec<RenderedText>) -> RenderedText {
    let mut turn = RenderedText {
        text: format!("[Turn {n}]\n"),
        tokens: FRAME_OVERHEAD_TOKENS,
        omissions: Omissions {
            omitted_messages: omitted,
            ..Omissions::default()
        },
    };
    for (index, message) in messages.into_iter().enumerate() {
        if index == 1 && omitted > 0 {
            let subject = if omitted == 1 {
                "1 message of this turn is".to_owned()
            } else {
                format!("{omitted} messages of this turn are")
            };
            let _ = write!(turn.text, "({subject} not shown)\n\n");
            turn.tokens += FRAME_OVERHEAD_TOKENS;
        }
        turn.text.push_str(&message.text);
        turn.tokens += message.tokens;
        turn.omissions = turn.omissions.combine(message.omissions);
    }
    turn
}

fn call_ids(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::FunctionCall { id, .. } => Some(id.as_str()),
        _ => None,
    })
}

fn answered_call_ids(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::FunctionResponse { call_id, .. } => Some(call_id.as_str()),
        _ => None,
    })
}
