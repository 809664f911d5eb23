use jiff::civil::date;

use super::*;

fn used(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cached_tokens: Some(cached),
        total_tokens: Some(input + output),
        ..Usage::default()
    }
}

fn spent(day: Date, provider: &str, model: &str, usage: Usage) -> Spent {
    Spent {
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
fn the_longest_name_that_a_model_begins_with_has_its_price() {
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
        let price = prices.of(model).map(|price| price.input);
        assert_eq!(price, input.map(dollars), "{model}");
    }
}

#[test]
fn cached_tokens_are_charged_once() {
    let opus = price(15.0, 1.5, 75.0);
    let cases = [
        (used(1_000_000, 0, 0), Some(15_000_000)),
        (used(1_000_000, 1_000_000, 0), Some(1_500_000)),
        // 100,000 at 15, 900,000 at 1.5, 10,000 at 75.
        (used(1_000_000, 900_000, 10_000), Some(3_600_000)),
        // More cached tokens than input tokens.
        (used(10, 1000, 0), Some(15)),
        // 1.5 millionths are rounded to two.
        (used(1, 1, 0), Some(2)),
        (used(u64::MAX, 0, 0), Some(u64::MAX)),
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
            opus.of(&usage).map(|cost| cost.rounded().micros()),
            micros,
            "{usage:?}"
        );
    }
}

#[test]
fn a_cost_that_lacks_parts_says_so() {
    let day = date(2026, 11, 16);
    let opus = spent(day, "claude", "claude-opus-4", used(1_000_000, 0, 0));
    let unpriced = spent(day, "gemini", "gemini-3", used(700, 0, 300));
    let silent = spent(day, "rehearsal", "", Usage::default());
    let free = spent(day, "opencode", "free-1", used(10, 0, 10));
    let reported = Spent {
        cost: Some(dollars(0.25)),
        // The price list has a price for the model as well.
        ..opus.clone()
    };
    let cases: [(Vec<&Spent>, Paid, u64); 8] = [
        (vec![], Paid::Unknown, 0),
        (vec![&opus], Paid::All(dollars(15.0)), 0),
        (vec![&reported], Paid::All(dollars(0.25)), 0),
        (vec![&opus, &reported], Paid::All(dollars(15.25)), 0),
        (vec![&unpriced], Paid::Unknown, 1000),
        (
            vec![&unpriced, &reported],
            Paid::AtLeast(dollars(0.25)),
            1000,
        ),
        (vec![&opus, &silent], Paid::AtLeast(dollars(15.0)), 0),
        (vec![&free], Paid::All(Cost::default()), 0),
    ];
    for (all, paid, unpriced) in cases {
        let all: Vec<Spent> = all.into_iter().cloned().collect();
        let sum = Spending::of(&all, &[], &prices()).total;
        assert_eq!(
            (sum.cost.paid(), sum.cost.unpriced),
            (paid, unpriced),
            "{all:?}"
        );
    }
}

#[test]
fn a_sum_is_rounded_once() {
    let day = date(2026, 11, 16);
    // Each costs 0.125 millionths.
    let all = vec![spent(day, "codex", "gpt-5", used(1, 1, 0)); 10];
    let sum = Spending::of(&all, &[], &prices()).total;
    assert_eq!(sum.cost.paid(), Paid::All(Cost::from_micros(1)));
}

#[test]
fn what_is_not_told_is_no_zero() {
    let day = date(2026, 11, 16);
    let silent = spent(day, "rehearsal", "", Usage::default());
    let only_total = Usage {
        total_tokens: Some(50),
        ..Usage::default()
    };
    let only_input = Usage {
        input_tokens: Some(7),
        ..Usage::default()
    };
    let all = [
        silent.clone(),
        spent(day, "a", "", only_total),
        spent(day, "b", "", only_input),
    ];
    let sum = |all: &[Spent]| Spending::of(all, &[], &Prices::default()).total;
    assert_eq!(sum(&[silent]).tokens(), None);
    let all = sum(&all);
    assert_eq!((all.turns, all.untold, all.tokens()), (3, 1, Some(57)));
    assert_eq!(all.usage.input_tokens, Some(7));
    assert_eq!(all.usage.output_tokens, None);
}

fn key(group: &Group) -> String {
    match &group.key {
        Key::Time(day) => day.to_string(),
        Key::Name(name) => name.clone().unwrap_or_else(|| "-".to_owned()),
    }
}

/// Formats groups as their keys and tokens.
fn told(groups: &[Group]) -> String {
    let told = |group: &Group| {
        let tokens = group.sum.tokens().map_or("?".to_owned(), |n| n.to_string());
        let parts = match told(&group.parts) {
            parts if parts.is_empty() => parts,
            parts => format!("({parts})"),
        };
        format!("{} {tokens}{parts}", key(group))
    };
    groups.iter().map(told).collect::<Vec<_>>().join(", ")
}

#[test]
fn sums_are_put_together_in_every_way() {
    let sunday = date(2026, 11, 15);
    let monday = date(2026, 11, 16);
    let earlier = date(2026, 10, 31);
    let in_project = |spent: Spent, project: &str| Spent {
        project: Some(project.to_owned()),
        ..spent
    };
    let all = [
        in_project(spent(monday, "codex", "gpt-5", used(1, 0, 1)), "/b"),
        in_project(spent(sunday, "claude", "opus", used(5, 0, 5)), "/a"),
        spent(monday, "claude", "opus", used(2, 0, 2)),
        spent(earlier, "claude", "", used(3, 0, 3)),
        spent(earlier, "rehearsal", "", Usage::default()),
    ];
    let cases: [(&[By], &str); 8] = [
        (&[], ""),
        (&[By::Day], "2026-10-31 6, 2026-11-15 10, 2026-11-16 6"),
        (&[By::Week], "2026-10-26 6, 2026-11-09 10, 2026-11-16 6"),
        (&[By::Month], "2026-10-01 6, 2026-11-01 16"),
        (&[By::Provider], "claude 20, codex 2, rehearsal ?"),
        (&[By::Model], "opus 14, - 6, gpt-5 2"),
        (&[By::Project], "/a 10, - 10, /b 2"),
        (
            &[By::Month, By::Model],
            "2026-10-01 6(- 6), 2026-11-01 16(opus 14, gpt-5 2)",
        ),
    ];
    for (by, expected) in cases {
        let spending = Spending::of(&all, by, &Prices::default());
        assert_eq!(told(&spending.groups), expected, "{by:?}");
        assert_eq!(spending.total.tokens(), Some(22));
        assert_eq!((spending.total.turns, spending.total.untold), (5, 1));
    }
    let spending = Spending::of(&all, &[By::Provider], &Prices::default());
    let shares: Vec<_> = spending
        .groups
        .iter()
        .map(|group| spending.share(&group.sum).unwrap())
        .collect();
    assert!(
        (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
        "{shares:?}"
    );
    let nothing = Spending::of(&[], &[By::Day], &Prices::default());
    assert_eq!(nothing.share(&nothing.total), None);
}

#[test]
fn the_first_days_there_are_belong_to_a_week() {
    let all = [spent(Date::MIN, "a", "", used(1, 0, 1))];
    let spending = Spending::of(&all, &[By::Week], &Prices::default());
    assert_eq!(told(&spending.groups), format!("{} 2", Date::MIN));
}
