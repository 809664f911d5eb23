//! `segue session list`

use jiff::{SignedDuration, Timestamp};
use segue_core::SessionStatus;
use segue_store::{Filter, Page};

use crate::cli::ListArgs;
use crate::error::CliError;
use crate::last_list;
use crate::setup::App;
use crate::terminal::{Style, Table, ago, print, say};
use crate::wire::{SessionJson, print_json};

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
    let (sessions, more) = app.engine.list(&filter, Page::first(limit)).await?;
    if args.json {
        let entries: Vec<_> = sessions
            .iter()
            .map(|(session, status)| SessionJson::new(session, *status))
            .collect();
        print_json(&entries);
        return Ok(());
    }
    let narrowed = args.provider.is_some() || args.feature.is_some() || args.since.is_some();
    if sessions.is_empty() && narrowed {
        say("no sessions match");
        return Ok(());
    }
    if sessions.is_empty() {
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
    for (number, (session, status)) in (1..).zip(&sessions) {
        let note = match status {
            SessionStatus::Idle => "",
            SessionStatus::Running => " (running)",
            SessionStatus::Interrupted => " (interrupted)",
        };
        table.row(&[
            number.to_string(),
            session.id.to_string(),
            session.provider.to_string(),
            session.turns.to_string(),
            ago(session.updated_at, now),
            format!("{}{note}", session.title.as_str()),
        ]);
    }
    table.print();
    if more.is_some() {
        print(&Style::stdout().dim("there are more: --limit 0 shows all"));
    }
    let ids: Vec<_> = sessions
        .into_iter()
        .map(|(session, _)| session.id)
        .collect();
    last_list::remember(&app.home, &ids);
    Ok(())
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
