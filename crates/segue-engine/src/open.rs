//! Opening a leg: resumes the native session if it contains all turns that were sent, or else starts a new one with a
//! brief.

use std::fmt::Write as _;
use std::path::PathBuf;

use segue_agents::{AgentError, Conversation, OpenRequest, Opening, Timeouts};
use segue_core::agent::PermissionPolicy;
use segue_core::brief::Section;
use segue_core::id::{LegId, ProviderId, TurnId};
use segue_core::session::{Decision, Leg, LegEnd, Opened, Session, Turn, can_go_on};
use segue_store::NewLeg;

use crate::hold::Hold;
use crate::tell::Telling;
use crate::{ChatRequest, Engine, EngineError};

/// A leg with a running agent.
pub(crate) struct OpenLeg {
    pub(crate) leg: Leg,
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) opened: Opened,
    /// Reason for the choice of `opened`, as text for the user.
    pub(crate) why: String,
    /// Whether the native session is new and branched off from another one, whose context it has.
    pub(crate) branched: bool,
    /// Text to send: the prompt, after a brief if the agent does not have the session in context.
    pub(crate) prompt: String,
    /// Actions that protected native sessions from damage, one line each.
    pub(crate) protected: Vec<String>,
    /// Reason why the agent runs on another transport than the default one; `None` if it does not.
    pub(crate) fell_back: Option<String>,
    /// Decisions about the content of the brief.
    pub(crate) news: Vec<Decision>,
}

impl OpenLeg {
    /// Creates a leg that resumes its native session, which contains all turns.
    fn going_on(leg: &Leg, opening: Opening, terms: &OpenTerms<'_>) -> Self {
        let why = if opening.opened == Opened::Live {
            "the agent is still running"
        } else {
            "the agent still knows the conversation"
        };
        Self {
            leg: leg.clone(),
            conversation: opening.conversation,
            opened: opening.opened,
            why: why.to_owned(),
            branched: false,
            // The agent may or may not have stored the text that it refused, so all of it is sent again.
            prompt: terms.refused.unwrap_or(&terms.request.prompt).to_owned(),
            protected: opening.protected,
            fell_back: opening.fell_back,
            news: Vec::new(),
        }
    }
}

/// Parameters for opening a leg.
pub(crate) struct OpenTerms<'a> {
    pub(crate) request: &'a ChatRequest,
    /// Text for a resumed native session: the prompt, after the messages that were added to the record since the last
    /// prompt.
    pub(crate) sends: &'a str,
    /// Turn of the prompt.
    pub(crate) turn: TurnId,
    pub(crate) provider: &'a ProviderId,
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<&'a str>,
    /// Reason why a second leg is opened for the same prompt; `None` for the first one.
    pub(crate) why_again: Option<&'a str>,
    /// Text that the same agent refused for this prompt; `None` if it refused none.
    pub(crate) refused: Option<&'a str>,
}

