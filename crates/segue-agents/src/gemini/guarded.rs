//! A transport to Gemini CLI, with a guard for the sessions that it touches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::agent::ProcessMark;
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, FailureClass, TurnEnd};
use tokio::sync::watch;

use super::keep::Keep;
use super::tools::name_plainly;
use super::vigil::{Vigil, Work};
use crate::classify::Refusal;
use crate::{Agent, AgentError, Conversation, Listed, OpenRequest, Opening, Probe, Step};

/// Lifetime of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// The process lives as long as the connection and loads its session.
    Conversation,
    /// The process lives for one turn and resumes the session, which is safe at any time.
    Turn,
}

/// An agent whose sessions are guarded.
pub(super) struct Guarded {
    agent: Arc<dyn Agent>,
    keep: Arc<Keep>,
    life: Life,
}

impl Guarded {
    pub(super) fn new(agent: Arc<dyn Agent>, keep: Arc<Keep>, life: Life) -> Self {
        Self { agent, keep, life }
    }

    /// Returns the reason why the session must not be opened now; `None` if it may be.
    fn harm(&self, request: &OpenRequest) -> Option<Refusal> {
        let id = request.native_id.as_ref()?;
        if self.life != Life::Conversation {
            return None;
        }
        let seconds = self.keep.seconds_to_wait(&request.cwd, id)?;
        Some(Refusal {
            class: FailureClass::Agent,
            message: format!(
                "Gemini CLI ruins a session that is loaded in the minute it was made; try again in {seconds} s"
            ),
            retry_after: u64::try_from(seconds).ok().map(Duration::from_secs),
        })
    }
}

#[async_trait]
impl Agent for Guarded {
    fn provider(&self) -> &ProviderId {
        self.agent.provider()
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let asked = request.native_id.as_ref();
        let started = request.started.subscribe();
        let (mut vigil, mut protected) =
            Vigil::begin(&self.keep, &request.cwd, asked, started.clone()).await;
        let harm = self.harm(request);
        let opened = match &harm {
            Some(refusal) if request.strict => {
                Err(AgentError::refused("session/load", refusal.clone()))
            }
            Some(_) => {
                let instead = OpenRequest {
                    native_id: None,
                    ..request.clone()
                };
                self.agent.open(&instead).await
            }
            None => self.agent.open(request).await,
        };
        let opening = match opened {
            Ok(opening) => opening,
            Err(error) => {
                // The program may have destroyed sessions before it failed.
                if let Some(vigil) = vigil {
                    vigil.end().told().await;
                }
                return Err(error);
            }
        };
        if let (Some(vigil), Some(id)) = (&mut vigil, opening.conversation.native_id()) {
            vigil.add(id);
        }
        let mut conversation = GuardedConversation {
            conversation: opening.conversation,
            vigil,
            keep: Arc::clone(&self.keep),
            cwd: request.cwd.clone(),
            started,
            life: self.life,
            swept: false,
            told: Vec::new(),
            end: None,
            work: None,
        };
        if self.life == Life::Conversation {
            conversation.sweep();
            protected.append(&mut conversation.told);
        }
        protected.extend(opening.protected);
        Ok(Opening {
            conversation: Box::new(conversation),
            opened: opening.opened,
            not_now: harm.is_some(),
            why_not: opening.why_not.or(harm.map(|refusal| refusal.message)),
            protected,
            fell_back: None,
        })
    }

    fn takes_tools(&self) -> bool {
        self.agent.takes_tools()
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        self.agent.probe(timeout).await
    }

    async fn list(
        &self,
        cwd: &std::path::Path,
        timeout: Duration,
    ) -> Result<Option<Vec<Listed>>, AgentError> {
        self.agent.list(cwd, timeout).await
    }
}

