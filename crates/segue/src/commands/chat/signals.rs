//! Signals from the user and the system during a turn or a conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use segue_engine::StopLevel;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::error::CliError;

/// Effect of Ctrl-C. The first one asks the agent to stop, the second one ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum InterruptScope {
    /// Stops the running turn, if any, because the user can type further input.
    Turn,
    /// Stops the turn and ends the conversation, because no user is present who could end it otherwise.
    Conversation,
}

/// Signal handler for one turn or for a complete conversation. SIGTERM and SIGHUP end both at once, because they are
/// sent only once.
#[derive(Clone)]
pub(in crate::commands) struct SignalHandler {
    stop: watch::Sender<StopLevel>,
    end_requested: watch::Sender<bool>,
    is_in_turn: Arc<AtomicBool>,
}

impl SignalHandler {
    pub(in crate::commands) fn install(interrupt_scope: InterruptScope) -> Result<Self, CliError> {
        let register = |kind| {
            signal(kind).map_err(|error| {
                CliError::failed("cannot install signal handlers").with_cause(&error)
            })
        };
        let streams = [
            register(SignalKind::interrupt())?,
            register(SignalKind::terminate())?,
            register(SignalKind::hangup())?,
        ];
        let handler = Self {
            stop: watch::Sender::new(StopLevel::None),
            end_requested: watch::Sender::new(false),
            is_in_turn: Arc::default(),
        };
        tokio::spawn(handler.clone().handle_signals(streams, interrupt_scope));
        Ok(handler)
    }

    async fn handle_signals(
        self,
        [mut interrupted, mut terminate, mut hangup]: [Signal; 3],
        interrupt_scope: InterruptScope,
    ) {
        loop {
            tokio::select! {
                _ = interrupted.recv() => {
                    if self.is_in_turn.load(Ordering::Relaxed) {
                        self.stop.send_modify(|level| {
                            *level = match level {
                                StopLevel::None => StopLevel::Graceful,
                                StopLevel::Graceful | StopLevel::Immediate => StopLevel::Immediate,
                            };
                        });
                    }
                    if interrupt_scope == InterruptScope::Conversation {
                        self.end_requested.send_replace(true);
                    }
                }
                _ = terminate.recv() => self.end_conversation(),
                _ = hangup.recv() => self.end_conversation(),
            }
        }
    }

    /// Ends the running turn and the conversation.
    pub(in crate::commands) fn end_conversation(&self) {
        self.end_requested.send_replace(true);
        self.stop.send_replace(StopLevel::Immediate);
    }

    /// Returns the stop signal for work outside a turn.
    pub(in crate::commands) fn subscribe_stop(&self) -> watch::Receiver<StopLevel> {
        self.stop.subscribe()
    }

    /// Marks the start of a turn, and returns its stop signal.
    pub(in crate::commands) fn begin_turn(&self) -> watch::Receiver<StopLevel> {
        if !self.is_end_requested() {
            self.stop.send_replace(StopLevel::None);
        }
        self.is_in_turn.store(true, Ordering::Relaxed);
        self.stop.subscribe()
    }

    /// Marks the end of a turn, and returns its last stop request.
    pub(in crate::commands) fn end_turn(&self) -> StopLevel {
        self.is_in_turn.store(false, Ordering::Relaxed);
        *self.stop.borrow()
    }

    /// Returns `true` if the conversation was asked to end.
    pub(in crate::commands) fn is_end_requested(&self) -> bool {
        *self.end_requested.borrow()
    }

    /// Waits until the conversation is asked to end.
    pub(in crate::commands) async fn wait_for_end(&self) {
        // The wait cannot fail, because `self` owns the sender.
        let _ = self
            .end_requested
            .subscribe()
            .wait_for(|is_requested| *is_requested)
            .await;
    }

    /// Waits until one second after the turn was asked to end immediately.
    pub(in crate::commands) async fn wait_for_forced_stop(&self) {
        // The wait cannot fail, because `self` owns the sender.
        let is_immediate = |level: &StopLevel| *level == StopLevel::Immediate;
        let _ = self.stop.subscribe().wait_for(is_immediate).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Waits until one second after the conversation was asked to end.
    pub(in crate::commands) async fn wait_for_forced_end(&self) {
        self.wait_for_end().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
