//! Provider of the conversation: `/agent`, `/handoff`, and handoffs by other processes.

use segue_core::id::ProviderId;
use segue_engine::{EngineError, Target};

use super::{Talk, one};
use crate::commands::session;
use crate::error::CliError;
use crate::terminal::say;

impl Talk {
    /// Returns the provider of the next prompt. `None` if it is not known yet.
    pub(super) fn answers(&self) -> Option<&ProviderId> {
        self.terms.provider.as_ref().or(self.agent.as_ref())
    }

    /// Reports a handoff of the session by another process. The new provider answers, unless the user chose another in
    /// this conversation.
    pub(super) async fn notice_handoff(&mut self) {
        let (Some(id), Some(before)) = (self.session(), &self.agent) else {
            return;
        };
        // The prompt reports any error of the session.
        let Ok(session) = self.app.engine.session(id).await else {
            return;
        };
        let now = session.provider;
        if now == *before {
            return;
        }
        match &self.terms.provider {
            Some(chosen) if *chosen != now => say(&format!(
                "the session was handed to {now} elsewhere; {chosen} takes it back, as you chose"
            )),
            Some(_) => {}
            None => {
                say(&format!(
                    "the session was handed to {now} elsewhere, who answers from now on"
                ));
                // Names of models are specific to a provider.
                self.terms.model = None;
            }
        }
        self.agent = Some(now);
    }

    /// Sets the provider for the following prompts.
    pub(super) fn hand_to(&mut self, agent: ProviderId) -> Result<(), CliError> {
        if !self.agents.contains(&agent) {
            return Err(self.unknown(agent));
        }
        if self.answers() == Some(&agent) {
            say(&format!("{agent} answers already"));
            return Ok(());
        }
        let told = match &self.target {
            Target::Session(_) | Target::Native(..) | Target::Continue => {
                ", which is told what was said"
            }
            // With another provider the scope has another session.
            Target::Usual | Target::New | Target::NewFor(_) | Target::Scope(_) => "",
        };
        say(&format!("the next prompt goes to {agent}{told}"));
        // Names of models are specific to a provider.
        self.terms.model = None;
        self.terms.provider = Some(agent);
        Ok(())
    }

    /// Hands the session over immediately. Without a session, only sets the provider for the next prompt.
    pub(super) async fn handoff(&mut self, agent: ProviderId) -> Result<(), CliError> {
        let Some(id) = self.target.conversation() else {
            return self.hand_to(agent);
        };
        let (session, words) = session::hand_over(&self.app, &one(&id)?.id, &agent).await?;
        say(&words);
        self.target = Target::Session(session.id);
        if self.answers() != Some(&agent) {
            // Names of models are specific to a provider.
            self.terms.model = None;
        }
        self.terms.provider = None;
        self.agent = Some(agent);
        Ok(())
    }

    /// Checks that a provider can be run, directly or over ACP.
    pub(super) fn check_driven(&self, provider: &ProviderId) -> Result<(), CliError> {
        let over_acp = format!("acp:{provider}");
        let mut agents = self.agents.iter();
        if agents.any(|agent| agent == provider || agent.as_str() == over_acp) {
            return Ok(());
        }
        Err(self.unknown(provider.clone()))
    }

    fn unknown(&self, provider: ProviderId) -> CliError {
        let known = self.agents.clone();
        EngineError::UnknownProvider { provider, known }.into()
    }
}
