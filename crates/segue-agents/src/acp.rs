//! Driver for agents that speak the Agent Client Protocol (ACP) over stdio.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_acp::{AcpError, Canceller, Client, Terms};
use segue_core::agent::{Capabilities, How, ProcessMark};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, FailureClass, Opened, StopReason, TurnEnd};
use tokio::sync::watch;

use crate::classify;
use crate::error::GREETING;
use crate::leash::CANNOT_START;
use crate::process::{AgentProcess, Exit, Leash, Program};
use crate::prompt::as_text;
use crate::{
    Agent, AgentError, Conversation, Host, Listed, OpenRequest, Opening, Probe, Provider, Refusal,
    Settings, Step, Way,
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
    pub usage: Option<How>,
    /// Mode to select once a native session is open, by the agent's own name; `None` selects no mode.
    pub mode: Option<String>,
    /// Mode to select if the agent does not offer `mode`.
    pub mode_otherwise: Option<String>,
    /// Model to select, by the agent's own name; `None` selects no model.
    pub model: Option<String>,
    /// Predicate on the version that the agent reports. Returns `true` if a turn of that version that ends normally
    /// without token counts has failed and its last text is the error message.
    pub fails_silently: fn(Option<&str>) -> bool,
    /// Command that starts the agent's leash.
    pub leash: Leash,
    /// Version of segue that the handshake reports to the agent.
    pub version: &'static str,
}

/// Creates the provider `id` (`acp:NAME` in the configuration), which drives any agent that speaks ACP.
#[must_use]
pub fn acp(id: &ProviderId, settings: &Settings, host: &Host) -> Provider {
    let ways = settings.program.iter().map(|program| Way {
        name: "acp",
        agent: Arc::new(AcpAgent::new(id.clone(), program.clone(), settings, host)),
    });
    Provider::new(id.clone(), ways.collect(), settings.defaults.clone())
}

/// A started agent program after the handshake.
struct Connection {
    client: Client,
    process: AgentProcess,
}

impl AcpAgent {
    /// Creates an agent at `program`, configured by `settings`, without agent-specific behaviour.
    #[must_use]
    pub fn new(provider: ProviderId, program: PathBuf, settings: &Settings, host: &Host) -> Self {
        let env = settings.env.iter();
        Self {
            provider,
            program,
            args: settings.args.iter().map(Into::into).collect(),
            env: env
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            usage: None,
            mode: settings.mode.clone(),
            mode_otherwise: None,
            model: settings.model.clone(),
            fails_silently: |_| false,
            leash: host.leash.clone(),
            version: host.version,
        }
    }

    /// Starts the program and completes the handshake. Sends the process identity to `started` as soon as the process
    /// runs.
    async fn connect(
        &self,
        cwd: &Path,
        timeout: Duration,
        started: &watch::Sender<Option<ProcessMark>>,
    ) -> Result<Connection, AgentError> {
        if !cwd.is_dir() {
            return Err(AgentError::NoDirectory(cwd.to_owned()));
        }
        let program = Program {
            path: &self.program,
            args: &self.args,
            env: &self.env,
            cwd,
        };
        let (mut process, stdin, stdout) = AgentProcess::start(&self.leash, &program)
            .map_err(|source| self.not_started(source))?;
        started.send_replace(process.mark());
        let greeting = Client::connect(stdout, stdin, self.version);
        match answer_in(timeout, GREETING, greeting, &mut process).await {
            Ok(client) => Ok(Connection { client, process }),
            Err(AgentError::Crashed {
                exit: Exit::Code(CANNOT_START),
                stderr,
                ..
            }) => Err(self.not_started(io::Error::other(stderr))),
            Err(error) => {
                process.stop().await;
                Err(error)
            }
        }
    }

    fn not_started(&self, source: io::Error) -> AgentError {
        AgentError::NotStarted {
            program: self.program.display().to_string(),
            source,
        }
    }
}

/// Waits at most `timeout` for `answer`. An error contains the output and the exit status of the process, if available.
async fn answer_in<T>(
    timeout: Duration,
    doing: &'static str,
    answer: impl Future<Output = Result<T, AcpError>>,
    process: &mut AgentProcess,
) -> Result<T, AgentError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(explain(error, doing, process).await),
        Err(_) => Err(AgentError::TimedOut {
            doing,
            after: timeout,
            stderr: process.stderr(),
        }),
    }
}

async fn explain(error: AcpError, doing: &'static str, process: &mut AgentProcess) -> AgentError {
    match error {
        AcpError::Closed => {
            let exit = process.exit().await;
            AgentError::Crashed {
                doing,
                exit,
                stderr: process.stderr(),
            }
        }
        error => AgentError::Refused {
            doing,
            refusal: error.into(),
            stderr: process.stderr(),
        },
    }
}

