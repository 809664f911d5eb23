//! A connection to one agent over a pair of byte streams.

use std::io;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema as acp;
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client as ClientRole, Error as ProtocolError, JsonRpcRequest, Lines,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use segue_core::agent::{
    Capabilities, How, PermissionAnswer, PermissionKind, PermissionOption, PermissionRequest,
};
use segue_core::session::{AgentEvent, StopReason, TurnEnd, Usage};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::AcpError;
use crate::incoming::{self, Incoming};
use crate::session::Choices;
use crate::tool_calls::ToolCalls;
use crate::update;

/// Maximum number of updates in the channel; the agent must wait while it is full.
const WAITING: usize = 256;

/// Silence after which the replay of an agent counts as complete.
// The protocol has no other sign. The adapters of Claude and Codex replay everything before they answer the load.
// Gemini CLI (0.61.0) starts the replay and answers at once. It has all messages in memory and writes them one after
// the other, so a pause means the end. The commands that it announces arrive at some point in between, and so would the
// answer to another request.
const SILENCE: Duration = Duration::from_millis(100);

/// Next event of a turn.
#[derive(Debug)]
pub enum Step {
    /// An event from the agent.
    Event(AgentEvent),
    /// A permission request; the agent waits for the reply.
    Ask(PermissionRequest, Replier),
    /// The end of the turn.
    Done(Result<TurnEnd, AcpError>),
}

/// Answers one permission request. If it is dropped without a reply, the agent receives an error.
#[derive(Debug)]
pub struct Replier(Box<Asked>);

impl Replier {
    /// Sends the answer to the agent.
    pub fn reply(self, answer: PermissionAnswer) {
        let outcome = match answer {
            PermissionAnswer::Choose(id) => {
                acp::RequestPermissionOutcome::Selected(acp::SelectedPermissionOutcome::new(id))
            }
            PermissionAnswer::Cancelled => acp::RequestPermissionOutcome::Cancelled,
        };
        // If the agent has ended, the end of the turn reports it.
        let _ = self
            .0
            .responder
            .respond(acp::RequestPermissionResponse::new(outcome));
    }
}

/// Requests that the agent stops the running turn.
#[derive(Debug, Clone)]
pub struct Canceller {
    connection: ConnectionTo<Agent>,
    session: acp::SessionId,
}

impl Canceller {
    /// Sends the request. Output of the agent until it stops belongs to the turn.
    pub fn cancel(&self) {
        // If the agent has ended, the end of the turn reports it.
        let _ = self
            .connection
            .send_notification(acp::CancelNotification::new(self.session.clone()));
    }
}

/// A permission request with its responder.
#[derive(Debug)]
struct Asked {
    request: acp::RequestPermissionRequest,
    responder: Responder<acp::RequestPermissionResponse>,
}

/// Output of the agent that is not a response: an update or a permission request.
enum Arrival {
    Line(Incoming),
    Asked(Box<Asked>),
}

/// An agent at the other end of a connection.
pub struct Client {
    connection: ConnectionTo<Agent>,
    arrivals: Arrivals,
    pub(crate) capabilities: Capabilities,
    /// Whether the agent can connect to MCP servers over HTTP.
    pub(crate) takes_http: bool,
    pub(crate) choices: Choices,
    version: Option<String>,
    pub(crate) session: Option<acp::SessionId>,
    turn: Option<Turn>,
    calls: ToolCalls,
    _stop: oneshot::Sender<()>,
    driver: JoinHandle<()>,
}

struct Arrivals {
    lines: mpsc::Receiver<Incoming>,
    asks: mpsc::UnboundedReceiver<Box<Asked>>,
}

impl Arrivals {
    /// Waits for the next arrival. Lines have priority, because a permission request may refer to a call that they
    /// announced. `None` if the connection is closed.
    async fn next(&mut self) -> Option<Arrival> {
        tokio::select! {
            biased;
            Some(line) = self.lines.recv() => Some(Arrival::Line(line)),
            Some(asked) = self.asks.recv() => Some(Arrival::Asked(asked)),
            else => None,
        }
    }

    /// Returns the next arrival if it is already queued; `None` if the queues are empty.
    fn now(&mut self) -> Option<Arrival> {
        let line = self.lines.try_recv().ok().map(Arrival::Line);
        line.or_else(|| self.asks.try_recv().ok().map(Arrival::Asked))
    }
}

/// Answer of the agent to a prompt.
type Answer = Result<acp::PromptResponse, ProtocolError>;

