//! The commands `segue session revert`, `undo` and `fork`.

pub(in crate::commands) mod messages;

use std::path::Path;

use segue_api::revert::{AbandonedTurns, PreviewedTurn, RevertPreview, RevertResult};
use segue_api::session::ListedSession;
use segue_core::session::{Effects, Session, SessionRef, TurnNumberError, plan_fork, plan_revert};
use segue_engine::{Conversation, ForkOutcome, RevertOutcome, RevertPlan, SessionError};

use super::{find_reconciled, print_session};
use crate::app::App;
use crate::cli::{ForkArgs, RevertArgs, SessionRefArgs};
use crate::error::CliError;
use crate::frontend::Frontend;
use crate::json_output::print_json;
use crate::terminal::{eprint_decisions, print_line, strip_control_chars};

/// Resolves the session for a change at one of its turns. Adopts a native session, unless `check` rejects its number of
/// turns.
pub(in crate::commands) async fn find_or_adopt_checked(
    app: &App,
    reference: &SessionRef,
    check: impl FnOnce(u32) -> Result<u32, TurnNumberError>,
) -> Result<Session, CliError> {
    let native = match app.find_conversation(reference).await? {
        Conversation::Session(session, _) => return Ok(*session),
        Conversation::Native(native) => native,
    };
    let outline = app.engine.library().read_outline(&native.session)?;
    match check(u32::try_from(outline.turns.len()).unwrap_or(u32::MAX)) {
        Ok(_) | Err(TurnNumberError::AlreadyAtTurn { .. }) => {}
        Err(error) => return Err(SessionError::from(error).into()),
    }
    app.adopt_native(&native).await
}

pub(super) async fn revert_session(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    if args.dry_run {
        return preview_revert(app, args).await;
    }
    let session =
        find_or_adopt_checked(app, &args.session.id, |turns| plan_revert(turns, args.to)).await?;
    let sessions = app.engine.sessions();
    let (outcome, message) = match sessions.revert_session(&session, args.to).await {
        Ok(outcome) => {
            let undo_hint = format!("Undo with: segue session undo {}", session.id);
            let message = messages::format_revert(&outcome, &undo_hint);
            (outcome, message)
        }
        // The session is already at this turn, which is not a failure.
        Err(SessionError::TurnNumber(TurnNumberError::AlreadyAtTurn { turns })) => {
            let unchanged = RevertOutcome {
                turns_before: turns,
                effects: Effects::default(),
                detached_turns: None,
                decisions: Vec::new(),
                session,
            };
            (unchanged, messages::format_already_at_turn(turns))
        }
        Err(error) => return Err(error.into()),
    };
    print_outcome(app, &outcome, args.session.json, &message).await
}

async fn print_outcome(
    app: &App,
    outcome: &RevertOutcome,
    json: bool,
    message: &str,
) -> Result<(), CliError> {
    eprint_decisions(&outcome.decisions, Frontend::Shell);
    if !json {
        print_line(&strip_control_chars(message));
        return Ok(());
    }
    let library = app.engine.library();
    let status = library.session_status(&outcome.session).await?;
    print_json(&RevertResult {
        session: ListedSession::new(&outcome.session, status),
        turns_before: outcome.turns_before,
        effects: outcome.effects.clone(),
        set_aside: outcome.detached_turns.map(|detached| AbandonedTurns {
            turns: detached.turns,
            by_move: detached.head_move,
        }),
    });
    Ok(())
}

/// Shows what a revert would do, without adopting a native session.
async fn preview_revert(app: &App, args: &RevertArgs) -> Result<(), CliError> {
    let sessions = app.engine.sessions();
    let plan = match find_reconciled(app, &args.session.id).await? {
        Conversation::Session(session, _) => sessions.preview_revert(&session, args.to).await,
        Conversation::Native(native) => {
            let native = &native.session;
            sessions.preview_native_revert(native, args.to).await
        }
    };
    let plan = match plan {
        Err(SessionError::TurnNumber(TurnNumberError::AlreadyAtTurn { turns })) => RevertPlan {
            turns,
            dropped: Vec::new(),
            effects: Effects::default(),
        },
        plan => plan?,
    };
    if args.session.json {
        let dropped = plan.dropped.iter().map(|turn| PreviewedTurn {
            n: turn.n,
            title: turn.title.as_str().to_owned(),
        });
        let dropped_count = messages::count_dropped_turns(&plan);
        print_json(&RevertPreview {
            dry_run: true,
            turns_before: plan.turns,
            turns: plan.turns.saturating_sub(dropped_count),
            dropped: dropped.collect(),
            effects: plan.effects.clone(),
        });
    } else {
        print_line(&strip_control_chars(&messages::format_plan(&plan)));
    }
    Ok(())
}

pub(super) async fn undo_revert(app: &App, args: &SessionRefArgs) -> Result<(), CliError> {
    let session = app.find_session(&args.id).await?;
    let outcome = app.engine.sessions().undo_revert(&session).await?;
    let message = messages::format_undo(&outcome);
    print_outcome(app, &outcome, args.json, &message).await
}

pub(super) async fn fork_session(app: &App, args: &ForkArgs) -> Result<(), CliError> {
    let SessionRefArgs { id, json } = &args.session;
    let session = match args.moved {
        None => find_or_adopt_checked(app, id, |turns| plan_fork(turns, args.at)).await?,
        // Only recorded sessions have head moves.
        Some(_) => app.find_session(id).await?,
    };
    let outcome = fork_in_origin_directory(app, &session, args.at, args.moved).await?;
    eprint_decisions(&outcome.decisions, Frontend::Shell);
    let message = messages::format_fork(&outcome);
    print_session(app, &outcome.session, *json, &message).await
}

/// Forks the session. The fork uses the directory of its origin, or the current directory if that no longer exists.
pub(in crate::commands) async fn fork_in_origin_directory(
    app: &App,
    session: &Session,
    at: Option<i64>,
    head_move: Option<i64>,
) -> Result<ForkOutcome, CliError> {
    let project = if Path::new(&session.project.cwd).is_dir() {
        &session.project
    } else {
        &app.project
    };
    let sessions = app.engine.sessions();
    let forking = sessions.fork_session(session, at, head_move, project);
    Ok(forking.await?)
}
