use jiff::civil::date;
use segue_core::id::ProviderId;
use segue_core::session::Usage;
use segue_core::spend::Cost;
use segue_core::spend::{Price, Prices, SpendRecord};

use super::*;

fn spend_record(
    day: i8,
    provider: &str,
    model: Option<&str>,
    project: &str,
    tokens: u64,
) -> SpendRecord {
    SpendRecord {
        day: date(2026, 11, day),
        provider: ProviderId::parse(provider).unwrap(),
        model: model.map(str::to_owned),
        project: Some(project.to_owned()),
        turns: tokens / 10_000 + 1,
        usage: Usage {
            input_tokens: Some(tokens),
            output_tokens: Some(tokens / 100),
            cached_tokens: Some(tokens / 2),
            total_tokens: Some(tokens + tokens / 100),
            ..Usage::default()
        },
        cost: None,
    }
}

fn sample_records() -> Vec<SpendRecord> {
    let opus = Some("claude-opus-4-5-20251101");
    vec![
        spend_record(1, "claude", opus, "/home/u/src/web/.git", 12_345_678),
        spend_record(
            2,
            "claude",
            opus,
            "/srv/a-long/way/to/some/project",
            1_234_567,
        ),
        spend_record(2, "codex", Some("gpt-5.5"), "/home/u/src/web/.git", 345_678),
        SpendRecord {
            usage: Usage::default(),
            ..spend_record(3, "acp:mine", None, "/home/u/x\u{1b}[31m", 1)
        },
    ]
}

fn sample_prices() -> Prices {
    let dollars = |dollars: u64| Cost::from_micros(dollars * 1_000_000);
    let price = Price {
        input: dollars(5),
        output: dollars(25),
        cached: dollars(1),
    };
    [("claude-opus-4-5".to_owned(), price)]
        .into_iter()
        .collect()
}

fn table_with_width(width: Option<usize>) -> SpendTable {
    SpendTable {
        width,
        unicode: true,
        bars: false,
        home: "/home/u".to_owned(),
    }
}

fn draw_table(table: &SpendTable, groupings: &[SpendGrouping]) -> String {
    let lines = table.format_lines(
        &Spending::from_records(&sample_records(), groupings, &sample_prices()),
        groupings,
    );
    for line in &lines {
        let fits = table.width.is_none_or(|width| display_width(line) <= width);
        assert!(fits, "too wide: {line:?}");
    }
    lines.join("\n")
}

#[test]
fn a_table_has_the_columns_that_fit() {
    insta::assert_snapshot!(draw_table(&table_with_width(Some(80)), &[SpendGrouping::Day]), @"
    DAY         TURNS  INPUT  CACHED  OUTPUT  TOTAL      COST
    2026-11-01   1.2k  12.3M    6.2M    123k  12.5M    $40.12
    2026-11-02    159   1.6M    790k   15.8k   1.6M   ≥ $4.01
    2026-11-03      1      ?       ?       ?      ?         ?
    total        1.4k  13.9M    7.0M    139k  14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_width(Some(40)), &[SpendGrouping::Day]), @"
    DAY         TURNS  TOTAL      COST
    2026-11-01   1.2k  12.5M    $40.12
    2026-11-02    159   1.6M   ≥ $4.01
    2026-11-03      1      ?         ?
    total        1.4k  14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_width(Some(80)), &[SpendGrouping::Model]), @"
    MODEL                     TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    claude-opus-4-5-20251101   1.4k  13.6M    6.8M    136k  13.7M    98%    $44.14
    gpt-5.5                      35   346k    173k    3.5k   349k     2%         ?
    (unknown)                     1      ?       ?       ?      ?      ?         ?
    total                      1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_width(Some(40)), &[SpendGrouping::Model]), @"
    MODEL                    TOTAL      COST
    claude-opus-4-5-202511…  13.7M    $44.14
    gpt-5.5                   349k         ?
    (unknown)                    ?         ?
    total                    14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_width(Some(60)), &[SpendGrouping::Project]), @"
    PROJECT                        TURNS  TOTAL  SHARE      COST
    ~/src/web                       1.3k  12.8M    91%  ≥ $40.12
    …v/a-long/way/to/some/project    124   1.2M     9%     $4.01
    ~/x                                1      ?      ?         ?
    total                           1.4k  14.1M   100%  ≥ $44.14
    ");
}

