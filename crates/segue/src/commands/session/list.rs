//! `segue session list`

use jiff::{SignedDuration, Timestamp};
use segue_core::SessionStatus;
use segue_engine::{Conversation, Native};
use segue_store::Filter;

use super::asked;
use crate::cli::ListArgs;
use crate::error::CliError;
use crate::last_list;
use crate::setup::App;
use crate::terminal::{Style, Table, ago, clean, print, say};
use crate::wire::{self, print_json};

pub(super) async fn run(app: &App, args: &ListArgs) -> Result<(), CliError> {
    let now = Timestamp::now();
    let filter = Filter {
        project: (!args.all).then(|| app.project.key.clone()),
        provider: args.provider.clone(),
        feature: args.feature.clone(),
        since: args
            .since
            .as_deref()
            .map(|text| since(text, now))
            .transpose()?,
        cwd: None,
    };
    let limit = if args.limit == 0 {
        u32::MAX
    } else {
        args.limit
    };
    let mut listed = app.engine.conversations(&filter, limit).await?;
    for (provider, why) in &listed.unreadable {
        let mark = Style::stderr().yellow("segue:");
        say(&clean(&format!(
            "{mark} some of {provider}'s sessions are missing here: {why}"
        )));
    }
    asked::complete(app, &filter, limit, now, &mut listed).await;
    if args.json {
        let entries: Vec<_> = listed.rows.iter().map(wire::conversation).collect();
        print_json(&entries);
        return Ok(());
    }
    let narrowed = args.provider.is_some() || args.feature.is_some() || args.since.is_some();
    if listed.rows.is_empty() && narrowed {
        say("no sessions match");
        return Ok(());
    }
    if listed.rows.is_empty() {
        let elsewhere = if args.all {
            ""
        } else {
            " in this project (--all looks everywhere)"
        };
        say(&format!(
            "no sessions{elsewhere}; start one with: segue chat \"…\""
        ));
        return Ok(());
    }
    let mut table = Table::new(&["#", "ID", "AGENT", "TURNS", "UPDATED", "TITLE"]);
    for (number, row) in (1..).zip(&listed.rows) {
        let [id, agent, turns, updated, title] = cells(row, now);
        table.row(&[number.to_string(), id, agent, turns, updated, title]);
    }
    table.print();
    if listed.more {
        print(&Style::stdout().dim("there are more: --limit 0 shows all"));
    }
    let ids: Vec<_> = listed.rows.iter().map(Conversation::id).collect();
    last_list::remember(&app.home, &ids);
    Ok(())
}

fn cells(row: &Conversation, now: Timestamp) -> [String; 5] {
    match row {
        Conversation::Session(session, status) => {
            let note = match status {
                SessionStatus::Idle => "",
                SessionStatus::Running => " (running)",
                SessionStatus::Interrupted => " (interrupted)",
            };
            [
                session.id.to_string(),
                session.provider.to_string(),
                session.turns.to_string(),
                ago(session.updated_at, now),
                format!("{}{note}", session.title.as_str()),
            ]
        }
        Conversation::Native(native) => {
            let note = if native.session.found.archived {
                " (archived)"
            } else {
                ""
            };
            [
                short_id(native),
                native.session.provider.to_string(),
                // Only reading it through would tell.
                "-".to_owned(),
                ago(native.session.head.updated_at, now),
                format!("{}{note}", title(native)),
            ]
        }
    }
}

/// As much of a native id as one of segue's own has: enough to name it by.
fn short_id(native: &Native) -> String {
    native.session.head.id.as_str().chars().take(20).collect()
}

/// What a native session is called.
pub(super) fn title(native: &Native) -> String {
    let title = native.session.head.title.as_ref();
    title.map_or_else(
        || "(no title)".to_owned(),
        |title| title.as_str().to_owned(),
    )
}

/// A moment: a time, a day, or how long ago.
fn since(text: &str, now: Timestamp) -> Result<Timestamp, CliError> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    if let Ok(at) = format!("{text}T00:00:00Z").parse() {
        return Ok(at);
    }
    let unit = text.chars().next_back().unwrap_or(' ');
    let seconds = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => 0,
    };
    let number = text.trim_end_matches(unit).parse::<i64>().ok();
    let span = number.and_then(|number| number.checked_mul(seconds));
    span.filter(|&span| span > 0)
        .and_then(|span| now.checked_sub(SignedDuration::from_secs(span)).ok())
        .ok_or_else(|| {
            CliError::usage(format!("{text:?} is not a time"))
                .hint("write 2025-12-07T14:30:22Z, 2025-12-07, or how long ago: 30m, 12h, 7d, 2w")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_every_form() {
        let now: Timestamp = "2025-12-08T00:00:00Z".parse().unwrap();
        let cases = [
            ("2025-12-07T14:30:22Z", "2025-12-07T14:30:22Z"),
            ("2025-12-07", "2025-12-07T00:00:00Z"),
            ("30m", "2025-12-07T23:30:00Z"),
            ("7d", "2025-12-01T00:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(since(text, now).unwrap().to_string(), expected);
        }
        for bad in [
            "",
            "d",
            "-1d",
            "soon",
            "7 d",
            "0h",
            "99999999999999999999d",
            "7ü",
        ] {
            assert!(since(bad, now).is_err(), "{bad:?} was accepted");
        }
    }
}
