use jiff::civil::date;

use super::*;

fn token_usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cached_tokens: Some(cached),
        total_tokens: Some(input + output),
        ..Usage::default()
    }
}

fn spend_record(day: Date, provider: &str, model: &str, usage: Usage) -> SpendRecord {
    SpendRecord {
        day,
        provider: ProviderId::parse(provider).unwrap(),
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        project: None,
        turns: 1,
        usage,
        cost: None,
    }
}

fn dollars(dollars: f64) -> Cost {
    Cost::from_dollars(dollars).unwrap()
}

fn price(input: f64, cached: f64, output: f64) -> Price {
    Price {
        input: dollars(input),
        output: dollars(output),
        cached: dollars(cached),
    }
}

fn prices() -> Prices {
    [
        ("claude-opus-4".to_owned(), price(15.0, 1.5, 75.0)),
        ("claude-opus-4-5".to_owned(), price(5.0, 0.5, 25.0)),
        ("gpt-5".to_owned(), price(1.25, 0.125, 10.0)),
        ("free".to_owned(), price(0.0, 0.0, 0.0)),
    ]
    .into_iter()
    .collect()
}

#[test]
fn the_longest_matching_prefix_determines_the_price() {
    let cases = [
        ("claude-opus-4", Some(15.0)),
        ("claude-opus-4-20250514", Some(15.0)),
        ("claude-opus-4-5-20251101", Some(5.0)),
        ("claude-opus", None),
        ("anthropic/claude-opus-4-5", Some(5.0)),
        ("openrouter/openai/gpt-5-mini", Some(1.25)),
        ("/", None),
        ("", None),
    ];
    for (model, input) in cases {
        let prices = prices();
        let price = prices.find_price(model).map(|price| price.input);
        assert_eq!(price, input.map(dollars), "{model}");
    }
}

#[test]
fn cached_tokens_are_charged_once() {
    let opus = price(15.0, 1.5, 75.0);
    let cases = [
        (token_usage(1_000_000, 0, 0), Some(15_000_000)),
        (token_usage(1_000_000, 1_000_000, 0), Some(1_500_000)),
        // 100,000 at 15, 900,000 at 1.5, 10,000 at 75.
        (token_usage(1_000_000, 900_000, 10_000), Some(3_600_000)),
        // More cached tokens than input tokens.
        (token_usage(10, 1000, 0), Some(15)),
        // 1.5 millionths are rounded to two.
        (token_usage(1, 1, 0), Some(2)),
        (token_usage(u64::MAX, 0, 0), Some(u64::MAX)),
        (
            Usage {
                total_tokens: Some(5),
                ..Usage::default()
            },
            None,
        ),
        (
            Usage {
                input_tokens: Some(1_000_000),
                output_tokens: Some(0),
                ..Usage::default()
            },
            Some(15_000_000),
        ),
    ];
    for (usage, micros) in cases {
        assert_eq!(
            opus.compute_cost(&usage)
                .map(|cost| cost.to_rounded_cost().micros()),
            micros,
            "{usage:?}"
        );
    }
}

#[test]
fn a_cost_with_unpriced_usage_is_a_minimum() {
    let day = date(2026, 11, 16);
    let opus = spend_record(day, "claude", "claude-opus-4", token_usage(1_000_000, 0, 0));
    let unpriced = spend_record(day, "gemini", "gemini-3", token_usage(700, 0, 300));
    let unreported = spend_record(day, "rehearsal", "", Usage::default());
    let free = spend_record(day, "opencode", "free-1", token_usage(10, 0, 10));
    let reported = SpendRecord {
        cost: Some(dollars(0.25)),
        // The price list has a price for the model as well.
        ..opus.clone()
    };
    let cases: [(Vec<&SpendRecord>, CostEstimate, u64); 8] = [
        (vec![], CostEstimate::Unknown, 0),
        (vec![&opus], CostEstimate::Complete(dollars(15.0)), 0),
        (vec![&reported], CostEstimate::Complete(dollars(0.25)), 0),
        (
            vec![&opus, &reported],
            CostEstimate::Complete(dollars(15.25)),
            0,
        ),
        (vec![&unpriced], CostEstimate::Unknown, 1000),
        (
            vec![&unpriced, &reported],
            CostEstimate::Minimum(dollars(0.25)),
            1000,
        ),
        (
            vec![&opus, &unreported],
            CostEstimate::Minimum(dollars(15.0)),
            0,
        ),
        (vec![&free], CostEstimate::Complete(Cost::default()), 0),
    ];
    for (records, estimate, unpriced) in cases {
        let records: Vec<SpendRecord> = records.into_iter().cloned().collect();
        let total = Spending::from_records(&records, &[], &prices()).total;
        assert_eq!(
            (total.cost.estimate(), total.cost.unpriced_tokens),
            (estimate, unpriced),
            "{records:?}"
        );
    }
}

