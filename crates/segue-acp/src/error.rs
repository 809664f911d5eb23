//! What can go wrong between us and an agent.

use agent_client_protocol::{
    Error as ProtocolError, ErrorCode, is_connection_terminated, is_incoming_transport_closed,
};
use segue_core::IdError;

/// Why an exchange with an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AcpError {
    /// The agent closed the connection.
    #[error("the agent closed the connection")]
    Closed,
    /// The agent does not have this method, whatever it advertised.
    #[error("the agent does not offer this: {message}")]
    NotOffered {
        /// The agent's own words.
        message: String,
    },
    /// The agent does not know the session.
    #[error("the agent does not know the session: {message}")]
    UnknownSession {
        /// The agent's own words.
        message: String,
    },
    /// The agent answered with an error.
    #[error("{message}")]
    Refused {
        /// The protocol's code.
        code: i32,
        /// The agent's own words.
        message: String,
    },
    /// The agent calls its session something that is not safe to use.
    #[error("the agent gave an unusable session id")]
    BadSessionId(#[from] IdError),
}

impl From<ProtocolError> for AcpError {
    fn from(error: ProtocolError) -> Self {
        if is_connection_terminated(&error) || is_incoming_transport_closed(&error) {
            return Self::Closed;
        }
        let message = in_words(&error);
        if error.code == ErrorCode::METHOD_NOT_FOUND {
            return Self::NotOffered { message };
        }
        // Agents agree on neither the code nor the wording; only the meaning is the same.
        let says_unknown = [
            "session not found",
            "no previous sessions",
            "invalid session",
            "no rollout found",
        ]
        .iter()
        .any(|words| message.to_lowercase().contains(words));
        if error.code == ErrorCode::RESOURCE_NOT_FOUND || says_unknown {
            return Self::UnknownSession { message };
        }
        Self::Refused {
            code: error.code.into(),
            message,
        }
    }
}

/// The message, and what the agent put beside it.
fn in_words(error: &ProtocolError) -> String {
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
