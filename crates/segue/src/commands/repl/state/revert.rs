//! The commands `/backtoturn`, `/undo` and `/fork`.

use segue_core::session::{Session, TurnNumberError, plan_fork, plan_revert};
use segue_engine::{Conversation, ConversationId, EngineError, Target};

use super::{Talk, by_id, one};
use crate::commands::session::revert::{branch, messages, take_for};
use crate::error::CliError;
use crate::terminal::{clean, say, say_decision};

impl Talk {
    /// Returns the session of the conversation for a change at one of its turns. Adopts a native session, unless
    /// `check` rejects its number of turns.
    async fn own(
        &mut self,
        check: impl FnOnce(u32) -> Result<u32, TurnNumberError>,
    ) -> Result<Session, CliError> {
        match self.conversation()? {
            ConversationId::Session(id) => self.app.find(&by_id(&id)).await,
            native @ ConversationId::Native(..) => {
                let session = take_for(&self.app, &one(&native)?.id, check).await?;
                self.target = Target::Session(session.id.clone());
                Ok(session)
            }
        }
    }

    /// Returns the number of turns, without adopting a native session.
    async fn turns(&self) -> Result<u32, CliError> {
        match self.app.find_any(&one(&self.conversation()?)?.id).await? {
            Conversation::Session(session, _) => Ok(session.turns),
            Conversation::Native(native) => {
                let turns = self.app.engine.survey(&native.session)?.turns.len();
                Ok(u32::try_from(turns).unwrap_or(u32::MAX))
            }
        }
    }

    pub(super) async fn back_to_turn(&mut self, turn: Option<i64>) -> Result<(), CliError> {
        let Some(turn) = turn else {
            let turns = self.turns().await?;
            say(&format!(
                "Current session has {turns} turn(s).\nUsage: /backtoturn N\n\
                 /history shows the numbers. All turns after turn N will be removed; /undo brings them back."
            ));
            return Ok(());
        };
        let session = self.own(|turns| plan_revert(turns, turn)).await?;
        match self.app.engine.revert(&session, turn).await {
            Ok(reverted) => {
                reverted.decisions.iter().for_each(say_decision);
                say(&clean(&messages::reverted(
                    &reverted,
                    "/undo takes it back.",
                )));
                Ok(())
            }
            Err(EngineError::TurnNumber(TurnNumberError::AlreadyThere { turns })) => {
                say(&messages::already(turns));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn undo(&mut self) -> Result<(), CliError> {
        let session = match self.conversation()? {
            ConversationId::Session(id) => self.app.find(&by_id(&id)).await?,
            // Only recorded sessions have head moves.
            ConversationId::Native(..) => {
                return Err(CliError::usage("there is no revert to undo"));
            }
        };
        let undone = self.app.engine.undo(&session).await?;
        undone.decisions.iter().for_each(say_decision);
        let again = format!("segue session fork {}", undone.session.id);
        say(&clean(&messages::undone(&undone, &again)));
        Ok(())
    }

    /// Forks the session and switches to the fork. Ends the agent of the original session.
    pub(super) async fn fork(&mut self, at: Option<i64>) -> Result<(), CliError> {
        let session = self.own(|turns| plan_fork(turns, at)).await?;
        let forked = branch(&self.app, &session, at, None).await?;
        forked.decisions.iter().for_each(say_decision);
        self.close_agents().await;
        say(&format!(
            "going on with {}, which branches off from {} after turn {}{}; /resume {} goes back",
            forked.session.id,
            forked.from,
            forked.session.turns,
            messages::left(&forked),
            forked.from
        ));
        self.target = Target::Session(forked.session.id);
        self.last = None;
        Ok(())
    }
}
