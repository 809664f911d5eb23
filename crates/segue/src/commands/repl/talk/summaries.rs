//! A summariser reads in the background what was summed up; what it says is taken up between two prompts.

use segue_core::SessionId;
use segue_engine::{EngineError, Proposal, Summariser};
use tokio::task::JoinHandle;

use super::Talk;
use crate::error::CliError;
use crate::terminal::{say, say_decision};

/// Who reads, and what.
#[derive(Default)]
pub(super) struct Summaries {
    by: Option<Summariser>,
    under_way: Option<Reading>,
    /// What was read last, whatever came of it: it is not read again.
    read: Option<(SessionId, u32)>,
}

type Reading = JoinHandle<Result<Option<Proposal>, EngineError>>;

impl Summaries {
    /// Those of the summariser that is configured. One that is not there is told once, and done without.
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
    /// Takes up what was read meanwhile, if it is done. Nobody waits for what is not.
    pub(super) async fn take_up_summary(&mut self) {
        let done = |reading: &mut Reading| reading.is_finished();
        let Some(reading) = self.summaries.under_way.take_if(done) else {
            return;
        };
        // Whatever went wrong, what was found without a model serves, and the next prompt tells what is wrong.
        let Ok(Ok(Some(proposal))) = reading.await else {
            return;
        };
        if let Ok(taken) = self.app.engine.take_up(proposal).await {
            taken.decisions.iter().for_each(say_decision);
        }
    }

    /// Has what was summed up read, unless that was done or is under way.
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

    /// Ends the reading that is under way; what is done is taken up.
    pub(super) async fn end_summary(&mut self) {
        self.take_up_summary().await;
        if let Some(reading) = self.summaries.under_way.take() {
            reading.abort();
            // It lets its agent go on the way.
            let _ = reading.await;
        }
    }
}
