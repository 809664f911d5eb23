//! `segue session stats`: tokens and costs of sessions.

mod footnotes;
mod format;
mod json;
mod table;
mod time_range;

use std::path::{Path, PathBuf};

use jiff::Zoned;
use segue_catalog::project_key;
use segue_core::spend::{SpendGrouping, SpendRecord, Spending};
use segue_engine::{Freshness, SpendingRequest};
use segue_store::SessionFilter;

use self::footnotes::StatsQuery;
pub(super) use self::format::{draw_bar, has_unicode_locale};
use self::table::SpendTable;
use super::check_provider;
use crate::app::{self, App};
use crate::cli::StatsArgs;
use crate::config::ConfigFlags;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{self, Style, eprint_line, eprint_note, print_line, to_single_line};

pub(super) async fn run(app: &App, args: &StatsArgs) -> Result<(), CliError> {
    let groupings = &args.by;
    check_groupings(groupings)?;
    let now = Zoned::now();
    let since = time_range::parse_period_start(&args.since, &now)?;
    check_provider(app, args.provider.as_ref())?;
    if let Some(path) = &args.project {
        check_project(app, path).await?;
    }
    let request = SpendingRequest {
        since,
        provider: args.provider.clone(),
        project: requested_project(app, args),
        zone: now.time_zone().clone(),
    };
    let mut report = app.engine.library().compute_spending(&request).await?;
    for (provider, reason) in &report.unreadable {
        let note = format!("some usage of {provider} is not included: {reason}");
        eprint_note(&to_single_line(&note));
    }
    let records = &mut report.records;
    if let Some(model) = &args.model {
        records.retain(|record| has_model_prefix(record, model));
    }
    let prices = app::load_config(&ConfigFlags::default())?.config.prices;
    let spending = Spending::from_records(records, groupings, &prices);
    let query = StatsQuery {
        since,
        now: &now,
        project_phrase: match (&args.project, &request.project) {
            (_, None) => "",
            (None, Some(_)) => " in this project",
            (Some(_), Some(_)) => " in that project",
        },
        is_filtered: args.provider.is_some() || args.model.is_some(),
    };
    if args.json {
        let report = json::report_json(&spending, groupings, &query, &report.unreadable);
        print_json(&report);
    } else if spending.total.turns == 0 && spending.total.tokens().is_none() {
        eprint_line(&footnotes::empty_message(&query));
    } else {
        let by_model = Spending::from_records(records, &[SpendGrouping::Model], &prices);
        let notes = footnotes::format_footnotes(&spending, &by_model, &query);
        print_report(&spending, args, &notes);
    }
    Ok(())
}

fn print_report(spending: &Spending, args: &StatsArgs, notes: &[String]) {
    let table = SpendTable {
        width: terminal::terminal_width(),
        unicode: format::has_unicode_locale(|name| std::env::var(name).ok()),
        bars: args.bars,
        home: std::env::var("HOME").unwrap_or_default(),
    };
    let style = Style::stdout();
    let lines = table.format_lines(spending, &args.by);
    let last = lines.len().saturating_sub(1);
    for (index, line) in lines.iter().enumerate() {
        match index {
            0 => print_line(&style.dim(line)),
            index if index == last => print_line(&style.bold(line)),
            _ => print_line(line),
        }
    }
    for note in notes {
        let note = format::replace_unsupported_symbols(note, table.unicode);
        for wrapped_line in terminal::wrap(&note, table.width) {
            print_line(&style.dim(wrapped_line));
        }
    }
}

/// Fails unless there is one grouping, or one and a different second one.
fn check_groupings(groupings: &[SpendGrouping]) -> Result<(), CliError> {
    match groupings {
        [_] => Ok(()),
        [first, second] if first != second => Ok(()),
        [first, _] => Err(CliError::usage(format!(
            "--by {0},{0} contains the same key twice",
            first.as_str()
        ))),
        _ => Err(CliError::usage("--by accepts at most two keys")
            .with_hint("use one or two keys, such as `--by month,model`")),
    }
}

/// Returns the key of the requested project. `None` for all projects.
fn requested_project(app: &App, args: &StatsArgs) -> Option<String> {
    if let Some(path) = &args.project {
        return Some(project_key_text(&to_absolute(app, path)));
    }
    let all_projects = args.all || args.by.contains(&SpendGrouping::Project);
    (!all_projects).then(|| app.project.key.clone())
}

/// Makes the path absolute. Resolves its parent, because sessions record a deleted directory without `..`.
fn to_absolute(app: &App, path: &Path) -> PathBuf {
    let path = Path::new(&app.project.cwd).join(path);
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path,
    }
}

fn project_key_text(path: &Path) -> String {
    project_key(path).to_string_lossy().into_owned()
}

/// Rejects a path that is not a directory and not the project of any session, because it is most likely a typing error.
async fn check_project(app: &App, path: &Path) -> Result<(), CliError> {
    let path = to_absolute(app, path);
    if path.is_dir() {
        return Ok(());
    }
    let filter = SessionFilter {
        project: Some(project_key_text(&path)),
        ..SessionFilter::default()
    };
    let library = app.engine.library();
    let sessions = library.list_conversations(&filter, 1, Freshness::Scanned);
    if !sessions.await?.rows.is_empty() {
        return Ok(());
    }
    let path = to_single_line(&path.to_string_lossy());
    Err(CliError::usage(format!(
        "unknown project {path}: it is not a directory, and no session belongs to it"
    ))
    .with_hint("run `segue session stats --by project --since all` to list the projects"))
}

/// Returns `true` if the tokens were used by a model whose name begins with this prefix, with or without its vendor in
/// `vendor/model`.
fn has_model_prefix(record: &SpendRecord, prefix: &str) -> bool {
    let Some(model) = &record.model else {
        return false;
    };
    let short_name = model.rsplit('/').next().unwrap_or(model);
    model.starts_with(prefix) || short_name.starts_with(prefix)
}
