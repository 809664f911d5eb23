//! Footnotes of the statistics: the time zone of the days, and missing data.

use jiff::{Timestamp, Zoned};
use segue_core::spend::{Key, Paid, Spending, Sum};

use super::format::short;

/// The request, as far as the footnotes need it.
pub(super) struct Asked<'a> {
    pub(super) since: Option<Timestamp>,
    pub(super) now: &'a Zoned,
    /// Requested project, worded for a sentence. Empty for all projects.
    pub(super) place: &'static str,
    /// Whether the user named an agent or a model.
    pub(super) narrowed: bool,
}

impl Asked<'_> {
    /// Returns the name of the time zone of the days.
    pub(super) fn zone(&self) -> String {
        let zone = self.now.time_zone();
        match zone.iana_name() {
            Some("Etc/UTC") => "UTC".to_owned(),
            Some(name) => name.to_owned(),
            // An unknown time zone counts as UTC.
            None if zone.is_unknown() => "UTC".to_owned(),
            None => format!("UTC{}", self.now.offset()),
        }
    }

    fn beginning(&self) -> Option<String> {
        let at = self.since?.to_zoned(self.now.time_zone().clone());
        let whole_day = at.start_of_day().is_ok_and(|start| start == at);
        let shape = if whole_day { "%F" } else { "%F %R" };
        Some(at.strftime(shape).to_string())
    }
}

/// Maximum number of models that a footnote names.
const NAMED: usize = 3;

/// Returns the footnotes of a table. `by_model` contains the same data, grouped by model.
pub(super) fn notes(spending: &Spending, by_model: &Spending, asked: &Asked<'_>) -> Vec<String> {
    let total = &spending.total;
    let zone = asked.zone();
    let mut notes = Vec::new();
    let times = spending.groups.iter();
    let times = times
        .flat_map(|group| [group].into_iter().chain(&group.parts))
        .any(|group| matches!(group.key, Key::Time(_)));
    match (asked.beginning(), times) {
        (Some(beginning), true) => {
            notes.push(format!("Since {beginning}; days are those of {zone}."));
        }
        (Some(beginning), false) => notes.push(format!("Since {beginning} ({zone}).")),
        (None, true) => notes.push(format!("Days are those of {zone}.")),
        (None, false) => {}
    }
    notes.extend(cost(total, by_model));
    if total.untold > 0 {
        let (turns, do_) = if total.untold == 1 {
            ("turn", "does")
        } else {
            ("turns", "do")
        };
        notes.push(format!(
            "{} {turns} {do_} not tell what was used.",
            short(total.untold)
        ));
    }
    notes
}

fn cost(total: &Sum, by_model: &Spending) -> Option<String> {
    let costs = &total.cost;
    let models = unpriced(by_model);
    let missing = || format!("{} tokens of {models} have no price", short(costs.unpriced));
    let source = match (costs.reported, costs.computed()) {
        (Some(reported), Some(computed)) => {
            format!(
                "Of the cost {reported} is as the agents tell it, and {computed} by your [prices]."
            )
        }
        (Some(_), None) => "Cost as the agents tell it.".to_owned(),
        (None, Some(_)) => "Cost by your [prices].".to_owned(),
        (None, None) => String::new(),
    };
    match costs.paid() {
        Paid::AtLeast(_) if costs.unpriced > 0 => Some(format!("{source} {}.", missing())),
        Paid::All(_) | Paid::AtLeast(_) => Some(source),
        Paid::Unknown if costs.unpriced > 0 => Some(format!(
            "Cost is not known: no agent tells it, and your [prices] have none for {models}."
        )),
        Paid::Unknown => None,
    }
}

/// Lists the models without a price, most used first.
fn unpriced(by_model: &Spending) -> String {
    let groups = by_model.groups.iter();
    let groups: Vec<_> = groups.filter(|group| group.sum.cost.unpriced > 0).collect();
    let mut names: Vec<String> = groups
        .iter()
        .take(NAMED)
        .map(|group| match &group.key {
            Key::Name(Some(name)) => crate::terminal::one_line(name),
            Key::Name(None) | Key::Time(_) => "a model that is not told".to_owned(),
        })
        .collect();
    if groups.len() > NAMED {
        names.push(format!("{} more", groups.len() - NAMED));
    }
    names.join(", ")
}

/// Composes the message for an empty result, with options that show more.
pub(super) fn nothing(asked: &Asked<'_>) -> String {
    let place = asked.place;
    let when = asked.beginning();
    let when = when.map_or(String::new(), |when| format!(" since {when}"));
    let narrowed = if asked.narrowed {
        " by that agent or model"
    } else {
        ""
    };
    let more = match (place.is_empty(), asked.since.is_some()) {
        (false, true) => " (--all looks at every project, --since all at every day)",
        (false, false) => " (--all looks at every project)",
        (true, true) => " (--since all looks at every day)",
        (true, false) => "",
    };
    format!("nothing was spent{narrowed}{place}{when}{more}")
}
