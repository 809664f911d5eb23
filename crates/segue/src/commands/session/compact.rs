//! `segue session compact`: manual compaction.

use std::io::{IsTerminal, stderr};

use segue_core::checkpoint::{Version, headed};
use segue_core::hint::NextStep;
use segue_core::id::ProviderId;
use segue_core::number_format::figure;
use segue_core::session::Session;
use segue_engine::{Compaction, Conversation, Summariser};
use serde_json::json;

use crate::app::{self, App};
use crate::cli::{CompactArgs, SumsUp};
use crate::config::Flags;
use crate::error::CliError;
use crate::frontend::Front;
use crate::json_output::print_json;
use crate::terminal::{Style, print, say, say_decision};

pub(super) async fn run(app: &App, front: Front<'_>, args: &CompactArgs) -> Result<(), CliError> {
    if args.dry_run {
        return preview(app, front, args).await;
    }
    // A missing summariser is reported before any change.
    let reader = reader(app, args)?;
    let session = app.take(&args.id).await?;
    let compacted = app.engine.compact(&session).await?;
    compacted.decisions.iter().for_each(say_decision);
    let read = match &reader {
        Some(reader) => read(app, &session, reader).await?,
        None => None,
    };
    let made = compacted.made.as_ref();
    let made = made.map(|(version, compaction)| (Some(version), compaction));
    tell((args, front), &session, made, read.as_ref());
    Ok(())
}

/// Builds the summariser from the argument, else from the configuration. `None` if neither names one.
fn reader(app: &App, args: &CompactArgs) -> Result<Option<Summariser>, CliError> {
    let config = app::configuration(&Flags::default())?.config;
    let name = match &args.summariser {
        Some(SumsUp::Nobody) => None,
        Some(SumsUp::Agent(name)) => Some(name.clone()),
        None => config.summariser.clone(),
    };
    let reader = name.map(|name| app::summariser(&app.home, &config, &name));
    reader.transpose()
}

/// Runs the summariser. `None` if the checkpoint has nothing for it to read.
async fn read(app: &App, session: &Session, reader: &Summariser) -> Result<Option<Read>, CliError> {
    let by = reader.agent.provider().clone();
    if stderr().is_terminal() {
        say(&Style::stderr().dim(&format!("{by} reads it …")));
    }
    let Some(proposal) = app.engine.propose(&session.id, reader).await? else {
        return Ok(None);
    };
    let taken = app.engine.take_up(proposal).await?;
    taken.decisions.iter().for_each(say_decision);
    let told = taken.decisions.last();
    Ok(Some(Read {
        by,
        version: taken.made.map(|(version, _)| version),
        told: told.map_or_else(String::new, |decision| decision.text.clone()),
    }))
}

/// Result of the summariser.
struct Read {
    by: ProviderId,
    /// New version of the checkpoint. `None` if the summariser added nothing.
    version: Option<Version>,
    told: String,
}

/// Shows the result of a compaction without saving it.
async fn preview(app: &App, front: Front<'_>, args: &CompactArgs) -> Result<(), CliError> {
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
    let would = compaction.as_ref().map(|found| (None, found));
    tell((args, front), &session, would, None);
    Ok(())
}

/// Prints the result or the preview of a compaction. The version is `None` for a preview.
fn tell(
    (args, front): (&CompactArgs, Front<'_>),
    session: &Session,
    found: Option<(Option<&Version>, &Compaction)>,
    read: Option<&Read>,
) {
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
            "summary": read.map(|read| json!({
                "provider": read.by.as_str(),
                "version": read.version.as_ref().map(|version| version.n),
                "tokens": read.version.as_ref().map(|version| version.tokens),
                "told": read.told,
            })),
        }));
        return;
    }
    let id = &session.id;
    let Some((version, compaction)) = found else {
        let nothing = "nothing was said since it was summed up last";
        print(&match read.and_then(|read| read.version.as_ref()) {
            Some(_) => {
                format!("{id}: {nothing}; what was added to it is told to the next native session")
            }
            None => format!("{id}: {nothing}, no changes made"),
        });
        return;
    };
    let what = compaction.stands_for();
    let tokens = figure(compaction.tokens);
    match version {
        Some(version) => {
            let n = version.n;
            print(&format!(
                "{id}: {what} are summed up in checkpoint {n}, of {tokens}"
            ));
        }
        None => print(&format!("{id}: {what} would be summed up in {tokens}")),
    }
    for (kind, count) in counts(compaction) {
        print(&format!("{count:>6}  {}", headed(kind)));
    }
    if compaction.tokens >= compaction.replaced {
        print("That takes no less than what it stands for: there is little to sum up yet.");
    }
    let (lead, step) = match version {
        Some(_) => ("Look at it", NextStep::LookAtCheckpoint(id.clone())),
        None => ("Do it", NextStep::Compact(id.clone())),
    };
    print(&format!("{lead} with: {}", front.words(&step)));
}

/// Returns the number of items of each kind.
fn counts(compaction: &Compaction) -> Vec<(segue_core::checkpoint::ItemKind, usize)> {
    let kinds = segue_core::checkpoint::ItemKind::ALL.into_iter();
    let counted = kinds.map(|kind| (kind, compaction.checkpoint.of(kind).count()));
    counted.filter(|(_, count)| *count > 0).collect()
}
