//! A way to talk to Gemini CLI, with a guard for the sessions it touches.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_core::{AgentEvent, FailureClass, NativeId, ProcessMark, ProviderId};

use super::keep::Keep;
use super::tools::name_plainly;
use crate::classify::Refusal;
use crate::{Agent, AgentError, Conversation, Listed, OpenRequest, Opening, Probe, Step};

/// How long one process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// For a conversation, whose session it loads.
    Conversation,
    /// For one turn, whose session it resumes. That is harmless at any time.
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

    /// Why the session may not be opened now, if it may not.
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

/// What the guard does, apart from what waits: files may be large and disks slow.
async fn apart(
    keep: &Arc<Keep>,
    cwd: &std::path::Path,
    id: Option<&NativeId>,
    act: fn(&Keep, &std::path::Path, Option<&NativeId>) -> Vec<String>,
) -> Vec<String> {
    let (keep, cwd, id) = (Arc::clone(keep), cwd.to_owned(), id.cloned());
    tokio::task::spawn_blocking(move || act(&keep, &cwd, id.as_ref()))
        .await
        .unwrap_or_else(|_| {
            vec!["could not guard the Gemini sessions of this directory".to_owned()]
        })
}

#[async_trait]
impl Agent for Guarded {
    fn provider(&self) -> &ProviderId {
        self.agent.provider()
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let asked = request.native_id.as_ref();
        let mut protected = apart(&self.keep, &request.cwd, asked, Keep::before).await;
        let harm = self.harm(request);
        let opened = match &harm {
            Some(refusal) if request.strict => {
                return Err(AgentError::refused("session/load", refusal.clone()));
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
                // The program may have done its worst before it failed.
                apart(&self.keep, &request.cwd, asked, Keep::after).await;
                return Err(error);
            }
        };
        let mut conversation = GuardedConversation {
            conversation: opening.conversation,
            keep: Arc::clone(&self.keep),
            cwd: request.cwd.clone(),
            asked: request.native_id.clone(),
            life: self.life,
            sent: false,
            swept: false,
            told: Vec::new(),
        };
        if self.life == Life::Conversation {
            conversation.sweep();
            protected.append(&mut conversation.told);
        }
        protected.extend(opening.protected);
        Ok(Opening {
            conversation: Box::new(conversation),
            opened: opening.opened,
            why_not: opening.why_not.or(harm.map(|refusal| refusal.message)),
            protected,
        })
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

/// A conversation whose session is guarded.
struct GuardedConversation {
    conversation: Box<dyn Conversation>,
    keep: Arc<Keep>,
    cwd: PathBuf,
    /// The session that was to be opened; not always the one that was.
    asked: Option<NativeId>,
    life: Life,
    sent: bool,
    /// Whether the twin that the running process made is gone.
    swept: bool,
    /// What was done and not told yet.
    told: Vec<String>,
}

impl GuardedConversation {
    /// The twin is made when a session is opened and not written to any more, so it can go before the turn is over:
    /// another start of Gemini CLI meanwhile would delete the session. A few files are looked at, so this does not
    /// wait.
    fn sweep(&mut self) {
        self.swept = true;
        if let Some(id) = self.conversation.native_id() {
            self.told.extend(self.keep.sweep(&self.cwd, id));
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
        if self.life == Life::Turn && std::mem::replace(&mut self.sent, true) {
            let id = self.conversation.native_id();
            let told = apart(&self.keep, &self.cwd, id, Keep::before).await;
            self.told.extend(told);
        }
        self.swept = self.life == Life::Conversation;
        self.conversation.send(prompt).await
    }

    async fn next(&mut self) -> Step {
        let mut step = self.conversation.next().await;
        if !self.swept {
            self.sweep();
        }
        match &mut step {
            Step::Event(AgentEvent::Tool(call)) => name_plainly(call),
            Step::Ask(request, _) => name_plainly(&mut request.call),
            Step::Named(_) | Step::Event(_) | Step::Done(_) => {}
        }
        if let (Step::Done(Ok(end)), Some(id)) = (&mut step, self.conversation.native_id())
            && end.usage.total_tokens.or(end.usage.input_tokens).is_some()
            && end.usage.context_tokens.is_none()
        {
            // Its figures are those of all requests of a turn; the last one's are in its file.
            end.usage.context_tokens = self.keep.context_tokens(&self.cwd, id);
        }
        step
    }

    fn cancel(&mut self) {
        self.conversation.cancel();
    }

    fn is_alive(&mut self) -> bool {
        self.conversation.is_alive()
    }

    async fn close(self: Box<Self>) -> Vec<String> {
        let Self {
            conversation,
            keep,
            cwd,
            asked,
            mut told,
            ..
        } = *self;
        let id = conversation.native_id().cloned();
        told.extend(conversation.close().await);
        told.extend(apart(&keep, &cwd, id.as_ref(), Keep::after).await);
        if let Some(other) = asked.filter(|asked| Some(asked) != id.as_ref()) {
            told.extend(apart(&keep, &cwd, Some(&other), Keep::after).await);
        }
        told
    }
}
