//! Opening a leg: go on with the native session where it knows all that was sent, else tell a new one.

use std::path::PathBuf;

use segue_agents::{AgentError, Conversation, OpenRequest};
use segue_core::{Leg, LegEnd, Opened, ProviderId, Session, Turn, can_go_on, recent_messages};
use segue_store::{Lease, NewLeg};

use crate::{ChatRequest, Engine, EngineError};

/// A leg with an agent at its end.
pub(crate) struct OpenLeg {
    pub(crate) leg: Leg,
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) opened: Opened,
    /// Why it was opened so, in words.
    pub(crate) why: String,
    /// What is to be sent: the prompt, after the story so far where the agent does not know it.
    pub(crate) prompt: String,
}

/// Why no leg could be opened.
pub(crate) enum CannotOpen {
    Agent(AgentError),
    Engine(EngineError),
}

impl<E: Into<EngineError>> From<E> for CannotOpen {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

impl Engine {
    /// Opens a leg for the last of `turns`, whose prompt is written down and not sent yet.
    pub(crate) async fn open(
        &self,
        request: &ChatRequest,
        session: &Session,
        lease: &Lease,
        turns: &[Turn],
    ) -> Result<OpenLeg, CannotOpen> {
        let provider = request.provider.as_ref().unwrap_or(&session.provider);
        let agent = self.agent(provider)?;
        let before = turns.split_last().map_or(turns, |(_, before)| before);
        let legs = self.store.legs(&session.id).await?;
        let last = legs
            .into_iter()
            .next_back()
            .filter(|leg| leg.ended.is_none());
        let usable = last
            .as_ref()
            .filter(|leg| leg.provider == *provider && can_go_on(leg, before));
        let open = OpenRequest {
            cwd: PathBuf::from(&session.project.cwd),
            native_id: usable.map(|leg| leg.native_id.clone()),
            timeout: request.open_timeout,
        };
        let opening = agent.open(&open).await.map_err(CannotOpen::Agent)?;
        if let (true, Some(leg)) = (opening.opened.goes_on(), usable) {
            return Ok(OpenLeg {
                leg: leg.clone(),
                conversation: opening.conversation,
                opened: opening.opened,
                why: "the agent still knows the conversation".into(),
                prompt: request.prompt.clone(),
            });
        }
        let why_ended = end_of(last.as_ref(), usable.is_some(), provider);
        if let (Some(leg), Some((end, _))) = (&last, &why_ended) {
            self.store
                .end_leg(lease, leg.id, *end, (self.world.now)())
                .await?;
        }
        let new = NewLeg {
            provider: provider.clone(),
            native_id: opening.conversation.native_id().clone(),
            at: (self.world.now)(),
        };
        let leg = self.store.open_leg(lease, new).await?;
        let mut why = match (why_ended, before.is_empty()) {
            (Some((_, why)), _) => why,
            (None, true) => "a new session".to_owned(),
            (None, false) => "the session has no native session yet".to_owned(),
        };
        if let Some(why_not) = opening.why_not {
            why = format!("{why} ({why_not})");
        }
        let (opened, prompt) = self.tell(request, before).await?;
        Ok(OpenLeg {
            leg,
            conversation: opening.conversation,
            opened,
            why,
            prompt,
        })
    }

    /// What a new native session is told: the prompt, after the story so far if there is one.
    async fn tell(
        &self,
        request: &ChatRequest,
        before: &[Turn],
    ) -> Result<(Opened, String), EngineError> {
        let mut messages = Vec::new();
        for turn in before {
            messages.extend(self.store.messages(turn.id).await?);
        }
        if messages.is_empty() {
            return Ok((Opened::Fresh, request.prompt.clone()));
        }
        Ok((Opened::Briefed, recent_messages(&messages, &request.prompt)))
    }
}

/// Why the last leg is over, given that another one is opened.
fn end_of(last: Option<&Leg>, was_usable: bool, provider: &ProviderId) -> Option<(LegEnd, String)> {
    let leg = last?;
    Some(if was_usable {
        (
            LegEnd::Lost,
            "the agent could not go on with its own session".to_owned(),
        )
    } else if leg.provider == *provider {
        (
            LegEnd::HeadMoved,
            "the session was moved to another turn".to_owned(),
        )
    } else {
        (
            LegEnd::Handoff,
            format!("{provider} takes over from {}", leg.provider),
        )
    })
}
