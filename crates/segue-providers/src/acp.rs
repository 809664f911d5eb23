//! Driver for agents that speak the Agent Client Protocol (ACP) over stdio.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_acp::{AcpError, Canceller, Client, SessionOptions};
use segue_core::agent::{Capabilities, CapabilitySource, ProcessIdentity};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, FailureClass, GuardAction, OpenMode, StopReason, TurnEnd};
use tokio::sync::watch;

use crate::error::HANDSHAKE_OPERATION;
use crate::error_class;
use crate::process::leash::CANNOT_START_EXIT_CODE;
use crate::process::{AgentProcess, Exit, LeashCommand, ProgramSpec};
use crate::wire::prompt_text::escape_prompt;
use crate::{
    Agent, AgentConnection, AgentError, AgentHost, AgentRefusal, ConnectionEvent,
    ListedNativeSession, OpenRequest, OpenedConnection, Probe, Provider, ProviderSettings,
    Transport,
};

/// An ACP agent program, with the settings that start and configure it.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    /// Provider id of the agent.
    pub provider: ProviderId,
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Variables that are added to the program's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Source of the agent's token counts; `None` if the agent is not known to report any. Set per agent because ACP
    /// has no capability for it.
    pub usage_source: Option<CapabilitySource>,
    /// Mode to select once a native session is open, by the agent's own name; `None` selects no mode.
    pub mode: Option<String>,
    /// Mode to select if the agent does not offer `mode`.
    pub fallback_mode: Option<String>,
    /// Model to select, by the agent's own name; `None` selects no model.
    pub model: Option<String>,
    /// Predicate on the version that the agent reports. Returns `true` if a turn of that version that ends normally
    /// without token counts has failed and its last text is the error message.
    pub can_fail_silently: fn(Option<&str>) -> bool,
    /// Command that starts the agent's leash.
    pub leash: LeashCommand,
    /// Version of segue that the handshake reports to the agent.
    pub version: &'static str,
}

/// Creates the provider `id` (`acp:NAME` in the configuration), which drives any agent that speaks ACP.
#[must_use]
pub fn acp_provider(id: &ProviderId, settings: &ProviderSettings, host: &AgentHost) -> Provider {
    let transports = settings.program.iter().map(|program| Transport {
        name: "acp",
        agent: Arc::new(AcpAgent::new(id.clone(), program.clone(), settings, host)),
    });
    Provider::new(id.clone(), transports.collect(), settings.defaults.clone())
}

/// A started agent program after the handshake.
struct AcpProcess {
    client: Client,
    process: AgentProcess,
}

impl AcpAgent {
    /// Creates an agent at `program`, configured by `settings`, without agent-specific behaviour.
    #[must_use]
    pub fn new(
        provider: ProviderId,
        program: PathBuf,
        settings: &ProviderSettings,
        host: &AgentHost,
    ) -> Self {
        Self {
            provider,
            program,
            args: settings.args.iter().map(Into::into).collect(),
            env: settings.environment(),
            usage_source: None,
            mode: settings.mode.clone(),
            fallback_mode: None,
            model: settings.model.clone(),
            can_fail_silently: |_| false,
            leash: host.leash.clone(),
            version: host.version,
        }
    }

    /// Starts the program and completes the handshake. Sends the process identity to `process_sender` as soon as the
    /// process runs.
    async fn connect(
        &self,
        cwd: &Path,
        timeout: Duration,
        process_sender: &watch::Sender<Option<ProcessIdentity>>,
    ) -> Result<AcpProcess, AgentError> {
        if !cwd.is_dir() {
            return Err(AgentError::DirectoryMissing(cwd.to_owned()));
        }
        let program = ProgramSpec {
            path: &self.program,
            args: &self.args,
            env: &self.env,
            cwd,
        };
        let (mut process, stdin, stdout) = AgentProcess::start(&self.leash, &program)
            .map_err(|source| self.not_started_error(source))?;
        process_sender.send_replace(process.identity());
        let handshake = Client::connect(stdout, stdin, self.version);
        match await_response(timeout, HANDSHAKE_OPERATION, handshake, &mut process).await {
            Ok(client) => Ok(AcpProcess { client, process }),
            Err(AgentError::Crashed {
                exit: Exit::Code(CANNOT_START_EXIT_CODE),
                stderr,
                ..
            }) => Err(self.not_started_error(io::Error::other(stderr))),
            Err(error) => {
                process.stop().await;
                Err(error)
            }
        }
    }

    fn not_started_error(&self, source: io::Error) -> AgentError {
        AgentError::not_started(&self.program, source)
    }
}

/// Waits at most `timeout` for `response`. An error contains the error output and the exit status of the process, if
/// available.
async fn await_response<T>(
    timeout: Duration,
    operation: &'static str,
    response: impl Future<Output = Result<T, AcpError>>,
    process: &mut AgentProcess,
) -> Result<T, AgentError> {
    match tokio::time::timeout(timeout, response).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(convert_error(error, operation, process).await),
        Err(_) => Err(AgentError::TimedOut {
            operation,
            after: timeout,
            stderr: process.stderr(),
        }),
    }
}

