//! What the record of some turns tells, found without a model.

use std::collections::HashSet;

use super::common::is_common;
use super::cues::{Sense, is_routine, refers_back, sense};
use super::novelty::novelty;
use super::tools::{Deed, deeds};
use super::units::{Form, Paragraph, Unit, paragraphs};
use super::{Author, Item, ItemKind};
use crate::{Part, Role, ToldTurn};

/// How many sentences of one message are looked at, half of them at its beginning and half at its end: more than that is
/// something that was pasted.
const MOST: usize = 60;

/// How specific a sentence is that tells something by itself.
const TELLING: u32 = 4;

/// How new a sentence is that does.
const NEW: u32 = 20;

/// What a note weighs at least.
pub(super) const WORTH_A_NOTE: u32 = 15 + TELLING * 2;

/// How long sentences are that are kept as one, in bytes.
const TOGETHER: usize = 360;

/// How plainly a sentence says what it is that could as well be something else.
const FAINT: u32 = 3;

/// How plainly a sentence says what it is that counts whatever its form.
const PLAIN: u32 = 5;

/// How much less a sentence tells that is of the moment alone.
const PASSING: u32 = 25;

/// A sentence, and where it was said.
struct Said {
    unit: Unit,
    role: Role,
    turn: u32,
    message: u32,
    specificity: u32,
    novelty: u32,
    sense: Option<Sense>,
    /// Whether it is of the moment alone.
    routine: bool,
    /// Whether more calls of tools follow it.
    narrates: bool,
    /// Whether it is all that its message says.
    alone: bool,
    /// Whether it goes on a paragraph.
    goes_on: bool,
}

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
    let done: Vec<(u32, Deed)> = turns
        .iter()
        .flat_map(|turn| {
            let deeds = deeds(&turn.messages, cwd).into_iter();
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

fn sentences(turn: &ToldTurn, count: &dyn Fn(&str) -> u64) -> Vec<Said> {
    let mut said = Vec::new();
    // What an agent says between two calls of tools is about the next one; what counts comes at the end.
    let speaks = |part: &Part| matches!(part, Part::Text(text) if !text.trim().is_empty());
    let answer = turn
        .messages
        .iter()
        .rposition(|message| message.role == Role::Assistant && message.parts.iter().any(speaks));
    for (at, message) in (0..).zip(&turn.messages) {
        if !matches!(message.role, Role::User | Role::Assistant) {
            continue;
        }
        let narrates = message.role == Role::Assistant && answer != usize::try_from(at).ok();
        let mut units = units(&message.words(), message.role);
        if units.len() > MOST {
            units.drain(MOST / 2..units.len() - MOST / 2);
        }
        let alone = units.len() == 1;
        said.extend(units.into_iter().map(|(goes_on, unit, sense)| Said {
            alone,
            specificity: unit.specificity(count),
            novelty: 0,
            sense,
            routine: narrates || is_routine(&unit, message.role),
            narrates,
            unit,
            role: message.role,
            turn: turn.n,
            message: at,
            goes_on,
        }));
    }
    said
}

/// The sentences of a message: whether each goes on a paragraph, and what it is, by itself or by what it stands under.
fn units(text: &str, role: Role) -> Vec<(bool, Unit, Option<Sense>)> {
    let mut units = Vec::new();
    let mut lead = Lead::Nothing;
    for Paragraph { form, units: of } in paragraphs(text) {
        let own = |unit: &Unit| sense(unit, role);
        if form == Form::Heading {
            lead = Lead::Heading(of.iter().find_map(own));
            continue;
        }
        if form == Form::Prose {
            let last = of.last().filter(|last| last.text.ends_with(':'));
            lead = match (last, lead) {
                (Some(last), _) => Lead::Colon(own(last)),
                (None, Lead::Colon(_)) => Lead::Nothing,
                (None, lead) => lead,
            };
        }
        let above = match (form, lead) {
            (Form::Box { ticked: true }, _) => Some(Sense::plainly(ItemKind::Done)),
            (Form::Box { ticked: false }, _) => Some(Sense::plainly(ItemKind::Pending)),
            (_, Lead::Heading(above)) | (Form::Entry, Lead::Colon(above)) => above,
            _ => None,
        };
        units.extend(of.into_iter().enumerate().map(|(nth, unit)| {
            let sense = stronger(own(&unit), above);
            (nth > 0, unit, sense)
        }));
    }
    units
}

/// What a list or some paragraphs stand under, and what that makes of them.
#[derive(Debug, Clone, Copy)]
enum Lead {
    Nothing,
    Heading(Option<Sense>),
    Colon(Option<Sense>),
}

/// What a sentence says of itself, unless what it stands under says it more plainly.
fn stronger(own: Option<Sense>, above: Option<Sense>) -> Option<Sense> {
    match (own, above) {
        (Some(own), Some(above)) if own.strength <= FAINT && above.strength > FAINT => Some(above),
        (own, above) => own.or(above),
    }
}

/// Sentences of a paragraph that follow on each other are kept as one if each of them tells something: the second is
/// often the reason for the first, and does not name it again.
fn together(said: Vec<Said>) -> Vec<Said> {
    let mut joined: Vec<Said> = Vec::with_capacity(said.len());
    for next in said {
        let last = joined.last_mut().filter(|last| {
            next.goes_on
                && !next.unit.text.ends_with(':')
                && last.is_telling()
                && (next.is_remark() || last.is_of_one_sort_with(&next))
                && (last.turn, last.message) == (next.turn, next.message)
                && last.unit.text.len() + next.unit.text.len() < TOGETHER
        });
        match last {
            Some(last) => {
                last.unit = last.unit.and(&next.unit);
                last.sense = stronger(sense(&last.unit, last.role), last.sense);
                last.specificity = last.specificity.max(next.specificity);
                last.novelty = last.novelty.max(next.novelty);
            }
            None => joined.push(next),
        }
    }
    joined
}

impl Said {
    /// Whether two of which each tells something show nothing by which they are apart.
    fn is_of_one_sort_with(&self, next: &Self) -> bool {
        // A person's prompt is mostly one thought; an agent tells one thing after the other.
        let goes_along = match self.role {
            Role::User => self.routine == next.routine || refers_back(&next.unit),
            _ => self.routine == next.routine && refers_back(&next.unit),
        };
        let plain = |said: &Self| said.sense.filter(|sense| sense.strength > FAINT);
        let apart = match (plain(self), plain(next)) {
            (Some(a), Some(b)) => a.kind != b.kind,
            (None, _) | (_, None) => false,
        };
        next.is_telling() && goes_along && !apart
    }

    /// Whether it says what something is, and leaves it to what comes before it to say what.
    fn is_remark(&self) -> bool {
        !self.is_telling() && self.sense.is_some_and(|sense| sense.strength > FAINT)
    }

    /// Whether it says nothing that anybody would miss: a word or two of courtesy, what only leads to a list, what an
    /// agent is about to do before it does it.
    fn is_nothing(&self) -> bool {
        let whole_prompt = self.role == Role::User && self.alone;
        let courtesy = !whole_prompt
            && self.sense.is_none_or(|sense| sense.strength <= FAINT)
            && self.unit.words().count() <= 3
            && self.unit.words().all(is_common);
        let leads = self.unit.text.ends_with(':') && self.unit.words().count() <= 6;
        let announces = self.narrates && is_routine(&self.unit, self.role);
        courtesy || leads || announces
    }

    /// Whether it tells something that others do not.
    fn is_telling(&self) -> bool {
        self.specificity >= TELLING || self.novelty >= NEW
    }
}

/// What a sentence is worth as an item; nothing if it says nothing.
fn item(said: Said, changed: &HashSet<&str>) -> Option<Item> {
    if said.is_nothing() {
        return None;
    }
    let path = match said.role {
        Role::Assistant => said.unit.paths().find(|path| changed.contains(path)),
        _ => None,
    };
    let path = path.map(str::to_owned);
    let Sense { kind, strength } = match (said.sense, said.role) {
        // What the conversation began with is what it is for, but for rules.
        (sense, Role::User)
            if said.turn == 1
                && said.message == 0
                && sense.is_none_or(|sense| {
                    sense.kind != ItemKind::Directive || sense.strength < PLAIN
                }) =>
        {
            Sense {
                kind: ItemKind::Goal,
                strength: 6,
            }
        }
        // A question is no answer.
        (Some(sense), Role::User)
            if said.routine && !(sense.kind == ItemKind::Directive && sense.strength >= PLAIN) =>
        {
            Sense {
                kind: ItemKind::Request,
                strength: 0,
            }
        }
        // A wish that names nothing is for now.
        (Some(sense), Role::User)
            if sense.strength > FAINT || said.novelty >= NEW / 2 || said.is_telling() =>
        {
            sense
        }
        (_, Role::User) => Sense {
            kind: ItemKind::Request,
            strength: 0,
        },
        // What the agent asks is answered soon.
        (_, Role::Assistant) if said.unit.text.ends_with('?') => Sense {
            kind: ItemKind::NextStep,
            strength: 0,
        },
        // What is said of a file that was changed tells where it stands.
        (sense, _)
            if path.is_some()
                && sense.is_none_or(|sense| sense.passes() || sense.strength <= FAINT) =>
        {
            Sense {
                kind: ItemKind::File,
                strength: 0,
            }
        }
        // What was under way or next when more calls followed was so within the turn.
        (Some(sense), _) if !(said.narrates && sense.passes()) => sense,
        (_, _) if said.is_telling() => Sense {
            kind: ItemKind::Note,
            strength: 0,
        },
        (_, _) => return None,
    };
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