enum Turn {
    UnderWay(BoxFuture<'static, Answer>),
    Answered(Box<Answer>),
}

impl Client {
    /// Connects to an agent and negotiates the protocol.
    pub async fn connect(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        version: &str,
    ) -> Result<Self, AcpError> {
        let (line_sender, lines) = mpsc::channel(WAITING);
        let (ask_sender, asks) = mpsc::unbounded_channel();
        let transport = Lines::new(line_sink(input), incoming::messages(output, line_sender));
        let (connected, connection) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let driver = tokio::spawn(async move {
            let served = ClientRole
                .v1()
                .name("segue")
                .on_receive_request(
                    async move |request: acp::RequestPermissionRequest, responder, _connection| {
                        // Sending fails if the client no longer exists. The responder is then dropped and answers with
                        // an error.
                        let _ = ask_sender.send(Box::new(Asked { request, responder }));
                        Ok(())
                    },
                    agent_client_protocol::on_receive_request!(),
                )
                .connect_with(transport, async move |connection: ConnectionTo<Agent>| {
                    let _ = connected.send(connection);
                    let _ = stopped.await;
                    Ok(())
                });
            // A caller that waits for an answer receives the reason why the connection ended.
            let _ = served.await;
        });
        let mut client = Self {
            connection: connection.await.map_err(|_| AcpError::Closed)?,
            arrivals: Arrivals { lines, asks },
            capabilities: Capabilities::default(),
            takes_http: false,
            choices: Choices::default(),
            version: None,
            session: None,
            turn: None,
            calls: ToolCalls::default(),
            _stop: stop,
            driver,
        };
        // Without this capability an agent may not report that it compacted its context.
        let session =
            acp::ClientSessionCapabilities::new().compaction(acp::CompactionCapabilities::new());
        let hello = acp::InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(acp::ClientCapabilities::new().session(session))
            .client_info(acp::Implementation::new("segue", version));
        let welcome = client.request(hello).await?;
        client.capabilities = capabilities(&welcome.agent_capabilities);
        client.takes_http = welcome.agent_capabilities.mcp_capabilities.http;
        client.version = welcome.agent_info.map(|info| info.version);
        Ok(client)
    }

    /// Returns the capabilities that the agent advertised, without those that its answers disproved.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns the version of the agent; `None` if it did not report one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Sends a prompt. [`Client::next`] then returns the events of the turn.
    pub fn prompt(&mut self, text: &str) -> Result<Canceller, AcpError> {
        let session = self.session.clone().ok_or(AcpError::Closed)?;
        let block = acp::ContentBlock::Text(acp::TextContent::new(text));
        let request = acp::PromptRequest::new(session.clone(), vec![block]);
        // The remainder of a replay does not belong to this turn.
        while self.arrivals.now().is_some() {}
        self.calls.clear();
        self.turn = Some(Turn::UnderWay(
            self.connection.send_request(request).block_task().boxed(),
        ));
        Ok(Canceller {
            connection: self.connection.clone(),
            session,
        })
    }

    /// Returns the next event of the turn. Cancel-safe: the caller may drop the future and call this again.
    pub async fn next(&mut self) -> Step {
        loop {
            let Some(turn) = &mut self.turn else {
                return Step::Done(Err(AcpError::Closed));
            };
            let arrival = match turn {
                Turn::UnderWay(answer) => tokio::select! {
                    biased;
                    Some(arrival) = self.arrivals.next() => Some(arrival),
                    answered = answer => {
                        *turn = Turn::Answered(Box::new(answered));
                        None
                    }
                },
                // Output that the agent sent before the answer is already queued, and is returned first.
                Turn::Answered(_) => match self.arrivals.now() {
                    Some(arrival) => Some(arrival),
                    None => return Step::Done(self.take_answer()),
                },
            };
            if let Some(step) = arrival.and_then(|arrival| self.step(arrival)) {
                return step;
            }
        }
    }

    fn take_answer(&mut self) -> Result<TurnEnd, AcpError> {
        match self.turn.take() {
            Some(Turn::Answered(answer)) => Ok(turn_end(&(*answer)?)),
            Some(Turn::UnderWay(_)) | None => Err(AcpError::Closed),
        }
    }

    fn step(&mut self, arrival: Arrival) -> Option<Step> {
        match arrival {
            Arrival::Line(line) => update::translate(line, &mut self.calls).map(Step::Event),
            Arrival::Asked(asked) => {
                let question = asked.request.tool_call.clone();
                let request = PermissionRequest {
                    call: self.calls.changed(&question.tool_call_id, question.fields),
                    options: asked.request.options.iter().map(option).collect(),
                };
                Some(Step::Ask(request, Replier(asked)))
            }
        }
    }

