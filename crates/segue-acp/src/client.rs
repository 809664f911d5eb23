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
    Capabilities, CapabilitySource, PermissionAnswer, PermissionKind, PermissionOption,
    PermissionRequest,
};
use segue_core::session::{AgentEvent, StopReason, TurnEnd, Usage};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::AcpError;
use crate::incoming::{self, Incoming};
use crate::session::SessionChoices;
use crate::tool_calls::ToolCalls;
use crate::update;

/// Maximum number of updates in the channel; the agent must wait while it is full.
const MAX_QUEUED_UPDATES: usize = 256;

/// Silence after which the replay of an agent counts as complete.
// The protocol has no other sign. The adapters of Claude and Codex replay everything before they answer the load.
// Gemini CLI (0.61.0) starts the replay and answers at once. It has all messages in memory and writes them one after
// the other, so a pause means the end. The commands that it announces arrive at some point in between, and so would the
// answer to another request.
const REPLAY_IDLE_TIMEOUT: Duration = Duration::from_millis(100);

/// Next event of a turn.
#[derive(Debug)]
pub enum ClientEvent {
    /// An event from the agent.
    AgentEvent(AgentEvent),
    /// A permission request; the agent waits for the reply.
    PermissionRequested(PermissionRequest, PermissionReplier),
    /// The end of the turn.
    TurnEnded(Result<TurnEnd, AcpError>),
}

/// Answers one permission request. If it is dropped without a reply, the agent receives an error.
#[derive(Debug)]
pub struct PermissionReplier(Box<PendingPermission>);

