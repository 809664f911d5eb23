//! `segue session list`: sessions and native sessions.

mod sort;

use jiff::Timestamp;
use segue_api::session::{ListedSession, ListedStatus};
use segue_api::text::ActionText;
use segue_core::hint::SuggestedAction;
use segue_core::id::NativeId;
use segue_core::scope::Purpose;
use segue_engine::{Conversation, ConversationList, IndexView, RefreshFailure};
use segue_store::SessionFilter;

use super::{abbreviate_home, check_provider, gemini_listing, parse_time};
use crate::app::App;
use crate::cli::ListArgs;
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::index_refresh::report_index_fallback;
use crate::json_output::{self, print_json};
use crate::last_list;
use crate::terminal::{Style, Table, eprint_line, eprint_note, format_age, to_single_line};

pub(super) async fn run(
    app: &App,
    frontend: Frontend<'_>,
    args: &ListArgs,
) -> Result<(), CliError> {
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
    if let Some(reason) = &conversations.index_error {
        report_index_fallback(reason);
    }
    for (provider, reason) in &conversations.unreadable {
        let note = format!("some sessions of {provider} are not listed: {reason}");
        eprint_note(&to_single_line(&note));
    }
    if args.ask {
        gemini_listing::add_listed_sessions(app, &filter, fetch_limit, &mut conversations).await;
    } else if gemini_listing::can_add_sessions(&filter, &conversations) {
        eprint_note("use --ask to list them with Gemini CLI, which calls the model");
    }
    if !args.order.is_default_order() {
        sort::sort_conversations(&mut conversations.rows, args.order);
        conversations.has_more |= conversations.rows.len() > limit as usize;
        conversations.rows.truncate(limit as usize);
    }
    let conversation_rows = conversations.rows.iter();
    let rows: Vec<ListedSession> = conversation_rows
        .map(json_output::conversation_json)
        .collect();
    if args.json {
        print_json(&rows);
        return Ok(());
    }
    let ids: Vec<_> = conversations.rows.iter().map(Conversation::id).collect();
    last_list::save(&app.home, (!args.all).then_some(&app.project), &ids);
    if rows.is_empty() {
        eprint_line(&empty_list_message(args, frontend));
        return Ok(());
    }
    let purposes: Vec<String> = conversations.rows.iter().map(format_purpose).collect();
    let wide_table = build_table(&rows, &purposes, args.all, IdLength::Long);
    if wide_table.has_room_for_all_columns() {
        wide_table.print();
    } else {
        build_table(&rows, &purposes, args.all, IdLength::Short).print();
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
        let library = app.engine.library();
        let query = library.list_conversations(&filter, limit, index_view.freshness);
        let mut matches = query.await?;
        matches.add_unreadable(&filter, index_view.unreadable.clone());
        if matches.rows.is_empty() {
            check_provider(app, provider.as_ref())?;
        }
        conversations.merge(matches, limit);
    }
    Ok(conversations)
}

fn build_filter(app: &App, args: &ListArgs) -> Result<SessionFilter, CliError> {
    // `--ask` applies only to Gemini CLI. With several providers, `list_conversations` filters by each of them
    // separately.
    let mut providers = args.provider.iter();
    let gemini = providers.find(|agent| gemini_listing::is_gemini(agent));
    Ok(SessionFilter {
        project: (!args.all).then(|| app.project.key.clone()),
        provider: gemini.or(args.provider.first()).cloned(),
        feature: args.feature.clone(),
        task: args.task.clone(),
        role: args.role.clone(),
        tags: args.tag.clone(),
        since: parse_time(args.since.as_deref())?,
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

/// Builds the table of the sessions. `purposes` are the purposes of the rows.
fn build_table(
    rows: &[ListedSession],
    purposes: &[String],
    all_projects: bool,
    id_length: IdLength,
) -> Table {
    let now = Timestamp::now();
    let has_tags = rows.iter().any(|row| !row.tags.is_empty());
    let has_purposes = purposes.iter().any(|purpose| !purpose.is_empty());
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
    for ((number, row), purpose) in (1..).zip(rows).zip(purposes) {
        // Without the index, only reading the complete session would provide the number of turns.
        let turns = row.turns.map(|turns| turns.to_string());
        let mut cells = vec![
            number.to_string(),
            format_id(row, id_length),
            row.provider.to_string(),
            turns.unwrap_or_else(|| "-".to_owned()),
            format_age(row.updated_at, now),
        ];
        cells.extend(has_purposes.then(|| purpose.clone()));
        cells.extend(has_tags.then(|| truncate_cell(row.tags.join(" "))));
        cells.extend(all_projects.then(|| format_directory(row, max_path_chars)));
        cells.push(format!("{}{}", session_title(row), status_label(row)));
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

/// Returns the status of a session as a suffix of its title. Empty if it is idle.
pub(super) fn status_label(row: &ListedSession) -> &'static str {
    match row.status {
        ListedStatus::Idle => "",
        ListedStatus::Running => " (running)",
        ListedStatus::Interrupted => " (interrupted)",
        ListedStatus::Archived => " (archived)",
        ListedStatus::Gone => " (missing)",
    }
}

/// Formats the directory of a session, `-` if unknown. Shortens it at its beginning to leave width for the title, because
/// its end is more significant.
pub(super) fn format_directory(row: &ListedSession, max_chars: usize) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let path = abbreviate_home(row.cwd.as_deref().unwrap_or("-"), &home);
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

/// Cuts a cell to leave width for the title.
fn truncate_cell(text: String) -> String {
    const MAX_CELL_CHARS: usize = 24;
    if text.chars().count() <= MAX_CELL_CHARS {
        return text;
    }
    let start: String = text.chars().take(MAX_CELL_CHARS - 1).collect();
    format!("{start}…")
}

/// Returns enough of an id to refer to a session. Native ids that begin with a timestamp differ only in the second group.
fn format_id(row: &ListedSession, id_length: IdLength) -> String {
    let native_id = row.native_session_id.as_ref().map_or("", NativeId::as_str);
    match (&row.id, id_length) {
        (Some(id), IdLength::Long) => id.to_string(),
        (Some(id), IdLength::Short) => id.tail().to_owned(),
        (None, IdLength::Long) => native_id.chars().take(13).collect(),
        (None, IdLength::Short) => native_id.chars().take(8).collect(),
    }
}

/// Returns the title of a session.
pub(super) fn session_title(row: &ListedSession) -> &str {
    row.title.as_deref().unwrap_or("(no title)")
}
