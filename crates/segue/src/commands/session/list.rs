//! `segue session list`: sessions and native sessions.

mod sort;

use jiff::{Timestamp, Zoned};
use segue_api::text::ActionText;
use segue_catalog::index::NativeStatus;
use segue_core::hint::SuggestedAction;
use segue_core::scope::Purpose;
use segue_core::session::{SessionStatus, Tag};
use segue_core::time_input::{TimeInputError, parse_time_input};
use segue_engine::{Conversation, ConversationList, IndexView, NativeEntry, RefreshFailure};
use segue_store::SessionFilter;

use super::{check_provider, gemini_listing};
use crate::app::App;
use crate::cli::ListArgs;
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::index_refresh::report_index_fallback;
use crate::json_output::{self, print_json};
use crate::last_list;
use crate::terminal::{Style, Table, eprint_line, format_age, to_single_line};

pub(super) async fn run(
    app: &App,
    frontend: Frontend<'_>,
    args: &ListArgs,
) -> Result<(), CliError> {
    let now = Timestamp::now();
    let filter = build_filter(app, args)?;
    let limit = if args.limit == 0 {
        u32::MAX
    } else {
        args.limit
    };
    // In any order but the default, any of the sessions may come first, so all of them are needed.
    let fetch_limit = if args.order.is_default_order() {
        limit
    } else {
        u32::MAX
    };
    let index_view = app.prepare_index_view(!args.no_refresh).await?;
    if let Some(RefreshFailure::Failed(error)) = &index_view.refresh_failure {
        report_index_fallback(&error.format_error_chain());
    }
    let mut conversations =
        list_conversations(app, args, &filter, fetch_limit, &index_view).await?;
    let prefix = Style::stderr().yellow("segue:");
    if let Some(reason) = &conversations.index_error {
        report_index_fallback(reason);
    }
    for (provider, reason) in &conversations.unreadable {
        let reason = to_single_line(reason);
        eprint_line(&format!(
            "{prefix} some sessions of {provider} are not listed: {reason}"
        ));
    }
    if args.ask {
        gemini_listing::add_listed_sessions(app, &filter, fetch_limit, now, &mut conversations)
            .await;
    } else if gemini_listing::can_add_sessions(&filter, &conversations) {
        eprint_line(&format!(
            "{prefix} use --ask to list them with Gemini CLI, which calls the model"
        ));
    }
    if !args.order.is_default_order() {
        sort::sort_conversations(&mut conversations.rows, args.order);
        conversations.has_more |= conversations.rows.len() > limit as usize;
        conversations.rows.truncate(limit as usize);
    }
    if args.json {
        let entries: Vec<_> = conversations
            .rows
            .iter()
            .map(json_output::conversation_json)
            .collect();
        print_json(&entries);
        return Ok(());
    }
    let ids: Vec<_> = conversations.rows.iter().map(Conversation::id).collect();
    last_list::save(&app.home, (!args.all).then_some(&app.project), &ids);
    if conversations.rows.is_empty() {
        eprint_line(&empty_list_message(args, frontend));
        return Ok(());
    }
    let wide_table = build_table(&conversations.rows, args.all, now, IdLength::Long);
    if wide_table.has_room_for_all_columns() {
        wide_table.print();
    } else {
        build_table(&conversations.rows, args.all, now, IdLength::Short).print();
    }
    if conversations.has_more {
        eprint_line(&Style::stderr().dim("there are more sessions; use --limit 0 to show all"));
    }
    Ok(())
}

/// Returns the newest matching conversations of each requested provider.
async fn list_conversations(
    app: &App,
    args: &ListArgs,
    filter: &SessionFilter,
    limit: u32,
    index_view: &IndexView,
) -> Result<ConversationList, CliError> {
    let requested = args.provider.iter().cloned().map(Some);
    let any_provider = args.provider.is_empty().then_some(None);
    let mut conversations = ConversationList::default();
    for provider in requested.chain(any_provider) {
        let filter = SessionFilter {
            provider: provider.clone(),
            ..filter.clone()
        };
        let query = app
            .engine
            .library()
            .list_conversations(&filter, limit, index_view.freshness);
        let mut matches = query.await?;
        matches.add_unreadable(&filter, index_view.unreadable.clone());
        if let Some(provider) = provider.filter(|_| matches.rows.is_empty()) {
            check_provider(app, &provider)?;
        }
        conversations.merge(matches, limit);
    }
    Ok(conversations)
}

