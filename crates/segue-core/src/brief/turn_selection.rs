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

use super::ToldTurn;
use super::message_text::{both_ends, ends_of, is_tool_talk, quoted, told};
use crate::session::{Message, Part};

/// Bytes of a tool message that are shown in an older turn.
const SHORT: usize = 600;

/// Divisors of the available tokens: the quotient is the maximum of a text message (`WORDS_SHARE`) or of a tool message
/// (`TOOL_SHARE`).
const WORDS_SHARE: u64 = 4;
const TOOL_SHARE: u64 = 16;

/// Tokens that a line costs beyond its text (`LINE`), and that a message or a turn costs (`FRAME`).
const LINE: u64 = 2;
const FRAME: u64 = 8;

/// Returns the minimum number of tokens that a message needs in a brief of `budget` tokens. With it, a caller can load
/// only as many messages as fit.
#[must_use]
pub fn least_tokens(message: &Message, budget: u64) -> u64 {
    let shortest = u64::try_from(SHORT / 2).unwrap_or(u64::MAX);
    let tools = is_tool_talk(message);
    let guess = || u64::try_from(told(message).len() / 4).unwrap_or(u64::MAX);
    let tokens = message.tokens.unwrap_or_else(guess);
    if tools {
        tokens.min(shortest).min(budget / TOOL_SHARE)
    } else {
        tokens.min(budget / WORDS_SHARE)
    }
}

/// Omissions within the turns that a brief shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Missing {
    /// Number of messages that are cut to their beginning and end: tool messages in older turns, and messages that
    /// exceed the maximum of a single message.
    pub shortened: u32,
    /// Number of bytes by which those messages are shorter.
    pub bytes: u64,
    /// Number of messages that are omitted from a turn that is too long to be shown completely.
    pub messages: u32,
}

impl Missing {
    fn and(self, other: Self) -> Self {
        Self {
            shortened: self.shortened + other.shortened,
            bytes: self.bytes + other.bytes,
            messages: self.messages + other.messages,
        }
    }
}

/// The turns that a brief shows.
pub(super) struct Chosen {
    /// Number of the first turn; `None` if no turn fits.
    pub(super) first: Option<u32>,
    /// Omissions within the turns.
    pub(super) missing: Missing,
    /// Rendered text of all turns.
    pub(super) text: String,
}

/// Level of detail of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Full,
    /// Tool messages are shortened.
    Short,
}

/// A rendered turn or message.
#[derive(Default)]
struct Told {
    text: String,
    tokens: u64,
    missing: Missing,
}

struct Scribe<'a> {
    room: u64,
    count: &'a dyn Fn(&str) -> u64,
}

/// Selects from consecutive turns, oldest first, those that fit into `room` tokens.
pub(super) fn choose(turns: &[ToldTurn], room: u64, count: &dyn Fn(&str) -> u64) -> Chosen {
    let scribe = Scribe { room, count };
    let mut full = scribe.newest(turns, Form::Full, room);
    let begins = turns.first().is_none_or(|turn| turn.n == 1);
    if begins && full.len() == turns.len() {
        return chosen(turns, Vec::new(), full);
    }
    let half = full.iter().scan(0, |used, turn| {
        *used += turn.tokens;
        Some(*used <= room / 2)
    });
    let half = half.take_while(|fits| *fits).count();
    // The newest turn may use more than half, if it fits at all.
    full.truncate(coarse(turns, half).max(1));
    let used: u64 = full.iter().map(|turn| turn.tokens).sum();
    let older = turns.get(..turns.len() - full.len()).unwrap_or_default();
    let mut short = scribe.newest(older, Form::Short, room.saturating_sub(used));
    let shown = coarse(turns, full.len() + short.len());
    short.truncate(shown.saturating_sub(full.len()));
    match turns.last() {
        // Even with shortened tool messages, the newest turn does not fit completely.
        Some(newest) if full.is_empty() && short.is_empty() && room > 0 => {
            let part = scribe.part_of(newest);
            chosen(turns, Vec::new(), vec![part])
        }
        _ => chosen(turns, short, full),
    }
}

/// Joins the selected turns; both lists are newest first.
fn chosen(turns: &[ToldTurn], short: Vec<Told>, full: Vec<Told>) -> Chosen {
    let shown = short.len() + full.len();
    let first = turns.len().checked_sub(shown).and_then(|at| turns.get(at));
    let newest_first = full.into_iter().chain(short);
    let mut all: Vec<Told> = newest_first.collect();
    all.reverse();
    Chosen {
        first: first.map(|turn| turn.n),
        missing: all
            .iter()
            .fold(Missing::default(), |sum, turn| sum.and(turn.missing)),
        text: all.iter().map(|turn| turn.text.as_str()).collect(),
    }
}

