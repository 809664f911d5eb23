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

use player::{StdoutWriter, TurnPlayer, text_chunk};
use sessions::{RehearsalSession, RehearsalSessions};

/// Dependencies of the agent.
pub struct RehearsalEnvironment {
    /// Directory of its session files.
    pub sessions_dir: PathBuf,
    /// Creates the id of a new session.
    pub new_id: fn() -> NativeId,
    /// Returns the current time.
    pub now: fn() -> Timestamp,
    /// Fault before the first message; `None` for normal behaviour.
    pub start_fault: Option<StartFault>,
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
pub async fn run(environment: RehearsalEnvironment, version: &str) -> std::io::Result<()> {
    match environment.start_fault {
        Some(StartFault::Exit) => {
            return Err(std::io::Error::other(
                "exited because of the start fault `exit`",
            ));
        }
        Some(StartFault::Silent) => return std::future::pending().await,
        Some(StartFault::Liar) | None => {}
    }
    let (output, writer_task) = StdoutWriter::spawn();
    let server = Arc::new(RehearsalServer {
        sessions: RehearsalSessions::new(environment),
        output: output.clone(),
        version: version.to_owned(),
    });
    let lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let incoming = futures::stream::try_unfold(lines, |mut lines| async move {
        Ok(lines.next_line().await?.map(|line| (line, lines)))
    });
    let result = server.serve(Lines::new(output.line_sink(), incoming)).await;
    drop(output);
    drop(server);
    writer_task.await?;
    result.map_err(|error| std::io::Error::other(error.to_string()))
}

/// State of the agent, which exists as long as the process.
struct RehearsalServer {
    sessions: RehearsalSessions,
    output: StdoutWriter,
    version: String,
}

impl RehearsalServer {
    async fn serve(
        self: &Arc<Self>,
        transport: impl agent_client_protocol::ConnectTo<Agent> + 'static,
    ) -> Result<(), Error> {
        let [initialize, create, load, resume, list, prompt, cancel] =
            std::array::from_fn(|_| Arc::clone(self));
        Agent
            .v1()
            .name("rehearsal")
            .on_receive_request(
                async move |_: acp::InitializeRequest, responder, _| {
                    responder.respond(initialize.initialize_response())
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::NewSessionRequest, responder, _| {
                    let created = create
                        .sessions
                        .create_session(&request.cwd)
                        .map_err(internal_error);
                    responder.respond_with_result(
                        created.map(|id| acp::NewSessionResponse::new(id.to_string())),
                    )
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::LoadSessionRequest, responder, connection| {
                    let session = load
                        .check_advertised_methods()
                        .and_then(|()| load.open_session(&request.session_id));
                    if let Ok(session) = &session {
                        send_replay(session, &request.session_id, &connection)?;
                    }
                    responder.respond_with_result(session.map(|_| acp::LoadSessionResponse::new()))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ResumeSessionRequest, responder, _| {
                    let session = resume.check_advertised_methods();
                    let session = session.and_then(|()| resume.open_session(&request.session_id));
                    responder
                        .respond_with_result(session.map(|_| acp::ResumeSessionResponse::new()))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::ListSessionsRequest, responder, _| {
                    let listed = list.check_advertised_methods();
                    let listed = listed.and_then(|()| list.list_sessions(request.cwd.as_deref()));
                    responder.respond_with_result(listed)
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_request(
                async move |request: acp::PromptRequest, responder, connection| {
                    prompt.start_turn(&request, responder, connection)
                },
                agent_client_protocol::on_receive_request!(),
            )
            .on_receive_notification(
                async move |notification: acp::CancelNotification, _| {
                    cancel.sessions.cancel_turn(&notification.session_id.0);
                    Ok(())
                },
                agent_client_protocol::on_receive_notification!(),
            )
            .connect_to(transport)
            .await
    }

    fn initialize_response(&self) -> acp::InitializeResponse {
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
    fn check_advertised_methods(&self) -> Result<(), Error> {
        if self.sessions.environment.start_fault == Some(StartFault::Liar) {
            return Err(Error::method_not_found());
        }
        Ok(())
    }

    fn open_session(&self, id: &acp::SessionId) -> Result<RehearsalSession, Error> {
        let unknown = || {
            let code = agent_client_protocol::ErrorCode::RESOURCE_NOT_FOUND;
            Error::new(code, format!("session not found: {id}"))
        };
        let id = NativeId::parse(&id.0).map_err(|_| unknown())?;
        self.sessions
            .read_session(&id)
            .map_err(internal_error)?
            .ok_or_else(unknown)
    }

    fn list_sessions(
        &self,
        cwd: Option<&std::path::Path>,
    ) -> Result<acp::ListSessionsResponse, Error> {
        let sessions = self.sessions.list_sessions().map_err(internal_error)?;
        let entries = sessions
            .into_iter()
            .filter(|session| cwd.is_none_or(|cwd| session.cwd == cwd))
            .map(|session| {
                acp::SessionInfo::new(session.id.to_string(), session.cwd.clone())
                    .title(session.prompts().next().map(str::to_owned))
                    .updated_at(session.updated_at.to_string())
            })
            .collect();
        Ok(acp::ListSessionsResponse::new(entries))
    }

    /// Starts a turn in a separate task, because the connection must stay free to receive a cancellation.
    fn start_turn(
        self: &Arc<Self>,
        request: &acp::PromptRequest,
        responder: Responder<acp::PromptResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let session = match self.open_session(&request.session_id) {
            Ok(session) => session,
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
        let server = Arc::clone(self);
        connection.clone().spawn(async move {
            let cancellation = server.sessions.begin_turn(&session.id);
            let player = TurnPlayer::new(&server.sessions, session, connection, &server.output);
            let result = tokio::select! {
                result = player.run(&prompt) => result,
                () = cancellation.notified() => Ok(acp::PromptResponse::new(acp::StopReason::Cancelled)),
            };
            responder.respond_with_result(result)
        })
    }
}

fn send_replay(
    session: &RehearsalSession,
    id: &acp::SessionId,
    connection: &ConnectionTo<Client>,
) -> Result<(), Error> {
    for (is_user, text) in &session.messages {
        let chunk = text_chunk(text.clone());
        let update = if *is_user {
            acp::SessionUpdate::UserMessageChunk(chunk)
        } else {
            acp::SessionUpdate::AgentMessageChunk(chunk)
        };
        connection.send_notification(acp::SessionNotification::new(id.clone(), update))?;
    }
    Ok(())
}

fn internal_error(error: impl Into<Box<dyn std::error::Error>>) -> Error {
    Error::new(
        agent_client_protocol::ErrorCode::INTERNAL_ERROR,
        error.into().to_string(),
    )
}