    /// Waits until the agent has ended its replay. Gemini CLI answers a load before that, and the remainder of the
    /// replay would be taken for the answer to the next prompt.
    pub(crate) async fn pass_over_replay(&mut self) {
        while let Ok(Some(_)) = tokio::time::timeout(SILENCE, self.arrivals.next()).await {}
    }

    /// Sends a request and waits for its answer. Discards everything else that arrives.
    pub(crate) async fn request<R: JsonRpcRequest>(
        &mut self,
        request: R,
    ) -> Result<R::Response, AcpError> {
        let mut answer = std::pin::pin!(self.connection.send_request(request).block_task());
        loop {
            tokio::select! {
                biased;
                answered = &mut answer => return Ok(answered?),
                Some(_) = self.arrivals.next() => {}
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn line_sink(
    input: impl AsyncWrite + Send + Unpin + 'static,
) -> impl futures::Sink<String, Error = io::Error> + Send + 'static {
    futures::sink::unfold(input, |mut input, mut line: String| async move {
        line.push('\n');
        input.write_all(line.as_bytes()).await?;
        input.flush().await?;
        Ok(input)
    })
}

fn capabilities(agent: &acp::AgentCapabilities) -> Capabilities {
    let protocol = |offered: bool| offered.then_some(How::Protocol);
    let session = &agent.session_capabilities;
    let list = protocol(session.list.is_some());
    let resume = protocol(session.resume.is_some());
    let load = protocol(agent.load_session);
    Capabilities {
        list,
        load,
        resume,
        continue_last: list.and(resume.or(load)),
        fork: protocol(session.fork.is_some()),
        delete: protocol(session.delete.is_some()),
        cancel: Some(How::Protocol),
        // A session reports its modes and models when it is opened, not before.
        modes: None,
        models: None,
        // The protocol does not advertise usage; the first turn that reports it shows that the agent can.
        usage: None,
        mcp: Some(How::Protocol),
    }
}

fn option(option: &acp::PermissionOption) -> PermissionOption {
    PermissionOption {
        id: option.option_id.to_string(),
        name: option.name.clone(),
        kind: match option.kind {
            acp::PermissionOptionKind::AllowOnce => PermissionKind::AllowOnce,
            acp::PermissionOptionKind::AllowAlways => PermissionKind::AllowAlways,
            acp::PermissionOptionKind::RejectAlways => PermissionKind::RejectAlways,
            // An option kind of a later protocol version must not be taken for consent.
            _ => PermissionKind::RejectOnce,
        },
    }
}

fn turn_end(answer: &acp::PromptResponse) -> TurnEnd {
    let reason = match answer.stop_reason {
        acp::StopReason::EndTurn => StopReason::EndTurn,
        acp::StopReason::Refusal => StopReason::Refusal,
        acp::StopReason::Cancelled => StopReason::Cancelled,
        _ => StopReason::Limit,
    };
    let usage = answer.usage.as_ref().map(counted);
    let usage = usage.or_else(|| quota(answer.meta.as_ref()?));
    let usage = usage.unwrap_or_default();
    TurnEnd { reason, usage }
}

fn counted(usage: &acp::Usage) -> Usage {
    let cached_read = usage.cached_read_tokens.unwrap_or(0);
    let cached_write = usage.cached_write_tokens.unwrap_or(0);
    // The protocol counts cached input separately; segue includes it in the input.
    let input = usage
        .input_tokens
        .saturating_add(cached_read)
        .saturating_add(cached_write);
    Usage {
        input_tokens: plausible(input),
        output_tokens: plausible(usage.output_tokens),
        cached_tokens: usage.cached_read_tokens.and_then(plausible),
        total_tokens: plausible(usage.total_tokens),
        ..Usage::default()
    }
}

/// Reads the usage from `_meta`, where agents reported it before the protocol had a field for it. `None` if it is
/// missing or the input count is 0.
fn quota(meta: &acp::Meta) -> Option<Usage> {
    let count = meta.get("quota")?.get("token_count")?;
    let tokens = |name: &str| count.get(name)?.as_u64().and_then(plausible);
    let (input, output) = (tokens("input_tokens")?, tokens("output_tokens")?);
    (input > 0).then(|| Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        total_tokens: Some(input + output),
        ..Usage::default()
    })
}

/// Returns the count if it is plausible; `None` if it exceeds 10^12, so that an invalid count is unknown instead of
/// being added up.
pub(crate) fn plausible(tokens: u64) -> Option<u64> {
    (tokens <= 1_000_000_000_000).then_some(tokens)
}
