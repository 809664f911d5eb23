//! Any agent that speaks the Agent Client Protocol over stdio.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use segue_acp::{AcpError, Canceller, Client, Terms};
use segue_core::{
    AgentEvent, Capabilities, FailureClass, How, NativeId, Opened, ProcessMark, ProviderId,
    StopReason, TurnEnd,
};
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

/// An agent program, and how to start it.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    /// Its name.
    pub provider: ProviderId,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What is added to its environment.
    pub env: Vec<(OsString, OsString)>,
    /// Whether it is known to report what its turns use; the protocol has no way to advertise it.
    pub usage: Option<How>,
    /// The mode it is put into once a conversation is open, by its own name.
    pub mode: Option<String>,
    /// The mode it is put into where it does not offer that one.
    pub mode_otherwise: Option<String>,
    /// The model it is told to use, by its own name.
    pub model: Option<String>,
    /// Whether, in the version it says it is, a turn that ends well without figures is one that failed, its error
    /// being the last words.
    pub fails_silently: fn(Option<&str>) -> bool,
    /// How its leash is started.
    pub leash: Leash,
    /// Our own version, as we introduce ourselves.
    pub version: &'static str,
}

/// How to drive any agent that speaks the protocol, as `acp:NAME` of the configuration.
#[must_use]
pub fn acp(id: &ProviderId, settings: &Settings, host: &Host) -> Provider {
    let ways = settings.program.iter().map(|program| Way {
        name: "acp",
        agent: Arc::new(AcpAgent::new(id.clone(), program.clone(), settings, host)),
    });
    Provider::new(id.clone(), ways.collect(), settings.defaults.clone())
}

/// A started program, greeted or not.
struct Connection {
    client: Client,
    process: AgentProcess,
}

impl AcpAgent {
    /// An agent at `program`, configured by `settings`, that has no peculiarities.
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

    /// Starts the program and greets it; `started` is told as soon as there is a process.
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

/// Waits for an answer, and explains why there is none.
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

/// A native session that is open, and how it was.
struct Begun {
    native_id: NativeId,
    opened: Opened,
    why_not: Option<String>,
}

impl Connection {
    /// Goes on with a native session by what the agent advertises; `Err` says why it can't be.
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
                    // Whatever went wrong in it, it does not know the session.
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

    /// Goes on with a native session where asked to and where it can be done, else begins a new one.
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

    /// Has the open session work in the first mode or else the second, and with a model; a session that was resumed may be in another one.
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
        // Whether it can list is known once it was asked to.
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

/// A conversation with such an agent.
struct AcpConversation {
    connection: Connection,
    native_id: NativeId,
    canceller: Option<Canceller>,
    fails_silently: bool,
    /// The words that came last, where they may be an error.
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

    /// What the agent calls the end of a turn is believed, unless it is known to be one that fails like this.
    fn believe(&mut self, end: TurnEnd) -> Result<TurnEnd, AgentError> {
        // The model was not asked, or nobody knows what it answered.
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
            // Without its leash the agent could outlive us, so the turn ends here.
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
        // Closes the agent's input, which tells it to end.
        drop(client);
        process.stop().await;
        Vec::new()
    }
}
