//! Errors in the communication with an agent.

use agent_client_protocol::{
    Error as ProtocolError, ErrorCode, is_connection_terminated, is_incoming_transport_closed,
};
use segue_core::id::IdError;

/// Reason why a request to an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AcpError {
    /// The agent closed the connection.
    #[error("the agent closed the connection")]
    Closed,
    /// The agent does not have this method, even if it advertised it.
    #[error("not supported by the agent: {message}")]
    NotOffered {
        /// Message of the agent.
        message: String,
    },
    /// The session does not exist in the agent.
    #[error("native session not found: {message}")]
    UnknownSession {
        /// Message of the agent.
        message: String,
    },
    /// The agent answered with another error.
    #[error("{message}")]
    Refused {
        /// Error code of the protocol.
        code: i32,
        /// Message of the agent.
        message: String,
    },
    /// The agent returned a session id that is not safe to use.
    #[error("the agent returned an invalid session id")]
    BadSessionId(#[from] IdError),
}

impl From<ProtocolError> for AcpError {
    fn from(error: ProtocolError) -> Self {
        if is_connection_terminated(&error) || is_incoming_transport_closed(&error) {
            return Self::Closed;
        }
        let message = message_with_details(&error);
        if error.code == ErrorCode::METHOD_NOT_FOUND {
            return Self::NotOffered { message };
        }
        // Agents agree neither on the code nor on the text of this error.
        let has_unknown_session_phrase = [
            "session not found",
            "no previous sessions",
            "invalid session",
            "no rollout found",
        ]
        .iter()
        .any(|phrase| message.to_lowercase().contains(phrase));
        if error.code == ErrorCode::RESOURCE_NOT_FOUND || has_unknown_session_phrase {
            return Self::UnknownSession { message };
        }
        Self::Refused {
            code: error.code.into(),
            message,
        }
    }
}

/// Returns the message of an error, with the details that the agent put into `data`.
fn message_with_details(error: &ProtocolError) -> String {
    let details = error.data.as_ref().and_then(|data| {
        data.as_str()
            .or_else(|| data.get("details").and_then(|details| details.as_str()))
    });
    match details {
        Some(details) if !error.message.contains(details) => {
            format!("{}: {details}", error.message)
        }
        Some(_) | None => error.message.clone(),
    }
}