fn build_filter(app: &App, args: &ListArgs) -> Result<SessionFilter, CliError> {
    // `--ask` applies only to Gemini CLI. With several providers, `list_conversations` filters by each of them
    // separately.
    let gemini = args
        .provider
        .iter()
        .find(|agent| gemini_listing::is_gemini(agent));
    Ok(SessionFilter {
        project: (!args.all).then(|| app.project.key.clone()),
        provider: gemini.or(args.provider.first()).cloned(),
        feature: args.feature.clone(),
        task: args.task.clone(),
        role: args.role.clone(),
        tags: args.tag.clone(),
        since: args
            .since
            .as_deref()
            .map(|text| {
                parse_time_input(text, &Zoned::now()).map_err(|error| time_input_error(&error))
            })
            .transpose()?,
        cwd: None,
        purpose: None,
    })
}

/// Length of printed ids.
#[derive(Clone, Copy)]
enum IdLength {
    /// Long enough to be unique.
    Long,
    /// Long enough to be unique in most cases.
    Short,
}

fn build_table(
    rows: &[Conversation],
    all_projects: bool,
    now: Timestamp,
    id_length: IdLength,
) -> Table {
    let has_tags = rows.iter().any(|row| !format_tags(row).is_empty());
    let has_purposes = rows.iter().any(|row| !format_purpose(row).is_empty());
    let mut columns = vec!["#", "ID", "AGENT", "TURNS", "UPDATED"];
    columns.extend(has_purposes.then_some("PURPOSE"));
    columns.extend(has_tags.then_some("TAGS"));
    columns.extend(all_projects.then_some("DIRECTORY"));
    columns.push("TITLE");
    let droppable = ["TURNS", "TAGS", "DIRECTORY", "UPDATED", "PURPOSE", "AGENT"];
    let max_path_chars = match id_length {
        IdLength::Long => 28,
        IdLength::Short => 16,
    };
    let mut table = Table::new(&columns).with_droppable_columns(&droppable);
    for (number, row) in (1..).zip(rows) {
        let [agent, turns, updated, title] = row_cells(row, now);
        let mut cells = vec![
            number.to_string(),
            format_id(row, id_length),
            agent,
            turns,
            updated,
        ];
        cells.extend(has_purposes.then(|| format_purpose(row)));
        cells.extend(has_tags.then(|| format_tags(row)));
        cells.extend(
            all_projects.then(|| shorten_path(conversation_directory(row), max_path_chars)),
        );
        cells.push(title);
        table.add_row(&cells);
    }
    table
}

/// Composes the message for an empty list, with suggestions.
fn empty_list_message(args: &ListArgs, frontend: Frontend<'_>) -> String {
    let has_purpose_filter = args.feature.is_some() || args.task.is_some() || args.role.is_some();
    let is_filtered = has_purpose_filter || args.since.is_some() || !args.tag.is_empty();
    if is_filtered || !args.provider.is_empty() {
        return "no matching sessions".to_owned();
    }
    let scope_note = if args.all {
        String::new()
    } else {
        let list_all = frontend.format_action(&SuggestedAction::ListAll);
        format!(" in this project (`{list_all}` lists all projects)")
    };
    format!(
        "no sessions{scope_note}; {}",
        frontend.format_action(&SuggestedAction::Start)
    )
}

/// Returns the status of a conversation as a suffix of its title. Empty if it is idle.
pub(super) fn status_label(row: &Conversation) -> &'static str {
    match row {
        Conversation::Session(_, SessionStatus::Idle) => "",
        Conversation::Session(_, SessionStatus::Running) => " (running)",
        Conversation::Session(_, SessionStatus::Interrupted) => " (interrupted)",
        Conversation::Native(native) => match native.details.as_ref().map(|details| details.status)
        {
            Some(NativeStatus::Missing) => " (missing)",
            _ if native.session.location.archived => " (archived)",
            _ => "",
        },
    }
}

