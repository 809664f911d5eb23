//! JSON output of the statistics.

use segue_core::id::ProviderId;
use segue_core::spend::Cost;
use segue_core::spend::{By, Group, Key, Paid, Spending, Sum};
use serde_json::{Map, Value, json};

use super::footnotes::Asked;

pub(super) fn report(
    spending: &Spending,
    by: &[By],
    asked: &Asked<'_>,
    unreadable: &[(ProviderId, String)],
) -> Value {
    let names: Vec<&str> = by.iter().map(|by| by.as_str()).collect();
    let unreadable: Vec<Value> = unreadable
        .iter()
        .map(|(provider, why)| json!({ "provider": provider.as_str(), "why": why }))
        .collect();
    json!({
        "by": names,
        "since": asked.since.map(|since| since.to_string()),
        "zone": asked.zone(),
        "groups": groups(&spending.groups, by, spending),
        "total": Value::Object(figures(&spending.total, spending)),
        "unreadable": unreadable,
    })
}

fn groups(groups: &[Group], by: &[By], spending: &Spending) -> Vec<Value> {
    let Some((first, rest)) = by.split_first() else {
        return Vec::new();
    };
    let group = |group: &Group| {
        let mut object = Map::new();
        object.insert(first.as_str().to_owned(), key(&group.key, *first));
        object.extend(figures(&group.sum, spending));
        if !rest.is_empty() {
            object.insert(
                "groups".to_owned(),
                json!(self::groups(&group.parts, rest, spending)),
            );
        }
        Value::Object(object)
    };
    groups.iter().map(group).collect()
}

fn key(key: &Key, by: By) -> Value {
    match key {
        Key::Time(day) if by == By::Month => json!(day.strftime("%Y-%m").to_string()),
        Key::Time(day) => json!(day.to_string()),
        Key::Name(name) => json!(name),
    }
}

fn figures(sum: &Sum, spending: &Spending) -> Map<String, Value> {
    let (cost, complete) = match sum.cost.paid() {
        Paid::Unknown => (None, false),
        Paid::AtLeast(cost) => (Some(cost), false),
        Paid::All(cost) => (Some(cost), true),
    };
    let figures = [
        ("turns", json!(sum.turns)),
        ("input_tokens", json!(sum.usage.input_tokens)),
        ("cached_tokens", json!(sum.usage.cached_tokens)),
        ("output_tokens", json!(sum.usage.output_tokens)),
        ("total_tokens", json!(sum.tokens())),
        (
            "share",
            json!(sum.tokens().and_then(|_| spending.share(sum))),
        ),
        ("cost_usd", json!(cost.map(dollars))),
        ("cost_complete", json!(complete)),
        ("reported_usd", json!(sum.cost.reported.map(dollars))),
        ("unpriced_tokens", json!(sum.cost.unpriced)),
        ("untold_turns", json!(sum.untold)),
    ];
    let named = figures.into_iter();
    named
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to billions of dollars"
)]
fn dollars(cost: Cost) -> f64 {
    cost.micros() as f64 / 1e6
}
