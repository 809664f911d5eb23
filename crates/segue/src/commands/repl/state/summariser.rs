//! Refinement of checkpoints in the background. Results are applied between two prompts.

use segue_core::id::SessionId;
use segue_engine::{EngineError, Proposal, Summariser};
use tokio::task::JoinHandle;

use super::Talk;
use crate::error::CliError;
use crate::terminal::{say, say_decision};

/// The summariser and its current run.
#[derive(Default)]
pub(super) struct Summaries {
    by: Option<Summariser>,
    under_way: Option<Reading>,
    /// Session and checkpoint that the summariser read last, whatever the result, because it does not read them twice.
    read: Option<(SessionId, u32)>,
}

type Reading = JoinHandle<Result<Option<Proposal>, EngineError>>;

impl Summaries {
    /// Creates the state for the configured summariser. Reports once if it is not available, and continues without it.
    pub(super) fn by(summariser: Option<Result<Summariser, CliError>>) -> Self {
        let by = summariser.and_then(|summariser| match summariser {
            Ok(summariser) => Some(summariser),
            Err(error) => {
                say(&format!("segue: {}", error.message));
                None
            }
        });
        Self {
            by,
            ..Self::default()
        }
    }
}

impl Talk {
    /// Applies the result of the summariser if it has finished. Does not wait for it.
    pub(super) async fn take_up_summary(&mut self) {
        let done = |reading: &mut Reading| reading.is_finished();
        let Some(reading) = self.summaries.under_way.take_if(done) else {
            return;
        };
        // On any error the checkpoint that was made without a model is sufficient, and the next prompt reports the
        // problem.
        let Ok(Ok(Some(proposal))) = reading.await else {
            return;
        };
        if let Ok(taken) = self.app.engine.take_up(proposal).await {
            taken.decisions.iter().for_each(say_decision);
        }
    }

    /// Starts the summariser on the latest checkpoint, unless it has read that or is running.
    pub(super) async fn read_summary(&mut self) {
        self.take_up_summary().await;
        let (Some(by), Some(id)) = (self.summaries.by.clone(), self.session().cloned()) else {
            return;
        };
        let Ok(Some(unread)) = self.app.engine.unread(&id).await else {
            return;
        };
        let what = (id.clone(), unread.n);
        if self.summaries.under_way.is_some() || self.summaries.read.as_ref() == Some(&what) {
            return;
        }
        self.summaries.read = Some(what);
        let engine = self.app.engine.clone();
        let reading = async move { engine.propose(&id, &by).await };
        self.summaries.under_way = Some(tokio::spawn(reading));
    }

    /// Applies a finished result and cancels a running summariser.
    pub(super) async fn end_summary(&mut self) {
        self.take_up_summary().await;
        if let Some(reading) = self.summaries.under_way.take() {
            reading.abort();
            // The summariser's agent ends when the cancelled task is dropped.
            let _ = reading.await;
        }
    }
}