/// Reason why no leg could be opened.
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
    /// Opens a leg for a prompt that is recorded and not sent yet. `before` are the turns before the prompt.
    pub(crate) async fn open(
        &self,
        terms: &OpenTerms<'_>,
        session: &Session,
        hold: &Hold,
        before: &[Turn],
    ) -> Result<OpenLeg, CannotOpen> {
        let provider = terms.provider;
        let agent = self.agent(provider)?;
        let legs = self.store.legs(&session.id).await?;
        let newest = legs.into_iter().next_back();
        let summed = self.compact_ahead(terms, session, hold, (newest.as_ref(), before));
        let summed = summed.await?;
        let newest = newest.filter(|_| summed.is_none());
        let over = newest.as_ref().and_then(|leg| why_over(leg, provider));
        let over = summed.or(over);
        let last = newest.filter(|leg| leg.ended.is_none());
        let refused = |leg: &Leg| terms.refused.is_some() && leg.tip == Some(terms.turn);
        let usable = last
            .as_ref()
            .filter(|leg| leg.provider == *provider && (can_go_on(leg, before) || refused(leg)));
        let live = self
            .warm
            .take(&session.id, usable, terms.permissions, terms.model);
        let (live, mut protected) = live.await;
        if let (Some(conversation), Some(leg)) = (live, usable) {
            if let Some(process) = conversation.process() {
                hold.runs(process);
            }
            let opening = Opening {
                conversation,
                opened: Opened::Live,
                why_not: None,
                not_now: false,
                protected: Vec::new(),
                fell_back: None,
            };
            return Ok(OpenLeg::going_on(leg, opening, terms));
        }
        let native_id = usable.and_then(|leg| leg.native_id.clone());
        let from = match (usable, terms.why_again) {
            (None, None) => self.branching(session, provider, before).await?,
            (Some(_), _) | (None, Some(_)) => None,
        };
        let nowhere = native_id.is_none() && from.is_none();
        if terms.request.strict && nowhere && !before.is_empty() {
            return Err(CannotOpen::Agent(no_native(last.as_ref(), over, provider)));
        }
        let mut open = self.open_request(terms, session, hold)?;
        // Without recorded turns, a new native session would get no brief and have no context, so opening fails
        // instead.
        open.strict |=
            native_id.is_some() && terms.refused.is_none() && !before.iter().any(|turn| turn.sent);
        open.native_id = native_id;
        open.from = from.as_ref().map(|from| from.point.clone());
        if open.native_id.is_none() && (!before.is_empty() || open.role.is_some()) {
            // The vocabulary loads while the agent starts, so that the tokens of the brief can be counted then.
            segue_tokens::warm_up();
        }
        let mut opening = agent.open(&open).await.map_err(CannotOpen::Agent)?;
        protected.append(&mut opening.protected);
        opening.protected = protected;
        if let (true, Some(leg)) = (opening.opened.goes_on(), usable) {
            return Ok(OpenLeg::going_on(leg, opening, terms));
        }
        if terms.request.strict && from.is_some() && !opening.opened.goes_on() {
            opening.conversation.close().await;
            return Err(CannotOpen::Agent(no_native(last.as_ref(), over, provider)));
        }
        let why_ended = last
            .as_ref()
            .map(|leg| end_of(leg, usable.map(|_| opening.not_now), provider));
        let ends = last.as_ref().zip(why_ended.as_ref());
        let ends = ends.map(|(leg, (end, _))| (leg.id, *end));
        if let (true, Some(from)) = (opening.opened.goes_on(), from) {
            self.end(hold, ends).await?;
            return Ok(self.begin_branch(opening, terms, hold, &from).await?);
        }
        let why = match (terms.why_again, why_ended) {
            (Some(why), _) => why.to_owned(),
            (None, Some((_, why))) => why,
            (None, None) => why_first(over, before),
        };
        self.begin_leg(opening, terms, session, hold, before, (ends, why))
            .await
    }

    /// Records the end of a leg, if one is given.
    async fn end(&self, hold: &Hold, ends: Option<(LegId, LegEnd)>) -> Result<(), EngineError> {
        if let Some((leg, end)) = ends {
            let at = (self.world.now)();
            self.store.end_leg(&hold.lease, leg, end, at).await?;
        }
        Ok(())
    }

    /// Creates the request for an agent, without a native session to resume or to branch off from.
    fn open_request(
        &self,
        terms: &OpenTerms<'_>,
        session: &Session,
        hold: &Hold,
    ) -> Result<OpenRequest, EngineError> {
        let role = self.role_of(session)?;
        let permissions = terms.permissions;
        Ok(OpenRequest {
            cwd: PathBuf::from(&session.project.cwd),
            strict: terms.request.strict,
            native_id: None,
            from: None,
            permissions: role.map_or(permissions, |role| role.at_most(permissions)),
            role: role.cloned(),
            model: terms.model.map(str::to_owned),
            mcp: self.tools.for_session(&session.id),
            timeout: terms.timeouts.start,
            started: hold.agent.clone(),
        })
    }

    /// Records a leg on a new native session, which runs the session from now on, and composes its brief.
    async fn begin_leg(
        &self,
        opening: Opening,
        terms: &OpenTerms<'_>,
        session: &Session,
        hold: &Hold,
        before: &[Turn],
        (ends, mut why): (Option<(LegId, LegEnd)>, String),
    ) -> Result<OpenLeg, CannotOpen> {
        let telling = Telling {
            session,
            provider: terms.provider,
            prompt: &terms.request.prompt,
            before,
            has_tools: opening.conversation.takes_tools(),
            hold,
        };
        // The previous leg ends only after the brief is composed, because composing it may fail.
        let (brief, news) = self.tell(telling).await?;
        self.end(hold, ends).await?;
        let new = NewLeg {
            provider: terms.provider.clone(),
            native_id: opening.conversation.native_id().cloned(),
            at: (self.world.now)(),
        };
        let leg = self.store.open_leg(&hold.lease, new).await?;
        if let Some(why_not) = opening.why_not {
            why = format!("{why} ({why_not})");
        }
        if brief.has(Section::Checkpoint) && !why.contains("summed up") {
            why.push_str("; what came before is summed up");
        }
        match brief.left_out {
            0 => {}
            1 => why.push_str("; turn 1 was too much to tell"),
            n => {
                let _ = write!(why, "; turns 1 to {n} were too much to tell");
            }
        }
        let opened = if before.is_empty() {
            Opened::Fresh
        } else {
            Opened::Briefed
        };
        Ok(OpenLeg {
            leg,
            conversation: opening.conversation,
            opened,
            why,
            branched: false,
            prompt: brief.with(&terms.request.prompt),
            protected: opening.protected,
            fell_back: opening.fell_back,
            news,
        })
    }
}