/// An open native session, and how it was opened.
struct Begun {
    native_id: NativeId,
    opened: Opened,
    why_not: Option<String>,
}

impl Connection {
    /// Resumes a native session with the method that the agent advertises: `session/resume`, else `session/load`.
    /// Returns the reason if both fail or the agent advertises neither.
    async fn go_on(&mut self, id: &NativeId, request: &OpenRequest) -> Result<Opened, Refusal> {
        let Self { client, process } = self;
        let can = client.capabilities();
        let terms = terms(request);
        let mut why = None;
        if can.resume.is_some() {
            let resumed = client.resume_session(id, terms);
            match answer_in(request.timeout, "session/resume", resumed, process).await {
                Ok(()) => return Ok(Opened::Resumed),
                Err(error) => why = Some(error),
            }
        }
        if can.load.is_some() {
            let loaded = client.load_session(id, terms);
            match answer_in(request.timeout, "session/load", loaded, process).await {
                Ok(()) => return Ok(Opened::Loaded),
                Err(error) => why = Some(error),
            }
        }
        Err(match why {
            Some(error) => Refusal {
                class: match error.class() {
                    // Any other error of the agent also means that it cannot resume this session.
                    FailureClass::Agent | FailureClass::NotUnderstood => {
                        FailureClass::SessionUnknown
                    }
                    class => class,
                },
                message: error.to_string(),
                retry_after: None,
            },
            None => Refusal::new(
                FailureClass::SessionUnknown,
                "the agent can't go on with earlier sessions",
            ),
        })
    }

    /// Resumes the native session of `request` if possible, else starts a new one. With `request.strict`, a native
    /// session that cannot be resumed is an error.
    async fn begin(&mut self, request: &OpenRequest) -> Result<Begun, AgentError> {
        let mut why_not = None;
        if let Some(id) = &request.native_id {
            match self.go_on(id, request).await {
                Ok(opened) => {
                    return Ok(Begun {
                        native_id: id.clone(),
                        opened,
                        why_not: None,
                    });
                }
                Err(refusal) if request.strict => {
                    return Err(AgentError::refused("the resume", refusal));
                }
                Err(refusal) => why_not = Some(refusal.message),
            }
        }
        let Self { client, process } = self;
        let made = client.new_session(terms(request));
        let native_id = answer_in(request.timeout, "session/new", made, process).await?;
        Ok(Begun {
            native_id,
            opened: Opened::Fresh,
            why_not,
        })
    }

    /// Selects a mode and a model in the open session. Tries the second mode if the agent does not offer the first. A
    /// resumed session needs this too, because it may have another mode.
    async fn choose(
        &mut self,
        mode: [Option<&str>; 2],
        model: Option<&str>,
        timeout: Duration,
    ) -> Result<(), AgentError> {
        let Self { client, process } = self;
        if let [Some(mode), otherwise] = mode {
            let chosen = async {
                match (client.choose_mode(mode).await, otherwise) {
                    (Err(AcpError::NotOffered { .. }), Some(mode)) => {
                        client.choose_mode(mode).await
                    }
                    (chosen, _) => chosen,
                }
            };
            answer_in(timeout, "the choice of a mode", chosen, process).await?;
        }
        if let Some(model) = model {
            let chosen = client.choose_model(model);
            answer_in(timeout, "the choice of a model", chosen, process).await?;
        }
        Ok(())
    }
}

