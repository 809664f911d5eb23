//! Provider of the conversation: `/agent`, `/handoff`, and handoffs by other processes.

use segue_core::id::ProviderId;
use segue_engine::{AccessError, Target};

use super::{ReplState, session_ref_args};
use crate::commands::session;
use crate::error::CliError;
use crate::terminal::eprint_line;

impl ReplState {
    /// Returns the provider of the next prompt. `None` if it is not known yet.
    pub(super) fn next_provider(&self) -> Option<&ProviderId> {
        self.options.provider.as_ref().or(self.agent.as_ref())
    }

    /// Reports a handoff of the session by another process. The new provider answers, unless the user chose another in
    /// this conversation.
    pub(super) async fn apply_external_handoff(&mut self) {
        let (Some(id), Some(previous)) = (self.session_id(), &self.agent) else {
            return;
        };
        // The prompt reports any error of the session.
        let Ok(session) = self.app.engine.library().session(id).await else {
            return;
        };
        let current = session.provider;
        if current == *previous {
            return;
        }
        match &self.options.provider {
            Some(selected) if *selected != current => eprint_line(&format!(
                "another process handed the session off to {current}; this prompt goes to {selected}, as you chose"
            )),
            Some(_) => {}
            None => {
                eprint_line(&format!(
                    "another process handed the session off to {current}, which answers from now on"
                ));
                // Names of models are specific to a provider.
                self.options.model = None;
            }
        }
        self.agent = Some(current);
    }

    /// Sets the provider for the following prompts.
    pub(super) fn set_provider(&mut self, agent: ProviderId) -> Result<(), CliError> {
        if !self.agents.contains(&agent) {
            return Err(self.unknown_provider_error(agent));
        }
        if self.next_provider() == Some(&agent) {
            eprint_line(&format!("already using {agent}"));
            return Ok(());
        }
        let brief_note = match &self.target {
            Target::Session(_) | Target::Native(..) | Target::NewestInDirectory => {
                ", with a brief of this session"
            }
            // With another provider the scope has another session.
            Target::Default | Target::New | Target::NewWithPurpose(_) | Target::Scope(_) => "",
        };
        eprint_line(&format!("the next prompt goes to {agent}{brief_note}"));
        // Names of models are specific to a provider.
        self.options.model = None;
        self.options.provider = Some(agent);
        Ok(())
    }

    /// Hands the session over immediately. Without a session, only sets the provider for the next prompt.
    pub(super) async fn hand_off(&mut self, agent: ProviderId) -> Result<(), CliError> {
        let Some(id) = self.target.conversation_id() else {
            return self.set_provider(agent);
        };
        let reference = session_ref_args(&id)?.id;
        let (session, message) =
            session::hand_off_session(&self.app, &reference, &agent, self.frontend()).await?;
        eprint_line(&message);
        self.target = Target::Session(session.id);
        if self.next_provider() != Some(&agent) {
            // Names of models are specific to a provider.
            self.options.model = None;
        }
        self.options.provider = None;
        self.agent = Some(agent);
        Ok(())
    }

    /// Checks that a provider can be run, directly or over ACP.
    pub(super) fn check_drivable(&self, provider: &ProviderId) -> Result<(), CliError> {
        let over_acp = format!("acp:{provider}");
        let mut agents = self.agents.iter();
        if agents.any(|agent| agent == provider || agent.as_str() == over_acp) {
            return Ok(());
        }
        Err(self.unknown_provider_error(provider.clone()))
    }

    fn unknown_provider_error(&self, provider: ProviderId) -> CliError {
        let available = self.agents.clone();
        AccessError::UnknownProvider {
            provider,
            available,
        }
        .into()
    }
}
