//! `segue session list`: sessions and native sessions.

mod sort;

use jiff::{Timestamp, Zoned};
use segue_catalog::index::State;
use segue_core::hint::NextStep;
use segue_core::scope::Purpose;
use segue_core::session::{SessionStatus, Tag};
use segue_core::time_input::{WhenError, parse_when};
use segue_engine::{Conversation, Conversations, Native};
use segue_store::Filter;

use super::gemini_listing;
use crate::app::App;
use crate::cli::ListArgs;
use crate::error::CliError;
use crate::frontend::Front;
use crate::index_refresh::{Behind, CaughtUp, tell_without_index};
use crate::json_output::{self, print_json};
use crate::last_list;
use crate::terminal::{Style, Table, ago, one_line, say};

pub(super) async fn run(app: &App, front: Front<'_>, args: &ListArgs) -> Result<(), CliError> {
    let now = Timestamp::now();
    let filter = filter(app, args)?;
    let limit = if args.limit == 0 {
        u32::MAX
    } else {
        args.limit
    };
    // In any order but the default, any of the sessions may come first, so all of them are needed.
    let wanted = if args.order.is_usual() {
        limit
    } else {
        u32::MAX
    };
    let caught = app.catch_up(!args.no_refresh).await;
    if let Some(Behind::Failed(why)) = &caught.behind {
        tell_without_index(why);
    }
    let mut listed = gather(app, args, &filter, wanted, &caught).await?;
    let mark = Style::stderr().yellow("segue:");
    if let Some(why) = &listed.without_index {
        tell_without_index(why);
    }
    for (provider, why) in &listed.unreadable {
        let why = one_line(why);
        say(&format!(
            "{mark} some of {provider}'s sessions are missing here: {why}"
        ));
    }
    if args.ask {
        gemini_listing::complete(app, &filter, wanted, now, &mut listed).await;
    } else if gemini_listing::would_help(&filter, &listed) {
        say(&format!(
            "{mark} add --ask to have Gemini CLI list them itself, which starts it and calls the model"
        ));
    }
    if !args.order.is_usual() {
        sort::arrange(&mut listed.rows, args.order);
        listed.more |= listed.rows.len() > limit as usize;
        listed.rows.truncate(limit as usize);
    }
    if args.json {
        let entries: Vec<_> = listed.rows.iter().map(json_output::conversation).collect();
        print_json(&entries);
        return Ok(());
    }
    let ids: Vec<_> = listed.rows.iter().map(Conversation::id).collect();
    last_list::remember(&app.home, (!args.all).then_some(&app.project), &ids);
    if listed.rows.is_empty() {
        say(&nothing(args, front));
        return Ok(());
    }
    let long = table(&listed.rows, args.all, now, Ids::Long);
    if long.fits() {
        long.print();
    } else {
        table(&listed.rows, args.all, now, Ids::Short).print();
    }
    if listed.more {
        say(&Style::stderr().dim("there are more: --limit 0 shows all"));
    }
    Ok(())
}

/// Returns the newest matching conversations of each requested provider.
async fn gather(
    app: &App,
    args: &ListArgs,
    filter: &Filter,
    wanted: u32,
    caught: &CaughtUp,
) -> Result<Conversations, CliError> {
    let each = args.provider.iter().cloned().map(Some);
    let everybody = args.provider.is_empty().then_some(None);
    let mut listed = Conversations::default();
    for provider in each.chain(everybody) {
        let filter = Filter {
            provider: provider.clone(),
            ..filter.clone()
        };
        let found = app.engine.conversations(&filter, wanted, caught.freshness);
        let mut found = found.await?;
        found.lack(&filter, caught.unreadable.clone());
        if let Some(provider) = provider.filter(|_| found.rows.is_empty())
            && !app.engine.knows(&provider)
        {
            let known = app.engine.known_providers().join(", ");
            return Err(unknown(provider.as_str(), &known));
        }
        listed.join(found, wanted);
    }
    Ok(listed)
}

fn filter(app: &App, args: &ListArgs) -> Result<Filter, CliError> {
    // `--ask` applies only to Gemini CLI. With several providers, `gather` filters by each of them separately.
    let gemini = args
        .provider
        .iter()
        .find(|agent| gemini_listing::is_gemini(agent));
    Ok(Filter {
        project: (!args.all).then(|| app.project.key.clone()),
        provider: gemini.or(args.provider.first()).cloned(),
        feature: args.feature.clone(),
        task: args.task.clone(),
        role: args.role.clone(),
        tags: args.tag.clone(),
        since: args
            .since
            .as_deref()
            .map(|text| parse_when(text, &Zoned::now()).map_err(|error| not_a_time(&error)))
            .transpose()?,
        cwd: None,
        purpose: None,
    })
}

/// Length of printed ids.
#[derive(Clone, Copy)]
enum Ids {
    /// Long enough to be unique.
    Long,
    /// Long enough to be unique in most cases.
    Short,
}

