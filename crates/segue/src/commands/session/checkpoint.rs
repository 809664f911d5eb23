//! `segue session checkpoint`: versions of a session's checkpoint.

mod edit;
mod json;
mod show;

use segue_api::checkpoint::{ChangedItem, CheckpointDiff};
use segue_core::checkpoint::{CheckpointDelta, CheckpointItem, kind_heading};
use segue_core::number_format::format_count;
use segue_core::session::Session;
use segue_engine::{CheckpointChange, CheckpointEdit, CheckpointView, VersionStatus};

use crate::app::App;
use crate::cli::{CheckpointArgs, CheckpointCommand};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::print_json;
use crate::terminal::{Table, eprint_decisions, format_age, print_line};

pub(super) async fn run(app: &App, args: &CheckpointArgs) -> Result<(), CliError> {
    let session = app.find_session(&args.id).await?;
    let (session, json) = (&session, args.json);
    match args.command {
        None => show_version(app, session, (None, false), json).await,
        Some(CheckpointCommand::Show { n, all }) => {
            show_version(app, session, (n, all), json).await
        }
        Some(CheckpointCommand::List) => list_versions(app, session, json).await,
        Some(CheckpointCommand::Diff { from, to }) => {
            diff_versions(app, session, (from, to), json).await
        }
        Some(CheckpointCommand::Restore { n }) => {
            let change = app
                .engine
                .compactor()
                .change_checkpoint(session, CheckpointEdit::Restore(n))
                .await?;
            let up_to = match change.view.version.covers {
                0 => String::new(),
                covers => format!(" (up to turn {covers})"),
            };
            let message = format!("restored checkpoint {n}{up_to}; later turns are sent in full");
            print_change(session, &change, &message, json);
            Ok(())
        }
        Some(CheckpointCommand::Pin { item }) => {
            set_item_pinned(app, session, (item, true), json).await
        }
        Some(CheckpointCommand::Unpin { item }) => {
            set_item_pinned(app, session, (item, false), json).await
        }
        Some(CheckpointCommand::Edit) => {
            let change = edit::run(app, session).await?;
            print_change(session, &change, "saved your changes", json);
            Ok(())
        }
    }
}

async fn show_version(
    app: &App,
    session: &Session,
    (n, all): (Option<u32>, bool),
    json: bool,
) -> Result<(), CliError> {
    let view = app.engine.compactor().checkpoint(session, n).await?;
    if json {
        print_json(&json::checkpoint_json(session, &view));
    } else {
        show::print_checkpoint(session, &view, all);
    }
    Ok(())
}

async fn set_item_pinned(
    app: &App,
    session: &Session,
    (item, pinned): (u32, bool),
    json: bool,
) -> Result<(), CliError> {
    let change = app
        .engine
        .compactor()
        .change_checkpoint(session, CheckpointEdit::Pin { item, pinned })
        .await?;
    let text = change.view.checkpoint.find_item(item);
    let text = text.map_or("", |item| item.text.as_str());
    let message = if pinned {
        format!("pinned item {item}: {text}")
    } else {
        format!("unpinned item {item}: {text}")
    };
    print_change(session, &change, &message, json);
    Ok(())
}

/// Prints the result of a change.
fn print_change(session: &Session, change: &CheckpointChange, message: &str, json: bool) {
    eprint_decisions(&change.decisions, Frontend::Shell);
    let view = &change.view;
    if json {
        print_json(&json::checkpoint_json(session, view));
    } else if change.is_new {
        let n = view.version.n;
        print_line(&crate::terminal::to_single_line(&format!(
            "checkpoint {n} is now current: {message}"
        )));
    } else {
        print_line(&format!(
            "no changes made; checkpoint {} is still current",
            view.version.n
        ));
    }
}

