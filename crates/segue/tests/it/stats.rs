//! `segue session stats`: tokens and cost, by agent, model, project and time.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};
use serde_json::{Value, json};

use crate::new_test_home;

/// A time zone five hours behind UTC that needs no time zone database.
const TIME_ZONE: &str = "XYZ5";

fn run_stats<'a>(home: &TestHome, args: impl IntoIterator<Item = &'a str>) -> ProgramOutput {
    let mut command = home.segue_command(["session", "stats"]);
    command.args(args).env("TZ", TIME_ZONE);
    ProgramOutput::from_std(&command.output().unwrap(), home)
}

fn run_stats_json<'a>(home: &TestHome, args: impl IntoIterator<Item = &'a str>) -> Value {
    let output = run_stats(home, args.into_iter().chain(["--json"]));
    assert_eq!(output.code, Some(0), "{output}");
    serde_json::from_str(&output.raw_stdout).unwrap()
}

/// Writes a Claude Code session with one turn for each entry: time, model, and input, cached and output tokens.
fn write_claude_session(
    home: &TestHome,
    id: &str,
    cwd: &Path,
    turns: &[(&str, &str, u64, u64, u64)],
) {
    let mut text = String::new();
    for (n, (at, model, input, cached, output)) in turns.iter().enumerate() {
        let base = json!({ "sessionId": id, "cwd": cwd, "timestamp": at });
        let mut line = |more: Value| {
            let mut line = base.clone();
            line.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let _ = writeln!(text, "{line}");
        };
        let parent = (n > 0).then(|| format!("{id}-a{}", n - 1));
        line(
            json!({ "type": "user", "uuid": format!("{id}-u{n}"), "parentUuid": parent,
            "message": { "role": "user", "content": "do it" } }),
        );
        line(
            json!({ "type": "assistant", "uuid": format!("{id}-a{n}"), "parentUuid": format!("{id}-u{n}"),
            "message": { "id": format!("{id}-{n}"), "model": model, "stop_reason": "end_turn",
                "content": [{ "type": "text", "text": "done" }],
                "usage": { "input_tokens": input, "cache_read_input_tokens": cached,
                    "cache_creation_input_tokens": 0, "output_tokens": output } } }),
        );
    }
    let path = home.path().join(format!(".claude/projects/-p/{id}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const OPUS_MODEL: &str = "claude-opus-4-5-20251101";
const HAIKU_MODEL: &str = "claude-haiku-4-5";

/// Writes two sessions of this project and one of another.
fn write_sessions(home: &TestHome) {
    let project_dir = home.project();
    let other_dir = home.path().join("other");
    fs::create_dir(&other_dir).unwrap();
    write_claude_session(
        home,
        "aaaaaaaa-1111-4222-8333-444455556666",
        &project_dir,
        &[
            // January 30 in the time zone of the user.
            ("2026-01-31T04:59:59Z", OPUS_MODEL, 100_000, 900_000, 10_000),
            ("2026-01-31T05:00:00Z", OPUS_MODEL, 1_000, 0, 500),
            ("2026-02-02T12:00:00Z", HAIKU_MODEL, 20_000, 0, 1_000),
        ],
    );
    write_claude_session(
        home,
        "bbbbbbbb-1111-4222-8333-444455556666",
        &project_dir,
        &[("2026-02-02T13:00:00Z", "somebody/else-1", 2_000, 0, 34)],
    );
    write_claude_session(
        home,
        "cccccccc-1111-4222-8333-444455556666",
        &other_dir,
        &[("2026-02-03T12:00:00Z", OPUS_MODEL, 5_000_000, 0, 0)],
    );
}

fn write_prices(home: &TestHome) {
    let file = home.path().join(".config/segue/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = "[prices.\"claude-opus-4\"]\ninput = 15\noutput = 75\ncached = 1.5\n\
        [prices.\"claude-opus-4-5\"]\ninput = 5\noutput = 25\ncached = 0.5\n\
        [prices.claude-haiku]\ninput = 1\noutput = 5\n";
    fs::write(file, text).unwrap();
}

#[test]
fn days_are_local_and_unknown_costs_are_not_zero() {
    let home = new_test_home();
    write_sessions(&home);
    assert_snapshot!(run_stats(&home, ["--since", "all"]), @"
    DAY         TURNS  INPUT  CACHED  OUTPUT  TOTAL
    2026-01-30      1   1.0M    900k   10.0k   1.0M
    2026-01-31      1   1.0k       0     500   1.5k
    2026-02-02      2  22.0k       0    1.0k  23.0k
    total           4   1.0M    900k   11.5k   1.0M
    Time zone: UTC-05.
    Cost unknown: no agent reported it, and your [prices] have no entry for claude-opus-4-5-20251101, claude-haiku-4-5, somebody/else-1.
    --- exit 0
    ");
    write_prices(&home);
    assert_snapshot!(run_stats(&home, ["--since", "2026-01-31", "--bars"]), @"
    DAY         TURNS  INPUT  CACHED  OUTPUT  TOTAL       COST
    2026-01-31      1   1.0k       0     500   1.5k    $0.0175  █▎
    2026-02-02      2  22.0k       0    1.0k  23.0k  ≥ $0.0250  ████████████████████
    total           3  23.0k       0    1.5k  24.5k  ≥ $0.0425
    Since 2026-01-31 (time zone: UTC-05).
    Cost computed from your [prices]. Tokens without a price: 2.0k (somebody/else-1).
    --- exit 0
    ");
    assert_snapshot!(run_stats(&home, ["--since", "all", "--all", "--by", "month,model"]), @"
    MONTH, MODEL                TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    2026-01                         2   1.0M    900k   10.5k   1.0M    17%     $1.22
      claude-opus-4-5-20251101      2   1.0M    900k   10.5k   1.0M    17%     $1.22
    2026-02                         3   5.0M       0    1.0k   5.0M    83%  ≥ $25.03
      claude-opus-4-5-20251101      1   5.0M       0       0   5.0M    83%    $25.00
      claude-haiku-4-5              1  20.0k       0    1.0k  21.0k    <1%     $0.03
      somebody/else-1               1   2.0k       0      34   2.0k    <1%         ?
    total                           5   6.0M    900k   11.5k   6.0M   100%  ≥ $26.24
    Time zone: UTC-05.
    Cost computed from your [prices]. Tokens without a price: 2.0k (somebody/else-1).
    --- exit 0
    ");
    assert_snapshot!(run_stats(&home, ["--since", "all", "--by", "project"]), @"
    PROJECT    TURNS  INPUT  CACHED  OUTPUT  TOTAL  SHARE      COST
    ~/other        1   5.0M       0       0   5.0M    83%    $25.00
    ~/project      4   1.0M    900k   11.5k   1.0M    17%   ≥ $1.24
    total          5   6.0M    900k   11.5k   6.0M   100%  ≥ $26.24
    Cost computed from your [prices]. Tokens without a price: 2.0k (somebody/else-1).
    --- exit 0
    ");
    assert_snapshot!(run_stats(&home, ["--since", "all", "--by", "week", "--model", "claude"]), @"
    WEEK OF     TURNS  INPUT  CACHED  OUTPUT  TOTAL   COST
    2026-01-26      2   1.0M    900k   10.5k   1.0M  $1.22
    2026-02-02      1  20.0k       0    1.0k  21.0k  $0.03
    total           3   1.0M    900k   11.5k   1.0M  $1.24
    Time zone: UTC-05.
    Cost computed from your [prices].
    --- exit 0
    ");
}

#[test]
fn a_narrow_ascii_terminal_gets_fewer_columns() {
    let home = new_test_home();
    write_sessions(&home);
    write_prices(&home);
    let mut command = home.segue_command(["session", "stats", "--all", "--since", "all"]);
    command.args(["--by", "model", "--bars"]);
    command
        .env("TZ", TIME_ZONE)
        .env("COLUMNS", "40")
        .env("LANG", "C");
    let output = ProgramOutput::from_std(&command.output().unwrap(), &home);
    assert!(output.raw_stdout.is_ascii(), "{output}");
    assert_snapshot!(output, @"
    MODEL             TOTAL      COST
    claude-opus-4-5*   6.0M    $26.22  #####
    claude-haiku-4-5  21.0k     $0.03  #
    somebody/else-1    2.0k         ?  #
    total              6.0M  >=$26.24
    Cost computed from your [prices].
    Tokens without a price: 2.0k
    (somebody/else-1).
    --- exit 0
    ");
}

#[test]
fn the_stats_json_has_the_expected_sums() {
    let home = new_test_home();
    write_sessions(&home);
    write_prices(&home);
    let report = run_stats_json(&home, ["--since", "all", "--by", "day,model"]);
    assert_eq!(report["by"], json!(["day", "model"]));
    assert_eq!(report["since"], Value::Null);
    assert_eq!(report["zone"], "UTC-05");
    let first = &report["groups"][0];
    assert_eq!(first["day"], "2026-01-30");
    // 100,000 tokens at $5 per million, 900,000 at $0.5, 10,000 at $25.
    let cost = 0.5 + 0.45 + 0.25;
    let opus = json!({ "model": OPUS_MODEL, "turns": 1, "input_tokens": 1_000_000, "cached_tokens": 900_000,
        "output_tokens": 10_000, "total_tokens": 1_010_000, "share": 1_010_000.0 / 1_034_534.0,
        "cost_usd": cost, "cost_complete": true, "reported_usd": null, "unpriced_tokens": 0, "untold_turns": 0 });
    assert_eq!(first["groups"], json!([opus]));
    let total = &report["total"];
    assert_eq!(total["total_tokens"], 1_010_000 + 1_500 + 21_000 + 2_034);
    assert_eq!(total["turns"], 4);
    // 1,000 tokens at $5 per million and 500 at $25; 20,000 at $1 and 1,000 at $5; the last turn has no price.
    assert_eq!(total["cost_usd"], json!(1.2 + 0.0175 + 0.025));
    assert_eq!(total["cost_complete"], false);
    assert_eq!(total["unpriced_tokens"], 2_034);
}

#[test]
fn sessions_recorded_only_by_segue_are_counted() {
    let home = new_test_home();
    let _ = home.run_segue(["chat", "one two three"]);
    let _ = home.run_segue(["chat", "--continue", "four"]);
    let report = run_stats_json(&home, ["--by", "provider"]);
    let group = &report["groups"][0];
    assert_eq!(group["provider"], "rehearsal");
    assert_eq!(group["turns"], 2);
    let listed = home.run_segue_json(["session", "list", "--json"]);
    assert_eq!(group["total_tokens"], listed[0]["total_tokens"]);
    assert_eq!(group["cost_usd"], Value::Null);
    // A fork shares its turns with the original, and they count once.
    let _ = home.run_segue(["session", "fork", "latest"]);
    assert_eq!(run_stats_json(&home, ["--by", "provider"]), report);
}

#[test]
fn a_project_is_found_by_its_directory_or_its_sessions() {
    let home = new_test_home();
    write_sessions(&home);
    let since = ["--since", "today", "--project", "../other"];
    let notice = "no usage in that project since";
    let existing = run_stats(&home, since);
    assert!(existing.stderr.contains(notice), "{existing}");
    fs::remove_dir(home.path().join("other")).unwrap();
    let removed = run_stats(&home, since);
    assert!(removed.stderr.contains(notice), "{removed}");
    assert_eq!((existing.code, removed.code), (Some(0), Some(0)));
    let past = run_stats_json(&home, ["--since", "all", "--project", "../other"]);
    assert_eq!(past["total"]["turns"], 1);
    fs::create_dir(home.path().join("unused")).unwrap();
    let unused = run_stats(&home, ["--project", "../unused"]);
    assert_eq!(unused.code, Some(0), "{unused}");
}

#[test]
fn empty_stats_print_a_sentence_and_invalid_options_are_refused() {
    let home = new_test_home();
    assert_snapshot!(run_stats(&home, ["--since", "2026-01-31"]), @"
    --- stderr
    no usage in this project since 2026-01-31 (use --all for all projects, --since all for all days)
    --- exit 0
    ");
    assert_snapshot!(run_stats(&home, ["--all", "--since", "all", "-p", "claude"]), @"
    --- stderr
    no usage of that agent or model
    --- exit 0
    ");
    assert_eq!(
        run_stats_json(&home, ["--since", "all"])["groups"],
        json!([])
    );
    assert_snapshot!(run_stats(&home, ["--since", "soon"]), @r#"
    --- stderr
    error: "soon" is not a valid time
    hint: use a time such as 2025-12-07T14:30:22Z, a date such as 2025-12-07, `today`, `yesterday`, or an age such as 30m, 12h, 7d, 2w, 6mo or 1y; or `all`
    --- exit 2
    "#);
    assert_snapshot!(run_stats(&home, ["--project", "missing"]), @"
    --- stderr
    error: unknown project [HOME]/project/missing: it is not a directory, and no session belongs to it
    hint: run `segue session stats --by project --since all` to list the projects
    --- exit 2
    ");
    assert_snapshot!(run_stats(&home, ["-p", "nobody"]), @"
    --- stderr
    error: unknown agent `nobody`
    hint: available agents: claude, codex, gemini, opencode, rehearsal
    --- exit 2
    ");
    assert_snapshot!(run_stats(&home, ["--by", "day,day"]), @"
    --- stderr
    error: --by day,day contains the same key twice
    --- exit 2
    ");
    assert_snapshot!(run_stats(&home, ["--by", "day,week,month"]), @"
    --- stderr
    error: --by accepts at most two keys
    hint: use one or two keys, such as `--by month,model`
    --- exit 2
    ");
}
