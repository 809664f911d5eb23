//! Refinement of checkpoints in the background. Results are applied between two prompts.

use segue_core::id::SessionId;
use segue_engine::{CompactionError, Summariser, SummaryProposal};
use tokio::task::JoinHandle;

use super::ReplState;
use crate::error::CliError;
use crate::terminal::{eprint_decisions, eprint_line};

/// The summariser and its current run.
#[derive(Default)]
pub(super) struct BackgroundSummariser {
    summariser: Option<Summariser>,
    running_task: Option<SummaryTask>,
    /// Session and checkpoint that the summariser read last, whatever the result, because it does not read them twice.
    last_read: Option<(SessionId, u32)>,
}

type SummaryTask = JoinHandle<Result<Option<SummaryProposal>, CompactionError>>;

impl BackgroundSummariser {
    /// Creates the state for the configured summariser. Reports once if it is not available, and continues without it.
    pub(super) fn new(summariser: Option<Result<Summariser, CliError>>) -> Self {
        let report = |error: &CliError| eprint_line(&format!("segue: {}", error.message));
        Self {
            summariser: summariser.and_then(|summariser| summariser.inspect_err(report).ok()),
            ..Self::default()
        }
    }
}

impl ReplState {
    /// Applies the result of the summariser if it has finished. Does not wait for it.
    pub(super) async fn apply_finished_summary(&mut self) {
        let is_finished = |task: &mut SummaryTask| task.is_finished();
        let Some(task) = self.background_summariser.running_task.take_if(is_finished) else {
            return;
        };
        // On any error the checkpoint that was made without a model is sufficient, and the next prompt reports the
        // problem.
        let Ok(Ok(Some(proposal))) = task.await else {
            return;
        };
        let compactor = self.app.engine.compactor();
        if let Ok(outcome) = compactor.apply_summary_proposal(proposal).await {
            eprint_decisions(&outcome.decisions, self.frontend());
        }
    }

    /// Starts the summariser on the latest checkpoint, unless it has read that or is running.
    pub(super) async fn start_summary(&mut self) {
        self.apply_finished_summary().await;
        let (Some(summariser), Some(id)) = (
            self.background_summariser.summariser.clone(),
            self.session_id().cloned(),
        ) else {
            return;
        };
        let Ok(Some(version)) = self.app.engine.compactor().unread_version(&id).await else {
            return;
        };
        let checkpoint_key = (id.clone(), version.n);
        if self.background_summariser.running_task.is_some()
            || self.background_summariser.last_read.as_ref() == Some(&checkpoint_key)
        {
            return;
        }
        self.background_summariser.last_read = Some(checkpoint_key);
        let engine = self.app.engine.clone();
        let task = async move { engine.compactor().propose_summary(&id, &summariser).await };
        self.background_summariser.running_task = Some(tokio::spawn(task));
    }

    /// Applies a finished result and cancels a running summariser.
    pub(super) async fn cancel_summary(&mut self) {
        self.apply_finished_summary().await;
        if let Some(task) = self.background_summariser.running_task.take() {
            task.abort();
            // The summariser's agent ends when the cancelled task is dropped.
            let _ = task.await;
        }
    }
}
