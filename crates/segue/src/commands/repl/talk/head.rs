//! `/backtoturn`, `/undo` and `/fork`

use segue_core::{Session, TurnNumberError};
use segue_engine::{ConversationId, EngineError, Target};

use super::{Talk, by_id, no_session, one};
use crate::commands::session::head::{branch, words};
use crate::error::CliError;
use crate::terminal::{clean, say, say_decision};

impl Talk {
    /// The session that the conversation is in; a native one becomes ours.
    async fn own(&mut self) -> Result<Session, CliError> {
        match &self.target {
            Target::Session(id) => self.app.find(&by_id(id)).await,
            Target::Native(provider, id) => {
                let id = ConversationId::Native(provider.clone(), id.clone());
                let session = self.app.take(&one(&id)?.id).await?;
                self.target = Target::Session(session.id.clone());
                Ok(session)
            }
            Target::Usual | Target::New | Target::Continue | Target::Scope => Err(no_session()),
        }
    }

    pub(super) async fn back_to_turn(&mut self, turn: Option<i64>) -> Result<(), CliError> {
        let session = self.own().await?;
        let Some(turn) = turn else {
            say(&format!(
                "Current session has {} turn(s).\nUsage: /backtoturn N\n\
                 /history shows the numbers. All turns after turn N will be removed; /undo brings them back.",
                session.turns
            ));
            return Ok(());
        };
        match self.app.engine.revert(&session, turn).await {
            Ok(reverted) => {
                reverted.decisions.iter().for_each(say_decision);
                say(&clean(&words::reverted(&reverted, "/undo takes it back.")));
                Ok(())
            }
            Err(EngineError::TurnNumber(TurnNumberError::AlreadyThere { turns })) => {
                say(&words::already(turns));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn undo(&mut self) -> Result<(), CliError> {
        let session = self.own().await?;
        let undone = self.app.engine.undo(&session).await?;
        undone.decisions.iter().for_each(say_decision);
        let again = format!("segue session fork {}", undone.session.id);
        say(&clean(&words::undone(&undone, &again)));
        Ok(())
    }

    /// Branches off and goes on there; the agent of the other session ends.
    pub(super) async fn fork(&mut self, at: Option<i64>) -> Result<(), CliError> {
        let session = self.own().await?;
        let forked = branch(&self.app, &session, at, None).await?;
        forked.decisions.iter().for_each(say_decision);
        self.close_agents().await;
        say(&format!(
            "going on with {}, which branches off from {} after turn {}; /resume {} goes back",
            forked.session.id, forked.from, forked.session.turns, forked.from
        ));
        self.target = Target::Session(forked.session.id);
        self.last = None;
        Ok(())
    }
}
