//! State of the conversation: its session, its agent, and the effect of commands on them.

mod handoff;
mod revert;
mod summariser;

use std::path::Path;

use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::Purpose;
use segue_core::session::{Decision, DecisionKind, SessionRef, Step, Title, TitleSource};
use segue_engine::{
    ChatRequest, Conversation, ConversationId, Standpoint, Stop, Target, TurnReport,
};

use summariser::Summaries;

use super::command::Command;
use super::signals::Signals;
use super::{reader, render};
use crate::app::{self, App};
use crate::cli::{
    CheckpointArgs, CheckpointCommand, CompactArgs, ListArgs, OneArgs, OrderArgs, Policy,
    SessionCommand, ShowArgs, SumsUp, TalkArgs, TermsArgs,
};
use crate::commands::chat::target::Aim;
use crate::commands::chat::{self, Form, run_turn};
use crate::commands::session;
use crate::config::Flags;
use crate::error::{CliError, Kind};
use crate::frontend::Front;
use crate::last_list;
use crate::terminal::{say, say_decision};

/// Maximum number of listed sessions.
const LISTED: u32 = 20;

pub(super) struct Talk {
    app: App,
    /// Options of prompts, with the changes by commands.
    terms: TermsArgs,
    /// Purpose of the sessions that the conversation starts.
    purpose: Option<Purpose>,
    /// Steps that led to the target, to be printed with the first prompt. `None` if the user did not request them.
    explain: Option<Vec<Step>>,
    target: Target,
    /// Provider that answered last or will answer next.
    agent: Option<ProviderId>,
    /// Report of the last turn in the current session.
    last: Option<TurnReport>,
    /// Whether a decision has already reported which session is resumed.
    greeted: bool,
    /// Available providers.
    agents: Vec<ProviderId>,
    /// Last list of this conversation, which another process does not overwrite. `None` if the conversation listed
    /// nothing yet.
    listed: Option<Vec<ConversationId>>,
    signals: Signals,
    summaries: Summaries,
}

impl Talk {
    pub(super) async fn new(app: App, args: TalkArgs, signals: Signals) -> Result<Self, CliError> {
        let Aim {
            mut target,
            mut explain,
        } = Aim::of(&app, &args).await?;
        let purpose = target.purpose().cloned();
        // An unknown role is reported before the user types a prompt.
        let role = purpose.as_ref().and_then(|purpose| purpose.role.as_ref());
        app.engine.described(role)?;
        let mut greeted = false;
        if target.conversation().is_none() {
            let idle = signals.idle();
            let request = ChatRequest {
                explain: explain.clone(),
                ..chat::request(&app, &args.terms, String::new(), target.clone(), idle)
            };
            // The session is resolved now, so that commands work before the first prompt.
            if let Some((session, decisions, steps)) = app.engine.session_ahead(&request).await? {
                if explain.take().is_some() {
                    run_turn::explain(&steps);
                }
                decisions.iter().for_each(say_decision);
                greeted = decisions.iter().any(names_session);
                target = Target::Session(session.id);
            }
        }
        let agent = match target.conversation() {
            Some(ConversationId::Session(id)) => {
                let session = app.find(&by_id(&id)).await?;
                Some(app.up_to_date(session).await.provider)
            }
            Some(ConversationId::Native(provider, _)) => Some(provider),
            None => None,
        };
        let config = app::configuration(&Flags::default())?.config;
        let agents = app::agents(&app.home, &config).into_iter();
        let agents = agents.map(|agent| segue_agents::Agent::provider(&*agent).clone());
        let summariser = config.summariser.as_ref();
        let summariser = summariser.map(|name| app::summariser(&app.home, &config, name));
        Ok(Self {
            agents: agents.collect(),
            summaries: Summaries::by(summariser),
            app,
            terms: args.terms,
            purpose,
            explain,
            target,
            agent,
            greeted,
            last: None,
            listed: None,
            signals,
        })
    }

    /// Reports which session is resumed, unless a decision has reported it already.
    pub(super) async fn greet(&self) {
        if self.greeted {
            return;
        }
        if let Target::Session(id) = &self.target
            && let Ok(session) = self.app.find(&by_id(id)).await
        {
            say(&format!("going on with {}", render::told(&session)));
        } else if let Target::Scope(purpose) | Target::NewFor(purpose) = &self.target {
            say(&format!(
                "the first prompt starts the session for {purpose}"
            ));
        }
    }

    pub(super) fn home(&self) -> &Path {
        &self.app.home
    }

    pub(super) fn agents(&self) -> Vec<String> {
        self.agents.iter().map(ToString::to_string).collect()
    }

    /// Returns the session of the conversation. `None` until it has one.
    pub(super) fn session(&self) -> Option<&SessionId> {
        match &self.target {
            Target::Session(id) => Some(id),
            Target::Usual
            | Target::New
            | Target::NewFor(_)
            | Target::Native(..)
            | Target::Continue
            | Target::Scope(_) => None,
        }
    }

