//! `segue session tag`: tags of sessions.

use segue_api::session::UsedTag;
use segue_core::session::Tag;
use segue_store::TagChange;

use super::print_session;
use crate::app::App;
use crate::cli::TagArgs;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, eprint_line};

pub(super) async fn run(app: &App, args: &TagArgs) -> Result<(), CliError> {
    let Some(id) = &args.id else {
        return list_tags(app, args.json).await;
    };
    if let Some(conflicting) = args.add.iter().find(|tag| args.remove.contains(tag)) {
        return Err(CliError::usage(format!(
            "cannot both add and remove tag `{conflicting}`"
        )));
    }
    let session = if args.add.is_empty() && args.remove.is_empty() {
        // Showing tags changes nothing, so it does not adopt a native session.
        app.find_session(id).await?
    } else {
        let session = app.find_or_adopt(id).await?;
        let change = TagChange {
            add: args.add.clone(),
            remove: args.remove.clone(),
        };
        let sessions = app.engine.sessions();
        sessions.change_tags(&session.id, change).await?
    };
    let tags: Vec<&str> = session.tags.iter().map(Tag::as_str).collect();
    let text = if tags.is_empty() {
        format!("{} has no tags", session.id)
    } else {
        format!("{} has the tags: {}", session.id, tags.join(" "))
    };
    print_session(app, &session, args.json, &text).await
}

async fn list_tags(app: &App, json: bool) -> Result<(), CliError> {
    let tags = app.engine.library().tags().await?;
    if json {
        let entries = tags.iter().map(|tag_count| UsedTag {
            tag: tag_count.tag.to_string(),
            sessions: tag_count.sessions,
        });
        print_json(&entries.collect::<Vec<_>>());
        return Ok(());
    }
    if tags.is_empty() {
        eprint_line("no tags in use; add one with `segue session tag ID TAG`");
        return Ok(());
    }
    let mut table = Table::new(&["SESSIONS", "TAG"]);
    for tag_count in tags {
        table.add_row(&[tag_count.sessions.to_string(), tag_count.tag.to_string()]);
    }
    table.print();
    Ok(())
}
