//! `segue session revert`, `undo` and `fork`

use std::path::Path;

use segue_core::{Effects, Session, SessionRef, TurnNumberError, plan_fork, plan_revert};
use segue_engine::{Conversation, EngineError, Forked, RevertPlan, Reverted};
use serde::Serialize;

use crate::cli::{ForkArgs, RevertArgs, UndoArgs};
use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{clean, print, say_decision};
use crate::wire::{SessionJson, print_json};

/// What `revert --json` and `undo --json` print.
#[derive(Serialize)]
struct MovedJson {
    #[serde(flatten)]
    session: SessionJson,
    turns_before: u32,
    #[serde(flatten)]
    effects: EffectsJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    set_aside: Option<SetAsideJson>,
}

#[derive(Serialize)]
struct SetAsideJson {
    turns: u32,
    by_move: u32,
}

/// What `revert --dry-run --json` prints.
#[derive(Serialize)]
struct PlanJson {
    dry_run: bool,
    turns_before: u32,
    turns: u32,
    dropped: Vec<DroppedJson>,
    #[serde(flatten)]
    effects: EffectsJson,
}

#[derive(Serialize)]
struct DroppedJson {
    n: u32,
    title: String,
}

#[derive(Serialize)]
struct EffectsJson {
    files: Vec<FileJson>,
    commands: usize,
}

#[derive(Serialize)]
struct FileJson {
    path: String,
    change: &'static str,
}

impl From<&Effects> for EffectsJson {
    fn from(effects: &Effects) -> Self {
        let file = |file: &segue_core::Touched| FileJson {
            path: file.path.clone(),
            change: file.change.as_str(),
        };
        Self {
            files: effects.files.iter().map(file).collect(),
            commands: effects.commands,
        }
    }
}

/// The session to be changed at one of its turns. A native one becomes ours first, unless it has no such turn.
async fn take_for(
    app: &App,
    reference: &SessionRef,
    check: impl FnOnce(u32) -> Result<u32, TurnNumberError>,
) -> Result<Session, CliError> {
    let native = match app.find_any(reference).await? {
        Conversation::Session(session, _) => return Ok(*session),
        Conversation::Native(native) => native,
    };
    let turns = app.engine.survey(&native.session)?.turns.len();
    match check(u32::try_from(turns).unwrap_or(u32::MAX)) {
        Ok(_) | Err(TurnNumberError::AlreadyThere { .. }) => {}
        Err(error) => return Err(EngineError::from(error).into()),
    }
    app.take_over(&native).await
}

pub(super) async fn revert(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    if args.dry_run {
        return preview(app, args).await;
    }
    let session = take_for(app, &args.one.id, |turns| plan_revert(turns, args.to)).await?;
    match app.engine.revert(&session, args.to).await {
        Ok(reverted) => {
            reverted.decisions.iter().for_each(say_decision);
            let words = reverted_words(&reverted);
            let undo = format!("Take it back with: segue session undo {}", session.id);
            tell_moved(app, &reverted, args.one.json, &format!("{words}\n{undo}")).await
        }
        // Asked for what is already so: nothing to do is not a failure.
        Err(EngineError::TurnNumber(TurnNumberError::AlreadyThere { turns })) => {
            let unmoved = Reverted {
                turns_before: turns,
                effects: Effects::default(),
                set_aside: None,
                decisions: Vec::new(),
                session,
            };
            tell_moved(app, &unmoved, args.one.json, &already(turns)).await
        }
        Err(error) => Err(error.into()),
    }
}

fn already(turns: u32) -> String {
    format!("Already at turn {turns}, no changes made.")
}

/// What a revert did, in words.
pub(in crate::commands) fn reverted_words(reverted: &Reverted) -> String {
    let turns = reverted.session.turns;
    let removed = reverted.turns_before.saturating_sub(turns);
    let mut words = format!("Reverted to turn {turns} (removed {removed} turn(s)).");
    words += &effects_words(
        "The files that those turns changed stay as they are",
        &reverted.effects,
    );
    words
}

/// What an undo did, in words; `again` says how to go on with what it left behind.
pub(in crate::commands) fn undone_words(undone: &Reverted, again: &str) -> String {
    let mut words = format!(
        "Back at turn {} (it was at turn {}).",
        undone.session.turns, undone.turns_before
    );
    if let Some(aside) = undone.set_aside {
        words += &format!(
            "\nThe {} turn(s) made since the revert are kept; go on with them: {again} --moved {}",
            aside.turns, aside.by_move
        );
        words += &effects_words(
            "The files that those turns changed stay as they are",
            &undone.effects,
        );
    }
    words
}