async fn list_versions(app: &App, session: &Session, json: bool) -> Result<(), CliError> {
    let versions = app.engine.compactor().checkpoint_versions(session).await?;
    if json {
        let rows = versions
            .iter()
            .map(|(version, status)| json::version_json(version, *status));
        print_json(&rows.collect::<Vec<_>>());
        return Ok(());
    }
    if versions.is_empty() {
        print_line(&format!(
            "{} has no checkpoint yet; create one with `segue session compact {}`",
            session.id, session.id
        ));
        return Ok(());
    }
    let now = jiff::Timestamp::now();
    let mut table = Table::new(&[
        "", "VERSION", "TURNS", "TOKENS", "REPLACED", "CREATED", "REASON",
    ]);
    for (version, status) in &versions {
        let marker = match status {
            VersionStatus::Active => "*",
            VersionStatus::Superseded => "",
            VersionStatus::OffPath => "(",
        };
        table.add_row(&[
            marker.to_owned(),
            version.n.to_string(),
            match version.covers {
                0 => "imported".to_owned(),
                covers => format!("1-{covers}"),
            },
            format_count(version.tokens),
            format_count(version.replaced),
            format_age(version.at, now),
            show::describe_reason(version.reason).to_owned(),
        ]);
    }
    table.print();
    if versions
        .iter()
        .any(|(_, status)| *status == VersionStatus::Active)
    {
        print_line("* current");
    }
    if versions
        .iter()
        .any(|(_, status)| *status == VersionStatus::OffPath)
    {
        print_line("( covers turns that the session no longer contains");
    }
    Ok(())
}

async fn diff_versions(
    app: &App,
    session: &Session,
    (from, to): (u32, u32),
    json: bool,
) -> Result<(), CliError> {
    let before = app
        .engine
        .compactor()
        .checkpoint(session, Some(from))
        .await?;
    let after = app.engine.compactor().checkpoint(session, Some(to)).await?;
    let (removed, changed, added) = diff_items(&before, &after);
    if json {
        let changed = changed.into_iter().map(|(before, after)| ChangedItem {
            before: before.into(),
            after: after.into(),
        });
        print_json(&CheckpointDiff {
            session_id: session.id.clone(),
            from,
            to,
            gone: removed.into_iter().map(Into::into).collect(),
            changed: changed.collect(),
            added: added.into_iter().map(Into::into).collect(),
        });
        return Ok(());
    }
    print_line(&format!(
        "from checkpoint {from} to {to}: {} removed, {} changed, {} added",
        removed.len(),
        changed.len(),
        added.len()
    ));
    let print_item = |marker: &str, item: &CheckpointItem| {
        let (kind, content) = (kind_heading(item.kind), show::item_text(item));
        let text = format!("{marker} {kind}: {content}  {}", show::format_origin(item));
        print_line(&crate::terminal::to_single_line(&text));
    };
    for item in removed {
        print_item("-", item);
    }
    for (before, after) in changed {
        print_item("-", before);
        print_item("+", after);
    }
    for item in added {
        print_item("+", item);
    }
    Ok(())
}

/// Returns the removed, the changed and the added items.
fn diff_items<'a>(
    before: &'a CheckpointView,
    after: &'a CheckpointView,
) -> (
    Vec<&'a CheckpointItem>,
    Vec<(&'a CheckpointItem, &'a CheckpointItem)>,
    Vec<&'a CheckpointItem>,
) {
    let delta = CheckpointDelta::between(&before.checkpoint, &after.checkpoint);
    let removed_ids = delta.removed_ids.iter();
    let removed = removed_ids
        .filter_map(|id| before.checkpoint.find_item(*id))
        .collect();
    let (mut changed, mut added) = (Vec::new(), Vec::new());
    for changed_item in &delta.changed_items {
        let Some(item) = after.checkpoint.find_item(changed_item.id) else {
            continue;
        };
        match before.checkpoint.find_item(changed_item.id) {
            Some(old) => changed.push((old, item)),
            None => added.push(item),
        }
    }
    (removed, changed, added)
}
