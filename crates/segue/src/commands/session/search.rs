//! `segue session search`: full-text search.

use jiff::{Timestamp, Zoned};
use segue_catalog::Index;
use segue_core::session::Role;
use segue_core::time_input::{WhenError, parse_when};
use segue_engine::{
    Conversation, FoundIn, FoundTurn, Query, QueryError, SearchReport, SearchRequest, Snippet,
};

use super::list::{directory, label, not_a_time, short_path, title, unknown};
use crate::app::App;
use crate::cli::SearchArgs;
use crate::error::CliError;
use crate::index_refresh::Behind;
use crate::json_output::{self, print_json};
use crate::last_list;
use crate::terminal::{Style, ago, clean, one_line, print, say, width};

pub(super) async fn run(app: &App, args: &SearchArgs) -> Result<(), CliError> {
    let query = narrowed(args)?;
    app.engine.check(&query).map_err(|error| refused(&error))?;
    let caught = app.catch_up(!args.no_refresh).await;
    if let Some(Behind::Failed(why)) = &caught.behind {
        let why = format!(
            "the index could not be brought up to date: {}",
            one_line(why)
        );
        // An index that was never complete would miss most sessions without a warning.
        if !app.engine.index().is_some_and(Index::is_whole) {
            return Err(CliError::failed(why).hint(
                "put that right and search again: it is built by itself then, and nothing is lost",
            ));
        }
        let mark = Style::stderr().yellow("segue:");
        say(&format!("{mark} {why}"));
    }
    let request = SearchRequest {
        query,
        order: args.sort.into(),
        project: args.here.then(|| app.project.key.clone()),
        limit: match args.limit {
            0 => usize::MAX / 2,
            limit => limit as usize,
        },
        skip: 0,
        each: args.each.max(1) as usize,
        freshness: caught.freshness,
    };
    let mut report = app.engine.search(&request).await?;
    report.behind |= matches!(caught.behind, Some(Behind::Busy));
    report.unreadable = report.unreadable.max(caught.unreadable.len());
    if args.json {
        print_json(&json_output::hits(&report));
        return Ok(());
    }
    show(app, &report);
    Ok(())
}

/// Builds the query from the words and the options.
fn narrowed(args: &SearchArgs) -> Result<Query, CliError> {
    let mut query = if args.words.is_empty() {
        Query::default()
    } else {
        query(&args.words)?
    };
    query
        .providers
        .extend(args.provider.iter().map(ToString::to_string));
    if let Some(since) = &args.since {
        let since = parse_when(since, &Zoned::now()).map_err(|error| not_a_time(&error))?;
        query.after = Some(since);
    }
    Ok(query)
}

/// Parses the words: a single argument as it is; of several arguments, each that contains blanks is a phrase.
fn query(words: &[String]) -> Result<Query, CliError> {
    let text = match words {
        [one] => one.clone(),
        several => {
            let quoted = |word: &String| {
                if word.contains(char::is_whitespace) && !word.contains('"') {
                    format!("\"{word}\"")
                } else {
                    word.clone()
                }
            };
            several.iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
    };
    // The time zone is determined only when it is needed, because that is slow.
    let when = |text: &str| parse_when(text, &Zoned::now()).map_err(|error| error.to_string());
    Query::parse(&text, &when).map_err(|error| refused(&error))
}

fn refused(error: &QueryError) -> CliError {
    match error {
        QueryError::Provider { name, known } => unknown(name, known),
        QueryError::When { .. } => CliError::usage(error.to_string()).hint(WhenError::FORMS),
        _ => CliError::usage(error.to_string()).hint("see: segue session search --help"),
    }
}

fn show(app: &App, report: &SearchReport) {
    let style = Style::stdout();
    let now = Timestamp::now();
    let ids: Vec<_> = report
        .found
        .iter()
        .map(|found| found.conversation.id())
        .collect();
    last_list::remember(&app.home, None, &ids);
    if report.found.is_empty() {
        say("nothing was found; fewer or shorter words find more, and word* finds what begins so");
    }
    for (number, found) in (1..).zip(&report.found) {
        if number > 1 {
            print("");
        }
        let head = format!("{number:>2}  {}", heading(found));
        print(&style.bold(&clean(&head)));
        print(&style.dim(&format!("    {}", clean(&whereabouts(found, now)))));
        for turn in &found.turns {
            print(&format!("    {}", line(turn, style)));
        }
        let more = found.count.saturating_sub(found.turns.len());
        if more > 0 {
            print(&style.dim(&format!("    and in {more} more turn(s)")));
        }
    }
    let mark = Style::stderr().yellow("segue:");
    if report.more {
        say(&Style::stderr().dim("there are more: --limit 0 shows all"));
    }
    if report.behind {
        say(&format!(
            "{mark} the newest turns may be missing: another process is bringing the index up to date"
        ));
    }
    if report.unreadable > 0 {
        say(&format!(
            "{mark} {} session file(s) could not be read; `segue session list` tells which",
            report.unreadable
        ));
    }
}

fn heading(found: &FoundIn) -> String {
    match &found.conversation {
        Conversation::Session(session, _) => session.title.as_str().to_owned(),
        Conversation::Native(native) => title(native),
    }
}

fn whereabouts(found: &FoundIn, now: Timestamp) -> String {
    let (provider, updated) = match &found.conversation {
        Conversation::Session(session, _) => (&session.provider, session.updated_at),
        Conversation::Native(native) => (&native.session.provider, native.session.head.updated_at),
    };
    let directory = short_path(directory(&found.conversation), 28);
    let label = label(&found.conversation);
    let id = found.conversation.id();
    let id = match &found.conversation {
        Conversation::Native(native) => native.session.head.id.to_string(),
        Conversation::Session(..) => id.to_string(),
    };
    format!(
        "{id} · {provider} · {} · {directory}{label}",
        ago(updated, now)
    )
}

/// Formats a matching turn: its author, and as much of the snippet as fits.
fn line(turn: &FoundTurn, style: Style) -> String {
    let who = match turn.snippet.role {
        Some(Role::User) => "you",
        Some(Role::Assistant) => "agent",
        Some(Role::Tool | Role::System) => "tool",
        None => "",
    };
    let head = format!("turn {} {who}: ", turn.n);
    let room = width().map_or(usize::MAX, |width| {
        width.saturating_sub(4 + head.chars().count())
    });
    let text = if turn.snippet.text.is_empty() {
        style.dim("(it can't be read any more)")
    } else {
        marked(&turn.snippet, room, style)
    };
    format!("{}{text}", style.dim(&head))
}

/// Formats the snippet with the matches in bold.
fn marked(snippet: &Snippet, room: usize, style: Style) -> String {
    let text = &snippet.text;
    let fits = text.char_indices().nth(room.max(20));
    let end = fits.map_or(text.len(), |(at, _)| at);
    let mut shown = String::new();
    let mut from = 0;
    for mark in snippet.marks.iter().filter(|mark| mark.end <= end) {
        if mark.start >= from {
            shown.push_str(&clean(text.get(from..mark.start).unwrap_or_default()));
            let found = clean(text.get(mark.clone()).unwrap_or_default());
            shown.push_str(&style.bold(&found));
            from = mark.end;
        }
    }
    shown.push_str(&clean(text.get(from..end).unwrap_or_default()));
    if end < text.len() {
        shown.push('…');
    }
    shown
}