async fn convert_error(
    error: AcpError,
    operation: &'static str,
    process: &mut AgentProcess,
) -> AgentError {
    match error {
        AcpError::Closed => {
            let exit = process.wait_for_exit().await;
            AgentError::Crashed {
                operation,
                exit,
                stderr: process.stderr(),
            }
        }
        error => AgentError::Refused {
            operation,
            refusal: error.into(),
            stderr: process.stderr(),
        },
    }
}

/// An open native session, and the method that opened it.
struct OpenedAcpSession {
    native_id: NativeId,
    open_mode: OpenMode,
    fallback_reason: Option<String>,
}

impl AcpProcess {
    /// Resumes a native session with the method that the agent advertises: `session/resume`, else `session/load`.
    /// Returns the reason if both fail or the agent advertises neither.
    async fn resume(
        &mut self,
        id: &NativeId,
        request: &OpenRequest,
    ) -> Result<OpenMode, AgentRefusal> {
        let Self { client, process } = self;
        let capabilities = client.capabilities();
        let options = session_options(request);
        let mut last_error = None;
        if capabilities.resume.is_some() {
            let response = client.resume_session(id, options);
            match await_response(request.timeout, "session/resume", response, process).await {
                Ok(()) => return Ok(OpenMode::Resumed),
                Err(error) => last_error = Some(error),
            }
        }
        if capabilities.load.is_some() {
            let response = client.load_session(id, options);
            match await_response(request.timeout, "session/load", response, process).await {
                Ok(()) => return Ok(OpenMode::Loaded),
                Err(error) => last_error = Some(error),
            }
        }
        Err(match last_error {
            Some(error) => AgentRefusal {
                class: match error.class() {
                    // Any other error of the agent also means that it cannot resume this session.
                    FailureClass::Agent | FailureClass::UnparsableOutput => {
                        FailureClass::SessionUnknown
                    }
                    class => class,
                },
                message: error.to_string(),
                retry_after: None,
            },
            None => AgentRefusal::new(
                FailureClass::SessionUnknown,
                "the agent cannot resume earlier sessions",
            ),
        })
    }

    /// Resumes the native session of `request` if possible, else starts a new one. With `request.strict`, a native
    /// session that cannot be resumed is an error.
    async fn open_session(
        &mut self,
        request: &OpenRequest,
    ) -> Result<OpenedAcpSession, AgentError> {
        let mut fallback_reason = None;
        if let Some(id) = &request.native_id {
            match self.resume(id, request).await {
                Ok(open_mode) => {
                    return Ok(OpenedAcpSession {
                        native_id: id.clone(),
                        open_mode,
                        fallback_reason: None,
                    });
                }
                Err(refusal) => {
                    fallback_reason =
                        Some(request.accept_new_session("the resume request", refusal)?);
                }
            }
        }
        let Self { client, process } = self;
        let response = client.new_session(session_options(request));
        let native_id = await_response(request.timeout, "session/new", response, process).await?;
        Ok(OpenedAcpSession {
            native_id,
            open_mode: OpenMode::Fresh,
            fallback_reason,
        })
    }

    /// Selects a mode and a model in the open session. Tries the second mode if the agent does not offer the first. A
    /// resumed session needs this too, because it may have another mode.
    async fn select_mode_and_model(
        &mut self,
        preferred_modes: [Option<&str>; 2],
        model: Option<&str>,
        timeout: Duration,
    ) -> Result<(), AgentError> {
        let Self { client, process } = self;
        if let [Some(mode), fallback] = preferred_modes {
            let selection = async {
                match (client.set_mode(mode).await, fallback) {
                    (Err(AcpError::NotOffered { .. }), Some(mode)) => client.set_mode(mode).await,
                    (result, _) => result,
                }
            };
            await_response(timeout, "the mode selection", selection, process).await?;
        }
        if let Some(model) = model {
            let selection = client.set_model(model);
            await_response(timeout, "the model selection", selection, process).await?;
        }
        Ok(())
    }
}

