//! `segue session tag`: tags of sessions.

use segue_api::session::{ListedSession, UsedTag};
use segue_core::session::Session;
use segue_store::TagChange;

use crate::app::App;
use crate::cli::TagArgs;
use crate::error::CliError;
use crate::json_output::print_json;
use crate::terminal::{Table, eprint_line, print_line, strip_control_chars};

pub(super) async fn run(app: &App, args: &TagArgs) -> Result<(), CliError> {
    let Some(id) = &args.id else {
        return list_tags(app, args.json).await;
    };
    if let Some(conflicting) = args.add.iter().find(|tag| args.remove.contains(tag)) {
        return Err(CliError::usage(format!(
            "cannot both add and remove tag `{conflicting}`"
        )));
    }
    if args.add.is_empty() && args.remove.is_empty() {
        // Showing tags changes nothing, so it does not adopt a native session.
        let session = app.find_session(id).await?;
        return print_tags(app, &session, args).await;
    }
    let session = app.find_or_adopt(id).await?;
    let change = TagChange {
        add: args.add.clone(),
        remove: args.remove.clone(),
    };
    let session = app
        .engine
        .sessions()
        .change_tags(&session.id, change)
        .await?;
    print_tags(app, &session, args).await
}

/// Prints the tags of a session.
async fn print_tags(app: &App, session: &Session, args: &TagArgs) -> Result<(), CliError> {
    if args.json {
        let status = app.engine.library().session_status(session).await?;
        print_json(&ListedSession::new(session, status));
    } else if session.tags.is_empty() {
        print_line(&format!("{} has no tags", session.id));
    } else {
        let tags: Vec<&str> = session
            .tags
            .iter()
            .map(segue_core::session::Tag::as_str)
            .collect();
        print_line(&strip_control_chars(&format!(
            "{} has the tags: {}",
            session.id,
            tags.join(" ")
        )));
    }
    Ok(())
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
