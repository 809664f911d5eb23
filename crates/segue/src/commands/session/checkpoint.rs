//! `segue session checkpoint`: versions of a session's checkpoint.

mod edit;
mod json;
mod show;

use segue_api::checkpoint::{ChangedItem, CheckpointDiff};
use segue_core::checkpoint::{CheckpointDelta, CheckpointItem, kind_heading};
use segue_core::number_format::format_count;
use segue_core::session::Session;
use segue_engine::{CheckpointChange, CheckpointEdit, CheckpointView, Compactor, VersionStatus};

use crate::app::App;
use crate::cli::{CheckpointArgs, CheckpointCommand};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::print_json;
use crate::terminal::{Table, eprint_decisions, format_age, print_line, to_single_line};

pub(super) async fn run(app: &App, args: &CheckpointArgs) -> Result<(), CliError> {
    let session = &app.find_session(&args.id).await?;
    let (compactor, json) = (app.engine.compactor(), args.json);
    let (change, message) = match args.command {
        None => return show_version(compactor, session, (None, false), json).await,
        Some(CheckpointCommand::Show { n, all }) => {
            return show_version(compactor, session, (n, all), json).await;
        }
        Some(CheckpointCommand::List) => return list_versions(compactor, session, json).await,
        Some(CheckpointCommand::Diff { from, to }) => {
            return diff_versions(compactor, session, (from, to), json).await;
        }
        Some(CheckpointCommand::Restore { n }) => {
            let change = compactor
                .change_checkpoint(session, CheckpointEdit::Restore(n))
                .await?;
            let up_to = match change.view.version.covers {
                0 => String::new(),
                covers => format!(" (up to turn {covers})"),
            };
            let message = format!("restored checkpoint {n}{up_to}; later turns are sent in full");
            (change, message)
        }
        Some(CheckpointCommand::Pin { item }) => {
            set_item_pinned(compactor, session, (item, true)).await?
        }
        Some(CheckpointCommand::Unpin { item }) => {
            set_item_pinned(compactor, session, (item, false)).await?
        }
        Some(CheckpointCommand::Edit) => {
            let change = edit::run(app, session).await?;
            (change, "saved your changes".to_owned())
        }
    };
    print_change(session, &change, &message, json);
    Ok(())
}

async fn show_version(
    compactor: &Compactor,
    session: &Session,
    (n, all): (Option<u32>, bool),
    json: bool,
) -> Result<(), CliError> {
    let view = compactor.checkpoint(session, n).await?;
    if json {
        print_json(&json::checkpoint_json(session, &view));
    } else {
        show::print_checkpoint(session, &view, all);
    }
    Ok(())
}

/// Pins or unpins an item. Returns the change, and the message that reports it.
async fn set_item_pinned(
    compactor: &Compactor,
    session: &Session,
    (item, pinned): (u32, bool),
) -> Result<(CheckpointChange, String), CliError> {
    let edit = CheckpointEdit::Pin { item, pinned };
    let change = compactor.change_checkpoint(session, edit).await?;
    let action = if pinned { "pinned" } else { "unpinned" };
    let text = change.view.checkpoint.find_item(item);
    let text = text.map_or("", |item| item.text.as_str());
    let message = format!("{action} item {item}: {text}");
    Ok((change, message))
}

/// Prints the result of a change.
fn print_change(session: &Session, change: &CheckpointChange, message: &str, json: bool) {
    eprint_decisions(&change.decisions, Frontend::Shell);
    let n = change.view.version.n;
    if json {
        print_json(&json::checkpoint_json(session, &change.view));
    } else if change.is_new {
        let line = format!("checkpoint {n} is now current: {message}");
        print_line(&to_single_line(&line));
    } else {
        print_line(&format!("no changes made; checkpoint {n} is still current"));
    }
}

async fn list_versions(
    compactor: &Compactor,
    session: &Session,
    json: bool,
) -> Result<(), CliError> {
    let versions = compactor.checkpoint_versions(session).await?;
    if json {
        let rows = versions.iter();
        let rows = rows.map(|(version, status)| json::version_json(version, *status));
        print_json(&rows.collect::<Vec<_>>());
        return Ok(());
    }
    if versions.is_empty() {
        let id = &session.id;
        print_line(&format!(
            "{id} has no checkpoint yet; create one with `segue session compact {id}`"
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
    let has = |status| versions.iter().any(|(_, other)| *other == status);
    if has(VersionStatus::Active) {
        print_line("* current");
    }
    if has(VersionStatus::OffPath) {
        print_line("( covers turns that the session no longer contains");
    }
    Ok(())
}

async fn diff_versions(
    compactor: &Compactor,
    session: &Session,
    (from, to): (u32, u32),
    json: bool,
) -> Result<(), CliError> {
    let before = compactor.checkpoint(session, Some(from)).await?;
    let after = compactor.checkpoint(session, Some(to)).await?;
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
        print_line(&to_single_line(&text));
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