/// A connection whose session is guarded.
struct GuardedConversation {
    /// Declared before the vigil, which waits for the connection's process, because fields are dropped in this order.
    conversation: Box<dyn Conversation>,
    /// Guard of the current process; `None` between turns if each process lives for one turn.
    vigil: Option<Vigil>,
    keep: Arc<Keep>,
    cwd: PathBuf,
    /// Process that is running, or ran last.
    started: watch::Receiver<Option<ProcessMark>>,
    life: Life,
    /// Whether the twin that the running process made has been removed.
    swept: bool,
    /// Actions taken that have not been reported yet.
    told: Vec<String>,
    /// End of the turn, until `next` returns it.
    end: Option<Result<TurnEnd, AgentError>>,
    /// Work to finish before `next` returns the end of the turn.
    work: Option<Work>,
}

impl GuardedConversation {
    /// Removes the twin of the session. Gemini CLI makes the twin when it opens a session, and does not write to it
    /// later, so it can be removed before the turn ends. Until it is removed, another start of Gemini CLI deletes the
    /// session. Runs without a separate task, because it reads only a few files.
    fn sweep(&mut self) {
        self.swept = true;
        if let Some(id) = self.conversation.native_id() {
            self.told.extend(self.keep.sweep(&self.cwd, id));
        }
    }

    /// Starts the work after a turn that saves a copy of the turn's messages.
    fn keep_turn(&mut self) -> Option<Work> {
        let id = self.conversation.native_id()?.clone();
        match self.life {
            Life::Turn => {
                let mut vigil = self.vigil.take()?;
                vigil.add(&id);
                Some(vigil.end())
            }
            Life::Conversation => {
                let (keep, cwd) = (Arc::clone(&self.keep), self.cwd.clone());
                Some(Work::of(move || keep.copy(&cwd, &id)))
            }
        }
    }

    async fn finish_work(&mut self) {
        if let Some(work) = &mut self.work {
            let told = work.told().await;
            self.told.extend(told);
            self.work = None;
        }
    }
}

#[async_trait]
impl Conversation for GuardedConversation {
    fn native_id(&self) -> Option<&NativeId> {
        self.conversation.native_id()
    }

    fn process(&self) -> Option<ProcessMark> {
        self.conversation.process()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        if self.life == Life::Turn && self.vigil.is_none() {
            let id = self.conversation.native_id();
            let (vigil, told) = Vigil::begin(&self.keep, &self.cwd, id, self.started.clone()).await;
            self.vigil = vigil;
            self.told.extend(told);
        }
        self.swept = self.life == Life::Conversation;
        let sent = self.conversation.send(prompt).await;
        if let (Some(vigil), Some(id)) = (&mut self.vigil, self.conversation.native_id()) {
            vigil.add(id);
        }
        sent
    }

    async fn next(&mut self) -> Step {
        loop {
            self.finish_work().await;
            if let Some(end) = self.end.take() {
                return Step::Done(end);
            }
            let mut step = self.conversation.next().await;
            if !self.swept {
                self.sweep();
            }
            match &mut step {
                Step::Event(AgentEvent::Tool(call)) => name_plainly(call),
                Step::Ask(request, _) => name_plainly(&mut request.call),
                Step::Named(_) | Step::Event(_) | Step::Done(_) => {}
            }
            let Step::Done(mut end) = step else {
                return step;
            };
            if let (Ok(end), Some(id)) = (&mut end, self.conversation.native_id())
                && end.usage.total_tokens.or(end.usage.input_tokens).is_some()
                && end.usage.context_tokens.is_none()
            {
                // The reported counts cover all requests of the turn; the session file contains those of the last
                // request.
                end.usage.context_tokens = self.keep.context_tokens(&self.cwd, id);
            }
            self.end = Some(end);
            self.work = self.keep_turn();
        }
    }

    fn takes_tools(&self) -> bool {
        self.conversation.takes_tools()
    }

    fn cancel(&mut self) {
        self.conversation.cancel();
    }

    fn is_alive(&mut self) -> bool {
        self.conversation.is_alive()
    }

    async fn close(mut self: Box<Self>) -> Vec<String> {
        self.finish_work().await;
        let Self {
            conversation,
            vigil,
            mut told,
            ..
        } = *self;
        told.extend(conversation.close().await);
        if let Some(vigil) = vigil {
            told.extend(vigil.end().told().await);
        }
        told
    }
}

#[cfg(test)]
mod tests;