/// What was changed, under a heading; nothing where nothing was.
fn effects_words(heading: &str, effects: &Effects) -> String {
    let mut lines = String::new();
    if effects.files.is_empty() {
        if effects.commands > 0 {
            lines = format!("\n{heading}: whatever {}", commands(effects.commands));
        }
        return lines;
    }
    lines += &format!("\n{heading}:");
    for file in &effects.files {
        lines += &format!("\n  {:<7}  {}", file.change.as_str(), file.path);
    }
    if effects.commands > 0 {
        lines += &format!("\n  and whatever {}", commands(effects.commands));
    }
    lines
}

fn commands(count: usize) -> String {
    format!("{count} command(s) changed")
}

async fn tell_moved(app: &App, moved: &Reverted, json: bool, words: &str) -> Result<(), CliError> {
    if !json {
        print(&clean(words));
        return Ok(());
    }
    let status = app.engine.status(&moved.session).await?;
    print_json(&MovedJson {
        session: SessionJson::new(&moved.session, status),
        turns_before: moved.turns_before,
        effects: EffectsJson::from(&moved.effects),
        set_aside: moved.set_aside.map(|aside| SetAsideJson {
            turns: aside.turns,
            by_move: aside.by_move,
        }),
    });
    Ok(())
}

/// Shows what a revert would do. A native session stays one.
async fn preview(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    let plan = match app.find_any(&args.one.id).await? {
        Conversation::Session(session, _) => app.engine.preview_revert(&session, args.to).await,
        Conversation::Native(native) => app.engine.preview_native_revert(&native.session, args.to),
    };
    let plan = match plan {
        Err(EngineError::TurnNumber(TurnNumberError::AlreadyThere { turns })) => RevertPlan {
            turns,
            dropped: Vec::new(),
            effects: Effects::default(),
        },
        plan => plan?,
    };
    if args.one.json {
        let dropped = plan.dropped.iter().map(|turn| DroppedJson {
            n: turn.n,
            title: turn.title.as_str().to_owned(),
        });
        print_json(&PlanJson {
            dry_run: true,
            turns_before: plan.turns,
            turns: plan.turns.saturating_sub(removed(&plan)),
            dropped: dropped.collect(),
            effects: EffectsJson::from(&plan.effects),
        });
    } else {
        print(&clean(&plan_words(&plan)));
    }
    Ok(())
}

fn removed(plan: &RevertPlan) -> u32 {
    u32::try_from(plan.dropped.len()).unwrap_or(u32::MAX)
}

fn plan_words(plan: &RevertPlan) -> String {
    let removed = removed(plan);
    let turns = plan.turns.saturating_sub(removed);
    if removed == 0 {
        return already(turns);
    }
    let mut words = format!("Would revert to turn {turns} and remove {removed} turn(s):");
    for turn in &plan.dropped {
        words += &format!("\n  turn {:<3}  {}", turn.n, turn.title.as_str());
    }
    words += &effects_words(
        "The files that those turns changed would stay as they are",
        &plan.effects,
    );
    words + "\nNothing was changed."
}

pub(super) async fn undo(app: &App, args: &UndoArgs) -> Result<(), CliError> {
    let session = app.find(&args.one.id).await?;
    let undone = app.engine.undo(&session).await?;
    undone.decisions.iter().for_each(say_decision);
    let again = format!("segue session fork {}", undone.session.id);
    tell_moved(app, &undone, args.one.json, &undone_words(&undone, &again)).await
}

pub(super) async fn fork(app: &App, args: &ForkArgs) -> Result<(), CliError> {
    let session = match args.moved {
        None => take_for(app, &args.one.id, |turns| plan_fork(turns, args.at)).await?,
        // Only sessions of ours were ever moved.
        Some(_) => app.find(&args.one.id).await?,
    };
    let forked = branch(app, &session, args.at, args.moved).await?;
    super::tell(app, &forked.session, &args.one, &forked_words(&forked)).await
}

/// Branches off. A fork goes on where its origin did, unless that directory is gone.
pub(in crate::commands) async fn branch(
    app: &App,
    session: &Session,
    at: Option<i64>,
    moved: Option<i64>,
) -> Result<Forked, CliError> {
    let project = if Path::new(&session.project.cwd).is_dir() {
        &session.project
    } else {
        &app.project
    };
    Ok(app.engine.fork_moved(session, at, moved, project).await?)
}

fn forked_words(forked: &Forked) -> String {
    let id = &forked.session.id;
    format!(
        "{id} branches off from {} after turn {}. Go on with: segue chat --resume {id} \"…\"",
        forked.from, forked.session.turns
    )
}
