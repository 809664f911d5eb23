//! Extraction of items from recorded turns, without a model.

use std::collections::HashSet;

use super::cues::Sense;
use super::goal::is_greeting;
use super::novelty::novelty;
use super::said::{FAINT, NEW, Said, TELLING, sentences, together};
use super::task_lists::Tasks;
use super::tool_actions::{Deed, deeds};
use super::voice::Voice;
use super::{Author, Item, ItemKind};
use crate::brief::ToldTurn;
use crate::session::Role;

/// Minimum weight of a note.
pub(super) const WORTH_A_NOTE: u32 = 15 + TELLING * 2;

/// Minimum strength of a meaning that counts whatever the form of the sentence is.
const PLAIN: u32 = 5;

/// Weight that is subtracted from a sentence that is relevant only at the moment.
const PASSING: u32 = 25;

/// Extracts items from turns of an agent that worked in `cwd`, in the order of the messages. The items have no ids yet.
#[must_use]
pub fn extract(turns: &[ToldTurn], cwd: &str, count: &dyn Fn(&str) -> u64) -> Vec<Item> {
    let said = turns.iter().flat_map(|turn| sentences(turn, count));
    let mut said: Vec<Said> = said.collect();
    let novelty = novelty(said.iter().map(|said| &said.unit));
    for (said, novelty) in said.iter_mut().zip(novelty) {
        said.novelty = novelty;
    }
    let mut tasks = Tasks::default();
    let done: Vec<(u32, Deed)> = turns
        .iter()
        .flat_map(|turn| {
            let deeds = deeds(&turn.messages, cwd, &mut tasks).into_iter();
            deeds.map(|deed| (turn.n, deed))
        })
        .collect();
    let changed = done.iter().filter(|(_, deed)| deed.kind == ItemKind::File);
    let changed: HashSet<&str> = changed.map(|(_, deed)| deed.subject.as_str()).collect();
    let joined = together(said);
    let said = joined.into_iter().filter_map(|said| item(said, &changed));
    let mut items: Vec<Item> = said.collect();
    items.extend(done.iter().map(|(turn, deed)| Item {
        id: 0,
        kind: deed.kind,
        text: deed.text.clone(),
        subject: Some(deed.subject.clone()),
        turn: *turn,
        message: deed.message,
        by: Author::Record,
        weight: base(deed.kind) + 80,
        pinned: false,
    }));
    items.sort_by_key(|item| (item.turn, item.message));
    items
}

/// Converts a sentence into an item; `None` if the sentence contains no relevant information.
fn item(said: Said, changed: &HashSet<&str>) -> Option<Item> {
    let path = match said.role {
        Role::Assistant => said.unit.paths().find(|path| changed.contains(path)),
        _ => None,
    };
    if path.is_none() && said.is_nothing() {
        return None;
    }
    let path = path.map(str::to_owned);
    let Sense { kind, strength } = meant(&said, path.is_some())?;
    // The user's text weighs more, because no other author can repeat it.
    let by_user = if said.role == Role::User { 25 } else { 0 };
    let passing = if said.routine && strength < PLAIN {
        PASSING
    } else {
        0
    };
    Some(Item {
        id: 0,
        kind,
        text: said.unit.text,
        subject: path.filter(|_| kind == ItemKind::File),
        turn: said.turn,
        message: said.message,
        by: Author::Record,
        weight: (base(kind) + strength * 5 + said.specificity * 2 + said.novelty * 2 + by_user)
            .saturating_sub(passing),
        pinned: false,
    })
}

/// Returns the meaning of a sentence in the conversation; `None` if it has none. `names_changed` is `true` if the
/// sentence names a file that was changed.
fn meant(said: &Said, names_changed: bool) -> Option<Sense> {
    let as_kind = |kind, strength| Some(Sense { kind, strength });
    match (said.sense, said.role) {
        // Text of other authors is no request of the user.
        (_, Role::User) if matches!(said.voice, Voice::Quoted | Voice::Machine) => {
            as_kind(ItemKind::Note, 0)
        }
        (_, Role::User) if said.voice == Voice::Unsure => as_kind(ItemKind::Request, 0),
        // The first message of a conversation states its goal, except for rules.
        (sense, Role::User)
            if said.turn == 1
                && said.message == 0
                && !is_greeting(&said.unit)
                && sense.is_none_or(|sense| {
                    sense.kind != ItemKind::Directive || sense.strength < PLAIN
                }) =>
        {
            as_kind(ItemKind::Goal, 6)
        }
        // A question states no fact.
        (Some(sense), Role::User)
            if said.routine && !(sense.kind == ItemKind::Directive && sense.strength >= PLAIN) =>
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
        (Some(sense), Role::User)
            if sense.strength > FAINT || said.novelty >= NEW / 2 || said.is_telling() =>
        {
            Some(sense)
        }
        (_, Role::User) => as_kind(ItemKind::Request, 0),
        // The next prompt usually answers a question of the agent.
        (_, Role::Assistant) if said.unit.text.ends_with('?') => as_kind(ItemKind::NextStep, 0),
        // A statement about a changed file describes the status of that file.
        (sense, _)
            if names_changed
                && sense.is_none_or(|sense| sense.passes() || sense.strength <= FAINT) =>
        {
            as_kind(ItemKind::File, 0)
        }
        // Work in progress and next steps that the agent states between tool calls apply only within the turn.
        (Some(sense), _) if !(said.narrates() && sense.passes()) => Some(sense),
        (_, _) if said.is_telling() => as_kind(ItemKind::Note, 0),
        (_, _) => None,
    }
}

/// Returns the base weight of a kind.
pub(super) fn base(kind: ItemKind) -> u32 {
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
