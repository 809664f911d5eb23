//! Which turns a brief shows, and how much of each.
//!
//! The newest win, whole turns at a time. The newest half of the room is for turns in full; before them come turns whose
//! tools are shortened, so that people's words reach further back; what is still older is not shown. Both borders move
//! in steps of an eighth to a quarter of the turns behind them: a conversation that goes on by a turn mostly keeps them,
//! and with them every byte of the brief up to its end.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use super::ToldTurn;
use super::told::{both_ends, ends_of, is_tool_talk, quoted, told};
use crate::{Message, Part};

/// How many bytes of a tool's input or output are shown in an old turn.
const SHORT: usize = 600;

/// Which share of the room one message of words may take, and which one of tools.
const WORDS_SHARE: u64 = 4;
const TOOL_SHARE: u64 = 16;

/// What a line costs beyond its text, and what a message or a turn does.
const LINE: u64 = 2;
const FRAME: u64 = 8;

/// How many tokens a brief of so many needs for a message at least: for whoever reads only as much as it has room for.
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

/// What is missing in turns that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Missing {
    /// How many messages are told by their beginning and their end: tools in older turns, and what is more than its
    /// share of the room.
    pub shortened: u32,
    /// By how many bytes those are shorter.
    pub bytes: u64,
    /// How many messages are not shown, of a turn that is too long as a whole.
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

/// The turns that are shown.
pub(super) struct Chosen {
    /// The number of the first one; none if none fits.
    pub(super) first: Option<u32>,
    /// What is missing in them.
    pub(super) missing: Missing,
    /// All of them, as they are told.
    pub(super) text: String,
}

/// How much of a turn is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Full,
    /// Tools are shortened.
    Short,
}

/// A turn or a message as it is told.
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

/// Chooses among turns that follow on each other, oldest first.
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
    // The newest one is worth more than half, if it fits at all.
    full.truncate(coarse(turns, half).max(1));
    let used: u64 = full.iter().map(|turn| turn.tokens).sum();
    let older = turns.get(..turns.len() - full.len()).unwrap_or_default();
    let mut short = scribe.newest(older, Form::Short, room.saturating_sub(used));
    let shown = coarse(turns, full.len() + short.len());
    short.truncate(shown.saturating_sub(full.len()));
    match turns.last() {
        // Not even the newest one fits in full, or as a whole.
        Some(newest) if full.is_empty() && short.is_empty() && room > 0 => {
            let part = scribe.part_of(newest);
            chosen(turns, Vec::new(), vec![part])
        }
        _ => chosen(turns, short, full),
    }
}

/// Puts together what was chosen; both lists are newest first.
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

/// How many of so many newest turns are shown, so that the first of them stays the same for a while: its number is one
/// more than a multiple of a power of two, an eighth to a quarter of how many there are.
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
    /// The newest turns in a form that fit into so much room, newest first.
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

    /// The prompt of a turn that is too long to be shown as a whole, and its end. A tool's answer is shown with its
    /// call.
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

/// A turn of these messages. Where some are missing after the prompt, it is said there.
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
