use jiff::civil::date;
use segue_core::id::ProviderId;
use segue_core::session::Usage;
use segue_core::spend::Cost;
use segue_core::spend::{Price, Prices, Spent};

use super::*;

fn spent(day: i8, provider: &str, model: Option<&str>, project: &str, tokens: u64) -> Spent {
    Spent {
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

fn all() -> Vec<Spent> {
    let opus = Some("claude-opus-4-5-20251101");
    vec![
        spent(1, "claude", opus, "/home/u/src/web/.git", 12_345_678),
        spent(
            2,
            "claude",
            opus,
            "/srv/a-long/way/to/some/project",
            1_234_567,
        ),
        spent(2, "codex", Some("gpt-5.5"), "/home/u/src/web/.git", 345_678),
        Spent {
            usage: Usage::default(),
            ..spent(3, "acp:mine", None, "/home/u/x\u{1b}[31m", 1)
        },
    ]
}

fn prices() -> Prices {
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

fn sheet(width: Option<usize>) -> Sheet {
    Sheet {
        width,
        unicode: true,
        bars: false,
        home: "/home/u".to_owned(),
    }
}

fn drawn(sheet: &Sheet, by: &[By]) -> String {
    let lines = sheet.lines(&Spending::of(&all(), by, &prices()), by);
    for line in &lines {
        let fits = sheet.width.is_none_or(|width| length(line) <= width);
        assert!(fits, "too wide: {line:?}");
    }
    lines.join("\n")
}

#[test]
fn a_table_has_the_columns_that_fit() {
    insta::assert_snapshot!(drawn(&sheet(Some(80)), &[By::Day]), @"
    DAY         TURNS  INPUT  CACHED  OUTPUT  TOTAL      COST
    2026-11-01   1.2k  12.3M    6.2M    123k  12.5M    $40.12
    2026-11-02    159   1.6M    790k   15.8k   1.6M   ≥ $4.01
    2026-11-03      1      ?       ?       ?      ?         ?
    total        1.4k  13.9M    7.0M    139k  14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(drawn(&sheet(Some(40)), &[By::Day]), @"
    DAY         TURNS  TOTAL      COST
    2026-11-01   1.2k  12.5M    $40.12
    2026-11-02    159   1.6M   ≥ $4.01
    2026-11-03      1      ?         ?
    total        1.4k  14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(drawn(&sheet(Some(80)), &[By::Model]), @"
    MODEL                     TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    claude-opus-4-5-20251101   1.4k  13.6M    6.8M    136k  13.7M    98%    $44.14
    gpt-5.5                      35   346k    173k    3.5k   349k     2%         ?
    (unknown)                     1      ?       ?       ?      ?      ?         ?
    total                      1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
    ");
    insta::assert_snapshot!(drawn(&sheet(Some(40)), &[By::Model]), @"
    MODEL                    TOTAL      COST
    claude-opus-4-5-202511…  13.7M    $44.14
    gpt-5.5                   349k         ?
    (unknown)                    ?         ?
    total                    14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(drawn(&sheet(Some(60)), &[By::Project]), @"
    PROJECT                        TURNS  TOTAL  SHARE      COST
    ~/src/web                       1.3k  12.8M    91%  ≥ $40.12
    …v/a-long/way/to/some/project    124   1.2M     9%     $4.01
    ~/x                                1      ?      ?         ?
    total                           1.4k  14.1M   100%  ≥ $44.14
    ");
}

#[test]
fn what_is_taken_apart_is_set_in() {
    insta::assert_snapshot!(drawn(&sheet(None), &[By::Month, By::Provider]), @"
    MONTH, AGENT  TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    2026-11        1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
      claude       1.4k  13.6M    6.8M    136k  13.7M    98%    $44.14
      codex          35   346k    173k    3.5k   349k     2%         ?
      acp:mine        1      ?       ?       ?      ?      ?         ?
    total          1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
    ");
    insta::assert_snapshot!(drawn(&sheet(Some(50)), &[By::Provider, By::Project]), @"
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
fn bars_take_what_is_left() {
    let bars = |width, unicode| Sheet {
        bars: true,
        unicode,
        ..sheet(width)
    };
    insta::assert_snapshot!(drawn(&bars(Some(80), true), &[By::Day]), @"
    DAY         TURNS  INPUT  CACHED  OUTPUT  TOTAL      COST
    2026-11-01   1.2k  12.3M    6.2M    123k  12.5M    $40.12  █████████████████████
    2026-11-02    159   1.6M    790k   15.8k   1.6M   ≥ $4.01  ██▊
    2026-11-03      1      ?       ?       ?      ?         ?
    total        1.4k  13.9M    7.0M    139k  14.1M  ≥ $44.14
    ");
    insta::assert_snapshot!(drawn(&bars(Some(40), false), &[By::Day]), @"
    DAY         TOTAL      COST
    2026-11-01  12.5M    $40.12  ###########
    2026-11-02   1.6M   >=$4.01  #
    2026-11-03      ?         ?
    total       14.1M  >=$44.14
    ");
    insta::assert_snapshot!(drawn(&bars(None, true), &[By::Provider]), @"
    AGENT     TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    claude     1.4k  13.6M    6.8M    136k  13.7M    98%    $44.14  ████████████████
    codex        35   346k    173k    3.5k   349k     2%         ?  ▍
    acp:mine      1      ?       ?       ?      ?      ?         ?
    total      1.4k  13.9M    7.0M    139k  14.1M   100%  ≥ $44.14
    ");
}

#[test]
fn without_any_cost_there_is_no_column_for_it() {
    let all = all();
    let spending = Spending::of(&all, &[By::Day], &Prices::default());
    let lines = sheet(None).lines(&spending, &[By::Day]);
    assert!(!lines[0].contains("COST"), "{}", lines[0]);
}

#[test]
fn names_are_cut_by_how_wide_they_look() {
    for (name, width, is_path, expected) in [
        ("~/日本語/仕事", 13, true, "~/日本語/仕事"),
        ("~/日本語/仕事", 9, true, "…語/仕事"),
        ("  ~/日本語/仕事", 9, true, "  …/仕事"),
        ("日本語モデル", 6, false, "日本…"),
        ("cafe\u{301}-1", 6, false, "cafe\u{301}-1"),
        ("cafe\u{301}-1", 5, false, "cafe\u{301}…"),
    ] {
        assert_eq!(cut(name, width, is_path), expected, "{name} in {width}");
    }
}

#[test]
fn every_width_is_kept_to() {
    let ways: [&[By]; 4] = [
        &[By::Day],
        &[By::Model],
        &[By::Project, By::Model],
        &[By::Week, By::Project],
    ];
    for by in ways {
        for bars in [false, true] {
            for width in 40..120 {
                let sheet = Sheet {
                    bars,
                    ..sheet(Some(width))
                };
                drawn(&sheet, by);
            }
        }
    }
}
