//! Footnotes of the statistics: the time zone of the days, and missing data.

use jiff::{Timestamp, Zoned};
use segue_core::spend::{CostEstimate, SpendGroupKey, SpendTotal, Spending};

use super::format::format_short_number;
use crate::terminal::to_single_line;

/// The request, as far as the footnotes need it.
pub(super) struct StatsQuery<'a> {
    pub(super) since: Option<Timestamp>,
    pub(super) now: &'a Zoned,
    /// Requested project, worded for a sentence. Empty for all projects.
    pub(super) project_phrase: &'static str,
    /// Whether the user named an agent or a model.
    pub(super) is_filtered: bool,
}

impl StatsQuery<'_> {
    /// Returns the name of the time zone of the days.
    pub(super) fn zone_name(&self) -> String {
        let zone = self.now.time_zone();
        match zone.iana_name() {
            Some("Etc/UTC") => "UTC".to_owned(),
            Some(name) => name.to_owned(),
            // An unknown time zone counts as UTC.
            None if zone.is_unknown() => "UTC".to_owned(),
            None => format!("UTC{}", self.now.offset()),
        }
    }

    fn format_start(&self) -> Option<String> {
        let at = self.since?.to_zoned(self.now.time_zone().clone());
        let is_day_start = at.start_of_day().is_ok_and(|start| start == at);
        let pattern = if is_day_start { "%F" } else { "%F %R" };
        Some(at.strftime(pattern).to_string())
    }
}

/// Maximum number of models that a footnote names.
const MAX_NAMED_MODELS: usize = 3;

/// Returns the footnotes of a table. `by_model` contains the same data, grouped by model.
pub(super) fn format_footnotes(
    spending: &Spending,
    by_model: &Spending,
    query: &StatsQuery<'_>,
) -> Vec<String> {
    let total = &spending.total;
    let zone = query.zone_name();
    let mut notes = Vec::new();
    let groups = spending.groups.iter();
    let has_periods = groups
        .flat_map(|group| [group].into_iter().chain(&group.subgroups))
        .any(|group| matches!(group.key, SpendGroupKey::Time(_)));
    match (query.format_start(), has_periods) {
        (Some(start), _) => notes.push(format!("Since {start} (time zone: {zone}).")),
        (None, true) => notes.push(format!("Time zone: {zone}.")),
        (None, false) => {}
    }
    notes.extend(format_cost_note(total, by_model));
    let turns = format_short_number(total.unreported_turns);
    match total.unreported_turns {
        0 => {}
        1 => notes.push(format!("{turns} turn reports no usage.")),
        _ => notes.push(format!("{turns} turns report no usage.")),
    }
    notes
}

fn format_cost_note(total: &SpendTotal, by_model: &Spending) -> Option<String> {
    let costs = &total.cost;
    let models = list_unpriced_models(by_model);
    let format_unpriced = || {
        format!(
            "Tokens without a price: {} ({models})",
            format_short_number(costs.unpriced_tokens)
        )
    };
    let source = match (costs.reported, costs.computed()) {
        (Some(reported), Some(computed)) => format!(
            "Cost: {reported} reported by the agents, {computed} computed from your [prices]."
        ),
        (Some(_), None) => "Cost as reported by the agents.".to_owned(),
        (None, Some(_)) => "Cost computed from your [prices].".to_owned(),
        (None, None) => String::new(),
    };
    match costs.estimate() {
        CostEstimate::Minimum(_) if costs.unpriced_tokens > 0 => {
            Some(format!("{source} {}.", format_unpriced()))
        }
        CostEstimate::Complete(_) | CostEstimate::Minimum(_) => Some(source),
        CostEstimate::Unknown if costs.unpriced_tokens > 0 => Some(format!(
            "Cost unknown: no agent reported it, and your [prices] have no entry for {models}."
        )),
        CostEstimate::Unknown => None,
    }
}

/// Lists the models without a price, most used first.
fn list_unpriced_models(by_model: &Spending) -> String {
    let groups = by_model.groups.iter();
    let unpriced = groups.filter(|group| group.total.cost.unpriced_tokens > 0);
    let names = unpriced.map(|group| match &group.key {
        SpendGroupKey::Name(Some(name)) => to_single_line(name),
        SpendGroupKey::Name(None) | SpendGroupKey::Time(_) => "an unknown model".to_owned(),
    });
    let mut names: Vec<String> = names.collect();
    if let Some(more @ 1..) = names.len().checked_sub(MAX_NAMED_MODELS) {
        names.truncate(MAX_NAMED_MODELS);
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Composes the message for an empty result, with options that show more.
pub(super) fn empty_message(query: &StatsQuery<'_>) -> String {
    let project_phrase = query.project_phrase;
    let since = query.format_start();
    let since = since.map_or(String::new(), |since| format!(" since {since}"));
    let filter_note = if query.is_filtered {
        " of that agent or model"
    } else {
        ""
    };
    let hint = match (project_phrase.is_empty(), query.since.is_some()) {
        (false, true) => " (use --all for all projects, --since all for all days)",
        (false, false) => " (use --all for all projects)",
        (true, true) => " (use --since all for all days)",
        (true, false) => "",
    };
    format!("no usage{filter_note}{project_phrase}{since}{hint}")
}
