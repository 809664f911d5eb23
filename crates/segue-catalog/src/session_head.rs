//! Heads of native sessions, as lists and the index use them.

use segue_core::checkpoint::is_summariser_prompt;

use crate::{NativeSessionKind, ReadError, Reader, SessionHead, SessionLocation};

/// Reads the head of a session. Marks a session that a summariser used as a sub-agent's, because the user does not
/// resume such a session.
pub(crate) fn read_session_head(
    reader: &dyn Reader,
    location: &SessionLocation,
) -> Result<SessionHead, ReadError> {
    let mut head = reader.read_head(location)?;
    if head
        .first_prompt
        .as_deref()
        .is_some_and(is_summariser_prompt)
    {
        head.kind = NativeSessionKind::Subagent;
    }
    Ok(head)
}

/// Returns the error for a file without messages.
pub(crate) fn no_conversation_error(location: &SessionLocation) -> ReadError {
    let reason = match location.size {
        0 => "the file is empty",
        _ => "it contains no conversation",
    };
    ReadError::not_a_session(&location.path, reason)
}