fn table(rows: &[Conversation], all: bool, now: Timestamp, ids: Ids) -> Table {
    let tagged = rows.iter().any(|row| !tags(row).is_empty());
    let scoped = rows.iter().any(|row| !purpose(row).is_empty());
    let mut head = vec!["#", "ID", "AGENT", "TURNS", "UPDATED"];
    head.extend(scoped.then_some("FOR"));
    head.extend(tagged.then_some("TAGS"));
    head.extend(all.then_some("DIRECTORY"));
    head.push("TITLE");
    let shed = ["TURNS", "TAGS", "DIRECTORY", "UPDATED", "FOR", "AGENT"];
    let longest = match ids {
        Ids::Long => 28,
        Ids::Short => 16,
    };
    let mut table = Table::new(&head).shedding(&shed);
    for (number, row) in (1..).zip(rows) {
        let [agent, turns, updated, title] = cells(row, now);
        let mut cells = vec![number.to_string(), id(row, ids), agent, turns, updated];
        cells.extend(scoped.then(|| purpose(row)));
        cells.extend(tagged.then(|| tags(row)));
        cells.extend(all.then(|| short_path(directory(row), longest)));
        cells.push(title);
        table.row(&cells);
    }
    table
}

/// Composes the message for an empty list, with suggestions.
fn nothing(args: &ListArgs, front: Front<'_>) -> String {
    let scoped = args.feature.is_some() || args.task.is_some() || args.role.is_some();
    let narrowed = scoped || args.since.is_some() || !args.tag.is_empty();
    if narrowed || !args.provider.is_empty() {
        return "no sessions match".to_owned();
    }
    let elsewhere = if args.all {
        String::new()
    } else {
        let all = front.words(&NextStep::ListAll);
        format!(" in this project (`{all}` looks everywhere)")
    };
    format!("no sessions{elsewhere}; {}", front.words(&NextStep::Start))
}

/// Returns the status of a conversation as a suffix of its title. Empty if it is idle.
pub(super) fn label(row: &Conversation) -> &'static str {
    match row {
        Conversation::Session(_, SessionStatus::Idle) => "",
        Conversation::Session(_, SessionStatus::Running) => " (running)",
        Conversation::Session(_, SessionStatus::Interrupted) => " (interrupted)",
        Conversation::Native(native) => match native.known.as_ref().map(|known| known.state) {
            Some(State::Gone) => " (gone)",
            _ if native.session.found.archived => " (archived)",
            _ => "",
        },
    }
}

/// Returns the directory of a conversation, `-` if unknown.
pub(super) fn directory(row: &Conversation) -> &str {
    match row {
        Conversation::Session(session, _) => &session.project.cwd,
        Conversation::Native(native) => native.session.head.cwd.as_deref().unwrap_or("-"),
    }
}

/// Shortens a path at its beginning to leave width for the title, because its end is more significant.
pub(super) fn short_path(path: &str, longest: usize) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let path = match path.strip_prefix(&home) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{rest}")
        }
        _ => path.to_owned(),
    };
    let length = path.chars().count();
    if length <= longest {
        return path;
    }
    let end: String = path.chars().skip(length - longest + 1).collect();
    format!("…{end}")
}

/// Formats the purpose of a conversation: `@auth`, `@auth T1/in_dev`, `pm`.
fn purpose(row: &Conversation) -> String {
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
    short(parts.join(" "))
}

/// Formats the tags of a conversation, cut to the width of a cell.
fn tags(row: &Conversation) -> String {
    let tags = match row {
        Conversation::Session(session, _) => session.tags.as_slice(),
        Conversation::Native(_) => &[],
    };
    let tags: Vec<&str> = tags.iter().map(Tag::as_str).collect();
    short(tags.join(" "))
}

/// Cuts a cell to leave width for the title.
fn short(all: String) -> String {
    const LONGEST: usize = 24;
    if all.chars().count() <= LONGEST {
        return all;
    }
    let start: String = all.chars().take(LONGEST - 1).collect();
    format!("{start}…")
}

/// Returns enough of an id to refer to a conversation. Native ids that begin with a timestamp differ only in the second
/// group.
fn id(row: &Conversation, ids: Ids) -> String {
    match (row, ids) {
        (Conversation::Session(session, _), Ids::Long) => session.id.to_string(),
        (Conversation::Session(session, _), Ids::Short) => session.id.tail().to_owned(),
        (Conversation::Native(native), _) => {
            let length = match ids {
                Ids::Long => 13,
                Ids::Short => 8,
            };
            let id = native.session.head.id.as_str();
            id.chars().take(length).collect()
        }
    }
}

fn cells(row: &Conversation, now: Timestamp) -> [String; 4] {
    match row {
        Conversation::Session(session, _) => [
            session.provider.to_string(),
            session.turns.to_string(),
            ago(session.updated_at, now),
            format!("{}{}", session.title.as_str(), label(row)),
        ],
        Conversation::Native(native) => {
            let turns = native.known.as_ref().map(|known| known.turns);
            [
                native.session.provider.to_string(),
                // Without the index, only reading the complete session would provide the number.
                turns.map_or_else(|| "-".to_owned(), |turns| turns.to_string()),
                ago(native.session.head.updated_at, now),
                format!("{}{}", title(native), label(row)),
            ]
        }
    }
}

/// Returns the title of a native session.
pub(super) fn title(native: &Native) -> String {
    let title = native.session.head.title.as_ref();
    title.map_or_else(
        || "(no title)".to_owned(),
        |title| title.as_str().to_owned(),
    )
}

/// Builds the error for an unknown agent.
pub(super) fn unknown(name: &str, known: &str) -> CliError {
    CliError::usage(format!("nobody here is called {name}")).hint(format!("there are: {known}"))
}

/// Builds the error for an invalid time.
pub(super) fn not_a_time(error: &WhenError) -> CliError {
    CliError::usage(error.to_string()).hint(WhenError::FORMS)
}
