//! `segue session tag`: tags of sessions.

use segue_core::session::Session;
use segue_store::Retag;
use serde_json::json;

use crate::app::App;
use crate::cli::TagArgs;
use crate::error::CliError;
use crate::json_output::{SessionJson, print_json};
use crate::terminal::{Table, clean, print, say};

pub(super) async fn run(app: &App, args: &TagArgs) -> Result<(), CliError> {
    let Some(id) = &args.id else {
        return list(app, args.json).await;
    };
    if let Some(both) = args.add.iter().find(|tag| args.remove.contains(tag)) {
        return Err(CliError::usage(format!(
            "{both} is to be put on and taken off at once"
        )));
    }
    if args.add.is_empty() && args.remove.is_empty() {
        // Showing tags changes nothing, so it does not adopt a native session.
        let session = app.find(id).await?;
        return tell(app, &session, args).await;
    }
    let session = app.take(id).await?;
    let retag = Retag {
        add: args.add.clone(),
        remove: args.remove.clone(),
    };
    let session = app.engine.retag(&session.id, retag).await?;
    tell(app, &session, args).await
}

/// Prints the tags of a session.
async fn tell(app: &App, session: &Session, args: &TagArgs) -> Result<(), CliError> {
    if args.json {
        let status = app.engine.status(session).await?;
        print_json(&SessionJson::new(session, status));
    } else if session.tags.is_empty() {
        print(&format!("{} has no tags", session.id));
    } else {
        let tags: Vec<&str> = session
            .tags
            .iter()
            .map(segue_core::session::Tag::as_str)
            .collect();
        print(&clean(&format!("{}: {}", session.id, tags.join(" "))));
    }
    Ok(())
}

async fn list(app: &App, json: bool) -> Result<(), CliError> {
    let tags = app.engine.tags().await?;
    if json {
        let entries = tags
            .iter()
            .map(|count| json!({ "tag": count.tag.as_str(), "sessions": count.sessions }));
        print_json(&entries.collect::<Vec<_>>());
        return Ok(());
    }
    if tags.is_empty() {
        say("no session has a tag; put one on with: segue session tag ID TAG");
        return Ok(());
    }
    let mut table = Table::new(&["SESSIONS", "TAG"]);
    for count in tags {
        table.row(&[count.sessions.to_string(), count.tag.to_string()]);
    }
    table.print();
    Ok(())
}