/// Returns the directory of a conversation, `-` if unknown.
pub(super) fn conversation_directory(row: &Conversation) -> &str {
    match row {
        Conversation::Session(session, _) => &session.project.cwd,
        Conversation::Native(native) => native.session.head.cwd.as_deref().unwrap_or("-"),
    }
}

/// Shortens a path at its beginning to leave width for the title, because its end is more significant.
pub(super) fn shorten_path(path: &str, max_chars: usize) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let path = match path.strip_prefix(&home) {
        Some(remainder)
            if !home.is_empty() && (remainder.is_empty() || remainder.starts_with('/')) =>
        {
            format!("~{remainder}")
        }
        _ => path.to_owned(),
    };
    let length = path.chars().count();
    if length <= max_chars {
        return path;
    }
    let end: String = path.chars().skip(length - max_chars + 1).collect();
    format!("…{end}")
}

/// Formats the purpose of a conversation: `@auth`, `@auth T1/in_dev`, `pm`.
fn format_purpose(row: &Conversation) -> String {
    let purpose = match row {
        Conversation::Session(session, _) => session.purpose.as_ref(),
        Conversation::Native(_) => None,
    };
    let Some(Purpose { scope, role }) = purpose else {
        return String::new();
    };
    let feature = scope.feature().map(|feature| format!("@{feature}"));
    let task = scope.task().map(|(task, state)| format!("{task}/{state}"));
    let role = role.as_ref().map(ToString::to_string);
    let parts: Vec<String> = [feature, task, role].into_iter().flatten().collect();
    if parts.is_empty() {
        return "project".to_owned();
    }
    truncate_cell(parts.join(" "))
}

/// Formats the tags of a conversation, cut to the width of a cell.
fn format_tags(row: &Conversation) -> String {
    let tags = match row {
        Conversation::Session(session, _) => session.tags.as_slice(),
        Conversation::Native(_) => &[],
    };
    let tags: Vec<&str> = tags.iter().map(Tag::as_str).collect();
    truncate_cell(tags.join(" "))
}

/// Cuts a cell to leave width for the title.
fn truncate_cell(text: String) -> String {
    const MAX_CELL_CHARS: usize = 24;
    if text.chars().count() <= MAX_CELL_CHARS {
        return text;
    }
    let start: String = text.chars().take(MAX_CELL_CHARS - 1).collect();
    format!("{start}…")
}

/// Returns enough of an id to refer to a conversation. Native ids that begin with a timestamp differ only in the second
/// group.
fn format_id(row: &Conversation, id_length: IdLength) -> String {
    match (row, id_length) {
        (Conversation::Session(session, _), IdLength::Long) => session.id.to_string(),
        (Conversation::Session(session, _), IdLength::Short) => session.id.tail().to_owned(),
        (Conversation::Native(native), _) => {
            let length = match id_length {
                IdLength::Long => 13,
                IdLength::Short => 8,
            };
            let id = native.session.head.id.as_str();
            id.chars().take(length).collect()
        }
    }
}

fn row_cells(row: &Conversation, now: Timestamp) -> [String; 4] {
    match row {
        Conversation::Session(session, _) => [
            session.provider.to_string(),
            session.turns.to_string(),
            format_age(session.updated_at, now),
            format!("{}{}", session.title.as_str(), status_label(row)),
        ],
        Conversation::Native(native) => {
            let turns = native.details.as_ref().map(|details| details.turns);
            [
                native.session.provider.to_string(),
                // Without the index, only reading the complete session would provide the number.
                turns.map_or_else(|| "-".to_owned(), |turns| turns.to_string()),
                format_age(native.session.head.updated_at, now),
                format!("{}{}", native_title(native), status_label(row)),
            ]
        }
    }
}

/// Returns the title of a native session.
pub(super) fn native_title(native: &NativeEntry) -> String {
    let title = native.session.head.title.as_ref();
    title.map_or_else(
        || "(no title)".to_owned(),
        |title| title.as_str().to_owned(),
    )
}

/// Builds the error for an invalid time.
pub(super) fn time_input_error(error: &TimeInputError) -> CliError {
    CliError::usage(error.to_string()).with_hint(TimeInputError::ACCEPTED_FORMS)
}
