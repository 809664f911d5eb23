//! The built-in offline agent: a real ACP agent over stdio, without a model.
//!
//! With it, the offline default uses the same code path as any real agent. A script can make it misbehave, for
//! demonstrations and tests (see [`script`]). Its native sessions are its own files, as with any agent. It runs as a
//! separate process; the client calls no function of this module.

mod player;
pub mod script;
mod sessions;

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::Agent;
use agent_client_protocol::v1::schema as acp;
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, Lines};
use jiff::Timestamp;
use segue_core::id::NativeId;
use tokio::io::AsyncBufReadExt;

use player::{Output, Stage};
use sessions::{Conversation, Sessions};

/// Dependencies of the agent.
pub struct Surroundings {
    /// Directory of its session files.
    pub directory: PathBuf,
    /// Creates the id of a new session.
    pub new_id: fn() -> NativeId,
    /// Returns the current time.
    pub now: fn() -> Timestamp,
    /// Fault before the first message; `None` for normal behaviour.
    pub at_start: Option<StartFault>,
}

/// A fault of the agent at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFault {
    /// Never answers `initialize`.
    Silent,
    /// Exits at once with an error.
    Exit,
    /// Advertises the methods for earlier sessions, but has none of them.
    Liar,
}

impl StartFault {
    /// Returns the fault with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "silent" => Some(Self::Silent),
            "exit" => Some(Self::Exit),
            "liar" => Some(Self::Liar),
            _ => None,
        }
    }
}

/// Runs the agent on the standard input and output of this process until the input ends.
pub async fn run(surroundings: Surroundings, version: &str) -> std::io::Result<()> {
    match surroundings.at_start {
        Some(StartFault::Exit) => return Err(std::io::Error::other("told to exit at once")),
        Some(StartFault::Silent) => return std::future::pending().await,
        Some(StartFault::Liar) | None => {}
    }
    let is_liar = surroundings.at_start == Some(StartFault::Liar);
    let (output, writing) = Output::to_stdout();
    let troupe = Arc::new(Troupe {
        sessions: Sessions::new(surroundings),
        output: output.clone(),
        version: version.to_owned(),
        lies: is_liar,
    });
    let lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let incoming = futures::stream::try_unfold(lines, |mut lines| async move {
        Ok(lines.next_line().await?.map(|line| (line, lines)))
    });
    let served = troupe.serve(Lines::new(output.sink(), incoming)).await;
    drop(output);
    drop(troupe);
    writing.await?;
    served.map_err(|error| std::io::Error::other(error.to_string()))
}

/// State of the agent, which exists as long as the process.
struct Troupe {
    sessions: Sessions,
    output: Output,
    version: String,
    lies: bool,
}

