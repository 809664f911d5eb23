//! Extraction of items from recorded turns, without a model.

use std::collections::HashSet;

use super::cues::Sense;
use super::goal::is_greeting;
use super::novelty::score_novelty;
use super::said::{FAINT, NEW, Said, TELLING, sentences, together};
use super::task_lists::TaskList;
use super::tool_actions::{ToolAction, extract_tool_actions};
use super::voice::Voice;
use super::{CheckpointItem, ItemAuthor, ItemKind};
use crate::brief::BriefTurn;
use crate::session::Role;

/// Minimum weight of a note.
pub(super) const MIN_NOTE_WEIGHT: u32 = 15 + TELLING * 2;

/// Minimum strength of a meaning that counts whatever the form of the sentence is.
const MIN_EXPLICIT_STRENGTH: u32 = 5;

/// Weight that is subtracted from a sentence that is relevant only at the moment.
const TRANSIENT_WEIGHT_PENALTY: u32 = 25;

/// Extracts items from turns of an agent that worked in `cwd`, in the order of the messages. The items have no ids yet.
#[must_use]
pub fn extract(turns: &[BriefTurn], cwd: &str, count: &dyn Fn(&str) -> u64) -> Vec<CheckpointItem> {
    let all_sentences = turns.iter().flat_map(|turn| sentences(turn, count));
    let mut all_sentences: Vec<Said> = all_sentences.collect();
    let novelty = score_novelty(all_sentences.iter().map(|sentence| &sentence.unit));
    for (sentence, novelty) in all_sentences.iter_mut().zip(novelty) {
        sentence.novelty = novelty;
    }
    let mut tasks = TaskList::default();
    let numbered_actions: Vec<(u32, ToolAction)> = turns
        .iter()
        .flat_map(|turn| {
            let turn_actions = extract_tool_actions(&turn.messages, cwd, &mut tasks).into_iter();
            turn_actions.map(|action| (turn.n, action))
        })
        .collect();
    let changed_paths = numbered_actions
        .iter()
        .filter(|(_, action)| action.kind == ItemKind::File);
    let changed_paths: HashSet<&str> = changed_paths
        .map(|(_, action)| action.subject.as_str())
        .collect();
    let joined = together(all_sentences);
    let sentence_items = joined
        .into_iter()
        .filter_map(|sentence| item_from_sentence(sentence, &changed_paths));
    let mut items: Vec<CheckpointItem> = sentence_items.collect();
    items.extend(
        numbered_actions
            .iter()
            .map(|(turn, action)| CheckpointItem {
                id: 0,
                kind: action.kind,
                text: action.text.clone(),
                subject: Some(action.subject.clone()),
                turn: *turn,
                message_index: action.message_index,
                author: ItemAuthor::Extraction,
                weight: base_weight(action.kind) + 80,
                pinned: false,
            }),
    );
    items.sort_by_key(|item| (item.turn, item.message_index));
    items
}

/// Converts a sentence into an item; `None` if the sentence contains no relevant information.
fn item_from_sentence(sentence: Said, changed_paths: &HashSet<&str>) -> Option<CheckpointItem> {
    let path = match sentence.role {
        Role::Assistant => sentence
            .unit
            .paths()
            .find(|path| changed_paths.contains(path)),
        _ => None,
    };
    if path.is_none() && sentence.is_nothing() {
        return None;
    }
    let path = path.map(str::to_owned);
    let Sense { kind, strength } = interpret_sentence(&sentence, path.is_some())?;
    // The user's text weighs more, because no other author can repeat it.
    let user_bonus = if sentence.role == Role::User { 25 } else { 0 };
    let transient_penalty = if sentence.routine && strength < MIN_EXPLICIT_STRENGTH {
        TRANSIENT_WEIGHT_PENALTY
    } else {
        0
    };
    Some(CheckpointItem {
        id: 0,
        kind,
        text: sentence.unit.text,
        subject: path.filter(|_| kind == ItemKind::File),
        turn: sentence.turn,
        message_index: sentence.message,
        author: ItemAuthor::Extraction,
        weight: (base_weight(kind)
            + strength * 5
            + sentence.specificity * 2
            + sentence.novelty * 2
            + user_bonus)
            .saturating_sub(transient_penalty),
        pinned: false,
    })
}

/// Returns the meaning of a sentence in the conversation; `None` if it has none. `names_changed` is `true` if the
/// sentence names a file that was changed.
fn interpret_sentence(sentence: &Said, names_changed: bool) -> Option<Sense> {
    let as_kind = |kind, strength| Some(Sense { kind, strength });
    match (sentence.sense, sentence.role) {
        // Text of other authors is no request of the user.
        (_, Role::User) if matches!(sentence.voice, Voice::Quoted | Voice::Machine) => {
            as_kind(ItemKind::Note, 0)
        }
        (_, Role::User) if sentence.voice == Voice::Unsure => as_kind(ItemKind::Request, 0),
        // The first message of a conversation states its goal, except for rules.
        (meaning, Role::User)
            if sentence.turn == 1
                && sentence.message == 0
                && !is_greeting(&sentence.unit)
                && meaning.is_none_or(|meaning| {
                    meaning.kind != ItemKind::Directive || meaning.strength < MIN_EXPLICIT_STRENGTH
                }) =>
        {
            as_kind(ItemKind::Goal, 6)
        }
        // A question states no fact.
        (Some(meaning), Role::User)
            if sentence.routine
                && !(meaning.kind == ItemKind::Directive
                    && meaning.strength >= MIN_EXPLICIT_STRENGTH) =>
        {
            as_kind(ItemKind::Request, 0)
        }
        // A user who states faintly that work is to be done requests it; users mark deferred work more explicitly.
        (Some(Sense { kind, strength }), Role::User)
            if kind == ItemKind::Pending && strength <= FAINT =>
        {
            as_kind(ItemKind::Request, strength)
        }
        // A faint meaning counts only if the sentence is new or specific; otherwise it is a request for now.
        (Some(meaning), Role::User)
            if meaning.strength > FAINT || sentence.novelty >= NEW / 2 || sentence.is_telling() =>
        {
            Some(meaning)
        }
        (_, Role::User) => as_kind(ItemKind::Request, 0),
        // The next prompt usually answers a question of the agent.
        (_, Role::Assistant) if sentence.unit.text.ends_with('?') => as_kind(ItemKind::NextStep, 0),
        // A statement about a changed file describes the status of that file.
        (meaning, _)
            if names_changed
                && meaning.is_none_or(|meaning| meaning.passes() || meaning.strength <= FAINT) =>
        {
            as_kind(ItemKind::File, 0)
        }
        // Work in progress and next steps that the agent states between tool calls apply only within the turn.
        (Some(meaning), _) if !(sentence.narrates() && meaning.passes()) => Some(meaning),
        (_, _) if sentence.is_telling() => as_kind(ItemKind::Note, 0),
        (_, _) => None,
    }
}

/// Returns the base weight of a kind.
pub(super) fn base_weight(kind: ItemKind) -> u32 {
    match kind {
        ItemKind::Directive => 60,
        ItemKind::Goal => 55,
        ItemKind::Pending | ItemKind::File => 50,
        ItemKind::Attempt | ItemKind::Decision | ItemKind::Blocker => 45,
        ItemKind::Request => 40,
        ItemKind::Focus | ItemKind::NextStep | ItemKind::Check => 30,
        ItemKind::Command => 20,
        ItemKind::Note => 15,
        ItemKind::Done => 10,
    }
}
