//! State of the conversation: its session, its agent, and the effect of commands on them.

mod handoff;
mod revert;
mod summariser;

use std::path::Path;

use segue_core::id::{ProviderId, SessionId};
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, DecisionKind, ResolutionStep, Session, SessionRef, Title, TitleSource,
};
use segue_engine::{
    ChatRequest, Conversation, ConversationId, RefContext, StopLevel, Target, TurnReport,
};
use summariser::BackgroundSummariser;

use super::command::ReplCommand;
use super::{reader, render};
use crate::app::{self, App};
use crate::cli::{
    CheckpointArgs, CheckpointCommand, CompactArgs, ConversationArgs, ListArgs, PolicyArg,
    SessionCommand, SessionRefArgs, ShowArgs, SortArgs, SummariserArg, TurnOptionArgs,
};
use crate::commands::chat::signals::SignalHandler;
use crate::commands::chat::target::ChatTarget;
use crate::commands::chat::{self, OutputFormat, run_turn};
use crate::commands::session;
use crate::config::ConfigFlags;
use crate::error::{CliError, ExitKind};
use crate::frontend::Frontend;
use crate::last_list;
use crate::terminal::{eprint_decisions, eprint_line};

/// Maximum number of listed sessions.
const MAX_LISTED_SESSIONS: u32 = 20;

pub(super) struct ReplState {
    app: App,
    /// Options of prompts, with the changes by commands.
    options: TurnOptionArgs,
    /// Purpose of the sessions that the conversation starts.
    purpose: Option<Purpose>,
    /// Steps that led to the target, to be printed with the first prompt. `None` if the user did not request them.
    resolution_steps: Option<Vec<ResolutionStep>>,
    target: Target,
    /// Provider that answered last or will answer next.
    agent: Option<ProviderId>,
    /// Report of the last turn in the current session.
    last_report: Option<TurnReport>,
    /// Whether a decision has already reported which session is resumed.
    is_session_announced: bool,
    /// Available providers.
    agents: Vec<ProviderId>,
    /// Last list of this conversation, which another process does not overwrite. `None` if the conversation listed
    /// nothing yet.
    listed_conversations: Option<Vec<ConversationId>>,
    signals: SignalHandler,
    background_summariser: BackgroundSummariser,
}

impl ReplState {
    pub(super) async fn new(
        app: App,
        args: ConversationArgs,
        signals: SignalHandler,
    ) -> Result<Self, CliError> {
        let ChatTarget {
            mut target,
            mut resolution_steps,
        } = ChatTarget::from_args(&app, &args).await?;
        let purpose = target.purpose().cloned();
        // An unknown role is reported before the user types a prompt.
        let role = purpose.as_ref().and_then(|purpose| purpose.role.as_ref());
        app.engine.resolver().role_description(role)?;
        let mut is_session_announced = false;
        if target.conversation_id().is_none() {
            let (prompt, stop) = (String::new(), signals.subscribe_stop());
            let request = ChatRequest {
                explain: resolution_steps.clone(),
                ..chat::build_request(&app, &args.options, prompt, target.clone(), stop)
            };
            // The session is resolved now, so that commands work before the first prompt.
            if let Some((session, decisions, steps)) =
                app.engine.resolver().peek_session(&request).await?
            {
                if resolution_steps.take().is_some() {
                    run_turn::print_resolution_steps(&steps);
                }
                eprint_decisions(&decisions, Frontend::Repl(Some(&session.id)));
                is_session_announced = decisions.iter().any(is_session_announcement);
                target = Target::Session(session.id);
            }
        }
        let agent = match target.conversation_id() {
            Some(ConversationId::Session(id)) => {
                let session = app.find_session(&session_ref(&id)).await?;
                Some(app.reconcile_session(session).await.provider)
            }
            Some(ConversationId::Native(provider, _)) => Some(provider),
            None => None,
        };
        let config = app::load_config(&ConfigFlags::default())?.config;
        let agents = app::build_agents(&app.home, &config).into_iter();
        let agents = agents.map(|agent| segue_providers::Agent::provider(&*agent).clone());
        let summariser = config.summariser.as_ref();
        let summariser = summariser.map(|name| app::build_summariser(&app.home, &config, name));
        Ok(Self {
            agents: agents.collect(),
            background_summariser: BackgroundSummariser::new(summariser),
            app,
            options: args.options,
            purpose,
            resolution_steps,
            target,
            agent,
            is_session_announced,
            last_report: None,
            listed_conversations: None,
            signals,
        })
    }

