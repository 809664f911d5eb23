//! Signals from the user and the system during a conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use segue_engine::Stop;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::commands::chat::run_turn;
use crate::error::CliError;

/// Effect of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// Stops the running turn, if any, because the user can type further input.
    Turn,
    /// Stops the turn and ends the conversation, because no user is present who could end it otherwise.
    Everything,
}

/// Signal handler for the complete conversation.
#[derive(Clone)]
pub(super) struct Signals {
    stop: watch::Sender<Stop>,
    over: watch::Sender<bool>,
    in_turn: Arc<AtomicBool>,
}

impl Signals {
    pub(super) fn listen(interrupt: Interrupt) -> Result<Self, CliError> {
        let catch = |kind| {
            signal(kind)
                .map_err(|error| CliError::failed("cannot listen for signals").because(&error))
        };
        let streams = [
            catch(SignalKind::interrupt())?,
            catch(SignalKind::terminate())?,
            catch(SignalKind::hangup())?,
        ];
        let signals = Self {
            stop: watch::Sender::new(Stop::No),
            over: watch::Sender::new(false),
            in_turn: Arc::default(),
        };
        tokio::spawn(signals.clone().run(streams, interrupt));
        Ok(signals)
    }

    async fn run(self, [mut interrupted, mut terminate, mut hangup]: [Signal; 3], what: Interrupt) {
        loop {
            tokio::select! {
                _ = interrupted.recv() => {
                    if self.in_turn.load(Ordering::Relaxed) {
                        run_turn::interrupt(&self.stop);
                    }
                    if what == Interrupt::Everything {
                        self.over.send_replace(true);
                    }
                }
                _ = terminate.recv() => self.end(),
                _ = hangup.recv() => self.end(),
            }
        }
    }

    /// Ends the running turn and the conversation.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
        self.stop.send_replace(Stop::Now);
    }

    /// Returns the stop signal for work outside a turn.
    pub(super) fn idle(&self) -> watch::Receiver<Stop> {
        self.stop.subscribe()
    }

    /// Marks the start of a turn, and returns its stop signal.
    pub(super) fn turn_begins(&self) -> watch::Receiver<Stop> {
        if !self.is_over() {
            self.stop.send_replace(Stop::No);
        }
        self.in_turn.store(true, Ordering::Relaxed);
        self.stop.subscribe()
    }

    /// Marks the end of a turn, and returns its last stop request.
    pub(super) fn turn_is_over(&self) -> Stop {
        self.in_turn.store(false, Ordering::Relaxed);
        *self.stop.borrow()
    }

    /// Returns `true` if the conversation was asked to end.
    pub(super) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Waits until the conversation is asked to end.
    pub(super) async fn over(&self) {
        // The wait cannot fail, because `self` owns the sender.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Waits until one second after the conversation was asked to end.
    pub(super) async fn long_over(&self) {
        self.over().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
