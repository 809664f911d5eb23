//! The sentences of a turn, each with what it is and where it was said.

use std::collections::HashSet;

use super::ItemKind;
use super::cues::{Sense, asks, is_routine, leans_back, length, refers_back, sense};
use super::everyday::is_common;
use super::text_units::{Paragraph, ParagraphLayout, TextUnit, split_paragraphs};
use super::voice::Voice;
use crate::brief::BriefTurn;
use crate::session::{Part, Role};

/// How many sentences of one message are looked at whatever they are, half of them at its beginning and half at its end.
fn most(role: Role) -> usize {
    match role {
        Role::User => 200,
        _ => 60,
    }
}

/// How many of the others are that show what they are: nothing of what a person typed is lost for being long, and what
/// nobody typed takes no longer for it.
fn most_plain(role: Role) -> usize {
    match role {
        Role::User => 1_000,
        _ => 0,
    }
}

/// How specific a sentence is that tells something by itself.
pub(super) const TELLING: u32 = 4;

/// How new a sentence is that does.
pub(super) const NEW: u32 = 20;

/// How long sentences are that are kept as one, in bytes.
const TOGETHER: usize = 360;

/// How plainly a sentence says what it is that could as well be something else.
pub(super) const FAINT: u32 = 3;

/// A sentence, and where it was said.
pub(super) struct Said {
    pub(super) unit: TextUnit,
    pub(super) role: Role,
    pub(super) turn: u32,
    pub(super) message: u32,
    pub(super) specificity: u32,
    pub(super) novelty: u32,
    pub(super) sense: Option<Sense>,
    /// Whether it is of the moment alone.
    pub(super) routine: bool,
    pub(super) place: Place,
    /// Whether it goes on a paragraph.
    pub(super) goes_on: bool,
    pub(super) voice: Voice,
}

/// The sentences of a turn.
pub(super) fn sentences(turn: &BriefTurn, count: &dyn Fn(&str) -> u64) -> Vec<Said> {
    let mut said = Vec::new();
    let mut asked: HashSet<String> = HashSet::new();
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
        let mut units = units(&message.plain_text(), message.role);
        // An agent that repeats what it was told says nothing of its own.
        if message.role == Role::Assistant {
            units.retain(|heard| !asked.contains(&heard.unit.normalised));
        } else {
            asked.extend(units.iter().map(|heard| heard.unit.normalised.clone()));
        }
        let units = looked_at(units, message.role);
        let place = match units.len() {
            _ if narrates => Place::BetweenCalls,
            1 => Place::Alone,
            _ => Place::Among,
        };
        said.extend(units.into_iter().map(|heard| Said {
            place,
            specificity: heard.unit.specificity(count),
            novelty: 0,
            sense: heard.sense,
            routine: narrates || is_routine(&heard.unit, message.role),
            unit: heard.unit,
            role: message.role,
            turn: turn.n,
            message: at,
            goes_on: heard.goes_on,
            voice: heard.voice,
        }));
    }
    said
}

/// A sentence of a message.
struct Heard {
    unit: TextUnit,
    /// What it is, by itself or by what it stands under.
    sense: Option<Sense>,
    /// Whether it goes on a paragraph.
    goes_on: bool,
    voice: Voice,
}

impl Heard {
    fn is_plain(&self) -> bool {
        self.sense.is_some_and(|sense| sense.strength > FAINT)
    }
}

/// The sentences of a message that are looked at.
fn looked_at(units: Vec<Heard>, role: Role) -> Vec<Heard> {
    let (all, most) = (units.len(), most(role));
    let (plain, most_plain) = (
        units.iter().filter(|heard| heard.is_plain()).count(),
        most_plain(role),
    );
    let is_near_end = |nth: usize, all: usize, most: usize| nth < most / 2 || nth + most / 2 >= all;
    let mut nth_plain = 0;
    let mut follows = true;
    let looked_at = |(nth, heard): (usize, Heard)| {
        let is_plain = heard.is_plain();
        let stays = is_near_end(nth, all, most)
            || is_plain && most_plain > 0 && is_near_end(nth_plain, plain, most_plain);
        nth_plain += usize::from(is_plain);
        let goes_on = heard.goes_on && follows;
        follows = stays;
        stays.then_some(Heard { goes_on, ..heard })
    };
    units
        .into_iter()
        .enumerate()
        .filter_map(looked_at)
        .collect()
}

