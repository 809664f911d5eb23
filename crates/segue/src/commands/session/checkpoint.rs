//! `segue session checkpoint`: versions of a session's checkpoint.

mod edit;
mod json;
mod show;

use segue_core::checkpoint::{Delta, Item, headed};
use segue_core::number_format::figure;
use segue_core::session::Session;
use segue_engine::{Changed, CheckpointView, Place};

use crate::app::App;
use crate::cli::{CheckpointArgs, CheckpointCommand};
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, ago, print, say_decision};

pub(super) async fn run(app: &App, args: &CheckpointArgs) -> Result<(), CliError> {
    let session = app.find(&args.id).await?;
    let (session, json) = (&session, args.json);
    match args.command {
        None => show(app, session, (None, false), json).await,
        Some(CheckpointCommand::Show { n, all }) => show(app, session, (n, all), json).await,
        Some(CheckpointCommand::List) => list(app, session, json).await,
        Some(CheckpointCommand::Diff { from, to }) => diff(app, session, (from, to), json).await,
        Some(CheckpointCommand::Restore { n }) => {
            let changed = app.engine.restore_checkpoint(session, n).await?;
            let up_to = match changed.view.version.covers {
                0 => String::new(),
                covers => format!(", up to turn {covers}"),
            };
            let done =
                format!("checkpoint {n} counts again{up_to}; what was said since is told in full");
            tell(session, &changed, &done, json);
            Ok(())
        }
        Some(CheckpointCommand::Pin { item }) => pin(app, session, (item, true), json).await,
        Some(CheckpointCommand::Unpin { item }) => pin(app, session, (item, false), json).await,
        Some(CheckpointCommand::Edit) => {
            let changed = edit::run(app, session).await?;
            tell(session, &changed, "what you wrote counts from now on", json);
            Ok(())
        }
    }
}

async fn show(
    app: &App,
    session: &Session,
    (n, all): (Option<u32>, bool),
    json: bool,
) -> Result<(), CliError> {
    let view = app.engine.checkpoint(session, n).await?;
    if json {
        print_json(&json::checkpoint(session, &view));
    } else {
        show::checkpoint(session, &view, all);
    }
    Ok(())
}

async fn pin(
    app: &App,
    session: &Session,
    (item, pinned): (u32, bool),
    json: bool,
) -> Result<(), CliError> {
    let changed = app.engine.pin(session, item, pinned).await?;
    let text = changed.view.checkpoint.item(item);
    let text = text.map_or("", |item| item.text.as_str());
    let done = if pinned {
        format!("item {item} stays, however often it is summed up: {text}")
    } else {
        format!("item {item} may go again where there is no room: {text}")
    };
    tell(session, &changed, &done, json);
    Ok(())
}

/// Prints the result of a change.
fn tell(session: &Session, changed: &Changed, done: &str, json: bool) {
    changed.decisions.iter().for_each(say_decision);
    let view = &changed.view;
    if json {
        print_json(&json::checkpoint(session, view));
    } else if changed.is_new {
        let n = view.version.n;
        print(&crate::terminal::one_line(&format!(
            "checkpoint {n} is in force: {done}"
        )));
    } else {
        print(&format!(
            "that is so already, no changes made; checkpoint {} is in force",
            view.version.n
        ));
    }
}

async fn list(app: &App, session: &Session, json: bool) -> Result<(), CliError> {
    let versions = app.engine.versions(session).await?;
    if json {
        let rows = versions
            .iter()
            .map(|(version, place)| json::version(version, *place));
        print_json(&rows.collect::<Vec<_>>());
        return Ok(());
    }
    if versions.is_empty() {
        print(&format!(
            "{} has no checkpoint yet; `segue session compact {}` makes one",
            session.id, session.id
        ));
        return Ok(());
    }
    let now = jiff::Timestamp::now();
    let mut table = Table::new(&["", "N", "TURNS", "TOKENS", "INSTEAD OF", "MADE", "WHY"]);
    for (version, place) in &versions {
        let mark = match place {
            Place::InForce => "*",
            Place::Earlier => "",
            Place::Elsewhere => "(",
        };
        table.row(&[
            mark.to_owned(),
            version.n.to_string(),
            match version.covers {
                0 => "before".to_owned(),
                covers => format!("1-{covers}"),
            },
            figure(version.tokens),
            figure(version.replaced),
            ago(version.at, now),
            show::why(version.why).to_owned(),
        ]);
    }
    table.print();
    if versions.iter().any(|(_, place)| *place == Place::InForce) {
        print("* in force");
    }
    if versions.iter().any(|(_, place)| *place == Place::Elsewhere) {
        print("( about turns that do not lead to where the session is now");
    }
    Ok(())
}

async fn diff(
    app: &App,
    session: &Session,
    (from, to): (u32, u32),
    json: bool,
) -> Result<(), CliError> {
    let before = app.engine.checkpoint(session, Some(from)).await?;
    let after = app.engine.checkpoint(session, Some(to)).await?;
    let (gone, changed, added) = differences(&before, &after);
    if json {
        let changed = changed.iter().map(|(before, after)| {
            serde_json::json!({ "before": json::item(before), "after": json::item(after) })
        });
        print_json(&serde_json::json!({
            "session_id": session.id.as_str(),
            "from": from,
            "to": to,
            "gone": gone.iter().map(|item| json::item(item)).collect::<Vec<_>>(),
            "changed": changed.collect::<Vec<_>>(),
            "added": added.iter().map(|item| json::item(item)).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    print(&format!(
        "from checkpoint {from} to {to}: {} gone, {} changed, {} added",
        gone.len(),
        changed.len(),
        added.len()
    ));
    let line = |mark: &str, item: &Item| {
        let (kind, words) = (headed(item.kind), show::words(item));
        let text = format!("{mark} {kind}: {words}  {}", show::origin(item));
        print(&crate::terminal::one_line(&text));
    };
    for item in gone {
        line("-", item);
    }
    for (before, after) in changed {
        line("-", before);
        line("+", after);
    }
    for item in added {
        line("+", item);
    }
    Ok(())
}

/// Returns the removed, the changed and the added items.
fn differences<'a>(
    before: &'a CheckpointView,
    after: &'a CheckpointView,
) -> (Vec<&'a Item>, Vec<(&'a Item, &'a Item)>, Vec<&'a Item>) {
    let delta = Delta::between(&before.checkpoint, &after.checkpoint);
    let gone = delta.gone.iter();
    let gone = gone.filter_map(|id| before.checkpoint.item(*id)).collect();
    let (mut changed, mut added) = (Vec::new(), Vec::new());
    for set in &delta.set {
        let Some(item) = after.checkpoint.item(set.id) else {
            continue;
        };
        match before.checkpoint.item(set.id) {
            Some(old) => changed.push((old, item)),
            None => added.push(item),
        }
    }
    (gone, changed, added)
}
