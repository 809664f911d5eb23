//! What the record of some turns tells, found without a model.

use std::collections::HashSet;

use super::cues::Sense;
use super::goal::is_greeting;
use super::novelty::novelty;
use super::said::{FAINT, NEW, Said, TELLING, sentences, together};
use super::tasks::Tasks;
use super::tools::{Deed, deeds};
use super::voice::Voice;
use super::{Author, Item, ItemKind};
use crate::{Role, ToldTurn};

/// What a note weighs at least.
pub(super) const WORTH_A_NOTE: u32 = 15 + TELLING * 2;

/// How plainly a sentence says what it is that counts whatever its form.
const PLAIN: u32 = 5;

/// How much less a sentence tells that is of the moment alone.
const PASSING: u32 = 25;

/// What some turns of an agent that worked in `cwd` tell, in the order in which it was said. The items have no numbers
/// yet.
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

/// What a sentence is worth as an item; nothing if it says nothing.
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
    // Nobody else can say it again.
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

/// What a sentence is in the conversation; nothing if it tells nothing. Some name a file that was changed.
fn meant(said: &Said, names_changed: bool) -> Option<Sense> {
    let as_kind = |kind, strength| Some(Sense { kind, strength });
    match (said.sense, said.role) {
        // What others said or wrote is no request of the user.
        (_, Role::User) if matches!(said.voice, Voice::Quoted | Voice::Machine) => {
            as_kind(ItemKind::Note, 0)
        }
        (_, Role::User) if said.voice == Voice::Unsure => as_kind(ItemKind::Request, 0),
        // What the conversation began with is what it is for, but for rules.
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
        // A question is no answer.
        (Some(sense), Role::User)
            if said.routine && !(sense.kind == ItemKind::Directive && sense.strength >= PLAIN) =>
        {
            as_kind(ItemKind::Request, 0)
        }
        // What a person says has to be done is what they ask for; what is left for later they say more plainly.
        (Some(Sense { kind, strength }), Role::User)
            if kind == ItemKind::Pending && strength <= FAINT =>
        {
            as_kind(ItemKind::Request, strength)
        }
        // A wish that names nothing is for now.
        (Some(sense), Role::User)
            if sense.strength > FAINT || said.novelty >= NEW / 2 || said.is_telling() =>
        {
            Some(sense)
        }
        (_, Role::User) => as_kind(ItemKind::Request, 0),
        // What the agent asks is answered soon.
        (_, Role::Assistant) if said.unit.text.ends_with('?') => as_kind(ItemKind::NextStep, 0),
        // What is said of a file that was changed tells where it stands.
        (sense, _)
            if names_changed
                && sense.is_none_or(|sense| sense.passes() || sense.strength <= FAINT) =>
        {
            as_kind(ItemKind::File, 0)
        }
        // What was under way or next when more calls followed was so within the turn.
        (Some(sense), _) if !(said.narrates() && sense.passes()) => Some(sense),
        (_, _) if said.is_telling() => as_kind(ItemKind::Note, 0),
        (_, _) => None,
    }
}

/// How much an item of a kind tells by that alone.
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