#[test]
fn subgroups_are_indented() {
    insta::assert_snapshot!(draw_table(&table_with_width(None), &[SpendGrouping::Month, SpendGrouping::Provider]), @"
    MONTH, AGENT  TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    2026-11        1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
      claude       1.4k  13.6M    6.8M    136k  13.7M    98%    $44.14
      codex          35   346k    173k    3.5k   349k     2%         ?
      acp:mine        1      ?       ?       ?      ?      ?         ?
    total          1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_width(Some(50)), &[SpendGrouping::Provider, SpendGrouping::Project]), @"
    AGENT, PROJECT              TURNS  TOTAL      COST
    claude                       1.4k  13.7M    $44.14
      ~/src/web                  1.2k  12.5M    $40.12
      …ong/way/to/some/project    124   1.2M     $4.01
    codex                          35   349k         ?
      ~/src/web                    35   349k         ?
    acp:mine                        1      ?         ?
      ~/x                           1      ?         ?
    total                        1.4k  14.1M  ≥ $44.14
    ");
}

#[test]
fn bars_use_the_remaining_width() {
    let table_with_bars = |width, unicode| SpendTable {
        bars: true,
        unicode,
        ..table_with_width(width)
    };
    insta::assert_snapshot!(draw_table(&table_with_bars(Some(80), true), &[SpendGrouping::Day]), @"
    DAY         TURNS  INPUT  CACHED  OUTPUT  TOTAL      COST
    2026-11-01   1.2k  12.3M    6.2M    123k  12.5M    $40.12  █████████████████████
    2026-11-02    159   1.6M    790k   15.8k   1.6M   ≥ $4.01  ██▊
    2026-11-03      1      ?       ?       ?      ?         ?
    total        1.4k  13.9M    7.0M    139k  14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_bars(Some(40), false), &[SpendGrouping::Day]), @"
    DAY         TOTAL      COST
    2026-11-01  12.5M    $40.12  ###########
    2026-11-02   1.6M   >=$4.01  #
    2026-11-03      ?         ?
    total       14.1M  >=$44.14
    ");
    insta::assert_snapshot!(draw_table(&table_with_bars(None, true), &[SpendGrouping::Provider]), @"
    AGENT     TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    claude     1.4k  13.6M    6.8M    136k  13.7M    98%    $44.14  ████████████████
    codex        35   346k    173k    3.5k   349k     2%         ?  ▍
    acp:mine      1      ?       ?       ?      ?      ?         ?
    total      1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
    ");
}

#[test]
fn the_cost_column_is_omitted_if_no_cost_is_known() {
    let records = sample_records();
    let spending = Spending::from_records(&records, &[SpendGrouping::Day], &Prices::default());
    let lines = table_with_width(None).format_lines(&spending, &[SpendGrouping::Day]);
    assert!(!lines[0].contains("COST"), "{}", lines[0]);
}

#[test]
fn names_are_truncated_by_their_display_width() {
    for (name, width, is_path, expected) in [
        ("~/日本語/仕事", 13, true, "~/日本語/仕事"),
        ("~/日本語/仕事", 9, true, "…語/仕事"),
        ("  ~/日本語/仕事", 9, true, "  …/仕事"),
        ("日本語モデル", 6, false, "日本…"),
        ("cafe\u{301}-1", 6, false, "cafe\u{301}-1"),
        ("cafe\u{301}-1", 5, false, "cafe\u{301}…"),
    ] {
        assert_eq!(
            truncate_name(name, width, is_path),
            expected,
            "{name} in {width}"
        );
    }
}

#[test]
fn no_line_exceeds_the_table_width() {
    let grouping_lists: [&[SpendGrouping]; 4] = [
        &[SpendGrouping::Day],
        &[SpendGrouping::Model],
        &[SpendGrouping::Project, SpendGrouping::Model],
        &[SpendGrouping::Week, SpendGrouping::Project],
    ];
    for groupings in grouping_lists {
        for bars in [false, true] {
            for width in 40..120 {
                let table = SpendTable {
                    bars,
                    ..table_with_width(Some(width))
                };
                draw_table(&table, groupings);
            }
        }
    }
}