/// The sentences of a message.
fn units(text: &str, role: Role) -> Vec<Heard> {
    let mut units = Vec::new();
    let mut lead = Lead::Nothing;
    for paragraph in split_paragraphs(text, role) {
        let Paragraph {
            layout: form,
            voice,
            units: of,
        } = paragraph;
        let own = |unit: &TextUnit| sense_of(unit, role, voice);
        if voice != Voice::Own {
            units.extend(heard(of, voice, own));
            continue;
        }
        if form == ParagraphLayout::Heading {
            lead = Lead::Heading(of.iter().find_map(own));
            continue;
        }
        if form == ParagraphLayout::Prose {
            let last = of.last().filter(|last| last.text.ends_with(':'));
            lead = match (last, lead) {
                (Some(last), _) => Lead::Colon(own(last)),
                (None, Lead::Colon(_)) => Lead::Nothing,
                (None, lead) => lead,
            };
        }
        let above = match (form, lead) {
            (ParagraphLayout::Checkbox { ticked: true }, _) => Some(Sense::plainly(ItemKind::Done)),
            (ParagraphLayout::Checkbox { ticked: false }, _) => {
                Some(Sense::plainly(ItemKind::Pending))
            }
            (_, Lead::Heading(above)) | (ParagraphLayout::ListEntry, Lead::Colon(above)) => above,
            _ => None,
        };
        units.extend(heard(of, voice, |unit| stronger(own(unit), above)));
    }
    units
}

/// The sentences of one paragraph.
fn heard(
    of: Vec<TextUnit>,
    voice: Voice,
    sense: impl Fn(&TextUnit) -> Option<Sense>,
) -> impl Iterator<Item = Heard> {
    let heard = move |(nth, unit): (usize, TextUnit)| Heard {
        sense: sense(&unit),
        unit,
        goes_on: nth > 0,
        voice,
    };
    of.into_iter().enumerate().map(heard)
}

/// What a sentence is as far as it shows: what others said is nothing that anybody wants here.
fn sense_of(unit: &TextUnit, role: Role, voice: Voice) -> Option<Sense> {
    match voice {
        Voice::Own => sense(unit, role),
        Voice::Unsure | Voice::Quoted | Voice::Machine => None,
    }
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
pub(super) fn together(said: Vec<Said>) -> Vec<Said> {
    let mut joined: Vec<Said> = Vec::with_capacity(said.len());
    for next in said {
        let last = joined.last_mut().filter(|last| {
            next.goes_on
                && !next.unit.text.ends_with(':')
                && last.goes_with(&next)
                && (last.turn, last.message) == (next.turn, next.message)
                && last.unit.text.len() + next.unit.text.len() < TOGETHER
        });
        match last {
            Some(last) => {
                let led = last.leads_on() && last.sense.is_none_or(|sense| sense.strength <= FAINT);
                last.unit = last.unit.join(&next.unit);
                last.sense = if led {
                    next.sense
                } else {
                    let own = sense_of(&last.unit, last.role, last.voice);
                    stronger(own, last.sense)
                };
                last.specificity = last.specificity.max(next.specificity);
                last.novelty = last.novelty.max(next.novelty);
                last.routine &= next.routine;
            }
            None => joined.push(next),
        }
    }
    joined
}

/// Where a sentence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is all that its message says.
    Alone,
    /// There are others beside it.
    Among,
    /// More calls of tools follow.
    BetweenCalls,
}

impl Said {
    /// Whether it was said before more calls of tools.
    pub(super) fn narrates(&self) -> bool {
        self.place == Place::BetweenCalls
    }