impl Troupe {
    async fn serve(
        self: &Arc<Self>,
        transport: impl agent_client_protocol::ConnectTo<Agent> + 'static,
    ) -> Result<(), Error> {
        let (hello, fresh, load, resume, list, prompt, cancel) = (
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
        );
        Agent
            .v1()
            .name("rehearsal")
            .on_receive_request(
                async move |_: acp::InitializeRequest, responder, _| {
                    responder.respond(hello.welcome())
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::NewSessionRequest, responder, _| {
                    let made = fresh.sessions.create(&request.cwd).map_err(failed);
                    responder.respond_with_result(
                        made.map(|id| acp::NewSessionResponse::new(id.to_string())),
                    )
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::LoadSessionRequest, responder, connection| {
                    let known = load.truth().and_then(|()| load.open(&request.session_id));
                    if let Ok(conversation) = &known {
                        replay(conversation, &request.session_id, &connection)?;
                    }
                    responder.respond_with_result(known.map(|_| acp::LoadSessionResponse::new()))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ResumeSessionRequest, responder, _| {
                    let known = resume.truth();
                    let known = known.and_then(|()| resume.open(&request.session_id));
                    responder.respond_with_result(known.map(|_| acp::ResumeSessionResponse::new()))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ListSessionsRequest, responder, _| {
                    let listed = list.truth();
                    let listed = listed.and_then(|()| list.list(request.cwd.as_deref()));
                    responder.respond_with_result(listed)
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::PromptRequest, responder, connection| {
                    prompt.perform(&request, responder, connection)
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_notification(
                async move |notice: acp::CancelNotification, _| {
                    cancel.sessions.cancel(&notice.session_id.0);
                    Ok(())
                },
                agent_client_protocol::on_receive_notification!(),
            )
            .connect_to(transport)
            .await
    }

    fn welcome(&self) -> acp::InitializeResponse {
        let session = acp::SessionCapabilities::new()
            .list(acp::SessionListCapabilities::new())
            .resume(acp::SessionResumeCapabilities::new());
        let capabilities = acp::AgentCapabilities::new()
            .load_session(true)
            .session_capabilities(session);
        acp::InitializeResponse::new(agent_client_protocol::schema::ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(acp::Implementation::new("rehearsal", self.version.clone()))
    }

    /// Checks that the advertised methods exist; fails for [`StartFault::Liar`].
    fn truth(&self) -> Result<(), Error> {
        if self.lies {
            return Err(Error::method_not_found());
        }
        Ok(())
    }

    fn open(&self, id: &acp::SessionId) -> Result<Conversation, Error> {
        let unknown = || {
            let code = agent_client_protocol::ErrorCode::RESOURCE_NOT_FOUND;
            Error::new(code, format!("session not found: {id}"))
        };
        let id = NativeId::parse(&id.0).map_err(|_| unknown())?;
        self.sessions.read(&id).map_err(failed)?.ok_or_else(unknown)
    }

    fn list(&self, cwd: Option<&std::path::Path>) -> Result<acp::ListSessionsResponse, Error> {
        let all = self.sessions.all().map_err(failed)?;
        let entries = all
            .into_iter()
            .filter(|conversation| cwd.is_none_or(|cwd| conversation.cwd == cwd))
            .map(|conversation| {
                acp::SessionInfo::new(conversation.id.to_string(), conversation.cwd.clone())
                    .title(conversation.prompts().next().map(str::to_owned))
                    .updated_at(conversation.updated_at.to_string())
            })
            .collect();
        Ok(acp::ListSessionsResponse::new(entries))
    }

    /// Starts a turn in a separate task, because the connection must stay free to receive a cancellation.
    fn perform(
        self: &Arc<Self>,
        request: &acp::PromptRequest,
        responder: Responder<acp::PromptResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let conversation = match self.open(&request.session_id) {
            Ok(conversation) => conversation,
            Err(unknown) => return responder.respond_with_error(unknown),
        };
        let prompt: String = request
            .prompt
            .iter()
            .filter_map(|block| match block {
                acp::ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        let troupe = Arc::clone(self);
        connection.clone().spawn(async move {
            let cancelled = troupe.sessions.begin_turn(&conversation.id);
            let stage = Stage::new(&troupe.sessions, conversation, connection, &troupe.output);
            let ended = tokio::select! {
                ended = stage.play(&prompt) => ended,
                () = cancelled.notified() => Ok(acp::PromptResponse::new(acp::StopReason::Cancelled)),
            };
            responder.respond_with_result(ended)
        })
    }
}

fn replay(
    conversation: &Conversation,
    id: &acp::SessionId,
    connection: &ConnectionTo<Client>,
) -> Result<(), Error> {
    for (by_user, text) in &conversation.messages {
        let chunk =
            acp::ContentChunk::new(acp::ContentBlock::Text(acp::TextContent::new(text.clone())));
        let update = if *by_user {
            acp::SessionUpdate::UserMessageChunk(chunk)
        } else {
            acp::SessionUpdate::AgentMessageChunk(chunk)
        };
        connection.send_notification(acp::SessionNotification::new(id.clone(), update))?;
    }
    Ok(())
}

fn failed(error: impl Into<Box<dyn std::error::Error>>) -> Error {
    Error::new(
        agent_client_protocol::ErrorCode::INTERNAL_ERROR,
        error.into().to_string(),
    )
}
