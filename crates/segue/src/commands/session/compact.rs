//! `segue session compact`

use segue_core::{Session, Version, headed};
use segue_engine::{Compaction, Conversation};
use serde_json::json;

use super::preview::grouped;
use crate::cli::CompactArgs;
use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{print, say_decision};
use crate::wire::print_json;

pub(super) async fn run(app: &App, args: &CompactArgs) -> Result<(), CliError> {
    if args.dry_run {
        return preview(app, args).await;
    }
    let session = app.take(&args.id).await?;
    let compacted = app.engine.compact(&session).await?;
    compacted.decisions.iter().for_each(say_decision);
    let made = compacted.made.as_ref();
    tell(
        args,
        &session,
        made.map(|(version, compaction)| (Some(version), compaction)),
    );
    Ok(())
}

/// Shows what it would come to; nothing is kept of it.
async fn preview(app: &App, args: &CompactArgs) -> Result<(), CliError> {
    let session = match app.find_any(&args.id).await? {
        Conversation::Session(session, _) => app.up_to_date(*session).await,
        Conversation::Native(native) => {
            let id = &native.session.head.id;
            return Err(CliError::failed(format!(
                "only {} has session {id}, so that nothing of it is on record",
                native.session.provider
            ))
            .hint(format!(
                "make it one of segue's first: segue session adopt {id}"
            )));
        }
    };
    let compaction = match session.head {
        Some(head) => app.engine.compaction(&session, head).await?,
        None => None,
    };
    tell(
        args,
        &session,
        compaction.as_ref().map(|found| (None, found)),
    );
    Ok(())
}

/// Tells what it came to, or would; a version is there if it was kept.
fn tell(args: &CompactArgs, session: &Session, found: Option<(Option<&Version>, &Compaction)>) {
    let compaction = found.map(|(_, compaction)| compaction);
    if args.json {
        let items = compaction.iter().flat_map(|found| counts(found));
        let items = items.map(|(kind, count)| (kind.as_str().to_owned(), json!(count)));
        print_json(&json!({
            "session_id": session.id.as_str(),
            "dry_run": args.dry_run,
            "version": found.and_then(|(version, _)| version).map(|version| version.n),
            "covers": compaction.map(|found| found.covers),
            "turns": compaction.map_or(0, |found| found.turns),
            "tokens": compaction.map(|found| found.tokens),
            "replaced_tokens": compaction.map(|found| found.replaced),
            "room": compaction.map(|found| found.room),
            "items": items.collect::<serde_json::Map<_, _>>(),
        }));
        return;
    }
    let id = &session.id;
    let Some((version, compaction)) = found else {
        print(&format!(
            "{id}: nothing was said since it was summed up last, no changes made"
        ));
        return;
    };
    let (turns, replaced, tokens) = (
        compaction.turns,
        grouped(compaction.replaced),
        grouped(compaction.tokens),
    );
    match version {
        Some(version) => {
            let n = version.n;
            print(&format!(
                "{id}: {turns} turn(s) of {replaced} tokens are summed up in checkpoint {n}, of {tokens}"
            ));
        }
        None => print(&format!(
            "{id}: {turns} turn(s) of {replaced} tokens would be summed up in {tokens}"
        )),
    }
    for (kind, count) in counts(compaction) {
        print(&format!("{count:>6}  {}", headed(kind)));
    }
    print(&match version {
        Some(_) => format!("Look at it with: segue session checkpoint {id}"),
        None => format!("Do it with: segue session compact {id}"),
    });
}

/// How many items of each kind there are.
fn counts(compaction: &Compaction) -> Vec<(segue_core::ItemKind, usize)> {
    let kinds = segue_core::ItemKind::ALL.into_iter();
    let counted = kinds.map(|kind| (kind, compaction.checkpoint.of(kind).count()));
    counted.filter(|(_, count)| *count > 0).collect()
}
