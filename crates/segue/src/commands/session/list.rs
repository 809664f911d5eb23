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
use crate::terminal::{Style, Table, ago, one_line, say};
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
    let mark = Style::stderr().yellow("segue:");
    for (provider, why) in &listed.unreadable {
        let why = one_line(why);
        say(&format!(
            "{mark} some of {provider}'s sessions are missing here: {why}"
        ));
    }
    if args.ask {
        asked::complete(app, &filter, limit, now, &mut listed).await;
    } else if asked::would_help(&filter, &listed) {
        say(&format!(
            "{mark} add --ask to have Gemini CLI list them itself, which starts it and calls the model"
        ));
    }
    if args.json {
        let entries: Vec<_> = listed.rows.iter().map(wire::conversation).collect();
        print_json(&entries);
        return Ok(());
    }
    let ids: Vec<_> = listed.rows.iter().map(Conversation::id).collect();
    last_list::remember(&app.home, (!args.all).then_some(&app.project), &ids);
    if listed.rows.is_empty() {
        say(&nothing(app, args));
        return Ok(());
    }
    let mut head = vec!["#", "ID", "AGENT", "TURNS", "UPDATED", "TITLE"];
    if args.all {
        head.insert(5, "DIRECTORY");
    }
    let mut table = Table::new(&head);
    for (number, row) in (1..).zip(&listed.rows) {
        let [id, agent, turns, updated, title] = cells(row, now);
        let mut cells = vec![number.to_string(), id, agent, turns, updated, title];
        if args.all {
            cells.insert(5, short_path(directory(row)));
        }
        table.row(&cells);
    }
    table.print();
    if listed.more {
        say(&Style::stderr().dim("there are more: --limit 0 shows all"));
    }
    Ok(())
}

/// Why there is nothing to list, and what to do about it.
fn nothing(app: &App, args: &ListArgs) -> String {
    if let Some(provider) = &args.provider
        && !app.engine.knows(provider)
    {
        let known = app.engine.known_providers().join(", ");
        return format!("nobody here is called {provider}; there are: {known}");
    }
    if args.provider.is_some() || args.feature.is_some() || args.since.is_some() {
        return "no sessions match".to_owned();
    }
    let elsewhere = if args.all {
        ""
    } else {
        " in this project (--all looks everywhere)"
    };
    format!("no sessions{elsewhere}; start one with: segue chat \"…\"")
}

/// Where a conversation works, as far as is known.
fn directory(row: &Conversation) -> &str {
    match row {
        Conversation::Session(session, _) => &session.project.cwd,
        Conversation::Native(native) => native.session.head.cwd.as_deref().unwrap_or("-"),
    }
}

/// A path that leaves room for a title: its end says more than its beginning.
fn short_path(path: &str) -> String {
    const LONGEST: usize = 28;
    let home = std::env::var("HOME").unwrap_or_default();
    let path = match path.strip_prefix(&home) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{rest}")
        }
        _ => path.to_owned(),
    };
    let length = path.chars().count();
    if length <= LONGEST {
        return path;
    }
    let end: String = path.chars().skip(length - LONGEST + 1).collect();
    format!("…{end}")
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

/// Enough of a native id to name it by: ids that begin with a time differ in the second group.
fn short_id(native: &Native) -> String {
    native.session.head.id.as_str().chars().take(13).collect()
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
pub(super) fn since(text: &str, now: Timestamp) -> Result<Timestamp, CliError> {
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
