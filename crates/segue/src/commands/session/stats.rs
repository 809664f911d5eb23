//! `segue session stats`: tokens and costs of sessions.

mod footnotes;
mod format;
mod json;
mod since;
mod table;

use std::path::{Path, PathBuf};

use jiff::Zoned;
use segue_catalog::project_key;
use segue_core::spend::{By, Prices, Spending, Spent};
use segue_engine::{Freshness, SpendingRequest};
use segue_store::Filter;

use self::footnotes::Asked;
pub(super) use self::format::{bar, writes_unicode};
use self::table::Sheet;
use crate::app::{self, App};
use crate::cli::StatsArgs;
use crate::config::Flags;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{self, Style, one_line, print, say};

pub(super) async fn run(app: &App, args: &StatsArgs) -> Result<(), CliError> {
    let by = levels(args)?;
    let now = Zoned::now();
    let since = since::moment(&args.since, &now)?;
    if let Some(provider) = &args.provider
        && !app.engine.knows(provider)
    {
        let known = app.engine.known_providers().join(", ");
        return Err(CliError::usage(format!("nobody here is called {provider}"))
            .hint(format!("there are: {known}")));
    }
    if let Some(path) = &args.project {
        known_project(app, path).await?;
    }
    let request = SpendingRequest {
        since,
        provider: args.provider.clone(),
        project: project(app, args, &by),
        zone: now.time_zone().clone(),
    };
    let mut found = app.engine.spending(&request).await?;
    let mark = Style::stderr().yellow("segue:");
    for (provider, why) in &found.unreadable {
        let why = one_line(why);
        say(&format!(
            "{mark} some of what {provider} spent is missing here: {why}"
        ));
    }
    if let Some(model) = &args.model {
        found.spent.retain(|spent| is_of(spent, model));
    }
    let prices = app::configuration(&Flags::default())?.config.prices;
    let spending = Spending::of(&found.spent, &by, &prices);
    let asked = Asked {
        since,
        now: &now,
        place: match (&args.project, &request.project) {
            (_, None) => "",
            (None, Some(_)) => " in this project",
            (Some(_), Some(_)) => " in that project",
        },
        narrowed: args.provider.is_some() || args.model.is_some(),
    };
    if args.json {
        print_json(&json::report(&spending, &by, &asked, &found.unreadable));
    } else if spending.total.turns == 0 && spending.total.tokens().is_none() {
        say(&footnotes::nothing(&asked));
    } else {
        show(
            &spending,
            &by,
            args,
            &notes(&found.spent, &prices, &spending, &asked),
        );
    }
    Ok(())
}

fn show(spending: &Spending, by: &[By], args: &StatsArgs, notes: &[String]) {
    let sheet = Sheet {
        width: terminal::width(),
        unicode: format::writes_unicode(|name| std::env::var(name).ok()),
        bars: args.bars,
        home: std::env::var("HOME").unwrap_or_default(),
    };
    let style = Style::stdout();
    let lines = sheet.lines(spending, by);
    let last = lines.len().saturating_sub(1);
    for (index, line) in lines.iter().enumerate() {
        match index {
            0 => print(&style.dim(line)),
            index if index == last => print(&style.bold(line)),
            _ => print(line),
        }
    }
    for note in notes {
        let note = format::plain(note, sheet.unicode);
        for piece in terminal::wrap(&note, sheet.width) {
            print(&style.dim(piece));
        }
    }
}

fn notes(spent: &[Spent], prices: &Prices, spending: &Spending, asked: &Asked<'_>) -> Vec<String> {
    let by_model = Spending::of(spent, &[By::Model], prices);
    footnotes::notes(spending, &by_model, asked)
}

/// Returns the groupings: one, or one and a second within it.
fn levels(args: &StatsArgs) -> Result<Vec<By>, CliError> {
    let by: Vec<By> = args.by.iter().map(|&by| by.into()).collect();
    match by.as_slice() {
        [_] => Ok(by),
        [first, second] if first != second => Ok(by),
        [first, _] => Err(CliError::usage(format!(
            "--by {0},{0} is twice the same",
            first.as_str()
        ))),
        _ => {
            Err(CliError::usage("--by takes one or two, not more")
                .hint("for example --by month,model"))
        }
    }
}

/// Returns the key of the requested project. `None` for all projects.
fn project(app: &App, args: &StatsArgs, by: &[By]) -> Option<String> {
    if let Some(path) = &args.project {
        return Some(key_of(&absolute(app, path)));
    }
    let everywhere = args.all || by.contains(&By::Project);
    (!everywhere).then(|| app.project.key.clone())
}

/// Makes the path absolute. Resolves its parent, because sessions record a deleted directory without `..`.
fn absolute(app: &App, path: &Path) -> PathBuf {
    let path = Path::new(&app.project.cwd).join(path);
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path,
    }
}

fn key_of(path: &Path) -> String {
    project_key(path).to_string_lossy().into_owned()
}

/// Rejects a path that is not a directory and not the project of any session, because it is most likely a typing error.
async fn known_project(app: &App, path: &Path) -> Result<(), CliError> {
    let path = absolute(app, path);
    if path.is_dir() {
        return Ok(());
    }
    let filter = Filter {
        project: Some(key_of(&path)),
        ..Filter::default()
    };
    let sessions = app.engine.conversations(&filter, 1, Freshness::Scanned);
    if !sessions.await?.rows.is_empty() {
        return Ok(());
    }
    let path = one_line(&path.to_string_lossy());
    Err(CliError::usage(format!(
        "{path} is no directory, and no session worked there"
    ))
    .hint("`segue session stats --by project --since all` shows those that there are"))
}

/// Returns `true` if the tokens were used by a model whose name begins with this prefix, with or without its vendor in
/// `vendor/model`.
fn is_of(spent: &Spent, beginning: &str) -> bool {
    let Some(model) = &spent.model else {
        return false;
    };
    let short = model.rsplit('/').next().unwrap_or(model);
    model.starts_with(beginning) || short.starts_with(beginning)
}
