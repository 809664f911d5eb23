//! The commands `segue session revert`, `undo` and `fork`.

pub(in crate::commands) mod messages;

use std::path::Path;

use segue_core::session::{Effects, Session, SessionRef, TurnNumberError, plan_fork, plan_revert};
use segue_engine::{Conversation, EngineError, Forked, RevertPlan, Reverted};
use serde::Serialize;

use crate::app::App;
use crate::cli::{ForkArgs, RevertArgs, UndoArgs};
use crate::error::CliError;
use crate::json_output::{SessionJson, print_json};
use crate::terminal::{clean, print, say_decision};

/// Output of `revert --json` and `undo --json`.
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

/// Output of `revert --dry-run --json`.
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
        let file = |file: &segue_core::session::Touched| FileJson {
            path: file.path.clone(),
            change: file.change.as_str(),
        };
        Self {
            files: effects.files.iter().map(file).collect(),
            commands: effects.commands,
        }
    }
}

/// Resolves the session for a change at one of its turns. Adopts a native session, unless `check` rejects its number of
/// turns.
pub(in crate::commands) async fn take_for(
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
            let undo = format!("Take it back with: segue session undo {}", session.id);
            let words = messages::reverted(&reverted, &undo);
            tell_moved(app, &reverted, args.one.json, &words).await
        }
        // The session is already at this turn, which is not a failure.
        Err(EngineError::TurnNumber(TurnNumberError::AlreadyThere { turns })) => {
            let unmoved = Reverted {
                turns_before: turns,
                effects: Effects::default(),
                set_aside: None,
                decisions: Vec::new(),
                session,
            };
            tell_moved(app, &unmoved, args.one.json, &messages::already(turns)).await
        }
        Err(error) => Err(error.into()),
    }
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

/// Shows what a revert would do, without adopting a native session.
async fn preview(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    let plan = match app.find_any(&args.one.id).await? {
        Conversation::Session(session, _) => {
            let session = app.up_to_date(*session).await;
            app.engine.preview_revert(&session, args.to).await
        }
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
            turns: plan.turns.saturating_sub(messages::removed(&plan)),
            dropped: dropped.collect(),
            effects: EffectsJson::from(&plan.effects),
        });
    } else {
        print(&clean(&messages::plan(&plan)));
    }
    Ok(())
}

pub(super) async fn undo(app: &App, args: &UndoArgs) -> Result<(), CliError> {
    let session = app.find(&args.one.id).await?;
    let undone = app.engine.undo(&session).await?;
    undone.decisions.iter().for_each(say_decision);
    let again = format!("segue session fork {}", undone.session.id);
    tell_moved(
        app,
        &undone,
        args.one.json,
        &messages::undone(&undone, &again),
    )
    .await
}

pub(super) async fn fork(app: &App, args: &ForkArgs) -> Result<(), CliError> {
    let session = match args.moved {
        None => take_for(app, &args.one.id, |turns| plan_fork(turns, args.at)).await?,
        // Only recorded sessions have head moves.
        Some(_) => app.find(&args.one.id).await?,
    };
    let forked = branch(app, &session, args.at, args.moved).await?;
    forked.decisions.iter().for_each(say_decision);
    super::tell(app, &forked.session, &args.one, &messages::forked(&forked)).await
}

/// Forks the session. The fork uses the directory of its origin, or the current directory if that no longer exists.
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
    let forked = app.engine.fork_moved(session, at, moved, project).await?;
    forked.decisions.iter().for_each(say_decision);
    Ok(forked)
}