impl PermissionReplier {
    /// Sends the answer to the agent.
    pub fn reply(self, answer: PermissionAnswer) {
        let outcome = match answer {
            PermissionAnswer::Selected(id) => {
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
struct PendingPermission {
    request: acp::RequestPermissionRequest,
    responder: Responder<acp::RequestPermissionResponse>,
}

/// Output of the agent that is not a response: an update or a permission request.
enum AgentOutput {
    Update(Incoming),
    Permission(Box<PendingPermission>),
}

/// An agent at the other end of a connection.
pub struct Client {
    connection: ConnectionTo<Agent>,
    agent_output: AgentOutputQueue,
    pub(crate) capabilities: Capabilities,
    /// Whether the agent can connect to MCP servers over HTTP.
    pub(crate) accepts_http_servers: bool,
    pub(crate) choices: SessionChoices,
    version: Option<String>,
    pub(crate) session: Option<acp::SessionId>,
    turn: Option<PendingTurn>,
    tool_calls: ToolCalls,
    _stop_sender: oneshot::Sender<()>,
    driver: JoinHandle<()>,
}

struct AgentOutputQueue {
    updates: mpsc::Receiver<Incoming>,
    permissions: mpsc::UnboundedReceiver<Box<PendingPermission>>,
}

impl AgentOutputQueue {
    /// Waits for the next output. Updates have priority, because a permission request may refer to a call that they
    /// announced. `None` if the connection is closed.
    async fn recv(&mut self) -> Option<AgentOutput> {
        tokio::select! {
            biased;
            Some(update) = self.updates.recv() => Some(AgentOutput::Update(update)),
            Some(permission) = self.permissions.recv() => Some(AgentOutput::Permission(permission)),
            else => None,
        }
    }

    /// Returns the next output if it is already queued; `None` if the queues are empty.
    fn try_recv(&mut self) -> Option<AgentOutput> {
        let update = self.updates.try_recv().map(AgentOutput::Update);
        let permission = |_| self.permissions.try_recv().map(AgentOutput::Permission);
        update.or_else(permission).ok()
    }
}

/// Answer of the agent to a prompt.
type PromptResult = Result<acp::PromptResponse, ProtocolError>;

enum PendingTurn {
    Running(BoxFuture<'static, PromptResult>),
    Answered(Box<PromptResult>),
}

impl Client {
    /// Connects to an agent and negotiates the protocol.
    pub async fn connect(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        version: &str,
    ) -> Result<Self, AcpError> {
        let (update_sender, updates) = mpsc::channel(MAX_QUEUED_UPDATES);
        let (permission_sender, permissions) = mpsc::unbounded_channel();
        let transport = Lines::new(
            line_sink(input),
            incoming::read_messages(output, update_sender),
        );
        let (connection_sender, connection) = oneshot::channel();
        let (stop_sender, stop_receiver) = oneshot::channel::<()>();
        let driver = tokio::spawn(async move {
            let serving = ClientRole
                .v1()
                .name("segue")
                .on_receive_request(
                    async move |request: acp::RequestPermissionRequest, responder, _connection| {
                        // Sending fails if the client no longer exists. The responder is then dropped and answers with
                        // an error.
                        let _ = permission_sender
                            .send(Box::new(PendingPermission { request, responder }));
                        Ok(())
                    },
                    agent_client_protocol::on_receive_request!(),
                )
                .connect_with(transport, async move |connection: ConnectionTo<Agent>| {
                    let _ = connection_sender.send(connection);
                    let _ = stop_receiver.await;
                    Ok(())
                });
            // A caller that waits for an answer receives the reason why the connection ended.
            let _ = serving.await;
        });
        let mut client = Self {
            connection: connection.await.map_err(|_| AcpError::Closed)?,
            agent_output: AgentOutputQueue {
                updates,
                permissions,
            },
            capabilities: Capabilities::default(),
            accepts_http_servers: false,
            choices: SessionChoices::default(),
            version: None,
            session: None,
            turn: None,
            tool_calls: ToolCalls::default(),
            _stop_sender: stop_sender,
            driver,
        };
        // Without this capability an agent may not report that it compacted its context.
        let session =
            acp::ClientSessionCapabilities::new().compaction(acp::CompactionCapabilities::new());
        let initialize_request = acp::InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(acp::ClientCapabilities::new().session(session))
            .client_info(acp::Implementation::new("segue", version));
        let initialize_response = client.request(initialize_request).await?;
        client.capabilities = translate_capabilities(&initialize_response.agent_capabilities);
        client.accepts_http_servers = initialize_response.agent_capabilities.mcp_capabilities.http;
        client.version = initialize_response.agent_info.map(|info| info.version);
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

    /// Sends a prompt. [`Client::next_event`] then returns the events of the turn.
    pub fn send_prompt(&mut self, text: &str) -> Result<Canceller, AcpError> {
        let session = self.session.clone().ok_or(AcpError::Closed)?;
        let block = acp::ContentBlock::Text(acp::TextContent::new(text));
        let request = acp::PromptRequest::new(session.clone(), vec![block]);
        // The remainder of a replay does not belong to this turn.
        while self.agent_output.try_recv().is_some() {}
        self.tool_calls.clear();
        self.turn = Some(PendingTurn::Running(
            self.connection.send_request(request).block_task().boxed(),
        ));
        Ok(Canceller {
            connection: self.connection.clone(),
            session,
        })
    }

    /// Returns the next event of the turn. Cancel-safe: the caller may drop the future and call this again.
    pub async fn next_event(&mut self) -> ClientEvent {
        loop {
            let Some(turn) = &mut self.turn else {
                return ClientEvent::TurnEnded(Err(AcpError::Closed));
            };
            let item = match turn {
                PendingTurn::Running(response) => tokio::select! {
                    biased;
                    Some(item) = self.agent_output.recv() => Some(item),
                    result = response => {
                        *turn = PendingTurn::Answered(Box::new(result));
                        None
                    }
                },
                // Output that the agent sent before the answer is already queued, and is returned first.
                PendingTurn::Answered(_) => match self.agent_output.try_recv() {
                    Some(item) => Some(item),
                    None => return ClientEvent::TurnEnded(self.take_turn_end()),
                },
            };
            if let Some(event) = item.and_then(|item| self.translate_output(item)) {
                return event;
            }
        }
    }

    fn take_turn_end(&mut self) -> Result<TurnEnd, AcpError> {
        match self.turn.take() {
            Some(PendingTurn::Answered(result)) => Ok(translate_turn_end(&(*result)?)),
            Some(PendingTurn::Running(_)) | None => Err(AcpError::Closed),
        }
    }

    fn translate_output(&mut self, item: AgentOutput) -> Option<ClientEvent> {
        match item {
            AgentOutput::Update(update) => {
                update::translate_update(update, &mut self.tool_calls).map(ClientEvent::AgentEvent)
            }
            AgentOutput::Permission(permission) => {
                let tool_call = permission.request.tool_call.clone();
                let request = PermissionRequest {
                    call: self
                        .tool_calls
                        .apply_update(&tool_call.tool_call_id, tool_call.fields),
                    options: permission
                        .request
                        .options
                        .iter()
                        .map(translate_permission_option)
                        .collect(),
                };
                Some(ClientEvent::PermissionRequested(
                    request,
                    PermissionReplier(permission),
                ))
            }
        }
    }

    /// Waits until the agent has ended its replay. Gemini CLI answers a load before that, and the remainder of the
    /// replay would be taken for the answer to the next prompt.
    pub(crate) async fn discard_replay(&mut self) {
        while let Ok(Some(_)) =
            tokio::time::timeout(REPLAY_IDLE_TIMEOUT, self.agent_output.recv()).await
        {}
    }

    /// Sends a request and waits for its answer. Discards everything else that arrives.
    pub(crate) async fn request<R: JsonRpcRequest>(
        &mut self,
        request: R,
    ) -> Result<R::Response, AcpError> {
        let mut response = std::pin::pin!(self.connection.send_request(request).block_task());
        loop {
            tokio::select! {
                biased;
                result = &mut response => return Ok(result?),
                Some(_) = self.agent_output.recv() => {}
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

fn translate_capabilities(advertised: &acp::AgentCapabilities) -> Capabilities {
    let via_protocol = |offered: bool| offered.then_some(CapabilitySource::Protocol);
    let session = &advertised.session_capabilities;
    let list = via_protocol(session.list.is_some());
    let resume = via_protocol(session.resume.is_some());
    let load = via_protocol(advertised.load_session);
    Capabilities {
        list,
        load,
        resume,
        continue_last: list.and(resume.or(load)),
        fork: via_protocol(session.fork.is_some()),
        delete: via_protocol(session.delete.is_some()),
        cancel: Some(CapabilitySource::Protocol),
        // A session reports its modes and models when it is opened, not before.
        modes: None,
        models: None,
        // The protocol does not advertise usage; the first turn that reports it shows that the agent can.
        usage: None,
        mcp: Some(CapabilitySource::Protocol),
    }
}

fn translate_permission_option(option: &acp::PermissionOption) -> PermissionOption {
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

fn translate_turn_end(response: &acp::PromptResponse) -> TurnEnd {
    let reason = match response.stop_reason {
        acp::StopReason::EndTurn => StopReason::EndTurn,
        acp::StopReason::Refusal => StopReason::Refusal,
        acp::StopReason::Cancelled => StopReason::Cancelled,
        _ => StopReason::Limit,
    };
    let usage = response.usage.as_ref().map(translate_usage);
    let usage = usage.or_else(|| usage_from_meta(response.meta.as_ref()?));
    let usage = usage.unwrap_or_default();
    TurnEnd { reason, usage }
}

fn translate_usage(usage: &acp::Usage) -> Usage {
    let cached_read = usage.cached_read_tokens.unwrap_or(0);
    let cached_write = usage.cached_write_tokens.unwrap_or(0);
    // The protocol counts cached input separately; segue includes it in the input.
    let input = usage
        .input_tokens
        .saturating_add(cached_read)
        .saturating_add(cached_write);
    Usage {
        input_tokens: plausible_tokens(input),
        output_tokens: plausible_tokens(usage.output_tokens),
        cached_tokens: usage.cached_read_tokens.and_then(plausible_tokens),
        total_tokens: plausible_tokens(usage.total_tokens),
        ..Usage::default()
    }
}

/// Reads the usage from `_meta`, where agents reported it before the protocol had a field for it. `None` if it is
/// missing or the input count is 0.
fn usage_from_meta(meta: &acp::Meta) -> Option<Usage> {
    let count = meta.get("quota")?.get("token_count")?;
    let tokens = |name: &str| count.get(name)?.as_u64().and_then(plausible_tokens);
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
pub(crate) fn plausible_tokens(tokens: u64) -> Option<u64> {
    (tokens <= 1_000_000_000_000).then_some(tokens)
}