/// Reduces the number of newest turns to show, so that the first of them stays the same for several turns: its number
/// is one more than a multiple of a power of two, which is an eighth to a quarter of `count`.
fn coarse(turns: &[ToldTurn], count: usize) -> usize {
    let Some(first) = turns.len().checked_sub(count).and_then(|at| turns.get(at)) else {
        return count;
    };
    let quarter = u32::try_from(count / 4).unwrap_or(u32::MAX);
    let Some(step) = quarter.checked_ilog2().map(|power| 1_u32 << power) else {
        return count;
    };
    let before = first.n.saturating_sub(1);
    let skipped = before.next_multiple_of(step) - before;
    count.saturating_sub(skipped as usize)
}

impl Scribe<'_> {
    /// Renders the newest turns that fit into `room` tokens, newest first.
    fn newest(&self, turns: &[ToldTurn], form: Form, room: u64) -> Vec<Told> {
        let mut used = 0;
        let told = turns.iter().rev().map(|turn| self.turn(turn, form));
        let fits = |turn: &Told| {
            used += turn.tokens;
            used <= room
        };
        told.take_while(fits).collect()
    }

    fn turn(&self, turn: &ToldTurn, form: Form) -> Told {
        let messages = turn.messages.iter();
        let told = messages.map(|message| self.message(message, form));
        headed(turn.n, 0, told.collect())
    }

    /// Renders the prompt and the last messages of a turn that is too long to be shown completely. A tool result is
    /// shown only with its call.
    fn part_of(&self, turn: &ToldTurn) -> Told {
        let Some((prompt, rest)) = turn.messages.split_first() else {
            return Told::default();
        };
        let prompt = self.message(prompt, Form::Short);
        let mut used = prompt.tokens + 2 * FRAME;
        let fits = |told: &Told| {
            used += told.tokens;
            used <= self.room
        };
        let newest_first = rest
            .iter()
            .rev()
            .map(|said| self.message(said, Form::Short));
        let mut ends: Vec<Told> = newest_first.take_while(fits).collect();
        ends.reverse();
        let shown = rest.get(rest.len() - ends.len()..).unwrap_or_default();
        let calls: HashSet<&str> = shown.iter().flat_map(calls).collect();
        let answered = |message: &Message| answers(message).all(|call| calls.contains(call));
        let kept: Vec<Told> = ends
            .into_iter()
            .zip(shown)
            .filter(|(_, message)| answered(message))
            .map(|(told, _)| told)
            .collect();
        let missing = u32::try_from(rest.len() - kept.len()).unwrap_or(u32::MAX);
        let mut parts = vec![prompt];
        parts.extend(kept);
        headed(turn.n, missing, parts)
    }

    fn message(&self, message: &Message, form: Form) -> Told {
        let text = told(message);
        let text = text.trim_end_matches('\n');
        if text.trim().is_empty() {
            return Told::default();
        }
        let tokens = message.tokens.unwrap_or_else(|| (self.count)(text));
        let tools = is_tool_talk(message);
        let share = if tools { TOOL_SHARE } else { WORDS_SHARE };
        let shown = if tools && form == Form::Short && text.len() > 2 * SHORT {
            ends_of(text, SHORT).into()
        } else {
            both_ends(text, tokens, self.room / share)
        };
        let mut missing = Missing::default();
        let mut tokens = tokens;
        if let Cow::Owned(cut) = &shown {
            tokens = (self.count)(cut);
            missing.shortened = 1;
            let bytes = text.len().saturating_sub(cut.len());
            missing.bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        }
        let cut_off = if message.complete { "" } else { " (cut off)" };
        let mut out = format!("{}{cut_off}:\n", message.role.as_str());
        quoted(&shown, &mut out);
        out.push('\n');
        let lines = u64::try_from(shown.lines().count()).unwrap_or(u64::MAX);
        Told {
            text: out,
            tokens: tokens + LINE * lines + FRAME,
            missing,
        }
    }
}

/// Renders a turn of these messages. If `missing` messages are omitted, a note after the prompt states it.
fn headed(n: u32, missing: u32, messages: Vec<Told>) -> Told {
    let mut turn = Told {
        text: format!("[Turn {n}]\n"),
        tokens: FRAME,
        missing: Missing {
            messages: missing,
            ..Missing::default()
        },
    };
    for (place, message) in messages.into_iter().enumerate() {
        if place == 1 && missing > 0 {
            let _ = write!(
                turn.text,
                "({missing} messages of this turn are not shown)\n\n"
            );
            turn.tokens += FRAME;
        }
        turn.text.push_str(&message.text);
        turn.tokens += message.tokens;
        turn.missing = turn.missing.and(message.missing);
    }
    turn
}

fn calls(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::FunctionCall { id, .. } => Some(id.as_str()),
        _ => None,
    })
}

fn answers(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::FunctionResponse { call_id, .. } => Some(call_id.as_str()),
        _ => None,
    })
}
