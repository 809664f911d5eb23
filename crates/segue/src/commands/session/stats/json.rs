//! JSON output of the statistics.

use segue_api::index::UnreadableFiles;
use segue_api::stats::{StatsGroup, StatsGroupKey, StatsNumbers, StatsReport};
use segue_core::id::ProviderId;
use segue_core::spend::{
    Cost, CostEstimate, SpendGroup, SpendGroupKey, SpendGrouping, SpendTotal, Spending,
};

use super::footnotes::StatsQuery;

pub(super) fn report_json(
    spending: &Spending,
    groupings: &[SpendGrouping],
    query: &StatsQuery<'_>,
    unreadable: &[(ProviderId, String)],
) -> StatsReport {
    let unreadable = unreadable.iter().map(|(provider, reason)| UnreadableFiles {
        provider: provider.clone(),
        why: reason.clone(),
    });
    StatsReport {
        by: groupings.to_vec(),
        since: query.since,
        zone: query.zone_name(),
        groups: groups_json(&spending.groups, groupings, spending).unwrap_or_default(),
        total: numbers_json(&spending.total, spending),
        unreadable: unreadable.collect(),
    }
}

/// Returns the groups. `None` if no grouping is left.
fn groups_json(
    groups: &[SpendGroup],
    groupings: &[SpendGrouping],
    spending: &Spending,
) -> Option<Vec<StatsGroup>> {
    let (grouping, nested_groupings) = groupings.split_first()?;
    let group_json = |group: &SpendGroup| StatsGroup {
        key: key_json(&group.key, *grouping),
        numbers: numbers_json(&group.total, spending),
        groups: groups_json(&group.subgroups, nested_groupings, spending),
    };
    Some(groups.iter().map(group_json).collect())
}

fn key_json(key: &SpendGroupKey, grouping: SpendGrouping) -> StatsGroupKey {
    let name = match key {
        SpendGroupKey::Name(name) => name.clone(),
        SpendGroupKey::Time(day) => match grouping {
            SpendGrouping::Week => return StatsGroupKey::Week(*day),
            SpendGrouping::Month => return StatsGroupKey::Month(day.strftime("%Y-%m").to_string()),
            _ => return StatsGroupKey::Day(*day),
        },
    };
    match grouping {
        SpendGrouping::Provider => StatsGroupKey::Provider(name),
        SpendGrouping::Model => StatsGroupKey::Model(name),
        _ => StatsGroupKey::Project(name),
    }
}

fn numbers_json(total: &SpendTotal, spending: &Spending) -> StatsNumbers {
    let (cost, cost_complete) = match total.cost.estimate() {
        CostEstimate::Unknown => (None, false),
        CostEstimate::Minimum(cost) => (Some(cost), false),
        CostEstimate::Complete(cost) => (Some(cost), true),
    };
    StatsNumbers {
        turns: total.turns,
        input_tokens: total.usage.input_tokens,
        cached_tokens: total.usage.cached_tokens,
        output_tokens: total.usage.output_tokens,
        total_tokens: total.tokens(),
        share: total.tokens().and_then(|_| spending.token_fraction(total)),
        cost_usd: cost.map(to_dollars),
        cost_complete,
        reported_usd: total.cost.reported.map(to_dollars),
        unpriced_tokens: total.cost.unpriced_tokens,
        untold_turns: total.unreported_turns,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to billions of dollars"
)]
fn to_dollars(cost: Cost) -> f64 {
    cost.micros() as f64 / 1e6
}