fn session_options(request: &OpenRequest) -> SessionOptions<'_> {
    SessionOptions {
        cwd: &request.cwd,
        mcp_servers: &request.mcp,
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError> {
        let mut acp_process = self
            .connect(&request.cwd, request.timeout, &request.process_sender)
            .await?;
        let model = request.model.as_deref().or(self.model.as_deref());
        let setup = async {
            let session = acp_process.open_session(request).await?;
            let mode = request.permitted_mode(self.mode.as_deref());
            let preferred_modes = [mode, self.fallback_mode.as_deref()];
            acp_process
                .select_mode_and_model(preferred_modes, model, request.timeout)
                .await?;
            Ok(session)
        };
        match setup.await {
            Ok(session) => {
                let can_fail_silently = (self.can_fail_silently)(acp_process.client.version());
                let connection = AcpConnection {
                    acp_process,
                    native_id: session.native_id,
                    canceller: None,
                    can_fail_silently,
                    last_text: String::new(),
                };
                Ok(OpenedConnection {
                    fallback_reason: session.fallback_reason,
                    ..OpenedConnection::new(connection, session.open_mode)
                })
            }
            Err(error) => {
                acp_process.process.stop().await;
                Err(error)
            }
        }
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let AcpProcess {
            mut client,
            mut process,
        } = self
            .connect(Path::new("/"), timeout, &watch::channel(None).0)
            .await?;
        // The client learns from a response to `session/list` whether the agent can list sessions.
        let response = client.list_sessions(Path::new("/"));
        let _ = await_response(timeout, "session/list", response, &mut process).await;
        let probe = Probe {
            version: client.version().map(str::to_owned),
            capabilities: Capabilities {
                usage: self.usage_source,
                ..client.capabilities()
            },
        };
        drop(client);
        process.stop().await;
        Ok(probe)
    }

    async fn list_sessions(
        &self,
        cwd: &Path,
        timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        let AcpProcess {
            mut client,
            mut process,
        } = self.connect(cwd, timeout, &watch::channel(None).0).await?;
        let response = client.list_sessions(cwd);
        let result = await_response(timeout, "session/list", response, &mut process).await;
        drop(client);
        process.stop().await;
        let listed_sessions = result?.map(|sessions| {
            let sessions = sessions.into_iter().map(|session| ListedNativeSession {
                id: session.id,
                cwd: session.cwd,
                title: session.title,
                updated_at: session.updated_at,
            });
            sessions.collect()
        });
        Ok(listed_sessions)
    }
}

/// A connection to an ACP agent with an open native session.
struct AcpConnection {
    acp_process: AcpProcess,
    native_id: NativeId,
    canceller: Option<Canceller>,
    can_fail_silently: bool,
    /// Text since the last tool call or thought, which may be an error message. Always empty unless
    /// `can_fail_silently`.
    last_text: String,
}

impl AcpConnection {
    fn track_last_text(&mut self, event: &AgentEvent) {
        if !self.can_fail_silently {
            return;
        }
        match event {
            AgentEvent::Text(text) => self.last_text.push_str(text),
            AgentEvent::Tool(_) | AgentEvent::Thought(_) => self.last_text.clear(),
            _ => {}
        }
    }

    /// Returns the end of the turn as the agent reports it, or an error if the agent fails silently and this turn did.
    fn check_turn_end(&mut self, end: TurnEnd) -> Result<TurnEnd, AgentError> {
        // Without token counts, the model was not called or its answer is unknown.
        let has_no_tokens = [end.usage.input_tokens, end.usage.output_tokens]
            .iter()
            .all(|tokens| tokens.unwrap_or(0) == 0);
        if self.can_fail_silently && has_no_tokens && end.reason == StopReason::EndTurn {
            let refusal = error_class::classify_error(None, self.last_text.trim());
            return Err(AgentError::from_refusal("the prompt", refusal));
        }
        Ok(end)
    }
}

#[async_trait]
impl AgentConnection for AcpConnection {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.native_id)
    }

    fn process_identity(&self) -> Option<ProcessIdentity> {
        self.acp_process.process.identity()
    }

    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.last_text.clear();
        let AcpProcess { client, process } = &mut self.acp_process;
        match client.send_prompt(&escape_prompt(prompt)) {
            Ok(canceller) => {
                self.canceller = Some(canceller);
                Ok(())
            }
            Err(error) => Err(convert_error(error, "the prompt", process).await),
        }
    }

    async fn next_event(&mut self) -> ConnectionEvent {
        let AcpProcess { client, process } = &mut self.acp_process;
        let client_event = tokio::select! {
            biased;
            client_event = client.next_event() => client_event,
            // Without its leash the agent could outlive segue, so the turn ends with an error.
            () = process.wait_for_leash_kill() => segue_acp::ClientEvent::TurnEnded(Err(AcpError::Closed)),
        };
        match client_event {
            segue_acp::ClientEvent::AgentEvent(event) => {
                self.track_last_text(&event);
                ConnectionEvent::Event(event)
            }
            segue_acp::ClientEvent::PermissionRequested(request, replier) => {
                ConnectionEvent::PermissionRequested(
                    request,
                    Box::new(move |answer| replier.reply(answer)),
                )
            }
            segue_acp::ClientEvent::TurnEnded(Ok(end)) => {
                ConnectionEvent::TurnEnded(self.check_turn_end(end))
            }
            segue_acp::ClientEvent::TurnEnded(Err(error)) => {
                ConnectionEvent::TurnEnded(Err(convert_error(error, "the prompt", process).await))
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(canceller) = &self.canceller {
            canceller.cancel();
        }
    }

    fn is_alive(&mut self) -> bool {
        !self.acp_process.process.has_ended()
    }

    async fn close(self: Box<Self>) -> Vec<GuardAction> {
        let AcpProcess { client, process } = self.acp_process;
        // The agent exits when its input closes.
        drop(client);
        process.stop().await;
        Vec::new()
    }
}