    /// Reports which session is resumed, unless a decision has reported it already.
    pub(super) async fn announce_session(&self) {
        if self.is_session_announced {
            return;
        }
        if let Target::Session(id) = &self.target
            && let Ok(session) = self.app.find_session(&session_ref(id)).await
        {
            eprint_line(&format!("resuming {}", render::describe_session(&session)));
        } else if let Target::Scope(purpose) | Target::NewWithPurpose(purpose) = &self.target {
            eprint_line(&format!(
                "the first prompt starts the session for {purpose}"
            ));
        }
    }

    pub(super) fn home(&self) -> &Path {
        &self.app.home
    }

    pub(super) fn agent_names(&self) -> Vec<String> {
        self.agents.iter().map(ToString::to_string).collect()
    }

    /// Returns the session of the conversation. `None` until it has one.
    pub(super) fn session_id(&self) -> Option<&SessionId> {
        match &self.target {
            Target::Session(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the frontend in which suggested actions are worded.
    pub(super) fn frontend(&self) -> Frontend<'_> {
        Frontend::Repl(self.session_id())
    }

    /// Returns the resumed conversation. Fails if the REPL has none yet.
    fn conversation_id(&self) -> Result<ConversationId, CliError> {
        self.target.conversation_id().ok_or_else(no_session_error)
    }

    /// Returns the label of the prompt: the provider and the short id of the session.
    pub(super) fn label(&self) -> String {
        let agent = self.next_provider().map_or("segue", ProviderId::as_str);
        match self.target.conversation_id() {
            Some(ConversationId::Session(id)) => format!("{agent} {}", render::short_id(&id)),
            Some(ConversationId::Native(_, id)) => {
                let start: String = id.as_str().chars().take(4).collect();
                format!("{agent} {start}")
            }
            None => agent.to_owned(),
        }
    }

    /// Sends a prompt. Reports a failure and returns its kind.
    pub(super) async fn send_prompt(&mut self, prompt: String) -> Result<(), ExitKind> {
        chat::validate_prompt(&prompt)
            .map_err(|error| super::report_error(&error, self.frontend()))?;
        self.apply_finished_summary().await;
        self.apply_external_handoff().await;
        let stop = self.signals.begin_turn();
        let request = ChatRequest {
            keep_agent: true,
            explain: self.resolution_steps.take(),
            ..chat::build_request(&self.app, &self.options, prompt, self.target.clone(), stop)
        };
        // The option applies to one prompt only.
        self.options.anyway = false;
        let forced_end = self.signals.wait_for_forced_end();
        let output = (OutputFormat::Text, self.frontend());
        let (outcome, partial_report) =
            run_turn::run(&self.app.engine, request, output, forced_end).await;
        if self.signals.end_turn() == StopLevel::Immediate {
            // An agent that did not stop on request is not reused for the next prompt.
            self.close_agents().await;
        }
        if let Some((session, _)) = partial_report.saved_turn {
            self.target = Target::Session(session);
        }
        let report =
            outcome.map_err(|error| super::report_error(&error.into(), self.frontend()))?;
        let exit_kind = run_turn::exit_kind(&report);
        match (&report.failure, exit_kind) {
            (Some(failure), _) => {
                let frontend = Frontend::Repl(Some(&report.session));
                run_turn::report_failure(&report.provider, failure, frontend);
            }
            (None, Some(_)) => {
                let recall_hint = if !report.sent && reader::is_interactive() {
                    "; press Up to recall it"
                } else {
                    ""
                };
                let reason = run_turn::cancellation_reason(&report);
                eprint_line(&format!("{reason}{recall_hint}"));
            }
            (None, None) => {}
        }
        self.target = Target::Session(report.session.clone());
        let next_provider = self.next_provider();
        if next_provider.is_some_and(|agent| *agent != report.provider) {
            // A fallback provider answered, and the session continues with it.
            (self.options.provider, self.options.model) = (None, None);
        }
        // A provider that could not be started has no leg, so the session does not run on it.
        if report.leg.is_some() || self.agent.is_none() {
            self.agent = Some(report.provider.clone());
        }
        self.last_report = Some(report);
        self.start_summary().await;
        exit_kind.map_or(Ok(()), Err)
    }

    /// Runs a command.
    pub(super) async fn run_command(&mut self, command: ReplCommand) -> Result<(), CliError> {
        match command {
            ReplCommand::Help => render::print_help(),
            // The loop of the conversation ends before this point.
            ReplCommand::Exit => {}
            ReplCommand::Sessions { all } => self.list_sessions(all).await?,
            ReplCommand::Session => self.show_session().await?,
            ReplCommand::Resume(reference) => self.resume_conversation(&reference).await?,
            ReplCommand::New => self.start_new_session().await,
            ReplCommand::History(turns) => self.show_history(turns).await?,
            ReplCommand::Rename(title) => self.rename_session(&title).await?,
            ReplCommand::Agent(agent) => self.set_provider(agent)?,
            ReplCommand::Handoff(agent) => self.hand_off(agent).await?,
            ReplCommand::Permissions(policy) => self.set_permissions(policy),
            ReplCommand::Usage => self.show_usage().await?,
            ReplCommand::BackToTurn(turn) => self.revert_to_turn(turn).await?,
            ReplCommand::Undo => self.undo_revert().await?,
            ReplCommand::Fork(at) => self.fork_session(at).await?,
            ReplCommand::Compact => self.compact_session().await?,
            ReplCommand::Checkpoint { all } => self.show_checkpoint(all).await?,
        }
        Ok(())
    }

    /// Runs a shell command on a session.
    async fn run_session_command(&self, command: SessionCommand) -> Result<(), CliError> {
        session::run_command(&self.app, self.frontend(), command).await
    }

    /// Returns the session of the conversation. Adopts a native session.
    async fn find_or_adopt_session(&mut self) -> Result<Session, CliError> {
        let id = session_ref_args(&self.conversation_id()?)?.id;
        let session = self.app.find_or_adopt(&id).await?;
        self.target = Target::Session(session.id.clone());
        Ok(session)
    }

    async fn list_sessions(&mut self, all: bool) -> Result<(), CliError> {
        let args = ListArgs {
            all,
            provider: Vec::new(),
            feature: None,
            task: None,
            role: None,
            tag: Vec::new(),
            since: None,
            order: SortArgs::default(),
            limit: MAX_LISTED_SESSIONS,
            no_refresh: false,
            ask: false,
            json: false,
        };
        self.run_session_command(SessionCommand::List(args)).await?;
        self.listed_conversations = Some(last_list::load(&self.app.home, &self.app.project));
        Ok(())
    }

    async fn show_session(&self) -> Result<(), CliError> {
        match &self.target {
            Target::Session(id) => {
                let session = self.app.find_session(&session_ref(id)).await?;
                let report = self.last_report.as_ref();
                render::print_session(&session, report.and_then(|report| report.opened.as_ref()));
                Ok(())
            }
            Target::Native(provider, id) => {
                let id = ConversationId::Native(provider.clone(), id.clone());
                let command = SessionCommand::Info(session_ref_args(&id)?);
                self.run_session_command(command).await
            }
            Target::Scope(purpose) => {
                eprint_line(&format!(
                    "no session yet: the next prompt starts the session for {purpose}"
                ));
                Ok(())
            }
            Target::Default
            | Target::New
            | Target::NewWithPurpose(_)
            | Target::NewestInDirectory => {
                eprint_line("no session yet: the next prompt starts one");
                Ok(())
            }
        }
    }

    /// Switches to another session. Changes nothing on failure.
    async fn resume_conversation(&mut self, reference: &SessionRef) -> Result<(), CliError> {
        let ref_context = RefContext {
            last_list: self
                .listed_conversations
                .clone()
                .unwrap_or_else(|| last_list::load(&self.app.home, &self.app.project)),
            project: self.app.project.clone(),
        };
        let conversation = chat::find_resumable(&self.app, reference, &ref_context).await?;
        let target = Target::from(conversation.id());
        if target == self.target {
            eprint_line("already in this session");
            return Ok(());
        }
        let (provider, description) = match &conversation {
            Conversation::Session(session, _) => {
                (&session.provider, render::describe_session(session))
            }
            Conversation::Native(native) => {
                let (provider, id) = (&native.session.provider, &native.session.head.id);
                (provider, format!("{id}, with {provider}"))
            }
        };
        self.check_drivable(provider)?;
        self.close_agents().await;
        if self.next_provider().is_some_and(|agent| agent != provider) {
            self.options.model = None;
        }
        eprint_line(&format!("resuming {description}"));
        self.target = target;
        self.options.provider = None;
        self.agent = Some(provider.clone());
        self.last_report = None;
        Ok(())
    }

    async fn start_new_session(&mut self) {
        self.close_agents().await;
        self.options.provider = self.next_provider().cloned();
        self.target = Target::new_with_purpose(self.purpose.clone());
        self.last_report = None;
        eprint_line("the next prompt starts a new session");
    }

    async fn show_history(&self, turns: usize) -> Result<(), CliError> {
        let args = ShowArgs {
            session: session_ref_args(&self.conversation_id()?)?,
            last: Some(turns),
            turn: None,
            full: false,
        };
        self.run_session_command(SessionCommand::Show(args)).await
    }

    async fn rename_session(&mut self, title: &str) -> Result<(), CliError> {
        let title = Title::new(title, TitleSource::User)
            .map_err(|error| CliError::usage(error.to_string()))?;
        let id = self.find_or_adopt_session().await?.id;
        let sessions = self.app.engine.sessions();
        sessions.rename_session(&id, &title).await?;
        eprint_line(&format!("renamed {id} to {:?}", title.as_str()));
        Ok(())
    }

    async fn compact_session(&mut self) -> Result<(), CliError> {
        // Compaction needs a recorded session.
        let session = self.find_or_adopt_session().await?;
        let args = CompactArgs {
            id: session_ref(&session.id),
            dry_run: false,
            // The summariser runs in the background, so that the user does not wait for it.
            summariser: Some(SummariserArg::None),
            json: false,
        };
        self.run_session_command(SessionCommand::Compact(args))
            .await?;
        self.start_summary().await;
        Ok(())
    }

    async fn show_checkpoint(&self, all: bool) -> Result<(), CliError> {
        let args = CheckpointArgs {
            id: session_ref(self.session_id().ok_or_else(no_session_error)?),
            command: Some(CheckpointCommand::Show { n: None, all }),
            json: false,
        };
        self.run_session_command(SessionCommand::Checkpoint(args))
            .await
    }

    fn set_permissions(&mut self, policy: PolicyArg) {
        self.options.permissions = Some(policy);
        let policy = segue_core::agent::PermissionPolicy::from(policy);
        eprint_line(&format!("set the permission policy to {}", policy.as_str()));
    }

    async fn show_usage(&self) -> Result<(), CliError> {
        let id = self.session_id().ok_or_else(no_session_error)?;
        let session = self.app.find_session(&session_ref(id)).await?;
        let report = self.last_report.as_ref();
        render::print_usage(report.map(|report| &report.usage), &session);
        Ok(())
    }

    async fn close_agents(&self) {
        app::report_guard_actions(&self.app.engine.close().await);
    }

    /// Ends the agent and the summariser.
    pub(super) async fn shut_down(&mut self) {
        self.cancel_summary().await;
        self.close_agents().await;
    }
}

/// Returns `true` if the decision reports which session is resumed.
fn is_session_announcement(decision: &Decision) -> bool {
    matches!(
        decision.kind(),
        DecisionKind::Session | DecisionKind::Continued
    )
}

fn no_session_error() -> CliError {
    CliError::failed("no session yet").with_hint("send a prompt to start a session")
}

fn session_ref(id: &SessionId) -> SessionRef {
    SessionRef::Text(id.to_string())
}

fn session_ref_args(id: &ConversationId) -> Result<SessionRefArgs, CliError> {
    let id = SessionRef::parse(&id.to_string());
    Ok(SessionRefArgs {
        id: id.map_err(|error| CliError::failed(error.to_string()))?,
        json: false,
    })
}
