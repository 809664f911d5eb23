//! JSON output of the statistics.

use segue_core::id::ProviderId;
use segue_core::spend::Cost;
use segue_core::spend::{
    CostEstimate, SpendGroup, SpendGroupKey, SpendGrouping, SpendTotal, Spending,
};
use serde_json::{Map, Value, json};

use super::footnotes::StatsQuery;

pub(super) fn report_json(
    spending: &Spending,
    groupings: &[SpendGrouping],
    query: &StatsQuery<'_>,
    unreadable: &[(ProviderId, String)],
) -> Value {
    let names: Vec<&str> = groupings.iter().map(|grouping| grouping.as_str()).collect();
    let unreadable: Vec<Value> = unreadable
        .iter()
        .map(|(provider, reason)| json!({ "provider": provider.as_str(), "why": reason }))
        .collect();
    json!({
        "by": names,
        "since": query.since.map(|since| since.to_string()),
        "zone": query.zone_name(),
        "groups": groups_json(&spending.groups, groupings, spending),
        "total": Value::Object(totals_json(&spending.total, spending)),
        "unreadable": unreadable,
    })
}

fn groups_json(
    groups: &[SpendGroup],
    groupings: &[SpendGrouping],
    spending: &Spending,
) -> Vec<Value> {
    let Some((grouping, nested_groupings)) = groupings.split_first() else {
        return Vec::new();
    };
    let to_json = |group: &SpendGroup| {
        let mut object = Map::new();
        object.insert(
            grouping.as_str().to_owned(),
            key_json(&group.key, *grouping),
        );
        object.extend(totals_json(&group.total, spending));
        if !nested_groupings.is_empty() {
            object.insert(
                "groups".to_owned(),
                json!(self::groups_json(
                    &group.subgroups,
                    nested_groupings,
                    spending
                )),
            );
        }
        Value::Object(object)
    };
    groups.iter().map(to_json).collect()
}

fn key_json(key: &SpendGroupKey, grouping: SpendGrouping) -> Value {
    match key {
        SpendGroupKey::Time(day) if grouping == SpendGrouping::Month => {
            json!(day.strftime("%Y-%m").to_string())
        }
        SpendGroupKey::Time(day) => json!(day.to_string()),
        SpendGroupKey::Name(name) => json!(name),
    }
}

fn totals_json(total: &SpendTotal, spending: &Spending) -> Map<String, Value> {
    let (cost, is_complete) = match total.cost.estimate() {
        CostEstimate::Unknown => (None, false),
        CostEstimate::Minimum(cost) => (Some(cost), false),
        CostEstimate::Complete(cost) => (Some(cost), true),
    };
    let entries = [
        ("turns", json!(total.turns)),
        ("input_tokens", json!(total.usage.input_tokens)),
        ("cached_tokens", json!(total.usage.cached_tokens)),
        ("output_tokens", json!(total.usage.output_tokens)),
        ("total_tokens", json!(total.tokens())),
        (
            "share",
            json!(total.tokens().and_then(|_| spending.token_fraction(total))),
        ),
        ("cost_usd", json!(cost.map(to_dollars))),
        ("cost_complete", json!(is_complete)),
        ("reported_usd", json!(total.cost.reported.map(to_dollars))),
        ("unpriced_tokens", json!(total.cost.unpriced_tokens)),
        ("untold_turns", json!(total.unreported_turns)),
    ];
    let entries = entries.into_iter();
    entries
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to billions of dollars"
)]
fn to_dollars(cost: Cost) -> f64 {
    cost.micros() as f64 / 1e6
}