/// Creates the error for a strict request if no native session can be resumed.
fn no_native(last: Option<&Leg>, over: Option<String>, provider: &ProviderId) -> AgentError {
    AgentError::NothingToResume(match last {
        Some(leg) if leg.provider != *provider => {
            format!(
                "the conversation is with {}, not with {provider}",
                leg.provider
            )
        }
        Some(_) => "it is not where the session is".to_owned(),
        None => over.unwrap_or_else(|| "the session has none yet".to_owned()),
    })
}

/// Returns the reason why a leg that has ended is not resumed; `None` if the leg has not ended.
fn why_over(leg: &Leg, provider: &ProviderId) -> Option<String> {
    let (_, end) = leg.ended?;
    match end {
        _ if leg.provider != *provider => {
            Some(format!("{provider} takes over from {}", leg.provider))
        }
        LegEnd::Handoff => Some(format!("{provider} takes the session back")),
        LegEnd::Full => Some("the last native session was full".to_owned()),
        LegEnd::Compacted => Some("what was said before was summed up".to_owned()),
        LegEnd::Errors => Some("the last native session failed too often in a row".to_owned()),
        LegEnd::Lost => Some("the last native session is lost".to_owned()),
        LegEnd::NotNow => Some("the last native session could not go on just then".to_owned()),
        LegEnd::HeadMoved => {
            Some("the last native session is where this session is not any more".to_owned())
        }
    }
}

/// Returns the reason for a new native session if no open leg ends for it.
fn why_first(over: Option<String>, before: &[Turn]) -> String {
    match over {
        _ if before.is_empty() => "a new session".to_owned(),
        Some(over) => over,
        None => "the session has no native session yet".to_owned(),
    }
}

/// Returns why the last leg ends, given that another one is opened. `not_now` is `None` if the leg was not usable, and
/// `true` if its agent reported that it cannot resume the native session now.
fn end_of(leg: &Leg, not_now: Option<bool>, provider: &ProviderId) -> (LegEnd, String) {
    if let Some(not_now) = not_now {
        let (end, when) = if not_now {
            (LegEnd::NotNow, " yet")
        } else {
            (LegEnd::Lost, "")
        };
        let why = format!("the agent could not go on with its own session{when}");
        (end, why)
    } else if leg.provider != *provider {
        (
            LegEnd::Handoff,
            format!("{provider} takes over from {}", leg.provider),
        )
    } else if leg.tip.is_none() {
        (
            LegEnd::Lost,
            "the last native session was never used".to_owned(),
        )
    } else {
        (
            LegEnd::HeadMoved,
            "the session was moved to another turn".to_owned(),
        )
    }
}
