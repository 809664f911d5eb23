//! Retries for several Codex processes that start at the same time in an unused home: all but one of them exit
//! immediately.

use std::time::Duration;

use crate::error::HANDSHAKE_OPERATION;
use crate::{AgentError, OpenedConnection};

/// Maximum number of retries; `START_RETRY_DELAY` is the delay before each of them.
const MAX_START_RETRIES: usize = 5;
const START_RETRY_DELAY: Duration = Duration::from_millis(300);

/// Opens a connection. Retries if Codex exited because another one was setting up the home.
pub(super) async fn open_with_retries<F>(
    open: impl Fn() -> F,
) -> Result<OpenedConnection, AgentError>
where
    F: Future<Output = Result<OpenedConnection, AgentError>>,
{
    for _ in 0..MAX_START_RETRIES {
        match open().await {
            Err(error) if is_home_setup_race(&error) => tokio::time::sleep(START_RETRY_DELAY).await,
            outcome => return outcome,
        }
    }
    open().await
}

/// Returns `true` if Codex exited because another one was setting up the home.
fn is_home_setup_race(error: &AgentError) -> bool {
    let (operation, message) = match error {
        AgentError::Crashed {
            operation, stderr, ..
        } => (operation, stderr),
        AgentError::Refused {
            operation, refusal, ..
        } => (operation, &refusal.message),
        AgentError::NotStarted { .. }
        | AgentError::DirectoryMissing(_)
        | AgentError::NoResumableSession(_)
        | AgentError::TimedOut { .. } => return false,
    };
    *operation == HANDSHAKE_OPERATION && message.contains("failed to initialize sqlite state")
}

#[cfg(test)]
mod tests {
    use segue_core::session::FailureClass;

    use super::*;
    use crate::Exit;
    use crate::error_class::AgentRefusal;

    #[test]
    fn only_a_home_setup_race_is_retried() {
        const HOME_SETUP_ERROR: &str =
            "Error: failed to initialize sqlite state runtime under /home/.codex";
        let cases = [
            (HANDSHAKE_OPERATION, HOME_SETUP_ERROR, true),
            (HANDSHAKE_OPERATION, "Error: no such option", false),
            ("thread/start", HOME_SETUP_ERROR, false),
        ];
        for (operation, message, expected) in cases {
            let crashed = AgentError::Crashed {
                operation,
                exit: Exit::Code(1),
                stderr: message.to_owned(),
            };
            assert_eq!(is_home_setup_race(&crashed), expected, "{crashed:?}");
            let refused = AgentError::from_refusal(
                operation,
                AgentRefusal::new(FailureClass::Agent, message),
            );
            assert_eq!(is_home_setup_race(&refused), expected, "{refused:?}");
        }
    }
}