#[test]
fn a_sum_is_rounded_once() {
    let day = date(2026, 11, 16);
    // Each costs 0.125 millionths.
    let records = vec![spend_record(day, "codex", "gpt-5", token_usage(1, 1, 0)); 10];
    let total = Spending::from_records(&records, &[], &prices()).total;
    assert_eq!(
        total.cost.estimate(),
        CostEstimate::Complete(Cost::from_micros(1))
    );
}

#[test]
fn unreported_usage_is_unknown_and_not_zero() {
    let day = date(2026, 11, 16);
    let unreported = spend_record(day, "rehearsal", "", Usage::default());
    let only_total = Usage {
        total_tokens: Some(50),
        ..Usage::default()
    };
    let only_input = Usage {
        input_tokens: Some(7),
        ..Usage::default()
    };
    let records = [
        unreported.clone(),
        spend_record(day, "a", "", only_total),
        spend_record(day, "b", "", only_input),
    ];
    let total_of =
        |records: &[SpendRecord]| Spending::from_records(records, &[], &Prices::default()).total;
    assert_eq!(total_of(&[unreported]).tokens(), None);
    let total = total_of(&records);
    assert_eq!(
        (total.turns, total.unreported_turns, total.tokens()),
        (3, 1, Some(57))
    );
    assert_eq!(total.usage.input_tokens, Some(7));
    assert_eq!(total.usage.output_tokens, None);
}

fn format_key(group: &SpendGroup) -> String {
    match &group.key {
        SpendGroupKey::Time(day) => day.to_string(),
        SpendGroupKey::Name(name) => name.clone().unwrap_or_else(|| "-".to_owned()),
    }
}

/// Formats groups as their keys and tokens.
fn format_groups(groups: &[SpendGroup]) -> String {
    let format_group = |group: &SpendGroup| {
        let tokens = group
            .total
            .tokens()
            .map_or("?".to_owned(), |n| n.to_string());
        let parts = match format_groups(&group.subgroups) {
            parts if parts.is_empty() => parts,
            parts => format!("({parts})"),
        };
        format!("{} {tokens}{parts}", format_key(group))
    };
    groups
        .iter()
        .map(format_group)
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn records_are_grouped_by_every_criterion() {
    let sunday = date(2026, 11, 15);
    let monday = date(2026, 11, 16);
    let earlier = date(2026, 10, 31);
    let in_project = |record: SpendRecord, project: &str| SpendRecord {
        project: Some(project.to_owned()),
        ..record
    };
    let records = [
        in_project(
            spend_record(monday, "codex", "gpt-5", token_usage(1, 0, 1)),
            "/b",
        ),
        in_project(
            spend_record(sunday, "claude", "opus", token_usage(5, 0, 5)),
            "/a",
        ),
        spend_record(monday, "claude", "opus", token_usage(2, 0, 2)),
        spend_record(earlier, "claude", "", token_usage(3, 0, 3)),
        spend_record(earlier, "rehearsal", "", Usage::default()),
    ];
    let cases: [(&[SpendGrouping], &str); 8] = [
        (&[], ""),
        (
            &[SpendGrouping::Day],
            "2026-10-31 6, 2026-11-15 10, 2026-11-16 6",
        ),
        (
            &[SpendGrouping::Week],
            "2026-10-26 6, 2026-11-09 10, 2026-11-16 6",
        ),
        (&[SpendGrouping::Month], "2026-10-01 6, 2026-11-01 16"),
        (
            &[SpendGrouping::Provider],
            "claude 20, codex 2, rehearsal ?",
        ),
        (&[SpendGrouping::Model], "opus 14, - 6, gpt-5 2"),
        (&[SpendGrouping::Project], "/a 10, - 10, /b 2"),
        (
            &[SpendGrouping::Month, SpendGrouping::Model],
            "2026-10-01 6(- 6), 2026-11-01 16(opus 14, gpt-5 2)",
        ),
    ];
    for (groupings, expected) in cases {
        let spending = Spending::from_records(&records, groupings, &Prices::default());
        assert_eq!(format_groups(&spending.groups), expected, "{groupings:?}");
        assert_eq!(spending.total.tokens(), Some(22));
        assert_eq!(
            (spending.total.turns, spending.total.unreported_turns),
            (5, 1)
        );
    }
    let spending = Spending::from_records(&records, &[SpendGrouping::Provider], &Prices::default());
    let fractions: Vec<_> = spending
        .groups
        .iter()
        .map(|group| spending.token_fraction(&group.total).unwrap())
        .collect();
    assert!(
        (fractions.iter().sum::<f64>() - 1.0).abs() < 1e-9,
        "{fractions:?}"
    );
    let empty = Spending::from_records(&[], &[SpendGrouping::Day], &Prices::default());
    assert_eq!(empty.token_fraction(&empty.total), None);
}

#[test]
fn the_first_days_of_the_calendar_belong_to_a_week() {
    let records = [spend_record(Date::MIN, "a", "", token_usage(1, 0, 1))];
    let spending = Spending::from_records(&records, &[SpendGrouping::Week], &Prices::default());
    assert_eq!(format_groups(&spending.groups), format!("{} 2", Date::MIN));
}