fn terms(request: &OpenRequest) -> Terms<'_> {
    Terms {
        cwd: &request.cwd,
        mcp: &request.mcp,
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn provider(&self) -> &ProviderId {
        &self.provider
    }

    async fn open(&self, request: &OpenRequest) -> Result<Opening, AgentError> {
        let mut connection = self
            .connect(&request.cwd, request.timeout, &request.started)
            .await?;
        let model = request.model.as_deref().or(self.model.as_deref());
        let begun = async {
            let begun = connection.begin(request).await?;
            let mode = request.mode(self.mode.as_deref());
            let mode = [mode, self.mode_otherwise.as_deref()];
            connection.choose(mode, model, request.timeout).await?;
            Ok(begun)
        };
        match begun.await {
            Ok(begun) => {
                let fails_silently = (self.fails_silently)(connection.client.version());
                let conversation = AcpConversation {
                    connection,
                    native_id: begun.native_id,
                    canceller: None,
                    fails_silently,
                    last_words: String::new(),
                };
                Ok(Opening {
                    why_not: begun.why_not,
                    ..Opening::new(conversation, begun.opened)
                })
            }
            Err(error) => {
                connection.process.stop().await;
                Err(error)
            }
        }
    }

    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError> {
        let Connection {
            mut client,
            mut process,
        } = self
            .connect(Path::new("/"), timeout, &watch::channel(None).0)
            .await?;
        // The client learns from a response to `session/list` whether the agent can list sessions.
        let listed = client.list_sessions(Path::new("/"));
        let _ = answer_in(timeout, "session/list", listed, &mut process).await;
        let probe = Probe {
            version: client.version().map(str::to_owned),
            capabilities: Capabilities {
                usage: self.usage,
                ..client.capabilities()
            },
        };
        drop(client);
        process.stop().await;
        Ok(probe)
    }

    async fn list(&self, cwd: &Path, timeout: Duration) -> Result<Option<Vec<Listed>>, AgentError> {
        let Connection {
            mut client,
            mut process,
        } = self.connect(cwd, timeout, &watch::channel(None).0).await?;
        let listing = client.list_sessions(cwd);
        let listed = answer_in(timeout, "session/list", listing, &mut process).await;
        drop(client);
        process.stop().await;
        let listed = listed?.map(|sessions| {
            let sessions = sessions.into_iter().map(|session| Listed {
                id: session.id,
                cwd: session.cwd,
                title: session.title,
                updated_at: session.updated_at,
            });
            sessions.collect()
        });
        Ok(listed)
    }
}

/// A connection to an ACP agent with an open native session.
struct AcpConversation {
    connection: Connection,
    native_id: NativeId,
    canceller: Option<Canceller>,
    fails_silently: bool,
    /// Text since the last tool call or thought, which may be an error message. Always empty unless `fails_silently`.
    last_words: String,
}

impl AcpConversation {
    fn hear(&mut self, event: &AgentEvent) {
        if !self.fails_silently {
            return;
        }
        match event {
            AgentEvent::Text(words) => self.last_words.push_str(words),
            AgentEvent::Tool(_) | AgentEvent::Thought(_) => self.last_words.clear(),
            _ => {}
        }
    }

    /// Returns the end of the turn as the agent reports it, or an error if the agent fails silently and this turn did.
    fn believe(&mut self, end: TurnEnd) -> Result<TurnEnd, AgentError> {
        // Without token counts, the model was not called or its answer is unknown.
        let nothing = [end.usage.input_tokens, end.usage.output_tokens]
            .iter()
            .all(|tokens| tokens.unwrap_or(0) == 0);
        if self.fails_silently && nothing && end.reason == StopReason::EndTurn {
            let refusal = classify::answer(None, self.last_words.trim());
            return Err(AgentError::refused("the prompt", refusal));
        }
        Ok(end)
    }
}

#[async_trait]
impl Conversation for AcpConversation {
    fn native_id(&self) -> Option<&NativeId> {
        Some(&self.native_id)
    }

    fn process(&self) -> Option<ProcessMark> {
        self.connection.process.mark()
    }

    async fn send(&mut self, prompt: &str) -> Result<(), AgentError> {
        self.last_words.clear();
        let Connection { client, process } = &mut self.connection;
        match client.prompt(&as_text(prompt)) {
            Ok(canceller) => {
                self.canceller = Some(canceller);
                Ok(())
            }
            Err(error) => Err(explain(error, "the prompt", process).await),
        }
    }

    async fn next(&mut self) -> Step {
        let Connection { client, process } = &mut self.connection;
        let step = tokio::select! {
            biased;
            step = client.next() => step,
            // Without its leash the agent could outlive segue, so the turn ends with an error.
            () = process.leash_is_killed() => segue_acp::Step::Done(Err(AcpError::Closed)),
        };
        match step {
            segue_acp::Step::Event(event) => {
                self.hear(&event);
                Step::Event(event)
            }
            segue_acp::Step::Ask(request, replier) => {
                Step::Ask(request, Box::new(move |answer| replier.reply(answer)))
            }
            segue_acp::Step::Done(Ok(end)) => Step::Done(self.believe(end)),
            segue_acp::Step::Done(Err(error)) => {
                Step::Done(Err(explain(error, "the prompt", process).await))
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(canceller) = &self.canceller {
            canceller.cancel();
        }
    }

    fn is_alive(&mut self) -> bool {
        !self.connection.process.has_ended()
    }

    async fn close(self: Box<Self>) -> Vec<String> {
        let Connection { client, process } = self.connection;
        // The agent exits when its input closes.
        drop(client);
        process.stop().await;
        Vec::new()
    }
}