    /// Whether it is kept as one with what follows it.
    fn goes_with(&self, next: &Self) -> bool {
        let on_it = next.is_remark_on(self) || self.is_of_one_sort_with(next);
        let leads_on = self.leads_on() && !next.stands_as_rule();
        let tells = self.is_telling() && on_it && !self.is_another_rule_than(next);
        (leads_on || tells) && !self.is_rule_beside_task(next)
    }

    /// Whether it is a rule that says all by itself.
    fn stands_as_rule(&self) -> bool {
        self.is_rule() && !leans_back(&self.unit)
    }

    /// Whether it is a rule, and something is asked for next that is none.
    fn is_rule_beside_task(&self, next: &Self) -> bool {
        let is_user = self.role == Role::User;
        is_user && self.is_rule() && !next.is_rule() && asks(&next.unit)
    }

    /// Whether it is a rule, in plain words.
    fn is_rule(&self) -> bool {
        let plain = self.plain();
        plain.is_some_and(|sense| sense.kind == ItemKind::Directive)
    }

    /// Whether a person says little in it that is not plain without what follows: `no, not that.`
    fn leads_on(&self) -> bool {
        self.role == Role::User
            && !self.routine
            && !self.is_telling()
            && !self.is_nothing()
            && !self.is_rule()
            && length(&self.unit) <= 4
    }

    /// Whether two show by what they are that they are two things.
    fn is_apart_from(&self, next: &Self) -> bool {
        let (Some(sense), Some(other)) = (self.sense, next.sense) else {
            return false;
        };
        let plain = sense.strength > FAINT && other.strength > FAINT;
        // However faintly it is said, what is done is not open; the other way round, it may have been put right.
        let open = matches!(
            other.kind,
            ItemKind::Pending | ItemKind::Attempt | ItemKind::Blocker
        ) && !refers_back(&next.unit);
        plain && sense.kind != other.kind || sense.kind == ItemKind::Done && open
    }

    /// Whether two are rules of which one may be taken back without the other.
    fn is_another_rule_than(&self, next: &Self) -> bool {
        let stands_alone = !leans_back(&next.unit) && length(&next.unit) > 4;
        self.is_rule() && next.is_rule() && stands_alone
    }

    /// Whether two of which each tells something speak of one thing.
    fn is_of_one_sort_with(&self, next: &Self) -> bool {
        // A person's prompt is mostly one thought; an agent tells one thing after the other.
        let goes_along = match self.role {
            Role::User => self.routine == next.routine || refers_back(&next.unit),
            _ => self.routine == next.routine && refers_back(&next.unit),
        };
        next.is_telling() && goes_along && !self.is_apart_from(next)
    }

    /// Whether it says what something is, and leaves it to what comes before it to say what.
    fn is_remark_on(&self, last: &Self) -> bool {
        let says_what = !self.is_telling() && self.plain().is_some();
        says_what && (refers_back(&self.unit) || !last.is_apart_from(self))
    }

    /// What it is, if it shows it.
    fn plain(&self) -> Option<Sense> {
        self.sense.filter(|sense| sense.strength > FAINT)
    }

    /// Whether it says nothing that anybody would miss: a word or two of courtesy, what only leads to a list, what an
    /// agent is about to do before it does it.
    pub(super) fn is_nothing(&self) -> bool {
        let whole_prompt = self.role == Role::User && self.place == Place::Alone;
        let courtesy = !whole_prompt
            && self.sense.is_none_or(|sense| sense.strength <= FAINT)
            && self.unit.words().count() <= 3
            && self.unit.words().all(is_common);
        let leads = self.unit.text.ends_with(':') && self.unit.words().count() <= 8;
        let faint = |sense: Sense| sense.passes() || sense.strength <= FAINT;
        let announces =
            self.narrates() && is_routine(&self.unit, self.role) && self.sense.is_none_or(faint);
        let asked = self.role == Role::User && self.voice == Voice::Own && asks(&self.unit);
        (courtesy || leads) && !asked || announces
    }

    /// Whether it tells something that others do not.
    pub(super) fn is_telling(&self) -> bool {
        self.specificity >= TELLING || self.novelty >= NEW
    }
}
