//! `segue session search`: full-text search.

use jiff::{Timestamp, Zoned};
use segue_api::session::ListedSession;
use segue_catalog::Index;
use segue_core::id::{NativeId, SessionId};
use segue_core::session::Role;
use segue_core::time_input::{TimeInputError, parse_time_input};
use segue_engine::{
    QueryError, RefreshFailure, SearchHitTurn, SearchQuery, SearchReport, SearchRequest, Snippet,
};

use super::list::{format_directory, session_title, status_label};
use super::{parse_time, unknown_agent_error};
use crate::app::App;
use crate::cli::SearchArgs;
use crate::error::CliError;
use crate::json_output::{self, print_json};
use crate::last_list;
use crate::terminal::{
    Style, eprint_line, eprint_note, format_age, format_plural, print_line, strip_control_chars,
    terminal_width, to_single_line,
};

pub(super) async fn run(app: &App, args: &SearchArgs) -> Result<(), CliError> {
    let library = app.engine.library();
    let query = build_query(args)?;
    let checked = library.check_query_providers(&query);
    checked.map_err(|error| query_error(&error))?;
    let index_view = app.prepare_index_view(!args.no_refresh).await?;
    if let Some(RefreshFailure::Failed(error)) = &index_view.refresh_failure {
        let reason = error.format_error_chain();
        let message = format!("cannot refresh the index: {}", to_single_line(&reason));
        // An index that was never complete would miss most sessions without a warning.
        let index = library.index();
        if !index.is_some_and(Index::has_completed_refresh) {
            return Err(CliError::failed(message).with_hint(
                "fix the cause and search again; segue then builds the index automatically",
            ));
        }
        eprint_note(&message);
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
        turns_per_session: args.each.max(1) as usize,
        freshness: index_view.freshness,
    };
    let mut report = library.search(&request).await?;
    report.is_index_behind |= matches!(index_view.refresh_failure, Some(RefreshFailure::Busy));
    report.unreadable_files = report.unreadable_files.max(index_view.unreadable.len());
    if args.json {
        print_json(&json_output::search_hits_json(&report));
        return Ok(());
    }
    print_report(app, &report);
    Ok(())
}

/// Builds the query from the words and the options.
fn build_query(args: &SearchArgs) -> Result<SearchQuery, CliError> {
    let mut query = if args.words.is_empty() {
        SearchQuery::default()
    } else {
        parse_query(&args.words)?
    };
    let providers = args.provider.iter().map(ToString::to_string);
    query.providers.extend(providers);
    query.after = parse_time(args.since.as_deref())?.or(query.after);
    Ok(query)
}

/// Parses the words: a single argument as it is; of several arguments, each that contains blanks is a phrase.
fn parse_query(words: &[String]) -> Result<SearchQuery, CliError> {
    let text = match words {
        [single] => single.clone(),
        several => {
            let words = several.iter().map(|word| {
                if word.contains(char::is_whitespace) && !word.contains('"') {
                    format!("\"{word}\"")
                } else {
                    word.clone()
                }
            });
            words.collect::<Vec<_>>().join(" ")
        }
    };
    // The time zone is determined only when it is needed, because that is slow.
    let parse_time =
        |text: &str| parse_time_input(text, &Zoned::now()).map_err(|error| error.to_string());
    SearchQuery::parse(&text, &parse_time).map_err(|error| query_error(&error))
}

fn query_error(error: &QueryError) -> CliError {
    match error {
        QueryError::UnknownProvider {
            name,
            available: supported,
        } => unknown_agent_error(name, supported),
        QueryError::InvalidTime { .. } => {
            CliError::usage(error.to_string()).with_hint(TimeInputError::ACCEPTED_FORMS)
        }
        _ => CliError::usage(error.to_string())
            .with_hint("run `segue session search --help` for the syntax"),
    }
}

fn print_report(app: &App, report: &SearchReport) {
    let style = Style::stdout();
    let now = Timestamp::now();
    let hits = report.hits.iter();
    let ids: Vec<_> = hits.map(|hit| hit.conversation.id()).collect();
    last_list::save(&app.home, None, &ids);
    if report.hits.is_empty() {
        eprint_line("no matches; try fewer words, or a prefix such as `word*`");
    }
    for (number, hit) in (1..).zip(&report.hits) {
        if number > 1 {
            print_line("");
        }
        let session = json_output::conversation_json(&hit.conversation);
        let title_line = format!("{number:>2}  {}", session_title(&session));
        print_line(&style.bold(&strip_control_chars(&title_line)));
        let details = strip_control_chars(&format_details(&session, now));
        print_line(&style.dim(&format!("    {details}")));
        for turn in &hit.turns {
            print_line(&format!("    {}", format_hit_turn(turn, style)));
        }
        let remaining = hit.count.saturating_sub(hit.turns.len());
        if remaining > 0 {
            let remaining = format_plural(remaining, "more turn");
            print_line(&style.dim(&format!("    and in {remaining}")));
        }
    }
    if report.has_more {
        eprint_line(&Style::stderr().dim("there are more sessions; use --limit 0 to show all"));
    }
    if report.is_index_behind {
        eprint_note("the newest turns may be missing: another process is refreshing the index");
    }
    if report.unreadable_files > 0 {
        let files = format_plural(report.unreadable_files, "session file");
        eprint_note(&format!(
            "cannot read {files}; `segue session list` shows details"
        ));
    }
}

fn format_details(session: &ListedSession, now: Timestamp) -> String {
    let native_id = session.native_session_id.as_ref().map(NativeId::as_str);
    let id = session.id.as_ref().map(SessionId::as_str).or(native_id);
    format!(
        "{} · {} · {} · {}{}",
        id.unwrap_or_default(),
        session.provider,
        format_age(session.updated_at, now),
        format_directory(session, 28),
        status_label(session)
    )
}

/// Formats a matching turn: its author, and as much of the snippet as fits.
fn format_hit_turn(turn: &SearchHitTurn, style: Style) -> String {
    let author = match turn.snippet.role {
        Some(Role::User) => "you",
        Some(Role::Assistant) => "agent",
        Some(Role::Tool | Role::System) => "tool",
        None => "",
    };
    let prefix = format!("turn {} {author}: ", turn.n);
    let max_chars = terminal_width().map_or(usize::MAX, |width| {
        width.saturating_sub(4 + prefix.chars().count())
    });
    let text = if turn.snippet.text.is_empty() {
        style.dim("(no longer readable)")
    } else {
        highlight_matches(&turn.snippet, max_chars, style)
    };
    format!("{}{text}", style.dim(&prefix))
}

/// Formats the snippet with the matches in bold.
fn highlight_matches(snippet: &Snippet, max_chars: usize, style: Style) -> String {
    let text = &snippet.text;
    let first_excess = text.char_indices().nth(max_chars.max(20));
    let end = first_excess.map_or(text.len(), |(at, _)| at);
    let mut output = String::new();
    let mut from = 0;
    for range in snippet.highlights.iter().filter(|range| range.end <= end) {
        if range.start >= from {
            output.push_str(&strip_control_chars(
                text.get(from..range.start).unwrap_or_default(),
            ));
            let matched = strip_control_chars(text.get(range.clone()).unwrap_or_default());
            output.push_str(&style.bold(&matched));
            from = range.end;
        }
    }
    output.push_str(&strip_control_chars(
        text.get(from..end).unwrap_or_default(),
    ));
    if end < text.len() {
        output.push('…');
    }
    output
}
