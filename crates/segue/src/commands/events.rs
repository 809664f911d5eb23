//! `segue events`: the change feed as JSON Lines.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use segue_api::feed::{FeedEvent, FeedEventKind};
use segue_sqlite::SqliteStore;
use segue_store::{Change, ChangeFeed, ChangeKind, FeedCursor};

use crate::app;
use crate::cli::EventsArgs;
use crate::error::CliError;
use crate::terminal::try_print_line;

/// Time between two looks at the end of the feed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of changes in memory.
const CHANGES_PER_READ: u32 = 500;

pub(crate) async fn run(args: &EventsArgs) -> Result<ExitCode, CliError> {
    let store = SqliteStore::open(&app::home()?)?;
    let mut cursor = match args.since.as_deref() {
        Some("start") => FeedCursor::START,
        Some(text) => text
            .parse()
            .map_err(|error| CliError::usage(format!("cannot use --since: {error}")))?,
        None if args.follow => store.feed_end().await?,
        None => FeedCursor::START,
    };
    loop {
        let changes = store.changes(cursor, CHANGES_PER_READ).await?;
        let is_end = changes.is_empty();
        for change in changes {
            cursor = change.cursor;
            if print_change(change).is_break() {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if is_end && !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        if is_end {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn print_change(change: Change) -> ControlFlow<()> {
    match serde_json::to_string(&feed_event(change)) {
        Ok(line) => try_print_line(&line),
        Err(_) => ControlFlow::Continue(()),
    }
}

fn feed_event(change: Change) -> FeedEvent {
    let mut event = FeedEvent {
        cursor: change.cursor.to_string(),
        at: change.at,
        event: FeedEventKind::SessionCreated,
        session_id: change.session,
        turn_id: None,
        turn: None,
        message: None,
        leg_id: None,
        leg: None,
        checkpoint: None,
    };
    match change.kind {
        ChangeKind::SessionCreated
        | ChangeKind::SessionChanged
        | ChangeKind::SessionDeleted
        | ChangeKind::DecisionLogged => {}
        ChangeKind::TurnStarted { turn, number } => {
            event.turn_id = Some(turn.to_string());
            event.turn = Some(number);
        }
        ChangeKind::MessageSaved { turn, message } => {
            event.turn_id = Some(turn.to_string());
            event.message = Some(message);
        }
        ChangeKind::TurnEnded { turn }
        | ChangeKind::TurnWithdrawn { turn }
        | ChangeKind::AttemptBegun { turn }
        | ChangeKind::AttemptFailed { turn }
        | ChangeKind::HeadMoved { turn } => event.turn_id = Some(turn.to_string()),
        ChangeKind::CheckpointAdded { version } => event.checkpoint = Some(version),
        ChangeKind::LegOpened { leg, number } => {
            event.leg_id = Some(leg.to_string());
            event.leg = Some(number);
        }
        ChangeKind::LegChanged { leg } | ChangeKind::LegEnded { leg } => {
            event.leg_id = Some(leg.to_string());
        }
    }
    event.event = event_kind(change.kind);
    event
}

fn event_kind(kind: ChangeKind) -> FeedEventKind {
    match kind {
        ChangeKind::SessionCreated => FeedEventKind::SessionCreated,
        ChangeKind::SessionChanged => FeedEventKind::SessionChanged,
        ChangeKind::SessionDeleted => FeedEventKind::SessionDeleted,
        ChangeKind::TurnStarted { .. } => FeedEventKind::TurnStarted,
        ChangeKind::TurnEnded { .. } => FeedEventKind::TurnEnded,
        ChangeKind::TurnWithdrawn { .. } => FeedEventKind::TurnWithdrawn,
        ChangeKind::MessageSaved { .. } => FeedEventKind::MessageSaved,
        ChangeKind::AttemptBegun { .. } => FeedEventKind::AttemptBegun,
        ChangeKind::AttemptFailed { .. } => FeedEventKind::AttemptFailed,
        ChangeKind::HeadMoved { .. } => FeedEventKind::HeadMoved,
        ChangeKind::CheckpointAdded { .. } => FeedEventKind::CheckpointAdded,
        ChangeKind::LegOpened { .. } => FeedEventKind::LegOpened,
        ChangeKind::LegChanged { .. } => FeedEventKind::LegChanged,
        ChangeKind::LegEnded { .. } => FeedEventKind::LegEnded,
        ChangeKind::DecisionLogged => FeedEventKind::DecisionLogged,
    }
}