    /// Returns the frontend in which suggested actions are worded.
    pub(super) fn front(&self) -> Front<'_> {
        Front::Talk(self.session())
    }

    /// Returns the resumed conversation. Fails if the REPL has none yet.
    fn conversation(&self) -> Result<ConversationId, CliError> {
        self.target.conversation().ok_or_else(no_session)
    }

    /// Returns the label of the prompt: the provider and the short id of the session.
    pub(super) fn label(&self) -> String {
        let agent = self.answers().map_or("segue", ProviderId::as_str);
        match self.target.conversation() {
            Some(ConversationId::Session(id)) => format!("{agent} {}", render::short(&id)),
            Some(ConversationId::Native(_, id)) => {
                let start: String = id.as_str().chars().take(4).collect();
                format!("{agent} {start}")
            }
            None => agent.to_owned(),
        }
    }

    /// Sends a prompt. Reports a failure and returns its kind.
    pub(super) async fn prompt(&mut self, prompt: String) -> Result<(), Kind> {
        chat::sendable(&prompt).map_err(|error| super::told(error, self.front()))?;
        self.take_up_summary().await;
        self.notice_handoff().await;
        let stop = self.signals.turn_begins();
        let request = ChatRequest {
            keep_open: true,
            explain: self.explain.take(),
            ..chat::request(&self.app, &self.terms, prompt, self.target.clone(), stop)
        };
        // The option applies to one prompt only.
        self.terms.anyway = false;
        let gone = self.signals.long_over();
        let (outcome, all) = run_turn::play(&self.app.engine, request, Form::Words, gone).await;
        if self.signals.turn_is_over() == Stop::Now {
            // An agent that did not stop on request is not reused for the next prompt.
            self.close_agents().await;
        }
        if let Some((session, _)) = all.began {
            self.target = Target::Session(session);
        }
        let report = outcome.map_err(|error| super::told(error.into(), self.front()))?;
        let failed = run_turn::failed(&report);
        match (&report.failure, failed) {
            (Some(failure), _) => {
                let front = Front::Talk(Some(&report.session));
                run_turn::tell_failure(&report.provider, failure, front);
            }
            (None, Some(_)) if report.sent => say(run_turn::why_cancelled(&report)),
            (None, Some(_)) => {
                let again = if reader::is_interactive() {
                    "; Up brings it back"
                } else {
                    ""
                };
                say(&format!("{}{again}", run_turn::why_cancelled(&report)));
            }
            (None, None) => {}
        }
        self.target = Target::Session(report.session.clone());
        if self
            .answers()
            .is_some_and(|agent| *agent != report.provider)
        {
            // A fallback provider answered, and the session continues with it.
            (self.terms.provider, self.terms.model) = (None, None);
        }
        // A provider that could not be started has no leg, so the session does not run on it.
        if report.leg.is_some() || self.agent.is_none() {
            self.agent = Some(report.provider.clone());
        }
        self.last = Some(report);
        self.read_summary().await;
        failed.map_or(Ok(()), Err)
    }

    /// Runs a command.
    pub(super) async fn obey(&mut self, command: Command) -> Result<(), CliError> {
        match command {
            Command::Help => render::help(),
            // The loop of the conversation ends before this point.
            Command::Exit => {}
            Command::Sessions { all } => self.list(all).await?,
            Command::Session => self.show().await?,
            Command::Resume(reference) => self.resume(&reference).await?,
            Command::New => self.start_anew().await,
            Command::History(turns) => self.history(turns).await?,
            Command::Rename(title) => self.rename(&title).await?,
            Command::Agent(agent) => self.hand_to(agent)?,
            Command::Handoff(agent) => self.handoff(agent).await?,
            Command::Permissions(policy) => self.permit(policy),
            Command::Usage => self.usage().await?,
            Command::BackToTurn(turn) => self.back_to_turn(turn).await?,
            Command::Undo => self.undo().await?,
            Command::Fork(at) => self.fork(at).await?,
            Command::Compact => self.compact().await?,
            Command::Checkpoint { all } => self.checkpoint(all).await?,
        }
        Ok(())
    }

    async fn list(&mut self, all: bool) -> Result<(), CliError> {
        let args = ListArgs {
            all,
            provider: Vec::new(),
            feature: None,
            task: None,
            role: None,
            tag: Vec::new(),
            since: None,
            order: OrderArgs::default(),
            limit: LISTED,
            no_refresh: false,
            ask: false,
            json: false,
        };
        session::perform(&self.app, self.front(), SessionCommand::List(args)).await?;
        self.listed = Some(last_list::recall(&self.app.home, &self.app.project));
        Ok(())
    }

    async fn show(&self) -> Result<(), CliError> {
        match &self.target {
            Target::Session(id) => {
                let session = self.app.find(&by_id(id)).await?;
                let opened = self.last.as_ref().and_then(|last| last.opened.as_ref());
                render::session(&session, opened);
                Ok(())
            }
            Target::Native(provider, id) => {
                let id = ConversationId::Native(provider.clone(), id.clone());
                session::perform(&self.app, self.front(), SessionCommand::Info(one(&id)?)).await
            }
            Target::Scope(purpose) => {
                say(&format!(
                    "no session yet: the next prompt starts the one for {purpose}"
                ));
                Ok(())
            }
            Target::Usual | Target::New | Target::NewFor(_) | Target::Continue => {
                say("no session yet: the next prompt starts one");
                Ok(())
            }
        }
    }

    /// Switches to another session. Changes nothing on failure.
    async fn resume(&mut self, reference: &SessionRef) -> Result<(), CliError> {
        let standpoint = Standpoint {
            last_list: self
                .listed
                .clone()
                .unwrap_or_else(|| last_list::recall(&self.app.home, &self.app.project)),
            project: self.app.project.clone(),
        };
        let found = chat::resumable(&self.app, reference, &standpoint).await?;
        let target = Target::from(found.id());
        if target == self.target {
            say("you are in this session already");
            return Ok(());
        }
        let (provider, what) = match &found {
            Conversation::Session(session, _) => (&session.provider, render::told(session)),
            Conversation::Native(native) => {
                let (provider, id) = (&native.session.provider, &native.session.head.id);
                (provider, format!("{id}, with {provider}"))
            }
        };
        self.check_driven(provider)?;
        self.close_agents().await;
        if self.answers().is_some_and(|agent| agent != provider) {
            self.terms.model = None;
        }
        say(&format!("going on with {what}"));
        self.target = target;
        self.terms.provider = None;
        self.agent = Some(provider.clone());
        self.last = None;
        Ok(())
    }

    async fn start_anew(&mut self) {
        self.close_agents().await;
        self.terms.provider = self.answers().cloned();
        self.target = Target::new_for(self.purpose.clone());
        self.last = None;
        say("the next prompt starts a new session");
    }

    async fn history(&self, turns: usize) -> Result<(), CliError> {
        let args = ShowArgs {
            one: one(&self.conversation()?)?,
            last: Some(turns),
            turn: None,
            full: false,
        };
        session::perform(&self.app, self.front(), SessionCommand::Show(args)).await
    }

    async fn rename(&mut self, title: &str) -> Result<(), CliError> {
        let title = Title::given(title, TitleSource::User)
            .map_err(|error| CliError::usage(error.to_string()))?;
        let id = match self.conversation()? {
            ConversationId::Session(id) => id,
            native @ ConversationId::Native(..) => {
                let session = self.app.take(&one(&native)?.id).await?;
                self.target = Target::Session(session.id.clone());
                session.id
            }
        };
        self.app.engine.rename(&id, &title).await?;
        say(&format!("{id} is now called {:?}", title.as_str()));
        Ok(())
    }

    async fn compact(&mut self) -> Result<(), CliError> {
        let id = one(&self.conversation()?)?.id;
        // A native session is adopted by this.
        let session = self.app.take(&id).await?;
        self.target = Target::Session(session.id.clone());
        let args = CompactArgs {
            id: by_id(&session.id),
            dry_run: false,
            // The summariser runs in the background, so that the user does not wait for it.
            summariser: Some(SumsUp::Nobody),
            json: false,
        };
        session::perform(&self.app, self.front(), SessionCommand::Compact(args)).await?;
        self.read_summary().await;
        Ok(())
    }

    async fn checkpoint(&self, all: bool) -> Result<(), CliError> {
        let args = CheckpointArgs {
            id: by_id(self.session().ok_or_else(no_session)?),
            command: Some(CheckpointCommand::Show { n: None, all }),
            json: false,
        };
        session::perform(&self.app, self.front(), SessionCommand::Checkpoint(args)).await?;
        Ok(())
    }

    fn permit(&mut self, policy: Policy) {
        self.terms.permissions = Some(policy);
        let policy = segue_core::agent::PermissionPolicy::from(policy);
        say(&format!("permissions from now on: {}", policy.as_str()));
    }

    async fn usage(&self) -> Result<(), CliError> {
        let id = self.session().ok_or_else(no_session)?;
        let session = self.app.find(&by_id(id)).await?;
        render::usage(self.last.as_ref().map(|last| &last.usage), &session);
        Ok(())
    }

    async fn close_agents(&self) {
        for line in self.app.engine.close().await {
            say_decision(&Decision::new(DecisionKind::Protected, line));
        }
    }

    /// Ends the agent and the summariser.
    pub(super) async fn end(&mut self) {
        self.end_summary().await;
        self.close_agents().await;
    }
}

/// Returns `true` if the decision reports which session is resumed.
fn names_session(decision: &Decision) -> bool {
    matches!(
        decision.kind,
        DecisionKind::Session | DecisionKind::Continued
    )
}

fn no_session() -> CliError {
    CliError::failed("there is no session yet").hint("the first prompt starts one")
}

fn by_id(id: &SessionId) -> SessionRef {
    SessionRef::Text(id.to_string())
}

fn one(id: &ConversationId) -> Result<OneArgs, CliError> {
    let id = SessionRef::parse(&id.to_string());
    Ok(OneArgs {
        id: id.map_err(|error| CliError::failed(error.to_string()))?,
        json: false,
    })
}
