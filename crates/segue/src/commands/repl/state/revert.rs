//! The commands `/backtoturn`, `/undo` and `/fork`.

use segue_core::session::{Session, TurnNumberError, plan_fork, plan_revert};
use segue_engine::{Conversation, ConversationId, SessionError, Target};

use super::{ReplState, session_ref, session_ref_args};
use crate::commands::session::revert::{find_or_adopt_checked, fork_in_origin_directory, messages};
use crate::error::CliError;
use crate::terminal::{eprint_decisions, eprint_line, format_plural, strip_control_chars};

impl ReplState {
    /// Returns the session of the conversation for a change at one of its turns. Adopts a native session, unless
    /// `check` rejects its number of turns.
    async fn find_or_adopt_checked(
        &mut self,
        check: impl FnOnce(u32) -> Result<u32, TurnNumberError>,
    ) -> Result<Session, CliError> {
        let id = session_ref_args(&self.conversation_id()?)?.id;
        let session = find_or_adopt_checked(&self.app, &id, check).await?;
        self.target = Target::Session(session.id.clone());
        Ok(session)
    }

    /// Returns the number of turns, without adopting a native session.
    async fn count_turns(&self) -> Result<u32, CliError> {
        let id = session_ref_args(&self.conversation_id()?)?.id;
        match self.app.find_conversation(&id).await? {
            Conversation::Session(session, _) => Ok(session.turns),
            Conversation::Native(native) => {
                let outline = self.app.engine.library().read_outline(&native.session)?;
                Ok(u32::try_from(outline.turns.len()).unwrap_or(u32::MAX))
            }
        }
    }

    pub(super) async fn revert_to_turn(&mut self, turn: Option<i64>) -> Result<(), CliError> {
        let Some(turn) = turn else {
            let turns = self.count_turns().await?;
            eprint_line(&format!(
                "Current session has {}.\nUsage: /backtoturn N\n\
                 /history shows the numbers. Later turns leave the session; /undo restores them.",
                format_plural(turns, "turn")
            ));
            return Ok(());
        };
        let session = self
            .find_or_adopt_checked(|turns| plan_revert(turns, turn))
            .await?;
        let sessions = self.app.engine.sessions();
        let message = match sessions.revert_session(&session, turn).await {
            Ok(outcome) => {
                eprint_decisions(&outcome.decisions, self.frontend());
                messages::format_revert(&outcome, "Undo with: /undo")
            }
            Err(SessionError::TurnNumber(TurnNumberError::AlreadyAtTurn { turns })) => {
                messages::format_already_at_turn(turns)
            }
            Err(error) => return Err(error.into()),
        };
        eprint_line(&strip_control_chars(&message));
        Ok(())
    }

    pub(super) async fn undo_revert(&mut self) -> Result<(), CliError> {
        let session = match self.conversation_id()? {
            ConversationId::Session(id) => self.app.find_session(&session_ref(&id)).await?,
            // Only recorded sessions have head moves.
            ConversationId::Native(..) => {
                return Err(CliError::usage("no revert to undo"));
            }
        };
        let outcome = self.app.engine.sessions().undo_revert(&session).await?;
        eprint_decisions(&outcome.decisions, self.frontend());
        eprint_line(&strip_control_chars(&messages::format_undo(&outcome)));
        Ok(())
    }

    /// Forks the session and switches to the fork. Ends the agent of the original session.
    pub(super) async fn fork_session(&mut self, at: Option<i64>) -> Result<(), CliError> {
        let session = self
            .find_or_adopt_checked(|turns| plan_fork(turns, at))
            .await?;
        let outcome = fork_in_origin_directory(&self.app, &session, at, None).await?;
        eprint_decisions(&outcome.decisions, self.frontend());
        self.close_agents().await;
        eprint_line(&format!(
            "switched to {}, a fork of {} after turn {}{}; return with /resume {}",
            outcome.session.id,
            outcome.from,
            outcome.session.turns,
            messages::format_omitted_purpose(&outcome),
            outcome.from
        ));
        self.target = Target::Session(outcome.session.id);
        self.last_report = None;
        Ok(())
    }
}
